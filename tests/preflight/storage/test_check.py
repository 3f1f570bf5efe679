"""Checks of real folders and disks, which are completed, interrupted or killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.preflight.storage import (
    CREATE,
    FILES,
    MIB,
    RANDOM,
    READAHEAD,
    SEQUENTIAL,
    STAT,
    WRITE,
    Latency,
    Measured,
    Phase,
    Target,
    plan,
)
from iotop_ai.preflight.storage import check as parent
from iotop_ai.preflight.storage import fio, reader, session
from iotop_ai.preflight.storage.check import End, Message, Progress, Started, StorageCheck
from iotop_ai.preflight.storage.loops import NOTHING, ManyInFlight
from iotop_ai.preflight.storage.other_reads import OtherReads
from iotop_ai.preflight.storage.own_file import LEAST_BYTES, created_name, open_target, own_name, remove
from iotop_ai.preflight.storage.place import read_place
from iotop_ai.preflight.storage.reader import Bounds, Run, Stop, cpu_bound
from iotop_ai.preflight.storage.session import Emit, Request, Session
from tests.preflight.storage.here import BRIEF, measured_here, session_here
from tests.preflight.storage.places import ext4, mounted, needs_root
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk

ENGINES = ["own", pytest.param("fio", marks=pytest.mark.skipif(not shutil.which("fio"), reason="needs fio"))]
ALL = tuple(phase._replace(seconds=5.0) if phase.name == WRITE else phase for phase in plan(0.5, 2))
"""Every phase. Writing ends when the file is full."""
LONG = tuple(phase for phase in plan(60.0, 2) if phase.depth == 1 and phase.name not in (CREATE, STAT))
"""The phases of a check that outlasts its test. Its file appears at once."""


@contextlib.contextmanager
def running(
    path: Path, phases: tuple[Phase, ...] = BRIEF, engine: str = "own", **more: object
) -> Iterator[StorageCheck]:
    check = StorageCheck(Request(str(path), phases, engine, most_bytes=24 * MIB)._replace(**more), Clock())
    try:
        yield check
    finally:
        check.close()


def messages_of(path: Path, phases: tuple[Phase, ...] = BRIEF, engine: str = "own", **more: object) -> list[Message]:
    with running(path, phases, engine, **more) as check:
        return list(check.messages())


def test_a_child_that_ends_at_once_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(_module: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        return child

    monkeypatch.setattr(parent, "start_own_child", ended)
    assert messages_of(tmp_path) == [End(error="the reading process ended early")]


def results(messages: list[Message]) -> list[Measured]:
    return [one for one in messages if isinstance(one, Measured)]


def target(messages: list[Message]) -> Target:
    return next(one.target for one in messages if isinstance(one, Started))


def wait_for(path: Path, there: bool = True) -> None:
    end = time.monotonic() + 20
    while path.exists() != there:
        assert time.monotonic() < end, f"{path} {'does not appear' if there else 'stays'}"
        time.sleep(0.01)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_folder_is_measured_and_left_as_it_was(tmp_path: Path, engine: str) -> None:
    (tmp_path / "data.bin").write_bytes(b"x" * 1000)
    messages = messages_of(tmp_path, ALL, engine)
    found = results(messages)
    assert {(one.name, one.block_bytes, one.depth) for one in found} == {phase[:3] for phase in ALL}
    assert len(found) == len(ALL)
    assert all(one.ops > 0 and one.seconds > 0 and one.latency is not None for one in found)
    assert all(one.size_bytes == one.ops * one.block_bytes for one in found if one.name in (SEQUENTIAL, RANDOM, FILES))
    assert target(messages) == Target("own", 24 * MIB, True, 24 * MIB)
    assert messages[-1] == End()
    assert [path.name for path in tmp_path.iterdir()] == ["data.bin"]
    assert any(isinstance(one, Progress) for one in messages)


def test_every_reader_reads_at_least_once_and_all_stop_at_the_same_time() -> None:
    def slowly(_buffer: object, _number: int) -> int:
        time.sleep(0.01)
        return 1

    found = Run(Phase(RANDOM, 1, 8, 0.001), slowly, Bounds(Stop()), Clock()).measure(lambda *_: None)
    assert (found.ops, found.size_bytes) == (8, 8)
    assert found.latency is not None
    assert 10 <= found.latency.p50_ms <= 1000 * found.seconds


@pytest.mark.parametrize("readers", [1, 4, 9])
def test_readers_share_a_bounded_number_of_operations(readers: int) -> None:
    with tempfile.TemporaryFile() as file:

        def note(_buffer: object, number: int) -> int:
            os.pwrite(file.fileno(), b"x", number)
            return 1

        bounds = Bounds(Stop(), most_ops=6)
        found = Run(Phase(RANDOM, 1, readers, 20.0), note, bounds, Clock()).measure(lambda *_: None)
        assert found.ops == 6
        assert os.pread(file.fileno(), 99, 0) == b"x" * 6


def test_operations_that_did_nothing_do_not_count() -> None:
    def half(_buffer: object, number: int) -> int:
        return 5 if number % 2 else NOTHING

    def none(_buffer: object, _number: int) -> int:
        return NOTHING

    bounds = Bounds(Stop(), most_ops=100)
    found = Run(Phase(RANDOM, 1, 3, 20.0), half, bounds, Clock()).measure(lambda *_: None)
    assert (found.ops, found.size_bytes) == (50, 250)
    found = Run(Phase(RANDOM, 1, 3, 0.01), none, Bounds(Stop()), Clock()).measure(lambda *_: None)
    assert (found.ops, found.size_bytes, found.ops_per_s) == (0, 0, None)


@pytest.mark.parametrize(
    ("cpu_s", "bound"), [((0.95, 0.1), True), ((0.5,) * 4, True), ((0.5,) * 3, False), ((), False)]
)
def test_the_readers_are_the_limit_if_one_fills_a_core_or_all_fill_the_machine(
    cpu_s: tuple[float, ...], bound: bool
) -> None:
    assert cpu_bound(cpu_s, 1.0, 2) is bound


def test_readers_that_use_all_of_a_cpu_quota_are_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quota may leave a container a small part of the cores that its affinity allows."""

    def slowly(_buffer: object, _number: int) -> int:
        time.sleep(0.01)
        return 1

    run = Run(Phase(RANDOM, 1, 2, 0.1), slowly, Bounds(Stop()), Clock())
    monkeypatch.setattr(reader, "read_cores", lambda _root: 1e-6)
    assert run.measure(lambda *_: None).cpu_bound


@pytest.mark.parametrize(("cores", "readers"), [(0.5, 1), (3.9, 1), (4.0, 2), (64.0, 32)])
def test_one_reader_for_two_cores_of_the_quota_keeps_many_reads_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: float, readers: int
) -> None:
    monkeypatch.setattr(session, "read_cores", lambda _root: cores)
    checked, _ = session_here(tmp_path)
    works: list[object] = []
    monkeypatch.setattr(checked, "_measure", lambda _phase, work: works.append(work))
    checked._read_by_own_reader([Phase(RANDOM, 4096, 64, 0.1)], 0, MIB, direct=True)
    assert [work.readers for work in works if isinstance(work, ManyInFlight)] == [readers]


def test_a_killed_check_leaves_one_file_that_the_next_check_removes(tmp_path: Path) -> None:
    own = tmp_path / own_name()
    with running(tmp_path, LONG) as check:
        wait_for(own)
        os.kill(check.pid, signal.SIGKILL)
        assert list(check.messages())[-1] == End(error="the reading process ended early")
    assert [path.name for path in tmp_path.iterdir()] == [own.name]
    assert results(messages_of(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_check_ends_and_removes_its_file_when_its_caller_ends(tmp_path: Path) -> None:
    own = tmp_path / own_name()
    with running(tmp_path, LONG) as check:
        wait_for(own)
        messages = check.messages()
        while not isinstance(next(messages), Started):
            pass
    wait_for(own, there=False)


def test_two_checks_of_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    with running(tmp_path, LONG) as check:
        messages = check.messages()
        while not isinstance(next(messages), Started):
            pass
        second = messages_of(tmp_path)
        assert (second[-1], target(second).kind) == (End(), "own")
        assert [path.name for path in tmp_path.iterdir()] == [own_name()]


def test_a_check_begins_while_another_creates_and_deletes_files(tmp_path: Path) -> None:
    begun: list[str] = []

    def begin(*_: object) -> None:
        opened = open_target(str(tmp_path), Clock(), Root("/"), write=True)
        remove(opened.own_handle, opened.folder, opened.name)
        os.close(opened.folder)
        begun.append(opened.name)

    emit = session.Emit(*[lambda *_: None] * 5)._replace(progress=begin)
    one = session.Session(
        Request(str(tmp_path), (Phase(CREATE, 0, 1, 0.2),), "own", most_bytes=8 * MIB), emit, Stop(), Clock()
    )
    try:
        with pytest.raises(OSError, match="too little"):  # nothing is written
            one.run()
    finally:
        one.close()
    assert {*begun} == {own_name(2)}
    assert not list(tmp_path.iterdir())


def test_what_killed_checks_have_left_is_removed_but_not_the_files_of_other_hosts(tmp_path: Path) -> None:
    theirs = tmp_path / f".iotop-ai-check-{os.geteuid()}-another-host-1"
    for name in (own_name(), created_name(own_name()), created_name(own_name(2)), own_name(3), theirs.name):
        (tmp_path / name).touch()
    assert results(measured_here(tmp_path))
    assert [*tmp_path.iterdir()] == [theirs]


def test_a_file_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "shard.tar"
    path.write_bytes(os.urandom(16 * MIB))
    before = path.stat()
    messages = measured_here(path)
    assert target(messages) == Target("file", 16 * MIB, True, 0, "a file is only read")
    assert {one.name for one in results(messages)} == {SEQUENTIAL, RANDOM}
    assert path.stat().st_mtime_ns == before.st_mtime_ns


@needs_root
def test_root_writes_nothing_where_another_users_link_leads(tmp_path: Path) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    for folder in (theirs, own):
        folder.mkdir()
    (own / "data").write_bytes(os.urandom(LEAST_BYTES))
    (theirs / "way").symlink_to(own)
    for path in (theirs, theirs / "way"):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    before = own.stat().st_mtime_ns
    opened = open_target(str(theirs / "way"), Clock(), Root("/"), write=True)
    os.close(opened.handle)
    assert (opened.kind, opened.own_handle) == ("file", -1)
    assert opened.why == "root does not follow another user's link in this path"
    assert own.stat().st_mtime_ns == before
    opened = open_target(str(own), Clock(), Root("/"), write=True)
    assert opened.kind == "own"
    remove(opened.own_handle, opened.folder, opened.name)
    os.close(opened.folder)


def test_a_small_file_gives_no_figures(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"x" * 5000)
    end = messages_of(path)[-1]
    assert isinstance(end, End)
    assert "less than 8 MB" in end.error


def test_without_writing_the_largest_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/large").write_bytes(os.urandom(12 * MIB))
    (tmp_path / "smaller").write_bytes(os.urandom(9 * MIB))
    messages = measured_here(tmp_path, write=False)
    assert target(messages) == Target("file", 12 * MIB, True, 0, "--no-write")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["smaller", "sub"]


def sparse(path: Path, stored: int, size: int) -> Path:
    """A file of which only the first bytes are stored."""
    with path.open("wb") as file:
        file.write(os.urandom(stored))
        file.truncate(size)
    return path


def test_holes_of_a_file_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(os.urandom(9 * MIB))
    sparse(tmp_path / "a-hole", 0, 1 << 40)
    messages = measured_here(tmp_path, write=False)
    assert target(messages).size_bytes == 9 * MIB
    assert not [one for one in messages if isinstance(one, str)]
    path = sparse(tmp_path / "data.mdb", 12 * MIB, 1 << 40)
    for place in (tmp_path, path):
        messages = measured_here(place, write=False)
        assert target(messages).size_bytes == 12 * MIB
        assert "the file has holes, which are not stored: its first 12 MB are read" in messages
    with pytest.raises(OSError, match="holds less than 8 MB before its first hole"):
        measured_here(tmp_path / "a-hole")


def test_a_folder_that_can_be_neither_read_nor_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"8 MB.*--no-write|--no-write.*8 MB"):
        measured_here(tmp_path, write=False)


@needs_root
def test_a_read_only_mount_and_a_full_disk_are_read_and_reported(tmp_path: Path) -> None:
    with ext4(tmp_path, 64) as place:
        (place / "data").write_bytes(os.urandom(16 * MIB))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        assert target(measured_here(place)).why_not_written == "mounted read-only"
        subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        with contextlib.suppress(OSError), (place / "fill").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * MIB)
        full = target(measured_here(place))
        assert full.kind == "file"
        assert "the filesystem is full" in full.why_not_written
        assert sorted(path.name for path in place.iterdir()) == ["data", "fill", "lost+found"]


@needs_root
def test_memory_and_an_overlay_are_measured(tmp_path: Path) -> None:
    with mounted(tmp_path / "memory", "-t", "tmpfs", "-o", "size=256m", "none") as memory:
        assert {one.name for one in results(measured_here(memory))} >= {CREATE, WRITE, SEQUENTIAL, RANDOM, FILES}
    for name in ("lower", "upper", "work"):
        (tmp_path / name).mkdir()
    layers = ",".join(
        f"{key}={tmp_path / value}"
        for key, value in (("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work"))
    )
    with mounted(tmp_path / "overlay", "-t", "overlay", "-o", layers, "none") as overlay:
        messages = measured_here(overlay)
        assert {one.name for one in results(messages)} >= {CREATE, WRITE, READAHEAD, SEQUENTIAL, RANDOM, FILES}
    assert not list((tmp_path / "upper").iterdir())


def test_a_file_that_a_hung_reader_created_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_and_wait(folder: int, name: str) -> int:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder))
        time.sleep(60)
        return 0

    monkeypatch.setattr(reader, "HANG_S", 0.3)
    monkeypatch.setattr(session, "_create_delete", create_and_wait)
    created = tmp_path / created_name(own_name())
    request = Request(str(tmp_path), (Phase(CREATE, 0, 1, 0.1),), "own")
    emit = session.Emit(*[lambda *_: None] * 5)._replace(progress=lambda *_: wait_for(created))
    one = session.Session(request, emit, Stop(), Clock())
    with pytest.raises(reader.HangError):
        one.run()
    assert created.exists()
    one.close()
    assert not list(tmp_path.iterdir())


def test_no_two_blocks_that_a_check_writes_are_equal(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        writing = session._Writing(file.fileno(), 6 * MIB, Clock())
        operations = [list(writing.pieces(None, number)) for number in range(3)]
    assert operations == [[(MIB, 0)] * 4, [(MIB, 0)] * 2, []]
    raw = path.read_bytes()
    assert len(raw) == 6 * MIB
    assert len({raw[at : at + 4096] for at in range(0, len(raw), 4096)}) == 6 * 256


def test_a_run_that_is_stopped_while_some_readers_end_has_no_result() -> None:
    def uneven(_buffer: object, number: int) -> int:
        time.sleep(5.0 if number % 2 else 0.01)
        return 4096

    stop = Stop()

    def stop_soon(_ops: int, _size: int, seconds: float) -> None:
        if seconds > 0.4:
            stop.set()

    one = Run(Phase(RANDOM, 4096, 2, 0.1), uneven, Bounds(stop), Clock())
    assert one.measure(stop_soon).ops == 0


def test_after_a_failure_of_fio_the_figures_are_those_of_our_reader(tmp_path: Path) -> None:
    path, program = tmp_path / "file", tmp_path / "fio"
    path.write_bytes(os.urandom(MIB))
    program.write_text("#!/bin/sh\necho no such engine\nexit 1\n")
    program.chmod(0o755)
    engines, found, notes = list[str](), list[Measured](), list[str]()
    emit = Emit(lambda _, engine: engines.append(engine), lambda *_: None, found.append, notes.append, lambda *_: None)
    one = Session(Request(str(path), ()), emit, Stop(), Clock())
    handle = os.open(path, os.O_RDONLY)
    try:
        one._measure_reads([Phase(SEQUENTIAL, 64 << 10, 1, 0.1)], handle, Target("file", MIB, False), str(program))
    finally:
        os.close(handle)
    assert (engines, len(found)) == (["own"], 1)
    assert notes == ["fio failed (no such engine): read by our own reader instead"]


@needs_root
@pytest.mark.parametrize("engine", ENGINES)
def test_the_reads_of_a_check_do_not_count_as_those_of_other_programs(tmp_path: Path, engine: str) -> None:
    with ext4(tmp_path, 200) as place:
        others = OtherReads(read_place(str(place), Root("/"), Clock()), Root("/"))
        messages_of(place, engine=engine)
        assert others.ratio() == pytest.approx(0.0, abs=0.02)


def test_no_percentile_of_fio_exceeds_its_longest_time() -> None:
    percentiles = {"50.000000": 41_000_000, "90.000000": 99_000_000, "99.000000": 124_260_000}
    times = {"mean": 45_000_000.0, "max": 123_830_000, "percentile": percentiles}
    read = {"total_ios": 100, "io_bytes": 100 << 16, "runtime": 400, "lat_ns": times}
    raw = json.dumps({"jobs": [{"error": 0, "usr_cpu": 1.0, "sys_cpu": 1.0, "read": read}]}).encode()
    (found,) = fio.parse_fio(raw, [Phase(RANDOM, 64 << 10, 16, 0.4)])
    assert found.latency == Latency(45.0, 41.0, 99.0, 123.83, 123.83)
    read["total_ios"] = 99
    raw = json.dumps({"jobs": [{"error": 0, "usr_cpu": 1.0, "sys_cpu": 1.0, "read": read}]}).encode()
    (found,) = fio.parse_fio(raw, [Phase(RANDOM, 64 << 10, 16, 0.4)])
    assert found.latency == Latency(45.0, 41.0, 99.0, None, 123.83)


@pytest.mark.skipif(not shutil.which("fio"), reason="needs fio")
def test_fio_reads_no_more_than_the_limit_of_a_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fio, "READ_MOST_BYTES", 20 * MIB)
    path = tmp_path / "file"
    path.write_bytes(os.urandom(12 * MIB + 5000))
    phases = (Phase(SEQUENTIAL, MIB, 8, 60.0), Phase(RANDOM, 64 << 10, 4, 60.0))
    handle = os.open(path, os.O_RDONLY)
    try:
        found = fio.read_by_fio(fio.find_fio()[0], handle, path.stat().st_size, phases, Stop(), Clock(), lambda _: None)
    finally:
        os.close(handle)
    assert [one.size_bytes for one in found] == [20 * MIB] * 2


@pytest.mark.alone
@pytest.mark.skipif(bool(why_no_fuse_disk()), reason=why_no_fuse_disk())
def test_a_disk_that_hangs_is_reported_and_its_file_removed_later(tmp_path: Path) -> None:
    with FuseDisk(tmp_path, 96) as disk:
        subprocess.run(["mkfs.ext4", "-q", "-F", disk.node], check=True)
        with mounted(tmp_path / "disk", disk.node) as place, running(place, LONG) as check:
            messages = check.messages()
            while not isinstance(next(messages), Started):
                pass
            disk.set(delay_us=12_000_000)
            end = list(messages)[-1]
            assert isinstance(end, End)
            assert end.hung_s >= 5
            check.close()
            disk.set()
            wait_for(place / own_name(), there=False)
            # The filesystem can be unmounted only after the child has ended.
            while Path(f"/proc/{check.pid}").exists() and Path(f"/proc/{check.pid}/stat").read_text().split()[2] != "Z":
                time.sleep(0.05)


SIGNALLED = """
import os, signal, sys
from iotop_ai.preflight.storage.reader import Stop
stop = Stop()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
def within(frame, event, _):
    if frame.f_code.co_name == "set" and event == "line":
        os.kill(os.getpid(), signal.SIGTERM)
    return within
sys.settrace(within)
stop.set()
sys.settrace(None)
print(stop.is_set())
"""


def test_a_signal_may_end_a_check_that_is_already_ending() -> None:
    """When the parent ends, its pipe breaks and SIGTERM is sent at the same moment."""
    child = subprocess.Popen([sys.executable, "-c", SIGNALLED], stdout=subprocess.PIPE, text=True)
    try:
        assert child.communicate(timeout=20)[0] == "True\n"
    finally:
        child.kill()
