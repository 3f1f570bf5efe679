"""What we cost beside other monitors: CPU of a refresh, memory, first paint, bytes to the terminal.

``python -m tests.bench.cost [--procs 100 1000] [--rounds 3] [--peers iotop-c htop atop glances] [--write]`` as root.
Exit 1 when we cost more than half of glances or paint late, 2 when this machine cannot tell.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench.peers import installed, machine, markdown, need, version_line
from tests.rigs.tmux import Terminal

CPUACCT = Path("/sys/fs/cgroup/cpuacct")
DOCUMENT = Path(__file__).parents[2] / "docs" / "cost.md"
WIDTH, HEIGHT = 120, 40
SETTLE_S = 4.0
"""From the start until counting begins: start-up is told by the first paint, not by the refreshes."""
GLANCES_SHARE = 0.5
FIRST_PAINT_MS = 700
UNUSUAL = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""What developers and containers set, and users do not."""
QUIET_S = 0.25
"""A pause in the output that ends a refresh."""
ESCAPE = re.compile(rb"\x1b(?:\[[0-9;:?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])|[\x0e\x0f]")


class Program(NamedTuple):
    """A monitor at 1 Hz. shows: bytes of its screen, without escape sequences, that are data and no frame."""

    name: str
    argv: tuple[str, ...]
    shows: bytes
    version: tuple[str, ...]


OURS = "iotop-ai"
PROGRAMS = (
    Program(OURS, ("iotop-ai", "-d", "1"), rb"mem\s+[\d.]+/[\d.]+", ("iotop-ai", "--version")),
    Program("iotop-c", ("iotop-c", "-P", "-d", "1"), rb"(?:be|rt|id)/\d", ("iotop-c", "--version")),
    Program("htop", ("htop", "-d", "10"), rb"Tasks:\s*\d+", ("htop", "--version")),
    Program("atop", ("atop", "1"), rb"PRC\s*\|\s*sys", ("atop", "-V")),
    Program("glances", ("glances", "-t", "1"), rb"TASKS\s*\d+", ("glances", "--version")),
)


class Run(NamedTuple):
    """One program, one round. helpers_mb: processes beside the main one; 0 without any."""

    cpu_ms: float
    peak_mb: float
    helpers_mb: float
    first_paint_ms: float
    bytes_per_refresh: float
    refreshes_per_s: float


@contextlib.contextmanager
def sleepers(count: int) -> Iterator[None]:
    """That many more processes, asleep."""
    script = f"i=0; while [ $i -lt {count} ]; do sleep 100000 & i=$((i+1)); done; echo ready; wait"
    shell = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert shell.stdout
        shell.stdout.readline()
        yield
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


@contextlib.contextmanager
def accounted() -> Iterator[Path]:
    """A control group that counts the CPU of what is in it, exactly."""
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
    """The bytes that a program writes to its terminal, with the time at which they came."""

    def __init__(self, fifo: Path) -> None:
        self._fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.raw = b""

    def wait(self, until: float) -> bool:
        """Whether something came before that time."""
        if not select.select([self._fd], [], [], max(0.0, until - time.monotonic()))[0]:
            return False
        chunk = os.read(self._fd, 1 << 16)
        if not chunk:  # nobody holds the other end at the moment
            time.sleep(0.005)
            return False
        self.raw += chunk
        return True

    def first(self, pattern: bytes, limit_s: float) -> float:
        """Seconds from now until the text holds the pattern. Raises RuntimeError with the text's end otherwise."""
        start, compiled = time.monotonic(), re.compile(pattern)
        while time.monotonic() < start + limit_s:
            if self.wait(start + limit_s) and compiled.search(ESCAPE.sub(b"", self.raw)):
                return time.monotonic() - start
        raise RuntimeError(f"{pattern!r} not shown within {limit_s} s: {ESCAPE.sub(b'', self.raw)[-300:]!r}")

    def count(self, seconds: float) -> tuple[int, int]:
        """(bytes, refreshes) of the next seconds; a pause of QUIET_S ends a refresh."""
        end, size, refreshes, last = time.monotonic() + seconds, len(self.raw), 0, 0.0
        while time.monotonic() < end:
            if self.wait(end):
                now = time.monotonic()
                refreshes += now - last > QUIET_S
                last = now
        return len(self.raw) - size, refreshes

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


def program_environment() -> dict[str, str]:
    """The environment for what is measured: as a user's, without what makes each start compile anew or unbuffered."""
    return {name: value for name, value in os.environ.items() if name not in UNUSUAL}


def measure(program: Program, path: str, seconds: float, folder: Path, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Run:
    """Run one program in a terminal of its own and watch it."""
    go, fifo = folder / "go", folder / "bytes"
    for node in (go, fifo):
        node.unlink(missing_ok=True)
        os.mkfifo(node)
    output = Output(fifo)
    words = " ".join(["env", *(f"-u {name}" for name in UNUSUAL), path, *program.argv[1:]])
    with accounted() as group, Terminal(*size) as terminal:
        terminal.type(f"clear; sh -c 'echo $$ > {group}/cgroup.procs; read x < {go}; exec {words}'\n")
        terminal.wait_until(lambda _: _pids(group))
        (main,) = _pids(group)
        terminal.record(fifo)
        time.sleep(0.3)
        start = time.monotonic()
        go.write_text("go\n")
        first_s = output.first(program.shows, 30)
        output.count(max(0.0, start + SETTLE_S - time.monotonic()))
        before, begin = _usage(group), time.monotonic()
        sent, refreshes = output.count(seconds)
        used, spent = _usage(group) - before, time.monotonic() - begin
        helpers = sum(_peak_mb(pid) for pid in _pids(group) if pid != main)
        peak = _peak_mb(main)
    output.close()
    if not peak:
        raise RuntimeError(f"{program.name} ended while it was watched")
    per_s = refreshes / spent
    return Run(used / 1e6 / spent, peak, helpers, first_s * 1000, sent / max(1, refreshes), per_s)


def _usage(group: Path) -> int:
    return int((group / "cpuacct.usage").read_text())


def table(runs: dict[str, list[Run]]) -> str:
    """One line a program: minimum and median."""

    def pair(values: Sequence[float], form: str = ".1f") -> str:
        return f"{min(values):{form}} ({statistics.median(values):{form}})"

    rows = []
    for name, found in runs.items():
        columns = list(zip(*found, strict=True))
        cpu, peak, helpers, paint, size, rate = columns
        helper = pair(helpers, ".0f") if any(helpers) else "-"
        cells = (pair(cpu), pair(peak, ".0f"), helper, pair(paint, ".0f"), pair(size, ".0f"))
        rows.append((name, *cells, f"{statistics.median(rate):.2f}"))
    header = ("program", "CPU ms/s", "peak MB", "helpers MB", "first paint ms", "bytes/refresh", "refreshes/s")
    return markdown(header, rows)


HEAD = """# Cost

`python -m tests.bench.cost` (as root) runs whole programs, one at a time, in tmux at {width}x{height} with one refresh
a second, each in a CPU control group of its own. CPU is the growth of the group's `cpuacct.usage` (all processes,
user and system) over {seconds:.0f} s after {settle:.0f} s of running, so it is milliseconds of one core per second,
which is per refresh at 1 Hz. Peak memory is VmHWM of the main process; helper processes stand apart. First paint is
from `exec` until the terminal has received data (not just a frame). Refreshes are bursts of output; a program that
redraws only what changed can show fewer than one a second. Each cell is the minimum and, in brackets, the median of
{rounds} interleaved rounds.

Measured {date} on {machine}. {versions}.

"""


def verdicts(results: dict[int, dict[str, list[Run]]]) -> tuple[list[str], bool]:
    """The goals per number of processes: half of what glances uses, and a first paint that nobody waits for."""
    lines, good = [], True
    for count, runs in results.items():
        cpu = {name: statistics.median(r.cpu_ms for r in found) for name, found in runs.items()}
        if "glances" in cpu:
            share = cpu[OURS] / cpu["glances"]
            good &= share <= GLANCES_SHARE
            lines.append(
                f"- {count} extra processes: {share:.2f} of the CPU of glances (goal: {GLANCES_SHARE:.2f} at most)."
            )
        paint = min(r.first_paint_ms for r in runs[OURS])
        good &= paint <= FIRST_PAINT_MS
        lines.append(f"- {count} extra processes: first paint {paint:.0f} ms (goal: {FIRST_PAINT_MS} at most).")
    return lines, good


def main() -> int:
    """Measure, print, say whether the goal holds."""
    names = [p.name for p in PROGRAMS if p.name != OURS]
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cost", description=__doc__)
    parser.add_argument("--procs", type=int, nargs="+", default=[100, 1000], help="extra sleeping processes (100 1000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15, help="seconds each run is watched (15)")
    parser.add_argument("--peers", nargs="*", default=names, choices=names)
    parser.add_argument("--write", action="store_true", help="write docs/cost.md")
    args = parser.parse_args()
    need("tmux")
    if os.geteuid() or not (CPUACCT / "cpuacct.usage").exists():
        print("unknown: needs root and the cpuacct controller of cgroup v1", file=sys.stderr)
        return 2
    chosen = [(p, path) for p in PROGRAMS if p.name in (OURS, *args.peers) and (path := installed(p.argv[0]))]
    missing = {OURS, *args.peers} - {p.name for p, _ in chosen}
    if missing:
        print(f"unknown: not installed here: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    results: dict[int, dict[str, list[Run]]] = {}
    texts = []
    with tempfile.TemporaryDirectory(prefix="cost-") as name:
        for count in args.procs:
            runs = results[count] = {program.name: [] for program, _ in chosen}
            with sleepers(count):
                for _ in range(args.rounds):
                    for program, path in chosen:
                        runs[program.name].append(measure(program, path, args.seconds, Path(name)))
                total = sum(entry.isdecimal() for entry in os.listdir("/proc"))
            texts.append(f"## {count} extra processes ({total} in all)\n\n{table(runs)}\n")
            print(texts[-1], flush=True)
    lines, good = verdicts(results)
    print("\n".join(lines))
    if args.write:
        head = HEAD.format(
            width=WIDTH,
            height=HEIGHT,
            seconds=args.seconds,
            settle=SETTLE_S,
            rounds=args.rounds,
            date=datetime.date.today().isoformat(),
            machine=machine(),
            versions="; ".join(f"{p.name}: {version_line(path, *p.version[1:])}" for p, path in chosen),
        )
        DOCUMENT.write_text(head + "\n".join(lines) + "\n\n" + "\n".join(texts))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
