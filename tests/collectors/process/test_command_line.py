"""Command lines, also of a process whose memory map is locked for as long as a file server does not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.job.inspection import inspect
from iotop_ai.collectors.process.collector import ProcessCollector
from iotop_ai.model.job.inspection import NO_IDS, Inspection, RankIds
from tests.waiting import until

STAT = "{pid} (train) {state} 1 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 5000" + " 0" * 30
LOCKED, FREE = 7, 8


class _Locked(Root):
    """The memory map of process 7 is locked until ``answer`` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.answer = threading.Event()
        self.waiting = 0

    def _wait(self, relative: str) -> None:
        if relative.startswith(f"proc/{LOCKED}/") and relative.endswith(("cmdline", "environ", "maps")):
            self.waiting += 1
            self.answer.wait()

    def read_once(self, relative: str, size: int, offset: int = 0) -> bytes:
        self._wait(relative)
        return super().read_once(relative, size, offset)

    def read(self, relative: str) -> bytes:
        self._wait(relative)
        return super().read(relative)


@pytest.fixture(params=[("S", 2), ("D", 1)], ids=["threads", "state D"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[_Locked]:
    state, threads = request.param
    for pid in (LOCKED, FREE):
        folder = tmp_path / f"proc/{pid}"
        folder.mkdir(parents=True)
        (folder / "stat").write_text(STAT.format(pid=pid, state=state, threads=threads) + "\n")
        (folder / "status").write_text(f"Name:\ttrain\nTgid:\t{pid}\nUid:\t0\t0\t0\t0\n")
        (folder / "io").write_text("rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 1\nwrite_bytes: 1\n")
        (folder / "cgroup").write_text("0::/\n")
        (folder / "cmdline").write_bytes(f"python\0train{pid}.py\0".encode())
    made = _Locked(tmp_path)
    yield made
    made.answer.set()


def command_lines(collector: ProcessCollector) -> dict[int, tuple[str, ...]]:
    return {key.pid: info.cmdline for key, info in collector.read().info.items()}


def test_a_process_with_a_locked_memory_map_holds_up_no_tick(root: _Locked) -> None:
    collector = ProcessCollector(root, Clock())
    began = time.monotonic()
    for _ in range(3):
        assert command_lines(collector) == {LOCKED: (), FREE: ("python", f"train{FREE}.py")}
    assert time.monotonic() - began < 5
    assert root.waiting == 1, "the read is not repeated while it waits"
    root.answer.set()
    until(lambda: command_lines(collector)[LOCKED] == ("python", f"train{LOCKED}.py"))
    collector.close()


def test_its_environment_and_libraries_are_left_out(root: _Locked) -> None:
    memory = ProcessMemory(root)
    found = inspect(root, LOCKED, memory)
    assert (found.libraries, found.ids) == ((), NO_IDS)
    memory.close()


def test_what_was_known_of_it_before_stays(root: _Locked) -> None:
    """A training must not become unknown because a dead file server has stopped it."""
    memory = ProcessMemory(root)
    before = Inspection(libraries=("torch",), modules=("numpy",), ids=RankIds(slurm="48213"))
    assert inspect(root, LOCKED, memory, before) == before
    assert inspect(root, FREE, memory, before).libraries == ()
    memory.close()
