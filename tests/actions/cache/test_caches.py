"""Dropping the page cache and evicting a dataset, on the real kernel and on plain files, and the refusals of both."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.cache.drop import MIN_INTERVAL_S, Dropped, drop_caches, wait_s
from iotop_ai.actions.cache.evict import evict
from iotop_ai.actions.kernel_switch import DROP_CACHES, TASK_DELAYACCT, _run, permission_to, set_switch, sudoers
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.dataset_files import Entry
from iotop_ai.collectors.machine.page_cache import PageCache, measure_cached
from iotop_ai.present.machine.caches import effect_text
from tests.cli.program import TOP
from tests.clocks import ShiftedClock
from tests.rigs.nobody import as_nobody, why_not_nobody

MIB = 1 << 20
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_nobody = pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody() or "there")


class Machine:
    """A folder that stands in for /proc, with meminfo and the kernel's switches as plain files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.clock = folder, Root(str(folder / "root")), ShiftedClock()
        self.audit = Audit(self.clock, folder / "state")
        for name, text in (
            (
                "proc/meminfo",
                "MemFree: 100 kB\nMemAvailable: 900 kB\nCached: 700 kB\nDirty: 8 kB\nSReclaimable: 5 kB\n",
            ),
            ("proc/sys/vm/drop_caches", ""),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
        ):
            path = folder / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def drop(self, level: int = 1) -> Dropped:
        return drop_caches(level, self.root, self.clock, self.audit, folder=self.folder / "state", sync=lambda: None)

    @property
    def written(self) -> str:
        return (self.folder / "root/proc/sys/vm/drop_caches").read_text()

    @property
    def results(self) -> list[str]:
        return [json.loads(line)["result"] for line in self.audit.path.read_text().splitlines()]


def test_a_drop_whose_time_cannot_be_stored_is_still_reported_as_done(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "state/drop-caches.json").mkdir(parents=True)
    dropped = machine.drop()
    assert dropped.outcome.done
    assert dropped.effect is not None
    assert machine.written == "1"
    assert machine.results[1].startswith("page cache dropped: ")
    assert f"the time of this drop cannot be stored in {tmp_path / 'state'}: " in machine.results[1]


def test_a_second_drop_is_refused_while_the_first_still_syncs(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    second: list[Dropped] = []
    drop_caches(
        1,
        machine.root,
        machine.clock,
        machine.audit,
        folder=tmp_path / "state",
        sync=lambda: second.append(machine.drop()),
    )
    assert not second[0].outcome.done
    assert "the limit is one drop a minute" in second[0].outcome.text


def test_a_drop_that_the_kernel_refuses_does_not_delay_the_next(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    switch = tmp_path / "root/proc/sys/vm/drop_caches"
    switch.unlink()
    assert not machine.drop().outcome.done
    switch.write_text("")
    assert machine.drop().outcome.done


def test_a_drop_that_ctrl_c_ends_during_the_sync_does_not_delay_the_next(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drop_caches(1, machine.root, machine.clock, machine.audit, folder=tmp_path / "state", sync=interrupted)
    assert wait_s(machine.root, machine.clock, tmp_path / "state") == 0.0
    assert machine.drop().outcome.done


def test_a_drop_is_audited_and_not_repeated_within_a_minute(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    first = machine.drop(3)
    assert first.outcome.done
    assert first.effect is not None
    assert machine.written == "3"
    assert machine.results[0] == "asked"
    sizes = "Cached 716800 B, SReclaimable 5120 B"
    assert f"page cache, dentries and inodes dropped: {sizes} -> {sizes}" in machine.results[1]
    assert effect_text(first.effect).startswith("caches dropped (level 3): Cached 700 KB -> 700 KB, SReclaimable")

    (tmp_path / "root/proc/sys/vm/drop_caches").write_text("")
    machine.clock.ahead_ns = 20 * 10**9
    again = machine.drop()
    assert not again.outcome.done
    assert "the last drop was 20 s ago" in again.outcome.text
    assert machine.written == ""
    assert 39 < wait_s(machine.root, machine.clock, tmp_path / "state") < 41

    machine.clock.ahead_ns = int((MIN_INTERVAL_S + 1) * 1e9)
    assert machine.drop().outcome.done
    assert machine.written == "1"


def test_a_stamp_that_is_broken_or_of_another_boot_is_ignored(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.drop().outcome.done
    (tmp_path / "root/proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    assert wait_s(machine.root, machine.clock, tmp_path / "state") == 0.0
    infinite = '{"boot_id": "boot-2", "at_ns": Infinity}'
    for broken in ("", "[1]", '{"boot_id": 1}', '{"boot_id": "boot-2", "at_ns": "x"}', infinite, "[" * 100_000):
        (tmp_path / "state" / "drop-caches.json").write_text(broken)
        assert wait_s(machine.root, machine.clock, tmp_path / "state") == 0.0
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_huge_stamp_is_not_read_whole_and_a_fifo_does_not_block(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.drop().outcome.done
    stamp = tmp_path / "state" / "drop-caches.json"
    with stamp.open("r+b") as file:
        file.truncate(1 << 40)  # a sparse file of one terabyte
    assert wait_s(machine.root, machine.clock, tmp_path / "state") == 0.0
    stamp.unlink()
    os.mkfifo(stamp)
    assert wait_s(machine.root, machine.clock, tmp_path / "state") == 0.0


def test_only_the_start_of_endless_output_is_read(tmp_path: Path) -> None:
    script = tmp_path / "sysctl"
    script.write_text(
        "#!/bin/sh\necho denied >&2\nhead -c 50000000 /dev/zero >&2\nhead -c 50000000 /dev/zero\nexit 3\n"
    )
    script.chmod(0o755)
    tracemalloc.start()
    code, text = _run([str(script)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (code, text[:8]) == (3, "denied; ")
    assert peak < MIB


def test_without_an_audit_log_nothing_is_dropped(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "state").write_text("a file where the folder should be")
    assert machine.drop().outcome.text.startswith("not done: the audit log")
    assert machine.written == ""


def test_unknown_levels_and_values_are_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.drop(4).outcome.text == "level 4 does not exist; choose 1, 2 or 3"
    assert set_switch(DROP_CACHES, "4", machine.root)[0] == "vm.drop_caches may not be set to 4"
    assert machine.written == ""


def test_the_sudoers_line_lists_each_command_in_full() -> None:
    line = sudoers(DROP_CACHES)
    assert " ALL=(root) NOPASSWD: " in line
    assert line.count("sysctl -w vm.drop_caches\\=") == 3
    assert "*" not in line
    assert permission_to(TASK_DELAYACCT, Root("/nowhere")).reason == "this kernel has no kernel.task_delayacct"


@pytest.mark.alone
@needs_root
def test_the_real_page_cache_is_dropped(disk_folder: Path) -> None:
    file = disk_folder / "data"
    file.write_bytes(os.urandom(64 * MIB))
    assert measure_cached(str(file), PageCache()).resident_bytes == 64 * MIB
    if not os.access("/proc/sys/vm/drop_caches", os.W_OK):
        pytest.skip("vm.drop_caches cannot be written here")
    steps: list[str] = []
    clock = Clock()
    state = disk_folder / "state"
    done = drop_caches(1, Root("/"), clock, Audit(clock, state), steps.append, folder=state)
    assert done.outcome.done, done.outcome
    assert steps == ["sync", "drop"]
    assert done.effect is not None
    before, after = done.effect.before, done.effect.after
    assert before.cached_bytes is not None
    assert after.cached_bytes is not None
    assert before.cached_bytes - after.cached_bytes > 32 * MIB
    assert measure_cached(str(file), PageCache()).resident_bytes < 8 * MIB


@needs_nobody
def test_an_ordinary_user_is_refused_with_the_sudoers_line(tmp_path: Path) -> None:
    code = (
        "from iotop_ai.actions.kernel_switch import *; from iotop_ai.collectors.io.root import Root\n"
        "print(permission_to(DROP_CACHES, Root('/'))); print(set_switch(DROP_CACHES, '1', Root('/')))"
    )
    done = subprocess.run(as_nobody(sys.executable, "-c", code), capture_output=True, text=True, check=False)
    assert "needs root" in done.stdout, done.stderr
    assert "sysctl -w vm.drop_caches" in done.stdout
    assert "how=''" in done.stdout


@pytest.mark.parametrize("how", ["cachestat", "mincore"])
def test_evicting_a_dataset_leaves_other_files_in_memory(disk_folder: Path, how: str) -> None:
    data, other = disk_folder / "data", disk_folder / "other"
    data.mkdir()
    for i in range(5):
        (data / f"{i}.bin").write_bytes(os.urandom(2 * MIB))  # dirty pages: the eviction has to write them out first
    (data / "-n\n\x1b[31m").write_bytes(b"x" * 100)
    (data / "out").symlink_to(other)
    other.write_bytes(os.urandom(2 * MIB))
    audit = Audit(Clock(), disk_folder / "state")
    outcome, done = evict(str(data), audit, PageCache(how))
    assert outcome.done
    assert done is not None
    assert (done.files, done.before_bytes, done.after_bytes) == (6, 10 * MIB + 100, 0)
    assert measure_cached(str(data), PageCache()).resident_bytes == 0
    assert measure_cached(str(other), PageCache()).resident_bytes == 2 * MIB
    results = [json.loads(line)["result"] for line in audit.path.read_text().splitlines()]
    assert results == ["asked", f"6 files evicted: {10 * MIB + 100} -> 0 B in memory"]


@needs_nobody
def test_the_audit_log_does_not_call_an_unknown_effect_0_bytes(tmp_path: Path) -> None:
    (tmp_path / "roots").write_bytes(b"x" * MIB)
    code = (
        "import sys, tempfile; from pathlib import Path\n"
        "from iotop_ai.actions.audit import Audit; from iotop_ai.actions.cache.evict import evict\n"
        "from iotop_ai.collectors.io.clock import Clock\n"
        "from iotop_ai.collectors.machine.page_cache import PageCache\n"
        "with tempfile.TemporaryDirectory() as state:\n"
        f"    print(evict({str(tmp_path / 'roots')!r}, Audit(Clock(), Path(state)), PageCache())[0].text)"
    )
    done = subprocess.run(as_nobody(sys.executable, "-c", code), capture_output=True, text=True, check=False)
    assert done.stdout == "1 files evicted; how much of them was in the page cache is unknown\n", done.stderr


def test_locked_pages_stay_in_memory_and_are_reported(disk_folder: Path) -> None:
    file = disk_folder / "locked"
    file.write_bytes(os.urandom(MIB))
    code = (
        "import ctypes, mmap, sys\n"
        "f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0)\n"
        "a = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
        "print(ctypes.CDLL(None).mlock(ctypes.c_void_p(a), len(m)), flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != "0\n":
            pytest.skip("no memory may be locked here")
        _, done = evict(str(disk_folder), Audit(Clock(), disk_folder / "state"), PageCache())
        assert done is not None
        assert done.after_bytes >= MIB
    finally:
        holder.communicate()


def test_files_that_cannot_be_written_out_cause_only_one_sync_of_the_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    syncs: list[int] = []
    monkeypatch.setattr("iotop_ai.actions.cache.evict.sync_filesystem_of", syncs.append)
    monkeypatch.setattr("iotop_ai.actions.cache.evict.write_out", fail)
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a", "b", "c"):
        (data / name).write_bytes(b"x")
    _, figures = evict(str(data), Audit(Clock(), tmp_path / "state"), PageCache("mincore"))
    assert figures is not None
    assert (figures.files, figures.unreadable, len(syncs)) == (0, 3, 1)
    assert figures.first_unreadable == "a: Input/output error"


def test_an_eviction_of_unreadable_files_is_not_done_and_names_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(entry: Entry, flags: int = os.O_RDONLY) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Entry, "open", refuse)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a").write_bytes(b"x")
    outcome, _ = evict(str(tmp_path / "data"), Audit(Clock(), tmp_path / "state"), PageCache())
    assert not outcome.done
    assert outcome.text == "0 files evicted; 1 could not be read, the first: a: Permission denied"


def test_a_missing_dataset_is_an_error(tmp_path: Path) -> None:
    outcome, done = evict(str(tmp_path / "nowhere"), Audit(Clock(), tmp_path / "state"), PageCache())
    assert done is None
    assert outcome.text.startswith("not done: ")


SUDO_HOST = r"""
set -e
mount --make-rprivate / && mount -t tmpfs -o mode=755 none /etc/sudoers.d
printf "%s\n" "$1" > /etc/sudoers.d/rule && chmod 0440 /etc/sudoers.d/rule
cd / && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$2" -S -c "$3"
"""
ASK_SUDO = """
import sys; sys.path.insert(0, {top!r})
from iotop_ai.actions.kernel_switch import *
from iotop_ai.collectors.io.root import Root
print(permission_to(TASK_DELAYACCT, Root("/")).how or "none")
print(set_switch(TASK_DELAYACCT, {value!r}, Root("/")))
"""


@needs_nobody
@pytest.mark.parametrize("has_rule", [True, False])
def test_a_sudo_rule_is_used_and_without_one_no_password_is_asked_for(has_rule: bool) -> None:
    """The user nobody writes the switch's current value back to it, in a mount namespace with its own sudoers rules."""
    python = next((path for path in ("/usr/bin/python3",) if os.access(path, os.X_OK)), "")
    if not python or not shutil.which("sudo") or not shutil.which("unshare"):
        pytest.skip("needs sudo, unshare and a Python outside /root")
    result = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info >= (3, 11))"], capture_output=True, text=True
    )
    if result.stdout != "True\n":
        pytest.skip("needs a system Python of 3.11 or newer")
    value = Path("/proc/sys/kernel/task_delayacct").read_text().strip()
    line = "nobody" + sudoers(TASK_DELAYACCT).removeprefix("root") if has_rule else "# no rule"
    code = ASK_SUDO.format(top=str(TOP), value=value)
    argv = ["unshare", "-m", "sh", "-c", SUDO_HOST, "sh", line, python, code]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if "mount" in done.stderr:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    how, result = done.stdout.splitlines() or ("", done.stderr)
    if has_rule:
        assert (how, result) == ("sudo", "('', '')"), done.stderr
    else:
        assert how == "none"
        assert "sudo failed" in result
        assert "nobody ALL=(root) NOPASSWD: " in result
