"""``iotop-ai record`` as a user runs it: files, refusals, signals, exit codes, and a pipe as its output."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from iotop_ai.cli.commands.record.child import RecordedCommand
from iotop_ai.cli.commands.record.witness import Witness
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.snapshot import Event
from iotop_ai.pipeline import frames
from iotop_ai.present.text.units import size as amount
from iotop_ai.store.format.codec import Header, SnapLine
from iotop_ai.store.read.file import FileRecording
from tests.cli.forked import Run
from tests.cli.program import PLAIN, TOP, command, iotop, iotop_here, iotop_started
from tests.rigs.without_flock import WITHOUT_FLOCK

FAST = ("-d", "0.1", "--no-smart")


def started(*arguments: str, **environment: str) -> Run:
    return Run(("record", *FAST, *arguments), {**PLAIN, **environment})


def wait_for_snapshots(path: Path, snapshots: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if path.exists() and path.read_bytes().count(b'{"k":"snap"') >= snapshots:
            return
        time.sleep(0.02)
    raise AssertionError(f"fewer than {snapshots} snapshots within 60 s")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def kinds(path: Path) -> list[object]:
    return [line["k"] for line in lines(path)]


def test_a_recording_of_some_seconds_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    done = iotop("record", *FAST, "--duration", "1.5", "-o", str(path))
    assert (done.returncode, done.stdout) == (0, "")
    assert f"to {path}" in done.stderr
    size = amount(path.stat().st_size)
    assert re.fullmatch(rf"record: \d+ s, {re.escape(size)} in {re.escape(str(path))}", done.stderr.splitlines()[-1])
    assert path.stat().st_mode & 0o777 == 0o600
    assert kinds(path)[0] == "hdr"
    assert kinds(path)[-1] == "end"
    recording = FileRecording(str(path))
    shown = list(frames(recording.items()))
    assert len(shown) >= 2
    assert shown[-1].sample.block.value
    assert recording.closed()


def test_the_default_name_has_host_and_time(tmp_path: Path) -> None:
    environment = {**PLAIN, "PYTHONPATH": str(TOP)}
    done = subprocess.run(
        command("record", *FAST, "--duration", "0.2"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    (made,) = tmp_path.iterdir()
    assert made.name.endswith(".iotop.jsonl")
    assert made.name.startswith(f"{os.uname().nodename}-2")
    assert made.name in done.stderr


def test_an_existing_file_is_refused_or_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    assert iotop("record", *FAST, "--duration", "0.2", "-o", str(path)).returncode == 0
    size = path.stat().st_size
    refused = iotop("record", *FAST, "--duration", "0.2", "-o", str(path))
    assert refused.returncode == 2
    assert refused.stderr == f"usage: {path} exists; --append adds a session to it\n"
    assert path.stat().st_size == size
    assert iotop("record", *FAST, "--duration", "0.2", "--append", "-o", str(path)).returncode == 0
    assert kinds(path).count("hdr") == 2
    assert {block.session for block in FileRecording(str(path)).blocks} == {1, 2}


def test_a_recording_works_on_a_filesystem_without_locks(tmp_path: Path) -> None:
    path = tmp_path / "run.iotop.jsonl"
    line = command("record", *FAST, "--duration", "0.2", "-o", str(path))
    for more in ((), ("--append",)):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_FLOCK, *line, *more],
            cwd=TOP, env=PLAIN, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert kinds(path).count("end") == 2


def test_an_invalid_place_for_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o777)
    for path, why in (
        (link, "symbolic link"),
        (wide / "a", "every user can write"),
        (tmp_path / "no" / "a", "No such file"),
    ):
        for append in ((), ("--append",)):
            done = iotop_here("record", *FAST, *append, "-o", str(path), "--", "true")
            assert done.returncode == 2
            assert why in done.stderr
            assert done.stderr.count("\n") == 1
            assert done.stderr.split(" ")[0] in ("input:", "usage:")
    assert target.read_text() == "mine"
    done = iotop("record", *FAST, "--append", "-o", str(target))
    assert done.returncode == 2
    assert "not a recording" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_closes_the_file_properly(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "a"
    with subprocess.Popen(command("record", *FAST, "-o", str(path)), cwd=TOP, env=PLAIN) as running:
        wait_for_snapshots(path, 3)
        running.send_signal(number)
        assert running.wait(20) == 0
    assert kinds(path)[-1] == "end"


@pytest.mark.parametrize(
    ("argv", "code"), [(("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), 137)]
)
def test_the_commands_exit_code_is_passed_through(tmp_path: Path, argv: tuple[str, ...], code: int) -> None:
    path = tmp_path / "a"
    done = iotop("record", *FAST, "-o", str(path), "--", *argv)
    assert done.returncode == code
    events = [line for line in lines(path) if line["k"] == "ev"]
    assert [e["kind"] for e in events][:2] == ["command_start", "command_end"]
    assert events[1]["text"] == {0: "exit 0", 7: "exit 7", 137: "SIGKILL"}[code]
    assert kinds(path)[-1] == "end"


def test_signals_reach_the_command(tmp_path: Path) -> None:
    path = tmp_path / "a"
    script = (
        "import signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *a: sys.exit(42))\n"
        "print('up', flush=True)\ntime.sleep(60)"
    )
    running = started("-o", str(path), "--", sys.executable, "-c", script)
    assert running.stdout.readline() == "up\n"
    wait_for_snapshots(path, 2)
    running.send_signal(signal.SIGUSR1)
    assert running.wait(20) == 42
    running = started("-o", str(tmp_path / "b"), "--", "sleep", "60")
    wait_for_snapshots(tmp_path / "b", 2)
    running.send_signal(signal.SIGTERM)
    assert running.wait(20) == 128 + 15
    assert kinds(tmp_path / "b")[-1] == "end"


COUNTING = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("got", flush=True))
print("up", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(1)
"""


def test_a_signal_to_the_whole_group_reaches_the_command_once(tmp_path: Path) -> None:
    """As a batch system, systemd and ``kill -- -PGID`` send it; a signal to the recorder alone is forwarded."""
    path = tmp_path / "a.iotop.jsonl"
    running = subprocess.Popen(
        command("record", *FAST, "-o", str(path), "--", sys.executable, "-c", COUNTING),
        cwd=TOP, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == "up\n"
    wait_for_snapshots(path, 2)
    os.killpg(running.pid, signal.SIGUSR1)
    assert running.stdout.readline() == "got\n"
    wait_for_snapshots(path, 8)
    running.send_signal(signal.SIGUSR1)
    assert running.stdout.readline() == "got\n"
    wait_for_snapshots(path, 14)
    os.killpg(running.pid, signal.SIGTERM)
    out, errors = running.communicate(20)
    assert (running.returncode, out) == (128 + 15, "")
    assert "not forwarded" not in errors


def test_signals_are_forwarded_without_a_witness() -> None:
    """Its process may be killed by a cgroup's memory limit."""
    witness = Witness((signal.SIGUSR1,), Clock())
    assert not witness.saw(signal.SIGUSR1)
    (pid,) = (child.pid for child in psutil.Process().children() if any("report_signals" in w for w in child.cmdline()))
    os.kill(pid, signal.SIGUSR1)
    assert witness.saw(signal.SIGUSR1)
    assert not witness.saw(signal.SIGUSR1)
    os.kill(pid, signal.SIGKILL)
    assert not witness.saw(signal.SIGUSR1)
    witness.close()


def test_a_command_that_cannot_run_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    done = iotop("record", *FAST, "-o", str(path), "--", "/no/such/program")
    assert done.returncode == 127
    assert done.stderr == "usage: cannot run /no/such/program: No such file or directory\n"
    assert not path.exists()
    empty = iotop("record", *FAST, "-o", str(path), "--", "")
    assert (empty.returncode, empty.stderr) == (127, "usage: cannot run '': the command is empty\n")
    for name in ("run.iotop.jsonl", "run.gz"):
        named = iotop("record", *FAST, "--", name)
        assert named.stderr.endswith(f"; to record into it: -o {name}\n")
    plain = tmp_path / "plain"
    plain.write_text("")
    assert iotop("record", *FAST, "-o", str(path), "--", str(plain)).returncode == 126


def test_a_summary_is_printed_after_the_command(tmp_path: Path) -> None:
    done = iotop(
        "record",
        *("-d", "0.5", "--no-smart"),
        "-o",
        str(tmp_path / "a"),
        "--",
        "sh",
        "-c",
        # The command writes several times, because a busy disk can make an interval so long that it is a gap without
        # peaks.
        f"for i in 1 2 3 4 5 6 7 8; do head -c 2000000 /dev/zero >{tmp_path}/x; sync {tmp_path}/x; sleep 0.4; done",
    )
    assert done.returncode == 0
    words = [line.split()[1] for line in done.stderr.splitlines()]
    assert words[-5:] == ["watched", "verdicts", "stall", "disks", "peaks"]
    verdicts = next(line for line in done.stderr.splitlines() if line.split()[1] == "verdicts")
    assert sum(int(share) for share in re.findall(r"(\d+) %", verdicts)) in range(98, 103), verdicts


def test_with_recording_off_the_command_still_runs(tmp_path: Path) -> None:
    done = iotop("record", "-o", str(tmp_path / "a"), "--", "sh", "-c", "echo hello; exit 3", IOTOP_AI="0")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello\n", "")
    assert list(tmp_path.iterdir()) == []
    assert iotop("record", IOTOP_AI="0").returncode == 0


@pytest.mark.parametrize("flags", [("-o", "-", "--duration", "2"), ("--duration", "2", "-")])
def test_another_program_reads_the_recording_from_a_pipe(flags: tuple[str, ...]) -> None:
    running = started(*flags)
    out, _ = running.communicate(timeout=20)
    assert running.returncode == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0]["k"] == "hdr"
    assert rows[-1]["k"] == "end"
    assert sum(row["k"] == "snap" for row in rows) >= 4


def test_a_closed_pipe_ends_the_recording_quietly() -> None:
    running = started("-o", "-")
    assert running.stdout.readline().startswith('{"k":"hdr"')
    running.stdout.close()
    assert running.wait(20) == 0
    assert running.stderr.read() == ""


def test_command_lines_are_reduced_to_names_by_default(tmp_path: Path) -> None:
    words = ("sh", "-c", "sleep 0.3", "visible1", "--token=hunter2")
    for level, shown in ((None, (False, False)), ("redacted", (True, False)), ("full", (True, True))):
        path = tmp_path / str(level)
        flags = () if level is None else ("--cmdline", level)
        assert iotop("record", *FAST, *flags, "-o", str(path), "--", *words).returncode == 0
        assert tuple(word in path.read_text() for word in ("visible1", "hunter2")) == shown
        header = FileRecording(str(path)).header
        assert isinstance(header, Header)
        assert header.redact == (level or "names")


def test_marks_and_the_end_of_a_worker_are_events(tmp_path: Path) -> None:
    path, socket = tmp_path / "a", str(tmp_path / "m.sock")
    waits = f"while [ ! -e {tmp_path}/%s ]; do sleep 0.1; done"
    script = f"sh -c '{waits % 'crash'}; kill -SEGV $$'; {waits % 'end'}; exit 0"
    running = started("-o", str(path), "--", "sh", "-c", script, IOTOP_AI_SOCKET=socket)
    wait_for_snapshots(path, 2)
    (tmp_path / "crash").touch()
    wait_for_snapshots(path, 4)
    assert iotop_started("mark", "epoch", "3", IOTOP_AI_SOCKET=socket).returncode == 0
    assert iotop("mark", IOTOP_AI_SOCKET=socket).returncode == 0
    (tmp_path / "end").touch()
    assert running.wait(20) == 0
    events = [
        e for item in FileRecording(str(path)).lines() if isinstance(item, SnapLine) for e in item.snapshot.events
    ]
    recorded = [(e.kind, e.text) for e in events]
    assert ("mark", "epoch 3") in recorded
    assert ("mark", "by command") in recorded
    alone = iotop("mark", "nobody", IOTOP_AI_SOCKET=socket)
    assert alone.returncode == 2
    assert alone.stderr.startswith("unknown: no monitor")
    if os.geteuid() == 0:
        assert any(kind == "process_ended" and text.endswith("SIGSEGV") for kind, text in recorded)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_mark_right_before_the_end_is_recorded(tmp_path: Path, number: signal.Signals) -> None:
    """The next Snapshot, which would otherwise have carried the mark, is a minute away."""
    path, socket = tmp_path / "a", str(tmp_path / "m.sock")
    running = started("-d", "60", "-o", str(path), IOTOP_AI_SOCKET=socket)
    wait_for_snapshots(path, 1)
    assert iotop("mark", "the end", IOTOP_AI_SOCKET=socket).returncode == 0
    running.send_signal(number)
    assert running.wait(20) == 0
    recording = FileRecording(str(path))
    assert [event.text for event in recording.events() if event.kind == "mark"] == ["the end"]
    assert recording.closed()
    first, last = recording.snapshots(0)
    assert last.block == first.block
    assert last.events[-1].at_ns <= last.at_ns


TRAINER = TOP / "tests" / "scenarios" / "trainer.py"


def process_ends(path: Path) -> list[Event]:
    events = [
        e for item in FileRecording(str(path)).lines() if isinstance(item, SnapLine) for e in item.snapshot.events
    ]
    return [event for event in events if event.kind == "process_ended"]


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_ends_of_a_jobs_processes_are_events(tmp_path: Path) -> None:
    """A worker and then the trainer are killed. The end of the command itself is known without root."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "a"
    trainer = [sys.executable, str(TRAINER), str(tmp_path / "data"), "--workers", "2", "--log", str(tmp_path / "log")]
    running = started("-o", str(path), "--", *trainer)
    try:
        worker_pid, trainer_pid = 0, 0
        for _ in range(600):
            rows = [row for row in lines(path) if row["k"] == "snap"] if path.exists() else []
            for row in rows:
                jobs = row["v"].get("jobs", {}).get("value", {}).get("jobs", {})  # type: ignore[attr-defined]
                for job in jobs.get("+", jobs).values():
                    # Other trainings on this machine are jobs too; ours is the job whose process is the recorder's
                    # child.
                    if isinstance(job, list) and job[0][0] in children(running.pid) and len(job[4][0][1]) == 2:
                        trainer_pid, worker_pid = job[0][0], job[4][0][1][0][0]
            if trainer_pid:
                break
            time.sleep(0.05)
        assert trainer_pid
        os.kill(worker_pid, signal.SIGKILL)
        for _ in range(600):
            if any(event.job_pid == trainer_pid for event in process_ends(path)):
                break
            time.sleep(0.05)
        os.kill(trainer_pid, signal.SIGTERM)
        assert running.wait(20) == 128 + signal.SIGTERM
    finally:
        running.kill()
    recorded = [event for event in process_ends(path) if event.job_pid == trainer_pid]
    assert (recorded[0].role, recorded[0].pid, recorded[0].job_pid) == ("worker", worker_pid, trainer_pid)
    assert recorded[0].code == -signal.SIGKILL or os.geteuid() != 0
    last = next(event for event in recorded if event.role == "trainer")
    assert (last.pid, last.code, last.text) == (
        trainer_pid,
        -signal.SIGTERM,
        f"trainer trainer.py (pid {trainer_pid}): SIGTERM",
    )


@pytest.mark.parametrize(
    "flags",
    [
        ("-o", "-", "--append"), ("-o", "-", "--rotate", "1M"), ("--keep", "3"), ("--burst", "1"), ("--rotate", "x"),
        ("--rotate", "0"), ("--duration", "0"), ("--hook", ""), ("--hook", "'"), ("--min-free", "much"), ("--bogus",),
        ("--hook", "./missing now"),
        ("--csv", "x", "--rotate", "1M"), ("--csv", "-", "-o", "-"), ("--keep", "0", "--rotate", "1M"),
    ],
)  # fmt: skip
def test_invalid_flags_are_refused(tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = iotop_here("record", *(str(tmp_path / "x") if f == "x" and flags[0] == "--csv" else f for f in flags))
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
    assert list(tmp_path.iterdir()) == []


FAILING = """
import sys
import iotop_ai.cli.commands.record.command as record
from iotop_ai.cli.main import main

def fails(*_arguments, **_flags):
    raise RuntimeError("can't start new thread")

record.LiveSource = fails
sys.exit(main(sys.argv[1:]))
"""


def test_a_command_goes_on_when_the_recorder_fails(tmp_path: Path) -> None:
    """Its exit code is returned after its end: a batch system may end the job when the recorder ends."""
    made = tmp_path / "made"
    done = subprocess.run(
        [
            sys.executable, "-c", FAILING, "record", "-o", str(tmp_path / "a.iotop.jsonl"),
            "--", "sh", "-c", f"sleep 0.5; touch {made}; exit 7",
        ],
        cwd=TOP, env=PLAIN, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, made.exists()) == (7, True)
    assert "the recording ended early, the command goes on: RuntimeError" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_command_starts_where_no_thread_can_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(RuntimeError):
        RecordedCommand(["touch", str(tmp_path / "made")], lambda: None, lambda _code: None)
    monkeypatch.undo()
    assert not (tmp_path / "made").exists()
