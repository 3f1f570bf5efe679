"""The cost of single parts of a refresh on synthetic machines: processes, devices, verdict, picture and recording.

``python -m tests.bench.parts [--rounds 5] [--write]`` prints the CPU time per item. With ``--counter LIBRARY`` it runs
each part once, for a count of its instructions (tests/bench/callgrind.py).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from rich.color import ColorSystem

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.collector import COHORTS, ProcessCollector
from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.facts.fold_cache import FoldCache
from iotop_ai.model.block.counters import BlockCounters, BlockKey, block_rates
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import ProcessSample, ProcessTable
from iotop_ai.model.reading import Rated, Reading, Status
from iotop_ai.pipeline import frames
from iotop_ai.present.screen.layout import PANELS, plan, screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import FrameCache
from iotop_ai.present.text.line import Line
from iotop_ai.store.format.codec import Encoder
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.textual_internals.cell_diff import CellDiff, Row
from tests.bench.fold import Crowd, histories
from tests.bench.peers import machine, markdown
from tests.pages import put_section
from tests.present.scenes import starved_snapshots

WIDTH, HEIGHT = 120, 40
SIZES = ((80, 24), (WIDTH, HEIGHT), (160, 48), (240, 67))
"""The window sizes of the pictures."""
DOCUMENT = Path(__file__).parents[2] / "docs" / "cost.md"
HEADING = "## Where the time goes"
WARM = 6
"""The earliest step that is counted, because the steps before it open files, fill tables and make styles."""
LOADED_LATE = ("iotop_ai.present.verdict.cures",)
"""Modules that a step imports only when a machine first needs them, not in each step."""


class Work(NamedTuple):
    """The work of one part, ready to run. before: makes the next step's input and is not counted. step: is counted."""

    before: Callable[[], None]
    step: Callable[[], None]


class Part(NamedTuple):
    """One part of a refresh.

    sizes: the numbers of items of a small and a large machine, whose difference gives the cost of an item; () if a step
    is one item.
    """

    name: str
    description: str
    make: Callable[[int, Path], Work]
    sizes: tuple[int, ...]
    steps: int


IO = "rchar: 1000\nwchar: 2000\nsyscr: 10\nsyscw: 20\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"
STAT = (
    "{pid} (sleep) S 1000 {pid} {pid} 0 -1 4194304 120 0 0 0 3 2 0 0 20 0 1 0 {start} 8000000 250 18446744073709551615 "
    "1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)


def idle_processes(count: int, folder: Path) -> Work:
    """Return the work of a sweep over processes that do nothing, with their rates."""
    proc = folder / "proc"
    for pid in range(1000, 1000 + count):
        place = proc / str(pid)
        place.mkdir(parents=True)
        (place / "io").write_text(IO)
        (place / "schedstat").write_text("717161 74170 5\n")
        (place / "stat").write_text(STAT.format(pid=pid, start=pid * 10))
        (place / "status").write_text(f"Name:\tsleep\nTgid:\t{pid}\nPid:\t{pid}\nUid:\t0\t0\t0\t0\n")
        (place / "cmdline").write_bytes(b"sleep\x00100000\x00")
        (place / "cgroup").write_text("0::/\n")
    (proc / "loadavg").write_text(f"0.00 0.00 0.00 1/{count} {999 + count}\n")
    boot_id = Path("sys/kernel/random/boot_id")
    (proc / boot_id.parent).mkdir(parents=True)
    shutil.copy("/proc" / boot_id, proc / boot_id)
    collector = ProcessCollector(Root(proc=str(proc)), Clock(), fd_cap=4 * count + 50)
    taken: list[Reading[ProcessTable]] = []
    rates: list[Rated[ProcessSample]] = []
    seconds = 0

    def step() -> None:
        nonlocal seconds
        seconds += 1
        reading = Reading(collector.read(), Status.OK, at_ns=seconds * 1_000_000_000)
        rated = process_rates(taken[-1] if taken else None, reading, rates[-1] if rates else None)
        assert rated.value is None or not rated.value.rates or seconds < WARM
        taken[-1:], rates[-1:] = [reading], [rated]

    return Work(lambda: None, step)


def _devices(count: int, folder: Path, busy: bool) -> Work:
    stats = folder / "proc" / "diskstats"
    stats.parent.mkdir(parents=True)
    for i in range(count):
        block = folder / "sys" / "block" / f"sd{i}"
        block.mkdir(parents=True)
        (block / "diskseq").write_text(f"{i + 1}\n")
    done = 0

    def before() -> None:
        nonlocal done
        done += busy
        # The ninth figure is the number of requests in flight. It must be 0 for a device to be at rest.
        counts = " ".join(str(0 if k == 8 else k * 100 + done * 3) for k in range(17))
        stats.write_text("".join(f"   8 {i:7d} sd{i} {counts}\n" for i in range(count)))

    before()
    collector = BlockCollector(Root(str(folder)), Clock())
    taken: list[dict[BlockKey, BlockCounters] | None] = [None]

    def step() -> None:
        now = collector.read()
        rates = block_rates(taken[0], now, 1.0)
        assert len(rates) == count
        taken[0] = now

    return Work(before, step)


def idle_devices(count: int, folder: Path) -> Work:
    """Return the work of reading the counters of block devices that do nothing, with their rates."""
    return _devices(count, folder, busy=False)


def busy_devices(count: int, folder: Path) -> Work:
    """Return the work of reading block devices of which every counter changes, with their rates."""
    return _devices(count, folder, busy=True)


def judged_processes(count: int, folder: Path) -> Work:
    """Return the work of a verdict about a machine without a job or a GPU, on which every process reads."""
    ticks = iter(histories(Crowd(count), 2 * WARM + JUDGED_STEPS))
    newest = [next(ticks)]
    carries, cache = [FoldState()], FoldCache()

    def before() -> None:
        newest[0] = next(ticks)

    def step() -> None:
        carry, verdict = fold(carries[0], *newest[0], cache=cache)
        assert verdict.findings
        carries[0] = carry

    for _ in range(WARM):
        step()
        before()
    return Work(before, step)


class SyntheticTerminal:
    """A terminal of one theme. It keeps its cells, so that only changed cells are painted."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        self._size = width, height
        self._cell_diff = CellDiff(ThemeStyles("dark").style, ColorSystem.TRUECOLOR)
        self._lines: list[Line] = []
        self._rows: dict[int, Row] = {}

    def draw(self, frame: Frame, view: View) -> str:
        """Return the bytes that change the terminal to the picture of this Frame."""
        return self.paint(screen_rows(*self._size, frame, view))

    def paint(self, lines: list[Line]) -> str:
        """Return the bytes that change the terminal to these rows."""
        changed = [(y, line) for y, line in enumerate(lines) if not self._lines or line != self._lines[y]]
        new = [(0, y, self._rows.get(y), self._cell_diff.row(line)) for y, line in changed]
        self._lines = lines
        self._rows.update((y, row) for _, y, _, row in new)
        return self._cell_diff.paint(new)


class StarvedSeconds:
    """The seconds of a server with 8 GPUs, 8 disks and 400 processes. Its job starves, so most figures change."""

    def __init__(self, count: int) -> None:
        self._more = iter(frames(starved_snapshots(count, onset=2)))
        self._made: list[Frame] = []

    def frame(self, at: int) -> Frame:
        """Return the Frame of a second. It and the Frames before it are made when they are first needed."""
        while len(self._made) <= at:
            self._made.append(next(self._more))
        return self._made[at]

    def between(self, first: int, end: int) -> list[Frame]:
        """Return the Frames of these seconds."""
        return [self.frame(at) for at in range(first, end)]


@lru_cache
def starved_seconds(count: int) -> StarvedSeconds:
    """Return the seconds of the starving server.

    They are cached, so that parts that use the same seconds share them.
    """
    return StarvedSeconds(count)


def picture(count: int, folder: Path) -> Work:
    """Return the work of drawing a picture of 120x40 over the previous picture."""
    at = iter(starved_seconds(SECONDS).between(BEGIN, SECONDS))
    terminal = SyntheticTerminal()
    newest = [next(at)]
    view = View(cache=FrameCache())

    def step() -> None:
        assert terminal.draw(newest[0], view)

    def before() -> None:
        newest[0] = next(at)

    step()
    return Work(before, step)


def judged_second(count: int, folder: Path) -> Work:
    """Return the work of making the Frame of a second of the starving server: its rates and its verdict."""
    starved_seconds.cache_clear()  # so that the counted steps make the Frames
    seconds, at = starved_seconds(SECONDS), iter(range(BEGIN, SECONDS))
    seconds.frame(BEGIN - 1)

    def step() -> None:
        assert seconds.frame(next(at)).verdict.findings

    return Work(lambda: None, step)


def recorded_second(count: int, folder: Path) -> Work:
    """Return the work of encoding a second of the starving server as a line of a recording."""
    made = iter(starved_seconds(SECONDS).between(BEGIN, SECONDS))
    encoder = Encoder()

    def step() -> None:
        assert encoder.lines(next(made))

    return Work(lambda: None, step)


SERVER_STEPS = 4
BEGIN = 4
"""The number of seconds before the first step."""
SECONDS = BEGIN + WARM + SERVER_STEPS
JUDGED_STEPS = 5
PARTS = (
    Part("idle process", "a sweep over idle processes, with rates", idle_processes, (40, 80), COHORTS),
    Part("idle device", "a block device at rest, read and rated", idle_devices, (40, 80), 3),
    Part("busy device", "a block device of which all counters move", busy_devices, (40, 80), 3),
    Part(
        "judged process", "a process that reads, in a verdict without a job", judged_processes, (100, 200), JUDGED_STEPS
    ),
    Part(
        "judged second",
        "rates and verdict of a starving server with its 400 processes",
        judged_second,
        (),
        SERVER_STEPS,
    ),
    Part("recorded second", "that second as a line of a recording", recorded_second, (), SERVER_STEPS),
    Part("frame", "a picture of 120x40 drawn over the one before", picture, (), SERVER_STEPS),
)


def measured(part: Part, size: int, folder: Path, around: Callable[[Iterator[Callable[[], None]]], None]) -> None:
    """Run one part: first the steps that warm it up, then ``around`` with the steps to measure."""
    work = part.make(size, folder)
    for _ in range(WARM - 1):
        work.before()
        work.step()

    def steps() -> Iterator[Callable[[], None]]:
        for _ in range(part.steps):
            work.before()
            yield work.step

    around(steps())


def run_counted(only: Container[str], counter: ctypes.CDLL) -> list[tuple[str, int, int]]:
    """Run each part of ``only`` once and let ``counter`` count the instructions of each step.

    The counter runs only during the steps, because a counted program runs fifty times slower.
    Return the name, the size and the number of steps of each run, in order. Raises RuntimeError when a step imports a
    module, because compiling a module costs more than a step.
    """

    def counted(steps: Iterator[Callable[[], None]]) -> None:
        before = set(sys.modules)
        counter.start_counting()
        for step in steps:
            counter.begin_step()
            step()
            counter.end_step()
        counter.stop_counting()
        if late := sorted(set(sys.modules) - before):
            raise RuntimeError(f"a counted step imports {', '.join(late)}: add it to LOADED_LATE")

    order = []
    for module in LOADED_LATE:
        import_module(module)
    with tempfile.TemporaryDirectory(prefix="parts-") as name:
        for part in (part for part in PARTS if part.name in only):
            for size in part.sizes or (1,):
                measured(part, size, Path(name) / f"{part.name} {size}", counted)
                order.append((part.name, size, part.steps))
    return order


def per_item(part: Part, totals: dict[int, float]) -> float:
    """Return the cost of one item in one step. totals: the cost of all steps, by size."""
    if not part.sizes:
        return totals[1] / part.steps
    small, large = part.sizes
    return (totals[large] - totals[small]) / (large - small) / part.steps


def timed(part: Part, rounds: int) -> list[float]:
    """Return the CPU time per item in microseconds, for each round."""
    out = []
    for _ in range(rounds):
        totals: dict[int, float] = {}
        for size in part.sizes or (1,):
            spent: list[int] = []

            def around(steps: Iterator[Callable[[], None]], spent: list[int] = spent) -> None:
                for step in steps:
                    begin = time.process_time_ns()
                    step()
                    spent.append(time.process_time_ns() - begin)

            with tempfile.TemporaryDirectory(prefix="parts-") as name:
                measured(part, size, Path(name), around)
            totals[size] = min(spent) * part.steps / 1000
        out.append(per_item(part, totals))
    return out


def panels(rounds: int) -> dict[str, float]:
    """Return the microseconds of each panel in one picture, of the plan, and of the terminal's bytes."""
    made = starved_seconds(80).between(60, 80)
    view, rows_of = View(cache=FrameCache()), dict(PANELS)
    best: dict[str, float] = {}
    for _ in range(rounds):
        spent: dict[str, int] = {}
        terminal = SyntheticTerminal()

        def timed_step(name: str, step: Callable[[], object], spent: dict[str, int] = spent) -> None:
            begin = time.process_time_ns()
            step()
            spent[name] = spent.get(name, 0) + time.process_time_ns() - begin

        for frame in made:
            timed_step("plan", lambda frame=frame: plan(WIDTH, HEIGHT, frame, view))
            for slot in plan(WIDTH, HEIGHT, frame, view):
                timed_step(
                    slot.panel, lambda slot=slot, frame=frame: rows_of[slot.panel](frame, view, WIDTH, slot.height)
                )
            lines = screen_rows(WIDTH, HEIGHT, frame, view)
            timed_step("cells to bytes", lambda lines=lines, terminal=terminal: terminal.paint(lines))
        for name, total in spent.items():
            best[name] = min(best.get(name, 1e9), total / len(made) / 1000)
    return best


def sent_bytes() -> float:
    """Return the mean number of bytes that a picture of the starving server takes."""
    terminal = SyntheticTerminal()
    view = View(cache=FrameCache())
    sizes = [len(terminal.draw(frame, view).encode()) for frame in starved_seconds(80).between(20, 80)]
    return statistics.mean(sizes[1:])


def pictures(rounds: int) -> list[tuple[str, float, float]]:
    """Return for each window its size, and the mean µs (the least of the rounds) and bytes of a picture."""
    made, view = starved_seconds(80).between(56, 80), View(cache=FrameCache())
    out = []
    for width, height in SIZES:
        best = [1e9] * len(made)
        sizes = [0] * len(made)
        for _ in range(rounds):
            terminal = SyntheticTerminal(width, height)
            for i, frame in enumerate(made):
                begin = time.process_time_ns()
                sizes[i] = len(terminal.draw(frame, view).encode())
                best[i] = min(best[i], (time.process_time_ns() - begin) / 1000)
        # The first two pictures fill the window and the tables.
        out.append((f"{width}x{height}", statistics.mean(best[2:]), statistics.mean(sizes[2:])))
    return out


def report(rounds: int) -> str:
    """Return the section of the document about the parts."""

    def pair(times: list[float]) -> str:
        # For a very cheap item the difference between two sizes is less than their noise.
        middle = f"{statistics.median(times):.2f}"
        return f"< {middle}" if min(times) <= 0 else f"{min(times):.2f} ({middle})"

    rows = [(p.name, p.description, pair(timed(p, rounds))) for p in PARTS]
    found = sorted(panels(rounds).items(), key=lambda item: -item[1])
    return (
        f"{HEADING}\n\n"
        f"`python -m tests.bench.parts --write`, on {machine()}. Synthetic machines in a tight loop (at 1 Hz caches "
        f"are cold, and the same work takes about half as long again); minimum, median of {rounds} rounds, CPU "
        "time.\n\n"
        + markdown(("an item", "what", "µs"), rows)
        + f"\n\nThe picture of a starving server (8 GPUs, 8 disks) takes {sent_bytes():.0f} bytes a second to the "
        "terminal, because only cells that changed are sent. Its µs by panel: "
        + ", ".join(f"{name} {us:.0f}" for name, us in found)
        + ".\nBy the size of the window, with the bytes sent: "
        + ", ".join(f"{window} {us:.0f} ({size:.0f})" for window, us, size in pictures(rounds))
        + ".\n"
    )


def main() -> int:
    """Measure and print, or run the parts once for a counter of instructions; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.parts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--counter", metavar="LIBRARY", help="run once and count, print the order as JSON")
    names = [part.name for part in PARTS]
    parser.add_argument("--parts", nargs="+", choices=names, default=names, help="with --counter: only these")
    parser.add_argument("--write", action="store_true", help="put the section into docs/cost.md")
    args = parser.parse_args()
    if args.counter:
        print(json.dumps(run_counted(args.parts, ctypes.CDLL(args.counter))))
        return 0
    section = report(args.rounds)
    print(section)
    if args.write:
        put_section(DOCUMENT, HEADING, section)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
