"""The cost of this program beside other monitors: CPU of a refresh, memory, first paint, and bytes to the terminal.

``python -m tests.bench.cost [--peers] [--procs 100 1000] [--load threads forks] [--rounds 3]`` as root runs whole
programs one after the other: ours, with ``--peers`` also every other monitor that is installed here, with
``--programs`` those that it names, or with ``--goals`` those of the goals. ``--keep FILE`` keeps each run, over several
sittings, and ``--write`` puts all kept runs into docs/cost.md. Exit code 1: a goal of tests/bench/goals.py is missed.
2: this machine cannot tell.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import select
import signal
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.goals import by_sitting, goals, needed, with_range
from tests.bench.loads import LOADS, LaunchOptions, load_of, title_of
from tests.bench.peers import machine, markdown, need, version_line
from tests.bench.programs import BY_NAME, CONFIGURED_BY_FILE, FORMS, OURS, PROGRAMS, Program, installed_ones, one_hertz
from tests.rigs.tmux import Terminal

CPUACCT = Path("/sys/fs/cgroup/cpuacct")
DOCUMENT = Path(__file__).parents[2] / "docs" / "cost.md"
WIDTH, HEIGHT = 120, 40
OTHERS = r"^## (?:Where the time goes|What a start loads|How it grows)$"
"""The sections of the document that other benches write."""
SETTLE_S = 4.0
"""The seconds between the start and the count, so that the counted refreshes do not include the start-up."""
UNUSUAL = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Variables that developers and containers set, but users do not."""
QUIET_S = 0.25
"""A pause in the output of this many seconds ends a refresh."""
ESCAPE = re.compile(rb"\x1b(?:\[[0-9;:?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])|[\x0e\x0f]")


class Run(NamedTuple):
    """The figures of one program in one round.

    cpu_ms: CPU time per second. helpers_mb: the peak memory of the processes beside the main one; 0 if there are none.
    first_paint_ms: None for a program without a screen.
    """

    cpu_ms: float
    peak_mb: float
    helpers_mb: float
    first_paint_ms: float | None
    bytes_per_refresh: float
    refreshes_per_s: float
    sitting: str = ""
    """The time at which the sitting of this round began."""


@contextlib.contextmanager
def cpu_group() -> Iterator[Path]:
    """Provide a control group that counts the CPU time of its processes exactly, and kill them at the end."""
    group = CPUACCT / f"cost-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    try:
        yield group
    finally:
        for pid in _pids(group):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _ in range(200):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.02)


def _pids(group: Path) -> list[int]:
    return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]


def _peak_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


class Output:
    """The bytes that a program writes to its terminal, and the times at which they arrive."""

    def __init__(self, fifo: Path) -> None:
        self._fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.raw = b""

    def wait(self, until: float) -> bool:
        """Wait for output until a time; return whether some arrived."""
        if not select.select([self._fd], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        chunk = os.read(self._fd, 1 << 16)
        if not chunk:  # the other end is closed at the moment
            time.sleep(0.005)
            return False
        self.raw += chunk
        return True

    def wait_for(self, pattern: bytes, limit_s: float) -> float:
        """Wait until the text contains the pattern; return the seconds that this took.

        Raises RuntimeError if the text does not contain it within ``limit_s``.
        """
        start, compiled = time.monotonic(), re.compile(pattern)
        while time.monotonic() < start + limit_s:
            if self.wait(start + limit_s) and compiled.search(ESCAPE.sub(b"", self.raw)):
                return time.monotonic() - start
        raise RuntimeError(f"{pattern!r} not shown within {limit_s} s: {ESCAPE.sub(b'', self.raw)[-300:]!r}")

    def count(self, seconds: float) -> tuple[int, int]:
        """Return the bytes and the refreshes of the next seconds. A pause of QUIET_S ends a refresh."""
        end, size, refreshes, last = time.monotonic() + seconds, len(self.raw), 0, 0.0
        while time.monotonic() < end:
            if self.wait(end):
                now = time.monotonic()
                refreshes += now - last > QUIET_S
                last = now
        return len(self.raw) - size, refreshes

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)


def program_environment() -> dict[str, str]:
    """Return the environment of a measured program: that of a user, without variables that make start-up slower."""
    return {name: value for name, value in os.environ.items() if name not in UNUSUAL}


class Running(NamedTuple):
    """A program in its terminal. main: the pid of its main process.

    first_s: the seconds until its first paint; None for a program without a screen.
    """

    group: Path
    main: int
    output: Output
    first_s: float | None


@contextlib.contextmanager
def running(
    program: Program,
    path: str,
    folder: Path,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    launch: LaunchOptions = LaunchOptions(),  # noqa: B008 - a tuple
) -> Iterator[Running]:
    """Run one program in a terminal. The ``with`` block begins SETTLE_S after the program's start.

    launch: how the load starts the program.
    """
    go, fifo = folder / "go", folder / "bytes"
    for node in (go, fifo):
        node.unlink(missing_ok=True)
        os.mkfifo(node)
    variables = [f"HOME={one_hertz(folder)}"] if program.name in CONFIGURED_BY_FILE else []
    variables += [f"{name}={value}" for name, value in launch.environment.items()]
    usual = ["env", *(f"-u {name}" for name in UNUSUAL), *variables]
    script = folder / "start"
    script.write_text("exec " + " ".join([*usual, *launch.before, path, *program.argv[1:]]) + "\n")
    with contextlib.closing(Output(fifo)) as output, cpu_group() as group, Terminal(*size) as terminal:
        terminal.type(f"clear; cd {folder}; sh -c 'echo $$ > {group}/cgroup.procs; read x < {go}; . {script}'\n")
        terminal.wait_until(lambda _: _pids(group))
        (main,) = _pids(group)
        terminal.record(fifo)
        time.sleep(0.3)
        start = time.monotonic()
        go.write_text("go\n")
        first_s = output.wait_for(program.shows, 60) if program.shows else None
        if program.keys:
            terminal.keys(*program.keys)
        output.count(max(0.0, start + SETTLE_S - time.monotonic()))
        yield Running(group, main, output, first_s)


def measure(
    program: Program,
    path: str,
    seconds: float,
    folder: Path,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    launch: LaunchOptions = LaunchOptions(),  # noqa: B008 - a tuple
) -> Run:
    """Run one program in a terminal and measure it. launch: how the load starts the program."""
    with running(program, path, folder, size, launch) as watched:
        before, begin = usage_ns(watched.group), time.monotonic()
        sent, refreshes = watched.output.count(seconds)
        used, spent = usage_ns(watched.group) - before, time.monotonic() - begin
        helpers = sum(_peak_mb(pid) for pid in _pids(watched.group) if pid != watched.main)
        peak = _peak_mb(watched.main)
    if not peak:
        raise RuntimeError(f"{program.name} ended while it was watched")
    per_s = refreshes / spent
    first_ms = None if watched.first_s is None else watched.first_s * 1000
    return Run(used / 1e6 / spent, peak, helpers, first_ms, sent / max(1, refreshes), per_s)


def usage_ns(group: Path) -> int:
    """Return the CPU time that the processes of a control group have used, in nanoseconds."""
    return int((group / "cpuacct.usage").read_text())


HEADER = ("program", "CPU ms/s", "peak MB", "first paint ms", "bytes a refresh")


def rows_of(runs: dict[str, list[Run]]) -> list[tuple[str, ...]]:
    """Return a row of cells for each program."""
    rows: list[tuple[str, ...]] = []
    for name, found in runs.items():
        helpers = _cell(found, lambda run: run.helpers_mb)
        memory = _cell(found, lambda run: run.peak_mb) + (f" + {helpers}" if helpers != "0" else "")
        shows = all(run.first_paint_ms is not None for run in found)
        first = _cell(found, lambda run: run.first_paint_ms or 0.0) if shows else "-"
        often = f"{statistics.median(run.refreshes_per_s for run in found):.2f}"
        sent = _cell(found, lambda run: run.bytes_per_refresh)
        sent += f" at {often}/s" if often not in ("0.00", "1.00") else ""
        rows.append((name, _cell(found, lambda run: run.cpu_ms, ".1f"), memory, first, sent))
    return rows


def _cell(found: Sequence[Run], value: Callable[[Run], float], form: str = ".0f") -> str:
    """Return the median of the sittings with their range. For a single sitting, the range is that of its rounds."""
    sittings = by_sitting(found, value)
    return with_range(sittings.values() if len(sittings) > 1 else map(value, found), form)


HEAD = """# Cost

`python -m tests.bench.cost` (as root) runs each program alone in tmux at {width}x{height} with one refresh a second,
in its own CPU control group. CPU: growth of `cpuacct.usage` over {seconds:.0f} s after {settle:.0f} s of running, in
milliseconds of one core per second. Peak memory: VmHWM of the main process, plus that of its helper processes. First
paint: from `exec` until the terminal has received data. Refreshes: bursts of output, one a second unless stated. A
figure is the median of the sittings and, in brackets, their range; a sitting's figure is the median of its rounds,
and a ratio is one within a sitting. "paused" and "help open" are iotop-ai with an idle screen, "record" without one;
"collector and diagnosis" only reads and judges.

Measured {date} on {machine}, in {sittings}. {versions}.

"""


class Kept:
    """Runs that are kept in a file, one per line, so that a long measurement can be made in parts."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._runs: dict[str, dict[str, list[Run]]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                load, name, *run = json.loads(line)
                self._add(load, name, Run(*run))

    def _add(self, load: str, name: str, run: Run) -> None:
        self._runs.setdefault(load, {}).setdefault(name, []).append(run)

    def add(self, load: str, name: str, run: Run) -> None:
        """Add a run to the file."""
        self._add(load, name, run)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps((load, name, *run)) + "\n")

    def runs(self) -> dict[str, dict[str, list[Run]]]:
        """Return the runs by load and program, in the order in which loads and programs are listed."""
        order = list(BY_NAME)
        loads = sorted(self._runs, key=lambda load: (not load.isdecimal(), int(load) if load.isdecimal() else 0))
        return {load: {name: self._runs[load][name] for name in order if name in self._runs[load]} for load in loads}


def document(runs: dict[str, dict[str, list[Run]]], seconds: float) -> str:
    """Return the part of docs/cost.md that this bench writes."""
    here, _ = installed_ones([p.name for p in PROGRAMS if any(p.name in names for names in runs.values())])
    head = HEAD.format(
        width=WIDTH,
        height=HEIGHT,
        seconds=seconds,
        settle=SETTLE_S,
        date=datetime.date.today().isoformat(),
        machine=machine(),
        sittings=_sittings(run.sitting for by_name in runs.values() for found in by_name.values() for run in found),
        versions=", ".join(f"{p.name} {_number(version_line(path, *p.version[1:]))}" for p, path in here),
    )
    rows = [(g.work, g.must, g.measured + ("" if g.met else ", missed")) for g in goals(runs)]
    cells: list[tuple[str, ...]] = []
    for load, by_name in runs.items():
        first, *others = rows_of(by_name)
        cells += [(title_of(load), *first), *(("", *row) for row in others)]
    goal_table = markdown(("work", "must", "measured"), rows, {1: False, 2: False})
    return head + f"## Goals\n\n{goal_table}\n\n## Loads\n\n{markdown(('load', *HEADER), cells, {1: False})}\n"


def _sittings(sittings: Iterable[str]) -> str:
    """Return the number of sittings and their times, such as "3 sittings (02:10, 02:50, 03:30)"."""
    stamps = sorted({one[:16] for one in sittings if one})
    return f"{len(stamps)} sittings ({', '.join(stamp[11:] for stamp in stamps)})" if len(stamps) > 1 else "1 sitting"


def _number(version: str) -> str:
    """Return the first number with a dot in the text that a program prints about its version."""
    found = re.search(r"\d+(?:\.\d+)+", version)
    return found[0] if found else version


def write(text: str) -> None:
    """Put this bench's part in front of the parts that other benches write."""
    others = DOCUMENT.read_text()
    at = re.search(OTHERS, others, re.MULTILINE)
    DOCUMENT.write_text(text + ("\n" + others[at.start() :] if at else ""))


def main() -> int:
    """Measure and print; the exit code says whether the goals are met."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cost", description=__doc__)
    names = [p.name for p in (*PROGRAMS, *FORMS)]
    parser.add_argument("--procs", nargs="+", type=int, default=[], metavar="N", help="processes asleep")
    parser.add_argument("--load", nargs="+", default=[], help="processes asleep, or " + ", ".join(LOADS))
    chosen_by = parser.add_mutually_exclusive_group()
    chosen_by.add_argument("--peers", action="store_true", help="beside every other monitor that is installed here")
    chosen_by.add_argument("--programs", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    chosen_by.add_argument("--goals", action="store_true", help="the loads and programs of the goals, and no others")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12, help="seconds each run is watched (12)")
    parser.add_argument("--keep", type=Path, help="a file of runs; earlier ones count as well")
    parser.add_argument("--write", action="store_true", help="put what is kept into docs/cost.md")
    args = parser.parse_args()
    need("tmux")
    if os.geteuid() or not (CPUACCT / "cpuacct.usage").exists():
        print("unknown: needs root and the cpuacct controller of cgroup v1", file=sys.stderr)
        return 2
    asked_for = needed() if args.goals else {}
    loads = [str(count) for count in args.procs] + args.load or [*asked_for] or ["100", "1000"]
    if unknown := [load for load in loads if not load.isdecimal() and load not in LOADS]:
        print(f"unknown load: {', '.join(unknown)}; a number, or one of {', '.join(LOADS)}", file=sys.stderr)
        return 2
    every = args.programs or [p.name for p in PROGRAMS[: None if args.peers else 1]]
    chosen = {load: installed_ones(asked_for.get(load, every)) for load in loads}
    if missing := {name for _, names in chosen.values() for name in names}:
        print(f"unknown: not installed here: {', '.join(sorted(missing))}", file=sys.stderr)
        if not args.peers:
            return 2
    kept, sitting = Kept(args.keep), datetime.datetime.now().isoformat(timespec="minutes")
    with tempfile.TemporaryDirectory(prefix="cost-") as name:
        for load in loads:
            with load_of(load) as launch:
                for _ in range(args.rounds):
                    for program, path in chosen[load][0]:
                        try:
                            run = measure(program, path, args.seconds, Path(name), launch=launch)
                        except RuntimeError as error:
                            if not args.peers or program.name == OURS:
                                raise
                            # The program shows nothing here, as nvitop does without a GPU.
                            print(f"{load:>8} {program.name}: {error}"[:120], file=sys.stderr)
                            continue
                        figures = (x for x in run[:-1] if isinstance(x, float))
                        print(f"{load:>8} {program.name:<40}", *(f"{x:9.1f}" for x in figures), flush=True)
                        kept.add(load, program.name, run._replace(sitting=sitting))
    runs = kept.runs()
    for load, by_name in runs.items():
        print(f"\n{title_of(load)}\n{markdown(HEADER, rows_of(by_name))}")
    asked = goals(runs)
    print("\n" + "\n".join(f"{g.work}: {g.must}: {g.measured}: {'met' if g.met else 'MISSED'}" for g in asked))
    if args.write:
        write(document(runs, args.seconds))
    return 0 if all(g.met for g in asked) else 1


if __name__ == "__main__":
    raise SystemExit(main())
