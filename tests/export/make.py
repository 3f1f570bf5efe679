"""Frames of two Snapshots that are written by hand, for tests of exports."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.model.block.counters import BlockCounters, BlockInfo, BlockKey, Mount
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Host, OwnCost, Snapshot
from iotop_ai.pipeline import frames

S = 1_000_000_000
WALL_NS = 1_795_250_762_117_000_000
SDA = BlockKey("sda", 1)
SDA1 = BlockKey("sda1", 1)
LOOP0 = BlockKey("loop0", 2)
IDLE = BlockCounters(*[0] * 17)
BEFORE = BlockCounters(1000, 50, 80_000, 4000, 200, 10, 4000, 900, 2, 5000, 4900, 0, 0, 0, 0, 0, 0)
AFTER = BlockCounters(1400, 150, 131_200, 36_000, 200, 10, 4000, 900, 3, 6500, 36_900, 0, 0, 0, 0, 10, 40)
"""2 s after BEFORE: 400 reads of 64 KiB on average, 80 ms each, 100 merged; no write; 10 flushes of 4 ms each; busy for
75 %."""
INFOS = {
    "sda": BlockInfo("sda", 8, 0, "disk", "sda", "SATA HDD", transport="ata", model="Spinner 2000"),
    "sda1": BlockInfo(
        "sda1", 8, 1, "partition", "sda1", parent="sda", mounts=(Mount("/my data", "ext4", "/dev/sda1"),)
    ),
    "loop0": BlockInfo("loop0", 7, 0, "loop", "loop0", transport="loop"),
}


def ok(value: object, at_ns: int, seconds: float = 0.0) -> Reading[object]:
    """A Reading with this value and the status OK, taken ``seconds`` after ``at_ns``."""
    return Reading(value, Status.OK, "", "", at_ns + int(seconds * S))


def process_table(at_ns: int, entries: Iterable[tuple[int, ProcessInfo, ProcessIo | None, str]]) -> ProcessTable:
    """A complete table. An entry is (pid, info, io, state); io is None if it cannot be read."""
    entries = list(entries)
    keys = {pid: ProcessKey(pid, pid) for pid, *_ in entries}
    return ProcessTable(
        io={keys[pid]: io for pid, _, io, _ in entries if io is not None},
        stat={keys[pid]: ProcessStat(state, 1, 0, 0, 0, 10, 10, 1, 100, 0) for pid, _, _, state in entries},
        info={keys[pid]: info for pid, info, _, _ in entries},
        denied=frozenset(keys[pid] for pid, _, io, _ in entries if io is None),
        io_at_ns=at_ns,
        stat_at_ns=at_ns,
        stat_at=(at_ns,),
        stat_out={},
        io_stale={},
        threads={},
        wchan={},
        delayacct=False,
    )


def snapshot(seq: int, at_ns: int, **readings: object) -> Snapshot:
    """A Snapshot that has only these Readings."""
    host = Host("node7", "boot-1", "6.1.0", 1000, "alice", False)
    own = OwnCost(42, 10_000_000 * seq, 20 << 20, 2_000_000, 0)
    return Snapshot(seq, at_ns, WALL_NS + at_ns, 2.0, host, (), own, **readings)  # type: ignore[arg-type]


def io(read_bytes: int, write_bytes: int = 0) -> ProcessIo:
    """An io record with these bytes read from storage and written to it."""
    return ProcessIo(read_bytes, write_bytes, 10, 0, read_bytes, write_bytes, 0)


PYTHON = ProcessInfo("python3", ("/usr/bin/python3", "/home/alice/train.py", "--token", "s3cret"), "alice", 1000)
OTHER = ProcessInfo("postgres", ("postgres",), "db user", 999)


def pair() -> tuple[Snapshot, Snapshot]:
    """Two Snapshots, 2 s apart, with a busy sda, an unused loop0, a process that reads and one that cannot be read."""
    out = []
    for seq, counters, moved in ((1, BEFORE, 0), (2, AFTER, 25_600 * 1024)):
        at = seq * 2 * S
        table = {SDA: counters, SDA1: counters, LOOP0: IDLE}
        processes = [(100, PYTHON, io(moved), "D"), (200, OTHER, None, "S")]
        out.append(
            snapshot(
                seq,
                at,
                block=ok(table, at),
                disks=ok(INFOS, at),
                processes=ok(process_table(at, processes), at),
                gpu=Reading(None, Status.ABSENT, "no NVIDIA driver", "", at),
                smart=Reading(None, Status.DENIED, "smartctl needs root", "sudo iotop-ai", at),
            )
        )
    return out[0], out[1]


def frame() -> Frame:
    """The Frame of the second Snapshot of ``pair``."""
    return list(frames(pair()))[-1]


def first_frame() -> Frame:
    """The Frame of the first Snapshot of ``pair``, which has no rates."""
    return next(frames(pair()))
