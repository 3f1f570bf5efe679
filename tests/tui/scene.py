"""Made-up Snapshots for the screen: three disks, and processes, some of which have hostile names."""

from functools import cache

from iotop_ai.model.block.counters import BlockCounters, BlockInfo, BlockKey, Mount
from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Host, OwnCost, Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.store.source import MemoryRecording
from tests.present.scenes import starved_snapshots

SECOND = 1_000_000_000
START = 5_000 * SECOND
HOSTILE = ("[/x]", "\x1b]0;owned\x07", "[@click=app.quit]", "\x9b2Jq", "a\u202eb", "cr\rlf\n")
NAMES = (*HOSTILE, *(f"worker{n}" for n in range(30)))
DISKS = ("sda", "sdb", "nvme0n1")


def block(n: int) -> dict[BlockKey, BlockCounters]:
    """sda reads 100 requests of 128 KiB per second, 20 ms each; sdb reads 7 of 4 KiB, 1 ms each; nvme0n1 is idle."""
    busy = BlockCounters(100 * n, 0, 25_600 * n, 2_000 * n, 0, 0, 0, 0, 3, 990 * n, 2_000 * n, 0, 0, 0, 0, 0, 0)
    calm = BlockCounters(7 * n, 0, 56 * n, 7 * n, 0, 0, 0, 0, 0, 5 * n, 7 * n, 0, 0, 0, 0, 0, 0)
    idle = BlockCounters(9, 0, 72, 9, 0, 0, 0, 0, 0, 9, 9, 0, 0, 0, 0, 0, 0)
    return {BlockKey(name, 1 + i): c for i, (name, c) in enumerate(zip(DISKS, (busy, calm, idle), strict=True))}


def disks() -> dict[str, BlockInfo]:
    """Whole disks, of which sda has a filesystem at /data."""
    return {
        name: BlockInfo(
            name,
            8,
            16 * i,
            "disk",
            name,
            "SATA SSD",
            size_bytes=10**12,
            mounts=(Mount("/data" if name == "sda" else f"/m{i}", "ext4", f"/dev/{name}"),),
        )
        for i, name in enumerate(DISKS)
    }


def processes(n: int, at_ns: int) -> ProcessTable:
    """One process for each name, with pids from 1000 on. Each process reads, the first one the most."""
    keys = [ProcessKey(1000 + i, 50) for i in range(len(NAMES))]
    return ProcessTable(
        io={k: ProcessIo(0, 0, 0, 0, n * (len(NAMES) - i) << 20, 0, 0) for i, k in enumerate(keys)},
        stat={k: ProcessStat("D" if i == 0 else "S", 1, 0, 0, 0, n * i, 0, 1, 1000, 0) for i, k in enumerate(keys)},
        info={k: ProcessInfo(clean(NAMES[i]), (clean(NAMES[i]), "--x"), "alice", 1000) for i, k in enumerate(keys)},
        denied=frozenset(),
        io_at_ns=at_ns,
        stat_at_ns=at_ns,
        stat_at=(at_ns,) * 5,
        stat_out={},
        io_stale={},
        threads={},
        wchan={},
        delayacct=False,
    )


def snapshot(n: int, boot: str = "b") -> Snapshot:
    """The Snapshot of the n-th second."""
    at = START + n * SECOND
    return Snapshot(
        n,
        at,
        1_760_000_000 * SECOND + n * SECOND,
        1.0,
        Host("gpu07", boot, "6.18", 0, "root", True),
        (),
        OwnCost(4242, n * 2_000_000, 40 << 20, 1_000_000, 0),
        block=Reading(block(n), Status.OK, "", "", at, 1000),
        disks=Reading(disks(), Status.OK, "", "", START, 1000),
        processes=Reading(processes(n, at), Status.OK, "", "", at, 1000),
        gpu=Reading(None, Status.ABSENT, "no NVIDIA driver", "", START, 0),
    )


def recording(count: int = 5) -> MemoryRecording:
    """A recording of ``count`` seconds."""
    return MemoryRecording(snapshot(n) for n in range(count))


def made_frames(count: int = 5) -> list[Frame]:
    """The Frames of ``count`` seconds."""
    return list(_made_frames(count))


@cache
def _made_frames(count: int) -> tuple[Frame, ...]:
    return tuple(frames(recording(count)))


@cache
def starved_frames() -> tuple[Frame, ...]:
    """The Frames of 20 seconds of a large machine, whose GPUs wait for data from the fifth second on."""
    return tuple(frames(starved_snapshots(20, onset=5)))
