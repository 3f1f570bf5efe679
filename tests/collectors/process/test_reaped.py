"""The bytes of reaped children: real processes, and the real collector, which must give each process its own bytes."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import KeptFile, Root
from iotop_ai.collectors.process.collector import COHORTS, ProcessCollector
from iotop_ai.collectors.process.descriptors import ProcessEntry
from iotop_ai.collectors.process.sweep import IoSweep
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import ProcessKey, ProcessSample
from iotop_ai.model.reading import Rated, Reading, Status

pytestmark = pytest.mark.xdist_group("reaped children")
"""The reaper of a process whose parent ended long ago is guessed, and a process of another test could match it."""
ACTOR = str(Path(__file__).with_name("actor.py"))
MB = 1 << 20


class Stage:
    """A tree of actors, and a collector that watches it. shown: the bytes written by each actor, over all ticks."""

    def __init__(self, directory: Path, root: Root | None = None, fd_cap: int | None = None) -> None:
        self.directory = directory
        os.mkfifo(directory / "answers")
        self.answers = os.open(directory / "answers", os.O_RDWR)
        self.pids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.shown: Counter[str] = Counter()
        self.marked: set[str] = set()
        self.collector = ProcessCollector(root or Root(), Clock(), fd_cap=fd_cap)
        self.ticks = 0
        self.before: Reading | None = None
        self.last: Rated[ProcessSample] | None = None
        command = [sys.executable, "-S", "-E", "-B", ACTOR, str(directory), "top"]
        self.top = subprocess.Popen(command)
        self._answer()

    def _answer(self) -> None:
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self.answers, 1)
        name, pid = line.decode().split()
        self.pids[name] = int(pid)
        self.names[int(pid)] = name

    def order(self, name: str, command: str) -> None:
        """Give an actor a command, and wait until it is done."""
        with open(self.directory / f"{name}.in", "wb", buffering=0) as file:
            file.write(command.encode("latin-1") + b"\n")
        if command == "exit":
            while not self.dead(name):
                os.sched_yield()
            return
        self._answer()
        if command.startswith("fork"):
            self._answer()

    def play(self, *lines: str) -> None:
        """Run several commands and ticks, as in "top: fork child; tick"."""
        for line in lines:
            for step in line.split("; "):
                if step == "tick":
                    self.tick()
                else:
                    self.order(*step.split(": "))

    def dead(self, name: str) -> bool:
        try:
            stat = Path(f"/proc/{self.pids[name]}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return True
        return stat.rpartition(b") ")[2][:1] in b"ZX"

    def tick(self) -> None:
        table = self.collector.read()
        self.ticks += 1
        after = Reading(table, Status.OK, at_ns=table.io_at_ns)
        self.last = process_rates(self.before, after, self.last)
        self.before = after
        assert self.last.value is not None
        for key, rate in self.last.value.rates.items():
            name = self.names.get(key.pid)
            if name is not None and rate.io_s and rate.write_bytes_per_s is not None:
                self.shown[name] += round(rate.write_bytes_per_s * rate.io_s)
                if rate.incl_children:
                    self.marked.add(name)

    def key(self, name: str) -> ProcessKey:
        assert self.before is not None
        return next(key for key in self.before.value.stat if key.pid == self.pids[name])

    def close(self) -> None:
        self.top.kill()
        self.top.wait()
        for name, pid in self.pids.items():
            if name != "top" and not self.dead(name):
                os.kill(pid, 9)
        os.close(self.answers)
        self.collector.close()

    def megabytes(self) -> dict[str, float]:
        """The megabytes that each actor wrote, without actors below a quarter of a megabyte."""
        return {name: amount / MB for name, amount in self.shown.items() if amount > MB // 4}


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a real filesystem, because writes to a tmpfs are not counted."""
    directory = Path(tempfile.mkdtemp(prefix="iotop-ai-test-", dir="/var/tmp"))
    kind = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True).stdout
    if kind.strip() in ("tmpfs", "ramfs"):
        pytest.skip("/var/tmp is in memory")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def stage(disk: Path) -> Iterator[Stage]:
    made = Stage(disk)
    made.tick()
    yield made
    made.close()


def near(expected: dict[str, float]) -> dict[str, object]:
    return {name: pytest.approx(amount, rel=0.02) for name, amount in expected.items()}


def test_the_bytes_of_a_reaped_child_stay_its_own(stage: Stage) -> None:
    stage.play("top: fork child; child: write 20; tick; child: exit; top: wait; tick; tick")
    assert stage.megabytes() == near({"child": 20})


def test_the_bytes_of_a_child_that_is_reaped_late_stay_its_own(stage: Stage) -> None:
    stage.play("top: fork child; tick; child: write 20; child: exit")
    for _ in range(3):
        stage.tick()
    stage.play("top: wait; tick; tick")
    assert stage.megabytes() == near({"child": 20})


def test_a_zombie_stays_listed_until_it_is_reaped(stage: Stage) -> None:
    stage.play("top: fork child; tick; child: exit")
    for _ in range(COHORTS):
        stage.tick()
    key = stage.key("child")
    assert stage.before.value.stat[key].state == "Z"
    stage.order("top", "wait")
    stage.tick()
    assert key in stage.before.value.gone


def test_a_busy_parent_does_not_get_the_bytes_of_its_child(stage: Stage) -> None:
    stage.play("top: fork child; child: write 10; tick; top: write 90; child: exit; top: wait; tick; tick")
    assert stage.megabytes() == near({"top": 90, "child": 10})


def test_bytes_of_a_double_fork_do_not_go_to_the_subreaper(stage: Stage) -> None:
    stage.play(
        "top: subreaper; top: fork middle; middle: fork child; tick; middle: exit; top: wait; tick",
        "child: write 20; tick; child: exit; top: wait; tick; tick",
    )
    assert stage.megabytes() == near({"child": 20})


def test_a_child_and_a_grandchild_may_end_in_one_tick(stage: Stage) -> None:
    stage.play(
        "top: fork child; child: fork grandchild; child: write 10; grandchild: write 20; tick",
        "grandchild: exit; child: wait; child: exit; top: wait; tick; tick",
    )
    assert stage.megabytes() == near({"child": 10, "grandchild": 20})


def test_bytes_of_a_child_that_was_never_seen_go_to_its_parent(stage: Stage) -> None:
    stage.play("top: fork child; child: write 20; child: exit; top: wait; tick; tick")
    assert stage.megabytes() == near({"top": 20})


def test_the_last_burst_of_a_child_goes_to_its_parent(stage: Stage) -> None:
    stage.play("top: fork child; child: write 20; tick; child: write 10; child: exit; top: wait; tick; tick")
    assert stage.megabytes() == near({"child": 20, "top": 10})


def test_bytes_lost_by_a_parent_that_ignores_sigchld_are_not_taken_from_another(stage: Stage, disk: Path) -> None:
    (disk / "other").mkdir()
    other = Stage(disk / "other")
    try:
        other.order("top", "ignore")
        other.order("top", "fork child")
        other.order("child", "write 20")
        stage.tick()
        stage.order("top", "fork child")
        stage.order("child", "write 20")
        stage.order("child", "exit")
        stage.order("top", "wait")
        other.order("child", "exit")
        stage.tick()
        stage.tick()
    finally:
        other.close()
    assert stage.megabytes() == near({"top": 20})


def test_a_busy_parent_that_ignores_sigchld_keeps_its_bytes(stage: Stage) -> None:
    stage.play("top: ignore; top: fork child; child: write 10; tick; top: write 90; child: exit; tick; tick")
    assert stage.megabytes() == near({"top": 90, "child": 10})


def test_an_orphans_bytes_do_not_go_to_a_busy_ancestor(stage: Stage) -> None:
    stage.order("top", "subreaper")
    for parent, child in (("top", "busy"), ("busy", "middle"), ("middle", "orphan")):
        stage.order(parent, f"fork {child}")
    stage.play(
        "orphan: write 20; middle: write 10; tick; busy: write 90; middle: exit; busy: wait; orphan: exit",
        "top: wait; tick; tick",
    )
    assert stage.megabytes() == near({"busy": 90, "middle": 10, "orphan": 20})


# The test runs alone, because a process that inherits as many bytes meanwhile could be taken for the reaper.
@pytest.mark.alone
def test_bytes_of_an_orphan_with_an_outdated_parent_do_not_go_to_its_reaper(stage: Stage) -> None:
    stage.play("top: subreaper; top: fork middle; middle: fork orphan; orphan: write 10; tick")
    while (stage.ticks - 1) % COHORTS != stage.pids["orphan"] % COHORTS:
        stage.tick()
    stage.play("middle: exit; top: wait; tick; tick")
    assert stage.before.value.stat[stage.key("orphan")].ppid == stage.pids["middle"]
    stage.play("top: write 90; orphan: exit; top: wait; tick; tick")
    assert stage.megabytes() == near({"top": 90, "orphan": 10})


class Interrupted(Root):
    """A Root that calls ``event`` just before the file ``relative`` is opened, once."""

    relative = ""
    event: Callable[[], None]

    def keep(self, relative: str, size: int = 1 << 16) -> KeptFile:
        self._note(relative)
        return super().keep(relative, size)

    def read_once(self, relative: str, size: int) -> bytes:
        self._note(relative)
        return super().read_once(relative, size)

    def _note(self, relative: str) -> None:
        if relative == self.relative:
            self.relative = ""
            self.event()


@pytest.mark.parametrize("moment", ["before the child's io is read", "after the parent's io, before its stat"])
def test_a_child_may_be_reaped_during_the_sweep(disk: Path, moment: str) -> None:
    root = Interrupted()
    stage = Stage(disk, root, fd_cap=0)
    try:
        stage.tick()
        stage.order("top", "fork child")
        stage.order("child", "write 20")
        stage.tick()
        stage.tick()
        stage.order("child", "exit")
        if moment.startswith("before"):
            root.relative = f"proc/{stage.pids['child']}/io"
        else:
            # reading this command makes the process active, so that its stat is read in this tick
            stage.order("top", "nothing")
            root.relative = f"proc/{stage.pids['top']}/stat"
        root.event = lambda: stage.order("top", "wait")
        for _ in range(4):
            stage.tick()
        assert root.relative == ""
        assert stage.megabytes() == near({"child": 20})
    finally:
        stage.close()


def test_a_sleeping_child_may_be_reaped_during_the_sweep(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleeping process is not read. Its schedstat is read before the io of its parent, which then has its bytes."""
    stage.play("top: fork child; child: write 20")
    for _ in range(2 * COHORTS):
        stage.tick()
    assert stage.collector._entries[stage.pids["child"]].asleep
    sweep = IoSweep.run

    def interrupted(*args: Any) -> list[tuple[ProcessEntry, bytes | OSError]]:
        monkeypatch.undo()
        stage.play("child: exit; top: wait")
        return sweep(*args)

    stage.order("top", "nothing")  # otherwise the parent is asleep too, and not read
    monkeypatch.setattr(IoSweep, "run", interrupted)
    stage.tick()
    assert stage.pids["child"] not in [key.pid for key in stage.before.value.stat]
    stage.play("tick; tick")
    assert stage.megabytes() == near({"child": 20})


def test_the_reaper_of_an_unreadable_child_is_marked(disk: Path) -> None:
    class Partial(Root):
        hidden = ""

        def keep(self, relative: str, size: int = 1 << 16) -> KeptFile:
            if relative == self.hidden:
                raise PermissionError(13, "Permission denied", relative)
            return super().keep(relative, size)

    root = Partial()
    stage = Stage(disk, root)
    try:
        stage.tick()
        stage.order("top", "fork child")
        root.hidden = f"proc/{stage.pids['child']}/io"
        stage.tick()
        assert stage.key("child") in stage.before.value.denied
        stage.order("child", "write 20")
        stage.tick()
        stage.order("child", "exit")
        stage.order("top", "wait")
        for _ in range(COHORTS + 1):
            stage.tick()
        assert stage.megabytes() == near({"top": 20})
        assert stage.marked == {"top"}
    finally:
        stage.close()
