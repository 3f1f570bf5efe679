"""Compares the forecast of ``iotop-ai check --dataset`` with a trainer that logs how long each step waited.

Run ``python -m tests.bench.forecast [--count 10] [--seed 1] [--write]`` as root on an otherwise idle machine. It draws
slow disks, file sizes, batches, workers and step times at random. Exit code 1: the median error is above 8 points. 2:
this machine cannot tell.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench.peers import installed, machine, markdown
from tests.pages import put_section
from tests.rigs.slowdisk import FuseDisk, ThrottledDisk, why_no_fuse_disk, why_no_throttled_disk

TOP = Path(__file__).parents[2]
DOCUMENT = TOP / "docs/check.md"
HEADING = "## The forecast against a trainer"
KIB, MIB = 1024, 1 << 20
DISK_MIB = 256
DATA_BYTES = 150 * MIB
ALLOWED_POINTS = 8.0
TRAINER_S = 25.0
"""How long the trainer runs, in seconds."""


class Case(NamedTuple):
    """One drawn combination. size: the bytes of a file.

    kind, amount: the limit of the disk: "bytes" in MB/s, "reads" per second, or "delay" in ms per read.
    """

    kind: str
    amount: float
    size: int
    workers: int
    batch: int
    step_s: float

    @property
    def disk(self) -> str:
        unit = {"bytes": "MB/s", "reads": "reads/s", "delay": "ms a read"}[self.kind]
        return f"{self.amount:g} {unit}"


def draw(rng: random.Random) -> Case:
    """Return a combination whose training needs roughly 0.7 to 4 times the rate that the disk can give."""
    kind = rng.choice(("bytes", "reads", "delay"))
    size = rng.choice((16, 48, 100, 128, 256, 600)) * KIB
    workers, batch = rng.choice((1, 2, 3, 4, 6, 8)), rng.choice((4, 8, 16, 32))
    amount = {"bytes": rng.randint(5, 30), "reads": rng.randint(60, 500), "delay": rng.randint(2, 20)}[kind]
    requests = -(-size // (128 * KIB))
    supply = {
        "bytes": amount * MIB / size,
        "reads": amount / requests,
        "delay": workers * 1000 / amount / requests,
    }[kind]
    return Case(kind, amount, size, workers, batch, round(batch / supply / rng.uniform(0.7, 4.0), 3))


def fill(node: str, place: Path, size: int) -> None:
    subprocess.run(
        ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", node], check=True
    )
    place.mkdir()
    subprocess.run(["mount", "-o", "noatime,nodiscard", node, str(place)], check=True)
    for number in range(min(1500, DATA_BYTES // size)):
        with (place / f"{number:05}.bin").open("wb") as file:
            file.write(os.urandom(size))
    subprocess.run(["sync", "-f", str(place)], check=True)


def evict(place: Path) -> None:
    for path in place.glob("*.bin"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def set_speed(disk: ThrottledDisk | FuseDisk, case: Case) -> None:
    if isinstance(disk, FuseDisk):
        disk.set(delay_us=int(case.amount * 1000))
    elif case.kind == "bytes":
        disk.limit(read_bps=int(case.amount * MIB))
    else:
        disk.limit(read_iops=int(case.amount))


def predicted(disk: ThrottledDisk | FuseDisk, program: str, place: Path, case: Case) -> float:
    """Return the share of the GPU that the forecast gives, in percent."""
    demand = ("--workers", str(case.workers), "--batch", str(case.batch), "--step-time", f"{case.step_s * 1000:.0f}ms")
    argv = [program, "check", str(place), "--dataset", "--no-write", "--engine", "own", "--seconds", "20", "--json"]
    process = disk.popen(*argv, *demand, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=120)
    return 100 * float(json.loads(out)["forecast"]["first"])


def trained(disk: ThrottledDisk | FuseDisk, place: Path, folder: Path, case: Case) -> float:
    """Return the share of the steps' time in which the trainer computed, in percent, once its queues are full."""
    log = folder / "log"
    options = {"workers": case.workers, "batch": case.batch, "step": case.step_s, "size": case.size, "log": log}
    argv = [sys.executable, "-m", "tests.scenarios.trainer", str(place), "--sweep"]
    argv += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = disk.popen(*argv, cwd=TOP, stderr=subprocess.DEVNULL)
    try:
        time.sleep(TRAINER_S)
    finally:
        process.kill()
        process.wait()
    steps = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    # The first batches were loaded while the trainer started, before the steps needed them.
    steady = steps[1 + 2 * case.workers :]
    if len(steady) < 3:
        raise ValueError(f"only {len(steps)} steps")
    return 100 * (1 - sum(step["wait"] for step in steady) / sum(step["all"] for step in steady))


def measure(case: Case, program: str, folder: Path) -> tuple[float, float]:
    """Return the forecast and the measured value, both in percent of the GPU."""
    place = folder / "data"
    with FuseDisk(folder, DISK_MIB) if case.kind == "delay" else ThrottledDisk(folder, DISK_MIB) as disk:
        try:
            fill(disk.node, place, case.size)
            evict(place)
            set_speed(disk, case)
            forecast = predicted(disk, program, place, case)
            evict(place)
            return forecast, trained(disk, place, folder, case)
        finally:
            if isinstance(disk, FuseDisk):
                disk.set()
            subprocess.run(["umount", "-l", str(place)], check=False)


def main() -> int:
    """Measure all combinations; the exit code says whether the median error is within the limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.forecast", description=__doc__)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="N", help="only combination N, counted from 1")
    parser.add_argument("--results", type=Path, help="keep the results here, and go on from those that it has")
    parser.add_argument("--write", action="store_true", help="write the section of docs/check.md")
    args = parser.parse_args()
    if args.only is not None and not 1 <= args.only <= args.count:
        parser.error(f"--only is 1 to {args.count}")
    program = installed("iotop-ai")
    with tempfile.TemporaryDirectory(prefix="forecast-", dir="/var/tmp") as name:
        why = why_no_throttled_disk(Path(name)) or why_no_fuse_disk() or ("" if program else "iotop-ai is missing")
        if why or program is None:
            print(f"unknown: {why}", file=sys.stderr)
            return 2
        rng = random.Random(args.seed)
        results: dict[str, list[str]] = {}
        if args.results and args.results.exists():
            results = json.loads(args.results.read_text())
        for number in range(1, args.count + 1):
            case = draw(rng)
            if (args.only and number != args.only) or str(number) in results:
                continue
            folder = Path(name) / str(number)
            folder.mkdir()
            forecast, measured = measure(case, program, folder)
            cells = (case.disk, f"{case.size // KIB} KB", case.workers, case.batch, f"{case.step_s * 1000:.0f} ms")
            off = f"{abs(forecast - measured):.1f}"
            results[str(number)] = [*map(str, cells), f"{forecast:.0f} %", f"{measured:.0f} %", off]
            print(number, *results[str(number)], flush=True)
            if args.results:
                args.results.write_text(json.dumps(results))
    rows = list(results.values())
    errors = [float(row[-1]) for row in rows]
    median = statistics.median(errors)
    print(f"median error {median:.1f} points, largest {max(errors):.1f}")
    if args.write:
        head = ("disk", "files", "workers", "batch", "step", "forecast", "measured", "points off")
        text = (
            f"{HEADING}\n\n`sudo python -m tests.bench.forecast --write` draws {len(rows)} combinations of a slow disk,"
            f" file size, batch,\nworkers and step time at random, and compares the forecast with the share of the time"
            f" that a trainer with\nloader processes computed. Median error {median:.1f} points, largest"
            f" {max(errors):.1f}. Measured {datetime.date.today().isoformat()} on\n{machine()}.\n\n"
        )
        put_section(DOCUMENT, HEADING, text + markdown(head, rows) + "\n")
    return 1 if median > ALLOWED_POINTS else 0


if __name__ == "__main__":
    raise SystemExit(main())
