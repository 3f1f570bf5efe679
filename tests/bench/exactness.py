"""Compares our figures with those of iostat and pidstat over the same seconds, on slow disks.

Run ``python -m tests.bench.exactness [--seconds 20] [--write]`` as root. Exit code 1: a figure differs too much. 2:
this machine cannot tell.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.process.records import ProcessRates
from iotop_ai.model.sample import between
from iotop_ai.model.settings import Settings
from iotop_ai.sources.live.source import LiveSource
from tests.bench.peers import (
    installed,
    machine,
    markdown,
    need,
    output,
    parse_iostat,
    parse_pidstat,
    start,
    version_line,
)
from tests.rigs.slowdisk import FuseDisk, ThrottledDisk, why_no_fuse_disk, why_no_throttled_disk

Disk = ThrottledDisk | FuseDisk
KIB = 1024.0
DOCUMENT = Path(__file__).parents[2] / "docs" / "exactness.md"
WARM_S = 2.0


class Load(NamedTuple):
    """A load: its title, its rig, the limit of the disk, and the work that fio does."""

    title: str
    rig: str
    limit: Callable[[Disk], None]
    fio: str


def _throttle(**limits: int) -> Callable[[Disk], None]:
    def apply(disk: Disk) -> None:
        assert isinstance(disk, ThrottledDisk)
        disk.limit(**limits)

    return apply


def _delay(delay_us: int) -> Callable[[Disk], None]:
    def apply(disk: Disk) -> None:
        assert isinstance(disk, FuseDisk)
        disk.set(delay_us=delay_us)

    return apply


LOADS = (
    Load(
        "Rig A (throttled loop), 20 MiB/s: random 16 KiB reads, depth 8",
        "A",
        _throttle(read_bps=20 << 20),
        "--name=r --rw=randread --bs=16k --iodepth=8",
    ),
    Load(
        "Rig A (throttled loop), 50 reads/s and 40 writes/s: two processes, random 64 KiB, depth 2 each",
        "A",
        _throttle(read_iops=50, write_iops=40),
        "--bs=64k --iodepth=2 --name=r --rw=randread --name=w --rw=randwrite",
    ),
    Load(
        "Rig B (loop over FUSE), 10 ms: random 32 KiB reads at depth 6 beside writes at depth 2 with a flush every 4",
        "B",
        _delay(10_000),
        "--bs=32k --name=r --rw=randread --iodepth=6 --name=w --rw=randwrite --iodepth=2 --fsync=4",
    ),
    Load(
        "Rig B (loop over FUSE), 20 ms: sequential 4 KiB in batches of 16, merged by the kernel",
        "B",
        _delay(20_000),
        "--name=r --rw=read --bs=4k --iodepth=64 --iodepth_batch_submit=16 --iodepth_batch_complete_min=16",
    ),
    Load(
        "Rig B (loop over FUSE), 5 ms: discards of 64 KiB, depth 2",
        "B",
        _delay(5_000),
        "--name=d --rw=randtrim --bs=64k --iodepth=2",
    ),
)

RATE, MEAN, POINT = "1 %", "3 %", "1 point"
IOSTAT: Mapping[str, tuple[str, float, str]] = {
    "r/s": ("reads_per_s", 1, RATE),
    "rkB/s": ("read_bytes_per_s", 1 / KIB, RATE),
    "rrqm/s": ("read_merges_per_s", 1, RATE),
    "rrqm": ("read_merged_ratio", 100, POINT),
    "r_await": ("read_await_ms", 1, MEAN),
    "rareq-sz": ("read_size_bytes", 1 / KIB, MEAN),
    "w/s": ("writes_per_s", 1, RATE),
    "wkB/s": ("write_bytes_per_s", 1 / KIB, RATE),
    "wrqm/s": ("write_merges_per_s", 1, RATE),
    "wrqm": ("write_merged_ratio", 100, POINT),
    "w_await": ("write_await_ms", 1, MEAN),
    "wareq-sz": ("write_size_bytes", 1 / KIB, MEAN),
    "d/s": ("discards_per_s", 1, RATE),
    "dkB/s": ("discard_bytes_per_s", 1 / KIB, RATE),
    "drqm/s": ("discard_merges_per_s", 1, RATE),
    "drqm": ("discard_merged_ratio", 100, POINT),
    "d_await": ("discard_await_ms", 1, MEAN),
    "dareq-sz": ("discard_size_bytes", 1 / KIB, MEAN),
    "f/s": ("flushes_per_s", 1, RATE),
    "f_await": ("flush_await_ms", 1, MEAN),
    "aqu-sz": ("queue_size", 1, MEAN),
    "util": ("busy_ratio", 100, POINT),
}
"""For each key of iostat's JSON: our field, the factor to iostat's unit, and the difference that is allowed."""
PIDSTAT: Mapping[str, tuple[str, float, str]] = {
    "kB_rd/s": ("read_bytes_per_s", 1 / KIB, RATE),
    "kB_wr/s": ("write_bytes_per_s", 1 / KIB, RATE),
    "kB_ccwr/s": ("cancelled_bytes_per_s", 1 / KIB, RATE),
}
ROUNDING = 0.005
"""Both sides print two decimals, so half of the last decimal is not a difference."""
REQUESTS_OF = {"r_await": "r/s", "rareq-sz": "r/s", "w_await": "w/s", "wareq-sz": "w/s", "d_await": "d/s"} | {
    "dareq-sz": "d/s",
    "f_await": "f/s",
}
"""The names of means, each with the rate of its requests.

Without requests a mean is undefined: we write null, and iostat writes 0.00.
"""


class Figure(NamedTuple):
    """One figure three times: the other program's, ours, and the one from our collectors called directly.

    None stands for an unknown figure.
    """

    name: str
    theirs: float
    program: float | None
    direct: float | None
    allowed: str

    def off(self, ours: float | None) -> str:
        """Return the difference in percent.

        It is in the figure's unit for a share, and if the other program's figure is 0.
        """
        if ours is None:
            return "-"
        if self.allowed == POINT:
            return f"{ours - self.theirs:+.2f}"
        return f"{(ours / self.theirs - 1) * 100:+.2f}" if self.theirs else f"{ours - self.theirs:+.2f}"

    def within(self, ours: float | None, undefined: bool) -> bool:
        """Whether our figure is within the allowed difference. undefined: whether the figure may have no value."""
        if ours is None:
            return undefined
        share = {RATE: 0.01, MEAN: 0.03, POINT: 0.0}[self.allowed]
        limit = 1.0 if self.allowed == POINT else share * abs(self.theirs)
        return abs(ours - self.theirs) <= limit + ROUNDING


class Measured(NamedTuple):
    """All figures of one load. undefined: the names of means over 0 requests, which have no value."""

    load: Load
    figures: list[Figure]
    undefined: frozenset[str]

    def wrong(self) -> list[Figure]:
        """Return the figures that differ too much, in the program or in the collectors called directly."""
        return [
            f
            for f in self.figures
            if not all(f.within(ours, f.name in self.undefined) for ours in (f.program, f.direct))
        ]


def _scaled(rates: BlockRates | ProcessRates | None, field: str, factor: float) -> float | None:
    value = None if rates is None else getattr(rates, field)
    return None if value is None else value * factor


def _workers(fio: subprocess.Popen[bytes], wanted: int) -> list[int]:
    """Return fio's worker processes once fio has started them all."""
    path = Path(f"/proc/{fio.pid}/task/{fio.pid}/children")
    for _ in range(1000):
        if fio.poll() is not None:
            raise RuntimeError(f"fio ended with {fio.returncode}")
        if len(workers := path.read_text().split()) == wanted:
            return [int(pid) for pid in workers]
        time.sleep(0.02)
    raise RuntimeError("fio did not start its workers")


def measure(load: Load, disk: Disk, program: str, seconds: float) -> Measured:
    """Run one load, and measure it in three ways at the same time."""
    load.limit(disk)
    job = (
        f"fio --filename={disk.node} --ioengine=libaio --direct=1 --time_based --runtime={seconds + 30:.0f} {load.fio}"
    )
    fio = subprocess.Popen(job.split(), stdout=subprocess.DEVNULL)
    source = LiveSource(Settings(interval_s=seconds, smart=False))
    ticks = iter(source)
    try:
        workers = _workers(fio, load.fio.count("--name="))
        for pid in workers:
            disk.enter(pid)
        time.sleep(WARM_S)
        source.snapshot()  # opens descriptors and loads modules before the seconds that count
        count = f"{seconds:.0f}"
        ours = start([program, "snapshot", "--json", "--no-smart", "-d", count])
        pidstat = start(["pidstat", "-d", "-h", "-H", "-p", ",".join(map(str, workers)), count, "1"])
        iostat = start(["iostat", "-x", "-y", "-o", "JSON", count, "1", disk.name])
        first = next(ticks)
        sample = between(first, next(ticks), None)
        theirs = parse_iostat(output(iostat, seconds + 20))[disk.name]
        their_processes = parse_pidstat(output(pidstat, seconds + 20))
        document = json.loads(output(ours, seconds + 20))
        if fio.poll() is not None:
            raise RuntimeError(f"fio ended early with {fio.returncode}")
    finally:
        fio.terminate()
        fio.wait(20)
        source.close()
        next(ticks, None)  # the iterator closes its descriptors when it ends
    device = next(d for d in document["devices"] if d["name"] == disk.name)
    block = next((rates for key, rates in (sample.block.value or {}).items() if key.name == disk.name), None)
    figures = [
        Figure(name, theirs[name], device[name], _scaled(block, field, factor), allowed)
        for name, (field, factor, allowed) in IOSTAT.items()
    ]
    processes = {p["pid"]: p for p in document["processes"]}
    rates = {key.pid: r for key, r in sample.processes.value.rates.items()} if sample.processes.value else {}
    for number, pid in enumerate(workers, 1):
        for name, (field, factor, allowed) in PIDSTAT.items():
            value = processes.get(pid, {}).get(field)
            our_value = None if value is None else value * factor
            their_value = their_processes[pid][name]
            direct = _scaled(rates.get(pid), field, factor)
            figures.append(Figure(f"{name} of fio {number}", their_value, our_value, direct, allowed))
    undefined = frozenset(name for name, count_name in REQUESTS_OF.items() if not theirs[count_name])
    return Measured(load, figures, undefined)


def table(measured: Measured) -> str:
    """Return a table of the figures that are not 0 in all columns, and one line about the other figures."""
    shown, idle = [], []
    for f in measured.figures:
        (idle if not f.theirs and not f.program and not f.direct else shown).append(f)
    wrong = measured.wrong()

    def number(value: float | None) -> str:
        return "unknown" if value is None else f"{value:.2f}"

    rows = [
        (
            f"{f.name} OUT" if f in wrong else f.name,
            *(number(f.theirs), number(f.program), f.off(f.program), number(f.direct), f.off(f.direct)),
        )
        for f in shown
    ]
    header = ("figure", "theirs", "iotop-ai", "off", "library", "off")
    command = f"fio --ioengine=libaio --direct=1 --time_based {measured.load.fio}"
    text = f"### {measured.load.title}\n\n`{command}`\n\n{markdown(header, rows)}\n"
    if idle:
        text += f"\nThe other {len(idle)} are 0 in all three, or a mean over no requests.\n"
    if bad := [f.name for f in idle if f in wrong]:
        text += f"\nOUT: {', '.join(bad)}.\n"
    return text


HEAD = """# Exactness

`python -m tests.bench.exactness` (as root) makes a steady load with fio on two slow disks and measures the same
{seconds:.0f} s in three ways: `iostat -x` and `pidstat -d`, `iotop-ai snapshot --json -d {seconds:.0f}` (which starts
later, by Python's start-up time), and our collectors as a library.

"off" is in percent, for shares in points. Allowed: 1 for rates, 3 for awaits, sizes and queues, 1 for %util and the
merged shares; half of the last printed decimal does not count. A figure beyond that is marked OUT, and the exit code is
1.

Rig A is a loop device over a file on a throttled disk. Rig B is a loop device over a FUSE file that answers each
request after a set time.

Measured {date} on {machine}; {iostat}, {fio}.

"""


def main() -> int:
    """Measure all loads; the exit code says whether every figure is within its limit."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.exactness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="whole seconds each load is watched (20)")
    parser.add_argument("--write", action="store_true", help="write docs/exactness.md")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="only load N, counted from 1")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs all loads, so it cannot be combined with --only")
    need("fio", "iostat", "pidstat")
    program = installed("iotop-ai")
    with tempfile.TemporaryDirectory(prefix="exactness-", dir="/var/tmp") as name:
        why = (
            why_no_throttled_disk(Path(name)) or why_no_fuse_disk() or ("" if program else "iotop-ai is not installed")
        )
        if why or program is None:
            print(f"unknown: {why}", file=sys.stderr)
            return 2
        texts, wrong = [], 0
        for number, load in enumerate(LOADS, 1):
            if args.only and number not in args.only:
                continue
            folder = Path(name) / str(number)
            folder.mkdir()
            with ThrottledDisk(folder) if load.rig == "A" else FuseDisk(folder) as disk:
                measured = measure(load, disk, program, args.seconds)
            texts.append(table(measured))
            wrong += len(measured.wrong())
            print(texts[-1], flush=True)
    verdict = f"{wrong} figures are out." if wrong else "Every figure holds."
    print(verdict)
    if args.write:
        head = HEAD.format(
            seconds=args.seconds,
            date=datetime.date.today().isoformat(),
            machine=machine(),
            iostat=version_line("iostat", "-V"),
            fio=version_line("fio", "--version"),
        )
        DOCUMENT.write_text(head + verdict + "\n\n" + "\n".join(texts))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
