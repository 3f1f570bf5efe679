"""The cost of the report on a long run: CPU time, size of the HTML file, and memory.

Run ``python -m tests.bench.report [--hours 1 24]``. The run is synthetic (``Training`` of tests/bench/fold.py): a job
on 8 GPUs, 16 disks, 100 processes, and a reading per second. The bench records it as ``record`` does; a day takes
minutes. Exit code 1: a limit is exceeded.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.pipeline import frames
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.bench.fold import Training
from tests.bench.peers import markdown

HEADS = ("run", "recording MB", "CPU seconds", "HTML KB", "memory MB")
LIMIT_S, LIMIT_KB = 10.0, 400


def record(path: Path, hours: float) -> None:
    """Write a recording of this many hours."""
    recorder = Recorder(FileSink(str(path)), Clock(), min_free_bytes=0)
    server = Training(processes=100, active=False)
    for i, frame in enumerate(frames(server.snapshot() for _ in range(int(hours * 3600)))):
        recorder.put(frame)
        while i - recorder.state().snapshots > 60:
            time.sleep(0.001)
    recorder.close(120)


class Cost(NamedTuple):
    """The cost of one report, made in a separate process. memory_mb: the peak memory of all reports so far."""

    seconds: float
    html_kb: float
    memory_mb: float


def measured(path: Path) -> Cost:
    """Make one report; return its CPU time, which other programs hardly change, its size and its memory."""
    out = path.with_name("report.html")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "iotop_ai", "report", str(path), "--html", str(out), "--force"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(seconds, out.stat().st_size / 1000, after.ru_maxrss / 1000)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the recordings, measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, nargs="+", default=[1.0, 24.0])
    args = parser.parse_args(argv)
    rows, over = [], False
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        for hours in sorted(args.hours):
            path = Path(folder) / "run.iotop.jsonl"
            path.unlink(missing_ok=True)
            record(path, hours)
            cost = measured(path)
            over |= cost.seconds > LIMIT_S or cost.html_kb > LIMIT_KB
            megabytes = path.stat().st_size / 1e6
            rows.append([f"{hours:g} h", f"{megabytes:,.0f}", *(f"{value:.0f}" for value in cost)])
    print(markdown(HEADS, rows))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
