"""Compares the figures of ``iotop-ai check``, read by fio and by our reader, with fio run by hand on the same disk.

Run ``python -m tests.bench.check_fio [--rounds 3] [--only NAME] [--write]`` as root on an otherwise idle machine. It
takes some forty minutes. fio by hand and the checks take turns, and the medians of the rounds are compared. Exit code
1: a figure of a slow disk is outside its limit, or a disk that hangs is not detected. 2: this machine cannot tell.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from iotop_ai.model.preflight.storage import DEEPEST, RANDOM, SEQUENTIAL, Phase, plan
from tests.bench.peers import installed, machine, markdown, need, version_line
from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk
from tests.rigs.slowdisk.loop import attach, detach

DOCUMENT = Path(__file__).parents[2] / "docs/check-fio.md"
MIB = 1 << 20
LIMITS = {"MB/s": 5.0, "p50 ms": 10.0, "p99 ms": 10.0}
ENGINES = ("fio", "own")
HUNG_US = 12_000_000
"""The delay of each request on the disk that hangs, in microseconds."""
HAND_TIMEOUT_S = 10.0
"""The seconds after which fio, run by hand on that disk, is killed."""

Figures = dict[tuple[Phase, str], float]
"""The value of each figure, by what is read and the name of the figure."""


class Rig(NamedTuple):
    """A disk to measure. bytes_per_s, delay_us: its limits; both 0: a file in memory, without a limit.

    seconds: the duration of one check, long enough that p99 does not depend on single reads; a slower disk needs more
    for the same number of reads. serial: whether the disk does one request at a time.
    """

    name: str
    seconds: int
    bytes_per_s: int = 0
    delay_us: int = 0
    serial: bool = False


RIGS = (
    Rig("50 reads/s", 80, delay_us=20_000, serial=True),
    Rig("20 MB/s", 60, bytes_per_s=20 * MIB),
    Rig("10 ms a read", 60, delay_us=10_000),
    Rig("memory", 60),
)


class Row(NamedTuple):
    """One figure of one disk. hand, check: the medians of the rounds, by hand and by the check.

    spread: the largest difference between the runs by hand, in percent of their median. cpu_bound: whether the check
    says in most rounds that its readers may be the limit.
    """

    rig: Rig
    phase: Phase
    figure: str
    engine: str
    hand: float
    spread: float
    check: float
    cpu_bound: bool

    @property
    def off(self) -> float:
        """The difference between the check and the run by hand, in percent."""
        return 100 * (self.check / self.hand - 1)

    @property
    def met(self) -> bool:
        """Whether the difference is within the limit."""
        return abs(self.off) <= LIMITS[self.figure]

    @property
    def read(self) -> str:
        """The kind, size and number of the reads, as text."""
        block = f"{self.phase.block_bytes >> 20} MB" if self.phase.block_bytes >= MIB else ""
        kind = "random" if self.phase.name == RANDOM else "sequential"
        return f"{kind} {block or f'{self.phase.block_bytes >> 10} KB'}, {self.phase.depth} in flight"


@contextlib.contextmanager
def disk_of(rig: Rig, folder: Path) -> Iterator[str]:
    """Provide the disk of a rig while the ``with`` block runs, and yield the path of its device node."""
    if rig.delay_us or rig.bytes_per_s:
        with FuseDisk(folder, 256, serial=rig.serial, at_once=2 * DEEPEST) as slow:
            # Without this, the number of requests for a read depends on whether the pages of the program are
            # contiguous.
            Path(f"/sys/block/{slow.name}/queue/max_sectors_kb").write_text("512")
            Path(slow.node).read_bytes()  # so that the first read of the image does not differ from later reads
            slow.set(delay_us=rig.delay_us, bytes_per_s=rig.bytes_per_s)
            yield slow.node
    else:
        with memory_disk(512) as node:
            yield node


@contextlib.contextmanager
def memory_disk(mebibytes: int) -> Iterator[str]:
    """Provide a fast disk in the ``with`` block: a loop over a file in memory, whose speed no other machine changes."""
    with tempfile.NamedTemporaryFile(prefix="check-fio-", dir="/dev/shm") as image:
        for _ in range(mebibytes):
            image.write(os.urandom(MIB))
        image.flush()
        node = attach(Path(image.name))
        try:
            yield node
        finally:
            detach(node)


def hand_words(node: str, phase: Phase) -> list[str]:
    """Return the command line of fio for a phase."""
    kind = "randread" if phase.name == RANDOM else "read"
    return [
        *("fio", "--name=hand", f"--filename={node}", "--readonly", "--direct=1", f"--rw={kind}"),
        *("--ioengine=libaio", f"--iodepth={phase.depth}", f"--bs={phase.block_bytes}", "--time_based"),
        *(f"--runtime={phase.seconds * 1000:.0f}ms", "--lat_percentiles=1", "--percentile_list=50:99"),
        "--output-format=json",
    ]


def output(words: list[str], state: Path, *, codes: tuple[int, ...] = (0,)) -> Any:
    """Run a program and return the JSON that it prints."""
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_STATE_HOME": str(state)})
    out, _ = child.communicate(timeout=300)
    if child.returncode not in codes:
        raise RuntimeError(f"{' '.join(words)} ended with {child.returncode}")
    return json.loads(out[out.index("{") :])


def by_hand(node: str, phases: tuple[Phase, ...], state: Path) -> tuple[Figures, Figures]:
    """Run fio once for each measurement; return the figures that it prints, and the same without its last reads.

    When the time is over, fio waits until every read in flight has ended, and only then notes their times. So the times
    of the last reads, as many as are in flight, are too long; the second figures come from its log without them.
    """
    printed: Figures = {}
    corrected: Figures = {}
    for phase in phases:
        log = f"--write_lat_log={state / 'hand'}"
        read = output([*hand_words(node, phase), log], state)["jobs"][0]["read"]
        times = [int(line.split(",")[1]) / 1e6 for line in (state / "hand_lat.1.log").read_text().splitlines()]
        kept = sorted(times[: -phase.depth])
        printed[phase, "MB/s"] = corrected[phase, "MB/s"] = read["io_bytes"] / read["runtime"] * 1000 / MIB
        for percent in (50, 99):
            key = (phase, f"p{percent} ms")
            printed[key] = corrected[key] = read["lat_ns"]["percentile"][f"{percent}.000000"] / 1e6
            if len(kept) >= 2 * phase.depth:
                corrected[key] = kept[-(-len(kept) * percent // 100) - 1]  # by nearest rank
    return printed, corrected


def by_check(
    node: str, phases: tuple[Phase, ...], state: Path, rig: Rig, engine: str
) -> tuple[Figures, dict[Phase, bool]]:
    """Run one check; return the figures of all its measurements, and for which of them its readers may be the limit."""
    program = str(installed("iotop-ai"))
    words = [program, "check", node, "--json", "--seconds", str(rig.seconds), "--engine", engine]
    found: Figures = {}
    cpu_bound: dict[Phase, bool] = {}
    results = output(words, state)["results"]
    for phase, one in zip(phases, results, strict=True):
        assert (one["name"], one["block_bytes"], one["depth"]) == phase[:3]
        cpu_bound[phase] = one["cpu_bound"]
        found[phase, "MB/s"] = one["bytes_per_s"] / MIB
        for percent in (50, 99):
            value = one["latency"][f"p{percent}_ms"]
            found[phase, f"p{percent} ms"] = one["latency"]["most_ms"] if value is None else value
    return found, cpu_bound


def measured(rig: Rig, folder: Path, rounds: int) -> list[Row]:
    """Return every figure of one disk. In each round, fio by hand and the check with each engine run in turn."""
    phases = tuple(phase for phase in plan(rig.seconds, 4) if phase.name in (SEQUENTIAL, RANDOM))
    hands: dict[str, list[Figures]] = {engine: [] for engine in ENGINES}
    checks: dict[str, list[tuple[Figures, dict[Phase, bool]]]] = {engine: [] for engine in ENGINES}
    with disk_of(rig, folder) as node:
        for _ in range(rounds):
            for engine, found in zip(ENGINES, by_hand(node, phases, folder), strict=True):
                hands[engine].append(found)
            for engine in ENGINES:
                checks[engine].append(by_check(node, phases, folder, rig, engine))
    rows = []
    for key in hands[ENGINES[0]][0]:
        for engine in ENGINES:
            values = [one[key] for one in hands[engine]]
            spread = 100 * (max(values) - min(values)) / median(values)
            check = median(figures[key] for figures, _ in checks[engine])
            cpu_bound = median(bound[key[0]] for _, bound in checks[engine]) > 0.5
            rows.append(Row(rig, *key, engine, median(values), spread, check, cpu_bound))
    return rows


def hung(folder: Path) -> dict[str, str]:
    """Return what fio by hand and the check say about a disk that does not answer."""
    answers = {}
    with FuseDisk(folder, 64) as disk:
        disk.set(delay_us=HUNG_US)
        fio = subprocess.Popen(hand_words(disk.node, plan(10.0, 4)[5]), stdout=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            fio.wait(HAND_TIMEOUT_S)
        answers["fio by hand"] = f"no output after {HAND_TIMEOUT_S:.0f} s" if fio.poll() is None else "it answers"
        fio.kill()
        fio.wait()
        for engine in ENGINES:
            words = [str(installed("iotop-ai")), "check", disk.node, "--json", "--engine", engine]
            found = output(words, folder, codes=(0, 1))
            hangs = f"hangs: {found['hung_s']:.0f} s without an answer" if found["hung_s"] else "it answers"
            answers[f"check, {engine}"] = hangs
        disk.set()
    return answers


def line_of(row: Row) -> str:
    """Return a line of the output for one figure."""
    return (
        f"{row.rig.name:12} {row.read:28} {row.engine:3} {row.figure:6} check {row.check:8.4g} by hand {row.hand:8.4g}"
        f" {row.off:+6.1f} % limit {LIMITS[row.figure]:.0f} % {'met' if row.met else 'NOT met'}"
        f" (by hand the runs differ by {row.spread:.1f} %){' +' if row.cpu_bound else ''}"
    )


def cells(rows: list[Row]) -> list[str]:
    """Return a row of the page's table, from the six figures of one measurement."""
    found = {(row.engine, row.figure): row for row in rows}
    hand = [f"{row.hand:.4g} ±{row.spread / 2:.0f} %" for row in (found[ENGINES[0], figure] for figure in LIMITS)]
    parts = [found[engine, figure] for engine in ENGINES for figure in LIMITS]
    return [rows[0].rig.name, rows[0].read, *hand, *(f"{row.off:+.1f}{mark(row)}" for row in parts)]


def mark(row: Row) -> str:
    """Return the mark of a figure outside its limit: " +" if the check says that its readers may be the limit."""
    return "" if row.met else " +" if row.cpu_bound else " !"


def page(rows: list[Row], answers: dict[str, str], rounds: int) -> str:
    """Return the text of docs/check-fio.md."""
    per = len(LIMITS) * len(ENGINES)
    head = ["disk", "read", *LIMITS, *(f"{engine}: {figure.split()[0]}" for engine in ENGINES for figure in LIMITS)]
    lines = [cells(rows[at : at + per]) for at in range(0, len(rows), per)]
    met = sum(row.met for row in rows)
    bound = sum(not row.met and row.cpu_bound for row in rows)
    missed = len(rows) - met - bound
    unsteady = sum(not row.met and not row.cpu_bound and row.spread > LIMITS[row.figure] for row in rows)
    hangs = "".join(f"- {program}: {answer}\n" for program, answer in answers.items())
    today = datetime.date.today().isoformat()
    return f"""# `iotop-ai check` beside fio

`sudo python -m tests.bench.check_fio --write` measures the same disks with fio run by hand (`--ioengine=libaio
--iodepth=N`), with `iotop-ai check --engine fio` and with `--engine own`, in turns, {rounds} times each, and compares
the medians. The limits are {LIMITS["MB/s"]:.0f} % of the throughput and {LIMITS["p50 ms"]:.0f} % of p50 and p99.
{met} of {len(rows)} figures are within them. `+` marks {bound} for which the check itself says that its readers, not
the disk, may be the limit; `!` marks the other {missed}. For {unsteady} of these, fio's own runs differ by more than
the limit.
Measured {today}: {version_line("fio", "--version")},
{machine()}.

The first three figures are fio's by hand, with half the range of its runs; the others say by how many percent check
differs.

{markdown(head, lines, {1: False})}

A disk that does not answer:

{hangs}
Why figures differ:

- A row gets a share of the check's time, here {RIGS[-1].seconds / 20:.0f} to {RIGS[0].seconds / 10:.0f} s (`--seconds
  {RIGS[-1].seconds}` or more). p99 of fewer than 100 reads is the longest one, so with the default of 10 s, one late
  wake-up decides the p99 of a slow disk.
- "memory" is a loop over a file in /dev/shm: a read costs as much CPU as the copy, so where the program, the loop's
  thread and anything else share two cores, a read waits for a core. A disk of a virtual machine is not steadier: there,
  runs of one command differed by a factor of four.
- Our own reader needs some microseconds of Python for each read. That shows only where a read itself is as
  short, as in memory: with 4 reads of 4 KB in flight, it gets about two fifths less than fio there, and marks its
  figure with `+`.
- When its time is over, fio waits until every read in flight has ended, and only then notes their times. With N in
  flight, the times of its last N reads are therefore too long, up to twice as long on a disk that serves one read
  after the other; its p99 shows that where a row has fewer than 100 N reads. `--engine own` does not do that, so its
  p50 and p99 are compared with those of fio's log of all times (`--write_lat_log`) without the last N, where at least
  2 N are left.
- A limit of a control group lets reads through in bursts of 100 ms: half of them take the disk's own time, so p50 says
  nothing about the limit. The slow disks here serve each read at the set rate instead.
"""


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.check_fio", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[rig.name for rig in RIGS], help="only this disk")
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write needs every disk")
    need("fio")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="check-fio-", dir="/var/tmp") as name:
        why = why_no_fuse_disk()
        if why or installed("iotop-ai") is None:
            print(f"unknown: {why or 'iotop-ai is missing'}", file=sys.stderr)
            return 2
        for number, rig in enumerate(RIGS):
            if args.only in (None, rig.name):
                folder = Path(name) / str(number)
                folder.mkdir()
                rows += (found := measured(rig, folder, args.rounds))
                print(*map(line_of, found), sep="\n", flush=True)
        answers = hung(Path(name))
    for program, answer in answers.items():
        print(f"a hung disk: {program}: {answer}")
    print(f"{sum(row.met for row in rows)} of {len(rows)} figures are within their limits")
    if args.write:
        DOCUMENT.write_text(page(rows, answers, args.rounds))
    hangs = all(answer != "it answers" for answer in answers.values())
    return 0 if hangs and all(row.met for row in rows if row.rig is not RIGS[-1]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
