"""The cost of the screen now and at an earlier commit, on the same machine within the same minutes.

Run ``python -m tests.bench.screen --before COMMIT [--rounds 3] [--seconds 12] [--write]`` as root in a git checkout.
Exit code 1: a refresh costs over a tenth more than at the earlier commit. 2: this machine cannot tell.
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
from collections.abc import Iterator
from pathlib import Path

from tests.bench.cost import CPUACCT, Run, measure
from tests.bench.loads import sleepers
from tests.bench.peers import machine, markdown, need
from tests.bench.programs import Program

REPO = Path(__file__).parents[2]
DOCUMENT = REPO / "docs" / "screen-cost.md"
SIZES = ((80, 24), (160, 48))
DEARER = 1.10
"""The factor by which a refresh may cost more CPU time than before."""
BYTES_PER_S = 6144
"""The rate that a slow link carries easily. A smaller screen must always stay below it."""
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
    """Provide the files of a commit, without the history, for the block."""
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


def pair(values: list[float]) -> str:
    """Return the minimum and the median as text: "minimum (median)"."""
    return f"{min(values):.1f} ({statistics.median(values):.1f})"


def row(what: str, before: list[Run], now: list[Run]) -> tuple[tuple[str, ...], float, float]:
    """Return a row of cells, the factor by which a refresh costs more (by the minimum), and the bytes per second."""
    share = min(r.cpu_ms for r in now) / min(r.cpu_ms for r in before)
    sent = [statistics.median(r.bytes_per_refresh * r.refreshes_per_s for r in runs) for runs in (before, now)]
    cells = (what, *(pair([r.cpu_ms for r in runs]) for runs in (before, now)), f"{share:.2f}")
    return (*cells, f"{sent[0]:,.0f}", f"{sent[1]:,.0f}"), share, sent[1]


HEAD = """# What a refresh of the screen costs

`python -m tests.bench.screen --before {commit}` (as root): the whole program in tmux at one refresh a second, in its
own CPU control group; milliseconds of one core a refresh over {seconds:.0f} s after start-up, minimum and, in
brackets, median of {rounds} rounds, the two versions in turns. Bytes: those sent to the terminal a second, medians.
"Before" is the commit in that command. Busy: 8 programs write 5 MB/s each and flush.

Measured {date} on {machine}.

"""


def main() -> int:
    """Measure both and print; the exit code says whether the screen costs more."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.screen", description=__doc__)
    parser.add_argument("--before", required=True, metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--write", action="store_true", help="write docs/screen-cost.md")
    args = parser.parse_args()
    need("tmux", "git", "tar")
    if os.geteuid() or not (CPUACCT / "cpuacct.usage").exists():
        print("unknown: needs root and the cpuacct controller of cgroup v1", file=sys.stderr)
        return 2
    rows, good = [], True
    with checkout(args.before) as old, tempfile.TemporaryDirectory(prefix="screen-") as name:
        for words, writers in (("idle", 0), ("busy", 8)):
            for size in SIZES:
                before: list[Run] = []
                now: list[Run] = []
                with load(writers, Path(name)):
                    for _ in range(args.rounds):
                        for tree, runs in ((old, before), (REPO, now)):
                            program = ours(tree)
                            runs.append(measure(program, program.argv[0], args.seconds, Path(name), size))
                cells, share, sent = row(f"{words}, {size[0]}x{size[1]}", before, now)
                print(" | ".join(cells), flush=True)
                rows.append(cells)
                good &= share <= DEARER and (sent <= BYTES_PER_S or size != SIZES[0])
    table = markdown(
        ("screen", "CPU ms before", "CPU ms now", "ratio", "bytes/s before", "bytes/s now"),
        rows,
    )
    if args.write:
        head = HEAD.format(
            commit=args.before,
            seconds=args.seconds,
            rounds=args.rounds,
            date=datetime.date.today().isoformat(),
            machine=machine(),
        )
        DOCUMENT.write_text(head + table + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
