"""The cost of a recording: its bytes, CPU time, memory, and the time to open it and to seek in it.

Run ``python -m tests.bench.recording [--ticks 181] [--hours 24] [--write]``. The servers are synthetic
(tests/bench/server.py); the last rows are this machine. Exit code 1: a time, a CPU or a memory limit is exceeded. Sizes
have no limit and are published as they are.
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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.pipeline import frames
from iotop_ai.sources.live.source import LiveSource
from iotop_ai.store.format.codec import Encoder
from iotop_ai.store.format.redact import Redactor
from iotop_ai.store.last_hour import RING_BYTES, Ring
from iotop_ai.store.read.gzip_members import pack
from tests.bench.loads import sleepers
from tests.bench.peers import machine, markdown
from tests.bench.server import Server

DOCUMENT = Path(__file__).parents[2] / "docs" / "recording.md"
KEYFRAME = 60
CPU_MS = 2.0
OPEN_S, NUMBERS_S, VERDICT_S = 1.0, 0.1, 0.3
MEMORY_MB = 150
TARGET_MB = {"idle": 10, "two": 80, "all": 130}
LOAD_TEXTS = {"idle": "idle", "two": "2 disks busy", "all": "all disks busy"}


class Size(NamedTuple):
    """The cost of one Snapshot.

    plain, packed: its bytes, with its share of the keyframe. cpu_ms: the recorder's CPU time; worst_ms: the longest.
    """

    plain: float
    packed: float
    cpu_ms: float
    worst_ms: float
    interval_s: float


def measured(stream: Iterable[Frame]) -> Size:
    """Return the mean cost of a Snapshot that is redacted and encoded as for a recording.

    Its bytes are those of whole blocks, and its CPU time does not include the packing.
    """
    encoder, redactor = Encoder(KEYFRAME), Redactor("names")
    blocks: list[list[bytes]] = []
    interval_s = 1.0
    spent: list[float] = []
    for frame in stream:
        interval_s = frame.snapshot.interval_s
        start = time.thread_time()
        lines = encoder.lines(frame._replace(snapshot=redactor.snapshot(frame.snapshot)))
        data = ("\n".join(lines) + "\n").encode()
        spent.append((time.thread_time() - start) * 1e3)
        if len(spent) % KEYFRAME == 1:
            blocks.append([])
        blocks[-1].append(data)
    whole = [block for block in blocks if len(block) == KEYFRAME]
    count = len(whole) * KEYFRAME
    plain = sum(len(data) for block in whole for data in block) / count
    packed = sum(len(pack(b"".join(block), 0, 0, 0, 9)) for block in whole) / count
    return Size(plain, packed, statistics.mean(spent), max(spent), interval_s)


def row(name: str, size: Size, target: str = "") -> list[str]:
    """Return a row of the table of sizes."""
    packed_day = size.packed * 86_400 / 1e6 / size.interval_s
    return [
        name, f"{size.plain:,.0f}", f"{size.packed:,.0f}", f"{packed_day:.0f}", target, f"{size.cpu_ms:.2f}",
        f"{size.worst_ms:.1f}",
    ]  # fmt: skip


HEADS = ("machine", "B per Snapshot", "packed B", "packed MB per day", "aim", "CPU ms per Snapshot", "at a keyframe")
RING_HEADS = ("machine", "CPU ms per Snapshot", "B per Snapshot", "reaches back")
READ_HEADS = ("file", "first screen ms", "numbers ms", "verdict ms", "memory MB")


def live(ticks: int) -> Iterator[Frame]:
    """Yield Frames of this machine as it is."""
    source = LiveSource(Settings(interval_s=1.0))
    stream = frames(source)
    try:
        for _ in range(ticks):
            yield next(stream)
    finally:
        source.close()
        for _ in stream:
            pass


def sizes(ticks: int) -> tuple[list[list[str]], list[str]]:
    """Return the rows of the table of sizes, and the limits that are exceeded."""
    rows, exceeded = [], []
    plan = [
        *((load, 100, 8, 64, 1) for load in LOAD_TEXTS),
        ("idle", 100, 8, 64, 10),
        *((load, 100, 8, 0, 1) for load in LOAD_TEXTS),
        *((load, 100, 1, 16, 1) for load in ("idle", "all")),
        *((load, 1000, 8, 64, 1) for load in ("idle", "all")),
    ]
    for load, processes, gpus, cores, every in plan:
        server = Server(load, processes=processes, gpus=gpus, cores=cores, every=every)
        size = measured(frames(server.snapshot() for _ in range(ticks)))
        words = f"{processes} processes, {gpus} GPU{'s' if gpus > 1 else ''}, {cores} cores; {LOAD_TEXTS[load]}"
        name = f"{words}{f', every {every} s' if every > 1 else ''}"
        aim = f"{TARGET_MB[load]}" if (processes, gpus, every) == (100, 8, 1) else ""
        rows.append(row(name, size, aim))
        if size.cpu_ms > CPU_MS:
            exceeded.append(f"{name}: {size.cpu_ms:.2f} ms a Snapshot")
    for more in (0, 1000):
        with sleepers(more) if more else contextlib.nullcontext():
            name = f"this machine{f' with {more} more sleeping processes' if more else ''}"
            rows.append(row(name, measured(live(min(ticks, 121)))))
    return rows, exceeded


def ring_rows(ticks: int) -> list[list[str]]:
    """Return rows about the cost of keeping the last hour: CPU time and bytes per Snapshot, and the kept span."""
    rows = []
    for load, processes in (("idle", 100), ("two", 100), ("idle", 1000), ("all", 1000)):
        server = Server(load, processes=processes)
        stream = list(frames(server.snapshot() for _ in range(ticks)))
        before = time.process_time()
        ring = Ring()
        for frame in stream:
            ring.put(frame)
            ring.drain(60)
        spent = (time.process_time() - before) / ticks * 1e3
        held = ring.state().size_bytes
        ring.close()
        minutes = min(60.0, RING_BYTES / (held / ticks) / 60)
        rows.append(
            [f"{processes} processes, {LOAD_TEXTS[load]}", f"{spent:.2f}", f"{held / ticks:,.0f}", f"{minutes:.0f} min"]
        )
    return rows


READER = """
import json, sys, time
from iotop_ai.pipeline import frames
from iotop_ai.store.read.file import FileRecording
path = sys.argv[1]
start = time.perf_counter()
recording = FileRecording(path)
next(frames(recording.items()))
opened = time.perf_counter() - start
blocks = recording.blocks
first, last = blocks[0].at_ns, blocks[-1].at_ns
numbers, verdicts = [], []
for share in (0.1, 0.35, 0.62, 0.9, 0.9999):
    at = first + int((last - first) * share) + 30 * 10**9
    start = time.perf_counter()
    for snapshot in recording.snapshots(at):
        break
    numbers.append(time.perf_counter() - start)
    start = time.perf_counter()
    entry = recording.entry(blocks[-1].session, at)
    assert not entry.warming, "the rules changed while it was measured"
    for frame in frames(recording.items(entry.block, fold_ns=entry.fold_ns)):
        if frame.snapshot.at_ns >= at:
            break
    verdicts.append(time.perf_counter() - start)
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1000
print(json.dumps([opened, max(numbers), max(verdicts), peak]))
"""


def reading(hours: float) -> tuple[list[list[str]], list[str]]:
    """Return the rows about opening and seeking in a long recording, plain and packed, each in a new process.

    The second value lists the limits that are exceeded.
    """
    from iotop_ai.collectors.io.clock import Clock
    from iotop_ai.store.write.compress import compress
    from iotop_ai.store.write.recorder import Recorder
    from iotop_ai.store.write.sink import FileSink

    rows, exceeded = [], []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        path = str(Path(folder) / "day.iotop.jsonl")
        recorder = Recorder(FileSink(path), Clock(), min_free_bytes=0)
        server = Server("two", processes=100, gpus=8, cores=64)
        count = int(hours * 3600)
        for i, frame in enumerate(frames(server.snapshot() for _ in range(count))):
            recorder.put(frame)
            while i - recorder.state().snapshots > 60:
                time.sleep(0.001)
        recorder.close(120)
        for name in ("plain", "packed"):
            if name == "packed":
                path = compress(path)
            size = Path(path).stat().st_size / 1e6
            done = subprocess.run([sys.executable, "-c", READER, path], capture_output=True, text=True, check=True)
            opened, numbers, verdict, peak = map(float, done.stdout.strip("[]\n").split(","))
            rows.append(
                [
                    f"{hours:g} h {name}, {size:,.0f} MB",
                    f"{opened * 1e3:.0f}",
                    f"{numbers * 1e3:.0f}",
                    f"{verdict * 1e3:.0f}",
                    f"{peak:.0f}",
                ]
            )
            limits = (
                ("open", opened, OPEN_S),
                ("numbers", numbers, NUMBERS_S),
                ("verdict", verdict, VERDICT_S),
                ("memory", peak, MEMORY_MB),
            )
            exceeded += [f"{name}: {what} {value:.3f} above {limit}" for what, value, limit in limits if value > limit]
    return rows, exceeded


def document(size_rows: list[list[str]], ring: list[list[str]], read_rows: list[list[str]], ticks: int) -> str:
    """Return the text of the page."""
    today = datetime.date.today().isoformat()
    return f"""# What a recording takes

Measured {today} on {machine()} with `python -m tests.bench.recording --write`.
The load was {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores (above one each, times include waits). The format:
[recording-format.md](recording-format.md).

## Bytes and CPU

{ticks} Snapshots (121 of "this machine", which was in use), command lines reduced to names. The other machines are
those of `tests/bench/server.py` with 16 disks, whose numbers change like a training server's. 0 cores: without the
cores' own figures. Packed: gzip, one member per keyframe. CPU: the recorder's thread.

{markdown(HEADS, size_rows)}

With one Snapshot a second, the aim is not reached. A changed number costs about 4 packed bytes, because every number is
written whole, so that a reader can start at any keyframe. Always-on recording (`-d 10 --burst 1`) reaches the aim of an
idle machine. Alternatives, in packed bytes per Snapshot (idle, 2 disks busy):

| way | idle | 2 disks busy | |
|---|---:|---:|---|
| now | 479 | 1,889 | |
| with a slower search for matches (zopfli, 5 rounds) | 426 | 1,697 | one more package, 1 s of CPU a minute |
| xz instead of gzip | 495 | 1,538 | not unpacked by every tool |
| columns of differences | 445 | 1,142 | not readable while it grows |

## Looking back while live

The last hour in memory, {RING_BYTES >> 20} MB at most, and its reach:

{markdown(RING_HEADS, ring)}

## Opening and seeking

A day of the synthetic server with two busy disks, each figure from a fresh process, the worst of five places in the
file. First screen: from the command to the first screen. Numbers, verdict: from a jump to its numbers and its verdict.
The index of both files holds only their keyframes; a plain file of an older version is read once, at about 0.2 s per
GB from the page cache.

{markdown(READ_HEADS, read_rows)}
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, then print or write the page; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=181)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args(argv)
    if args.ticks <= KEYFRAME:
        parser.error(f"--ticks must be more than {KEYFRAME}: only whole blocks count")
    os.nice(5)
    size_rows, exceeded = sizes(args.ticks)
    ring = ring_rows(args.ticks)
    read_rows, exceeded_read = reading(args.hours)
    text = document(size_rows, ring, read_rows, args.ticks)
    if args.write:
        # The part with measurements by hand stays.
        _, mark, rest = DOCUMENT.read_text().partition("\n## Diagnosing")
        DOCUMENT.write_text(text + mark + rest)
    print(text)
    for line in exceeded + exceeded_read:
        print(f"above its limit: {line}", file=sys.stderr)
    return 1 if exceeded or exceeded_read else 0


if __name__ == "__main__":
    sys.exit(main())
