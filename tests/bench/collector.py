"""Compares the sweep over processes with a C program: ``python -m tests.bench.collector``.

The C program reads the io of each process and a fifth of the stats, as the collector does for processes that run.

The flags are [--procs 10000], the number of sleeping processes, [--rounds 3] and [--ticks 8]. The two sides alternate,
and each sweeps once a second in a separate process. The figures are the CPU time per sweep in ms: the minimum and the
median of all sweeps but the first COHORTS of each round. Exit code 1: the ratio of the minima is above the
goal. 2: a C compiler is missing.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.process.collector import COHORTS, ProcessCollector
from tests.bench.loads import sleepers
from tests.bench.peers import need

GOAL = 1.3
SOURCE = Path(__file__).with_name("sweep.c")


def sweep(ticks: int) -> None:
    """Sweep with our collector, and print the CPU time of each sweep in microseconds."""
    collector = ProcessCollector(Root(), Clock())
    collector.read()
    gc.collect()
    gc.freeze()
    for _ in range(ticks):
        begin = time.process_time_ns()
        collector.read()
        print((time.process_time_ns() - begin) // 1000, flush=True)
        time.sleep(1)


def measured(words: list[str]) -> list[float]:
    """Return the CPU time of each sweep of one side in ms, without the sweeps that fill tables."""
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return [int(line) / 1000 for line in done.stdout.split()][COHORTS:]


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.collector", description=__doc__)
    parser.add_argument("--procs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ticks", type=int, default=8, help="sweeps that count, each round (8)")
    parser.add_argument("--sweep", type=int, help="be our side: that many sweeps")
    args = parser.parse_args()
    if args.sweep:
        sweep(args.sweep)
        return 0
    need("cc")
    times: dict[str, list[float]] = {"C": [], "ours": []}
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder, sleepers(args.procs):
        program = str(Path(folder) / "sweep")
        subprocess.run(["cc", "-O2", "-o", program, str(SOURCE)], check=True)
        for _ in range(args.rounds):
            ticks = str(args.ticks + COHORTS)
            times["C"] += measured([program, ticks])
            times["ours"] += measured([sys.executable, "-m", "tests.bench.collector", "--sweep", ticks])
    for name, values in times.items():
        print(f"{name:<5} {min(values):7.2f} ({statistics.median(values):.2f}) ms a sweep")
    ratio = min(times["ours"]) / min(times["C"])
    medians = statistics.median(times["ours"]) / statistics.median(times["C"])
    print(f"ratio {ratio:7.2f} ({medians:.2f}), goal {GOAL}")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main())
