"""The cost of the screen now and at an earlier commit, on the same machine at the same time.

Run ``python -m tests.bench.screen --before COMMIT [--seconds 120] [--write]`` as root in a git checkout. Exit code 1: a
refresh costs over 5 % more than at the earlier commit, or the smaller screen sends too many bytes. 2: this machine
cannot tell.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.bench.cost import CPUACCT, running, usage_ns
from tests.bench.loads import sleepers
from tests.bench.paired import CANNOT_TELL, NOT_MET, Estimate, estimate
from tests.bench.peers import machine, markdown, need
from tests.bench.programs import Program

REPO = Path(__file__).parents[2]
DOCUMENT = REPO / "docs" / "screen-cost.md"
SIZES = ((80, 24), (160, 48))
MOST_RATIO = 1.05
"""The maximum CPU time of a refresh, as a multiple of that at the earlier commit."""
BLOCK_S = 4.0
"""The seconds of one block, in which both versions are compared."""
COUNTED = "`python -m tests.bench.callgrind"
"""The beginning of the document's last paragraph, whose figures another bench prints."""
BYTES_PER_S = 6144
"""The rate that a slow link carries easily. The smaller screen must always stay below it."""
WRITER = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
while True:
    os.pwrite(fd, os.urandom(1 << 18), 0)
    os.fdatasync(fd)
    time.sleep(0.05)
"""


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Provide the files of a commit, without the history, while the ``with`` block runs."""
    with tempfile.TemporaryDirectory(prefix="screen-") as name:
        packed = subprocess.run(["git", "archive", commit], cwd=REPO, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", name], input=packed.stdout, check=True)
        yield Path(name)


@contextlib.contextmanager
def load(writers: int, folder: Path) -> Iterator[None]:
    """Run a hundred processes that sleep, and some that write to the disk."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(sleepers(100))
        for number in range(writers):
            argv = [sys.executable, "-c", WRITER, str(folder / f"written-{number}")]
            process = stack.enter_context(subprocess.Popen(argv))
            stack.callback(process.kill)
        yield


def ours(tree: Path) -> Program:
    """Return the monitor of a source tree, at 1 Hz."""
    argv = ("env", f"PYTHONPATH={tree}", sys.executable, "-m", "iotop_ai", "-d", "1")
    return Program("iotop-ai", argv, rb"mem\s+[\d.]+/[\d.]+", ())


class Compared(NamedTuple):
    """The two versions in one situation. before, now: CPU ms a second of each block. ratio: now divided by before.

    sent: the bytes that each version sent to its terminal a second.
    """

    before: list[float]
    now: list[float]
    ratio: Estimate
    sent: tuple[float, float]

    def cells(self, what: str) -> tuple[str, ...]:
        """Return the row of the table."""
        ratio = f"{self.ratio.middle:.2f} ({self.ratio.low:.2f}-{self.ratio.high:.2f})"
        middles = (f"{statistics.median(values):.1f}" for values in (self.before, self.now))
        return (what, *middles, ratio, *(f"{sent:,.0f}" for sent in self.sent))


def compared(trees: tuple[Path, Path], seconds: float, folder: Path, size: tuple[int, int]) -> Compared:
    """Run both versions at the same time, each in its own terminal, and compare them block by block.

    Other work of the machine, and its speed in that block, affect both alike. Blocks of 4 s hold four refreshes
    of each.
    """
    costs: tuple[list[float], list[float]] = ([], [])
    with contextlib.ExitStack() as stack:
        pair = []
        for name, tree in zip(("before", "now"), trees, strict=True):
            home = folder / f"{name}-{size[0]}"
            home.mkdir(exist_ok=True)
            program = ours(tree)
            pair.append(stack.enter_context(running(program, program.argv[0], home, size)))
        begin, sent = time.monotonic(), [len(one.output.raw) for one in pair]
        used, at = [usage_ns(one.group) for one in pair], begin
        while time.monotonic() < begin + seconds:
            for one in pair:
                one.output.count(BLOCK_S / 2)
            spent, later = time.monotonic() - at, [usage_ns(one.group) for one in pair]
            for values, cost, earlier in zip(costs, later, used, strict=True):
                values.append((cost - earlier) / 1e6 / spent)
            used, at = later, time.monotonic()
        for one in pair:
            one.output.count(0.1)
        spent = time.monotonic() - begin
        per_s = [(len(one.output.raw) - earlier) / spent for one, earlier in zip(pair, sent, strict=True)]
    ratio = estimate([now / before for before, now in zip(*costs, strict=True)])
    if ratio is None:
        raise SystemExit("screen: too few blocks; use a larger --seconds")
    return Compared(*costs, ratio, (per_s[0], per_s[1]))


HEAD = """# What a refresh of the screen costs

`python -m tests.bench.screen --before COMMIT --seconds {seconds:.0f}` (as root): this version of the whole program and
an earlier one, "before", run at the same time, each in a tmux of its own at one refresh a second and in its own CPU
control group. CPU: milliseconds of one core a second, the median of blocks of {block:.0f} s in {seconds:.0f} s after
start-up. Ratio: in each block, the CPU time now is divided by that before; the table has the median of these ratios,
with its 95 % interval (block bootstrap), so it differs from the ratio of the two columns. Other load on the machine
affects both versions alike. Bytes: those sent to the terminal a second. Busy: 8 programs write 5 MB/s each and flush.

Measured {date} on {machine}.

"""


def main() -> int:
    """Measure both and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.screen", description=__doc__)
    parser.add_argument("--before", required=True, metavar="COMMIT")
    parser.add_argument("--seconds", type=float, default=120, help="of each of the four comparisons")
    parser.add_argument("--write", action="store_true", help="write docs/screen-cost.md, but not its last paragraph")
    args = parser.parse_args()
    need("tmux", "git", "tar")
    if os.geteuid() or not (CPUACCT / "cpuacct.usage").exists():
        print("unknown: needs root and the cpuacct controller of cgroup v1", file=sys.stderr)
        return 2
    rows, answers = [], []
    with checkout(args.before) as old, tempfile.TemporaryDirectory(prefix="screen-") as name:
        for words, writers in (("idle", 0), ("busy", 8)):
            for size in SIZES:
                with load(writers, Path(name)):
                    found = compared((old, REPO), args.seconds, Path(name), size)
                cells = found.cells(f"{words}, {size[0]}x{size[1]}")
                print(" | ".join(cells), flush=True)
                rows.append(cells)
                answers.append(found.ratio.within(MOST_RATIO))
                if size == SIZES[0] and found.sent[1] > BYTES_PER_S:
                    answers.append(NOT_MET)
    table = markdown(("screen", "CPU ms before", "CPU ms now", "ratio", "bytes/s before", "bytes/s now"), rows)
    if args.write:
        head = HEAD.format(
            block=BLOCK_S,
            seconds=args.seconds,
            date=datetime.date.today().isoformat(),
            machine=machine(),
        )
        counted = DOCUMENT.read_text().partition(COUNTED)
        DOCUMENT.write_text(head + table + "\n\n" + counted[1] + counted[2])
    if NOT_MET in answers:
        return 1
    return 2 if CANNOT_TELL in answers else 0


if __name__ == "__main__":
    raise SystemExit(main())
