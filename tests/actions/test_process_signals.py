"""Signals and priorities for real processes, never for a process with a reused pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.delay_accounting import set_delayacct
from iotop_ai.actions.process_signals import ProcessAction, act_on, act_on_each, parse_command, why_protected
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.parse import parse_stat
from iotop_ai.model.process.records import ProcessKey
from tests.rigs.nobody import as_nobody, why_not_nobody

ROOT = Root("/")


def key_of(pid: int) -> ProcessKey:
    return ProcessKey(pid, parse_stat(ROOT.read(f"proc/{pid}/stat")).start_ticks)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a second thread."""
    code = "import threading, time; threading.Thread(target=time.sleep, args=(300,)).start(); print(1, flush=True)"
    process = subprocess.Popen([sys.executable, "-c", f"{code}; time.sleep(300)"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def io_class_of(pid: int) -> str:
    return subprocess.run(["ionice", "-p", str(pid)], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(Clock(), tmp_path / "state")


def results(audit: Audit) -> list[tuple[str, str, str]]:
    entries = [json.loads(line) for line in audit.path.read_text().splitlines()]
    return [(line["action"], line["target"], line["result"]) for line in entries]


def command(text: str) -> ProcessAction:
    found = parse_command(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kind", "value", "shown"),
    [
        ("term", "signal", 15, "term"),
        ("KILL", "signal", 9, "kill"),
        ("nice 10", "nice", 10, "nice 10"),
        ("nice -20", "nice", -20, "nice -20"),
        ("io idle", "io", 3 << 13 | 7, "io idle"),
        ("io best 0", "io", 2 << 13, "io best 0"),
        ("io best", "io", 2 << 13 | 4, "io best 4"),
        ("io rt 7", "io", 1 << 13 | 7, "io rt 7"),
    ],
)
def test_commands_are_parsed(text: str, kind: str, value: int, shown: str) -> None:
    assert parse_command(text) == (kind, value, shown)


@pytest.mark.parametrize(
    "text",
    ["", "9", "segv", "term 1", "nice", "nice 20", "nice -21", "nice +5", "io", "io idle 3", "io rt 8"],
)
def test_invalid_commands_are_refused(text: str) -> None:
    assert parse_command(text) is None


def test_a_process_is_ended_and_audited(sleeper: subprocess.Popen[bytes], audit: Audit) -> None:
    outcome = act_on(command("term"), [key_of(sleeper.pid)], "sl\x1beeper", ROOT, audit)
    assert (outcome.done, outcome.text) == (True, f"term: sl�eeper ({sleeper.pid})")
    assert sleeper.wait(20) == -signal.SIGTERM
    target = f"sl�eeper: {sleeper.pid}"
    assert results(audit) == [("term", target, "asked"), ("term", target, outcome.text)]


def test_a_process_with_a_reused_pid_is_not_signalled(sleeper: subprocess.Popen[bytes], audit: Audit) -> None:
    key = key_of(sleeper.pid)
    earlier = key._replace(start_ticks=key.start_ticks - 1)
    for text in ("kill", "nice 19", "io idle"):
        outcome = act_on(command(text), [earlier], "gone", ROOT, audit)
        assert (outcome.done, outcome.text) == (False, f"{text}: failed for gone ({key.pid}): it has ended")
    assert sleeper.poll() is None
    assert os.getpriority(os.PRIO_PROCESS, sleeper.pid) == os.getpriority(os.PRIO_PROCESS, 0)


def test_every_thread_gets_the_priority(sleeper: subprocess.Popen[bytes], audit: Audit) -> None:
    tids = [int(name) for name in os.listdir(f"/proc/{sleeper.pid}/task")]
    assert len(tids) == 2
    assert act_on(command("nice 7"), [key_of(sleeper.pid)], "s", ROOT, audit).done
    assert [os.getpriority(os.PRIO_PROCESS, tid) for tid in tids] == [7, 7]
    assert act_on(command("io best 6"), [key_of(sleeper.pid)], "s", ROOT, audit).done
    for tid in tids:
        assert io_class_of(tid) == "best-effort: prio 6"
    assert act_on(command("io idle"), [key_of(sleeper.pid)], "s", ROOT, audit).done
    assert io_class_of(sleeper.pid) == "idle"


def test_only_the_processes_that_still_run_are_signalled(sleeper: subprocess.Popen[bytes], audit: Audit) -> None:
    other = subprocess.Popen(["sleep", "300"])
    keys = [key_of(sleeper.pid), key_of(other.pid)]
    other.kill()
    other.wait()
    outcome = act_on(command("stop"), keys, "s", ROOT, audit)
    assert (outcome.done, outcome.text) == (True, "stop: s (1 of 2): 1: it has ended")


def test_each_tagged_process_is_audited(sleeper: subprocess.Popen[bytes], audit: Audit) -> None:
    key = key_of(sleeper.pid)
    targets = [(key_of(1), "init"), (key, "sleeper"), (key._replace(start_ticks=key.start_ticks - 1), "gone")]
    group_outcome = act_on_each(command("nice 3"), targets, ROOT, audit)
    not_init = "failed for init (1): pid 1 keeps the machine alive"
    assert group_outcome.whole == (True, f"nice 3: 1 of 3 tagged processes; {not_init}, and 1 more", "")
    assert group_outcome.successes == (f"nice 3: sleeper ({sleeper.pid})",)
    assert os.getpriority(os.PRIO_PROCESS, sleeper.pid) == 3
    logged = results(audit)
    assert [target for _, target, _ in logged] == [
        *["init: 1"] * 2, *[f"sleeper: {key.pid}"] * 2, *[f"gone: {key.pid}"] * 2,
    ]  # fmt: skip
    assert [result for _, _, result in logged if result != "asked"] == [
        f"nice 3: {not_init}", *group_outcome.successes, f"nice 3: failed for gone ({key.pid}): it has ended",
    ]  # fmt: skip


def test_nothing_is_signalled_without_an_audit_log(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    group_outcome = act_on_each(command("kill"), [(key_of(sleeper.pid), "s")], ROOT, Audit(Clock(), tmp_path / "file"))
    assert group_outcome.successes == ()
    assert "0 of 1 tagged processes; not done: the audit log" in group_outcome.whole.text
    assert sleeper.poll() is None


def test_init_iotop_ai_and_kernel_threads_are_protected(audit: Audit) -> None:
    assert why_protected(key_of(1), ROOT) == "pid 1 keeps the machine alive"
    assert why_protected(key_of(os.getpid()), ROOT) == "this is iotop-ai itself: q quits it"
    assert why_protected(key_of(2), ROOT) == "this is a kernel thread"
    for pid in (1, 2, os.getpid()):
        assert not act_on(command("kill"), [key_of(pid)], "x", ROOT, audit).done


NEXT_PID = "/proc/sys/kernel/ns_last_pid"
IN_ANOTHER_NAMESPACE = f"""
import subprocess, sys
from pathlib import Path
from iotop_ai.actions.audit import Audit
from iotop_ai.actions.process_signals import *
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.process.records import ProcessKey

key = ProcessKey(int(sys.argv[1]), int(sys.argv[2]))
Path("{NEXT_PID}").write_text(str(key.pid - 1))
same_number = subprocess.Popen(["sleep", "300"])
assert same_number.pid == key.pid
for text in ("term", "nice 7", "io idle"):
    print(act_on(parse_command(text), [key], "s", Root("/"), Audit(Clock(), Path(sys.argv[3]))).text)
io_class = subprocess.run(["ionice", "-p", str(key.pid)], capture_output=True, text=True, check=True).stdout
print(same_number.poll(), os.getpriority(os.PRIO_PROCESS, key.pid), io_class.strip())
same_number.kill()
"""
"""Acts on a process of the /proc that is mounted, in a PID namespace where another process has the same number."""


@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(NEXT_PID, os.W_OK), reason=f"needs root and {NEXT_PID} to choose a pid"
)
def test_a_process_is_not_mistaken_for_one_of_another_pid_namespace(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    key = key_of(sleeper.pid)
    words = [sys.executable, "-c", IN_ANOTHER_NAMESPACE, str(key.pid), str(key.start_ticks), str(tmp_path / "state")]
    done = subprocess.run(["unshare", "--pid", "--fork", *words], capture_output=True, text=True, check=False)
    why = "/proc is of another PID namespace, where processes have other numbers"
    assert done.stdout.splitlines() == [
        *(f"{text}: failed for s ({key.pid}): {why}" for text in ("term", "nice 7", "io idle")),
        f"None {os.getpriority(os.PRIO_PROCESS, 0)} {io_class_of(os.getpid())}",
    ], done.stderr
    assert sleeper.poll() is None


@pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody() or "there")
def test_an_ordinary_user_is_refused_with_a_remedy(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom iotop_ai.actions.audit import Audit\n"
        "from iotop_ai.actions.process_signals import *\nfrom iotop_ai.collectors.io.clock import Clock\n"
        "from iotop_ai.collectors.io.root import Root\nfrom iotop_ai.model.process.records import ProcessKey\n"
        f"key = ProcessKey{tuple(key_of(sleeper.pid))}; audit = Audit(Clock(), Path(sys.argv[1]))\n"
        "for text in ('term', 'nice 5', 'io idle'):\n"
        "    print(act_on(parse_command(text), [key], 's', Root('/'), audit))\n"
    )
    folder = tmp_path / "nobodys"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    done = subprocess.run(
        as_nobody(sys.executable, "-c", code, str(folder)), capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stderr
    assert all("done=False" in line and "not permitted" in line for line in lines)
    assert f"sudo kill -15 {sleeper.pid}" in lines[0]
    assert f"sudo renice -n 5 -p $(ps -Lo lwp= -p {sleeper.pid})" in lines[1]
    assert f"sudo ionice -c 3 -n 7 -p $(ps -Lo lwp= -p {sleeper.pid})" in lines[2]
    assert sleeper.poll() is None


@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/proc/sys/kernel/task_delayacct", os.W_OK), reason="needs root and the switch"
)
def test_delay_accounting_is_switched_on_and_off(tmp_path: Path, audit: Audit) -> None:
    """The switch is in a folder that stands in for /proc, because other programs on this machine read the real one."""
    switch = tmp_path / "root/proc/sys/kernel/task_delayacct"
    switch.parent.mkdir(parents=True)
    switch.write_text("0\n")
    root = Root(str(tmp_path / "root"))
    assert set_delayacct(True, root, audit).text == "delay accounting switched on"
    assert switch.read_text().startswith("1")
    is_on = ROOT.read("proc/sys/kernel/task_delayacct").strip() == b"1"
    assert set_delayacct(is_on, ROOT, audit).done  # it has this value already
    assert [action for action, _, _ in results(audit)][:2] == ["task_delayacct on"] * 2


def test_two_threads_can_write_the_audit_log_at_once(audit: Audit) -> None:
    threads = [threading.Thread(target=audit.write, args=("act", str(n), "asked")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(target for _, target, _ in results(audit)) == [str(n) for n in range(8)]


def test_each_process_of_a_large_group_is_in_the_audit_log(audit: Audit) -> None:
    # these are above every pid_max, so no such process exists
    keys = [ProcessKey(5_000_000 + i, 1) for i in range(300)]
    assert not act_on(command("term"), keys, "worker", ROOT, audit).done
    targets = [target for _, target, _ in results(audit)]
    assert targets[0] == "worker: " + " ".join(str(key.pid) for key in keys)
