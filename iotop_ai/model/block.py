"""Block devices: the kernel's counters, who a device is, and the exact figures of ``iostat -x``.

Source: /proc/diskstats, https://docs.kernel.org/admin-guide/iostats.html; formulas as in sysstat's iostat.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from iotop_ai.model.counter import delta, delta_u32, per_second, quotient, total
from iotop_ai.model.metric import Metric

SECTOR_BYTES = 512


class BlockKey(NamedTuple):
    """A device's identity: its kernel name and /sys/block/X/diskseq (0 where the kernel has none).

    A re-plugged or re-attached device of the same name has another diskseq. A partition carries its disk's.
    """

    name: str
    diskseq: int


class BlockCounters(NamedTuple):
    """Columns 4 to 20 of one line of /proc/diskstats, as printed. None: the kernel prints fewer columns.

    Sectors are 512 B always. ``*_ms`` are unsigned 32-bit and wrap; ``in_flight`` is the only level.
    """

    rd_ios: int
    rd_merges: int
    rd_sectors: int
    rd_ms: int
    wr_ios: int
    wr_merges: int
    wr_sectors: int
    wr_ms: int
    in_flight: int
    busy_ms: int
    queue_ms: int
    dc_ios: int | None = None
    dc_merges: int | None = None
    dc_sectors: int | None = None
    dc_ms: int | None = None
    fl_ios: int | None = None
    fl_ms: int | None = None


class Mount(NamedTuple):
    """One line of mountinfo that matters: where, which filesystem, from what."""

    path: str
    fstype: str
    source: str
    read_only: bool = False


class BlockInfo(NamedTuple):
    """What a device is; changes only when hardware, mounts or settings do.

    kind: disk, partition, dm, md, loop, ram, zram, rom, floppy, nvme-path (a hidden path of a multipath head).
    label: the name people use (dm name, LVM volume); equals the kernel name otherwise.
    detail: "LVM", "crypt", "mpath", "raid1 degraded", "SATA SSD", "NVMe", "HDD", "virtio", the file behind a loop.
    parent: the whole disk of a partition, the head of an nvme-path. slaves/holders: kernel names.
    transport: nvme, ata, scsi, usb, virtio, xen, mmc, loop, virtual, unknown.
    rotational: as the kernel says (means something on SCSI/ATA only).
    queue_depth: the smaller of queue/nr_requests and the device's own depth. stats_off: queue/iostats is 0.
    pcie: of an NVMe, "4x4" (generation x width) now, pcie_max what device and slot could.
    md_sync: an md array's running resync/check/recover, "" when idle.
    """

    name: str
    major: int
    minor: int
    kind: str
    label: str
    detail: str = ""
    parent: str = ""
    slaves: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    transport: str = "unknown"
    model: str = ""
    serial: str = ""
    firmware: str = ""
    size_bytes: int | None = None
    rotational: bool | None = None
    queue_depth: int | None = None
    scheduler: str = ""
    read_ahead_bytes: int | None = None
    stats_off: bool = False
    mounts: tuple[Mount, ...] = ()
    pcie: str = ""
    pcie_max: str = ""
    temperature_celsius: float | None = None
    md_sync: str = ""


class BlockRates(NamedTuple):
    """The figures of ``iostat -x`` for one device and one interval. None: unknown, or undefined (no requests)."""

    reads_per_s: Annotated[float | None, Metric("1/s", "Reads completed per second, after merging.", "r/s")]
    read_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes read per second.", "rkB/s")]
    read_merges_per_s: Annotated[float | None, Metric("1/s", "Read requests merged per second.", "rrqm/s")]
    read_merged_ratio: Annotated[float | None, Metric("ratio", "Share of read requests that were merged.", "rrqm")]
    read_await_ms: Annotated[float | None, Metric("ms", "Mean time of a read, queue and service.", "r_await")]
    read_size_bytes: Annotated[float | None, Metric("B", "Mean size of a read.", "rareq-sz")]
    writes_per_s: Annotated[float | None, Metric("1/s", "Writes completed per second, after merging.", "w/s")]
    write_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes written per second.", "wkB/s")]
    write_merges_per_s: Annotated[float | None, Metric("1/s", "Write requests merged per second.", "wrqm/s")]
    write_merged_ratio: Annotated[float | None, Metric("ratio", "Share of write requests that were merged.", "wrqm")]
    write_await_ms: Annotated[float | None, Metric("ms", "Mean time of a write, queue and service.", "w_await")]
    write_size_bytes: Annotated[float | None, Metric("B", "Mean size of a write.", "wareq-sz")]
    discards_per_s: Annotated[float | None, Metric("1/s", "Discards completed per second.", "d/s")]
    discard_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes discarded per second.", "dkB/s")]
    discard_merges_per_s: Annotated[float | None, Metric("1/s", "Discard requests merged per second.", "drqm/s")]
    discard_merged_ratio: Annotated[float | None, Metric("ratio", "Share of discard requests merged.", "drqm")]
    discard_await_ms: Annotated[float | None, Metric("ms", "Mean time of a discard.", "d_await")]
    discard_size_bytes: Annotated[float | None, Metric("B", "Mean size of a discard.", "dareq-sz")]
    flushes_per_s: Annotated[float | None, Metric("1/s", "Flushes completed per second.", "f/s")]
    flush_await_ms: Annotated[float | None, Metric("ms", "Mean time of a flush.", "f_await")]
    queue_size: Annotated[float | None, Metric("count", "Mean requests queued or in service.", "aqu-sz")]
    busy_ratio: Annotated[float | None, Metric("ratio", "Share of time with a request in flight.", "util")]
    await_ms: Annotated[float | None, Metric("ms", "Mean time of a read, write or discard.", "await")]
    request_size_bytes: Annotated[float | None, Metric("B", "Mean size of a read, write or discard.", "areq-sz")]
    in_flight: Annotated[int | None, Metric("count", "Requests in flight at the newer reading.", "in_flight")]

    @property
    def active(self) -> bool:
        """Whether anything was completed in the interval or is in flight."""
        done = (self.reads_per_s, self.writes_per_s, self.discards_per_s, self.flushes_per_s)
        return any(done) or bool(self.in_flight)


UNKNOWN_BLOCK_RATES = BlockRates(*[None] * len(BlockRates._fields))

_COUNT_FIELDS = tuple(
    i for i, name in enumerate(BlockCounters._fields) if not name.endswith("_ms") and name != "in_flight"
)


def is_reset(before: BlockCounters, after: BlockCounters) -> bool:
    """Whether any count field fell: the device was re-created, re-attached or re-initialised between."""
    for i in _COUNT_FIELDS:
        old, new = before[i], after[i]
        if old is not None and new is not None and new < old:
            return True
    return False


def _kind_rates(
    ios: int | None, merges: int | None, sectors: int | None, ms: int | None, seconds: float
) -> tuple[float | None, float | None, float | None, float | None, float | None, float | None]:
    size = None if sectors is None else sectors * SECTOR_BYTES
    merged = None if ios is None or merges is None else (merges / (merges + ios) if merges + ios else 0.0)
    return (
        per_second(ios, seconds),
        per_second(size, seconds),
        per_second(merges, seconds),
        merged,
        quotient(ms, ios),
        quotient(size, ios),
    )


def block_rates_of(before: BlockCounters, after: BlockCounters, seconds: float) -> BlockRates:
    """The rates of one device between two readings of the same identity, ``seconds`` apart (> 0).

    A reset gives all None but in_flight: a wrong number is worse than none for one interval. The ms fields are
    taken modulo 2**32, which holds because no count field fell.
    """
    if is_reset(before, after):
        return UNKNOWN_BLOCK_RATES._replace(in_flight=after.in_flight)
    rd_ios, wr_ios = delta(before.rd_ios, after.rd_ios), delta(before.wr_ios, after.wr_ios)
    dc_ios, fl_ios = delta(before.dc_ios, after.dc_ios), delta(before.fl_ios, after.fl_ios)
    rd_sectors, wr_sectors = delta(before.rd_sectors, after.rd_sectors), delta(before.wr_sectors, after.wr_sectors)
    dc_sectors = delta(before.dc_sectors, after.dc_sectors)
    rd_ms, wr_ms = delta_u32(before.rd_ms, after.rd_ms), delta_u32(before.wr_ms, after.wr_ms)
    dc_ms, fl_ms = delta_u32(before.dc_ms, after.dc_ms), delta_u32(before.fl_ms, after.fl_ms)
    # iostat's combined figures leave flushes out; a kernel without discards did none.
    all_ios = total(rd_ios, wr_ios, dc_ios or 0)
    all_ms = total(rd_ms, wr_ms, dc_ms or 0)
    all_sectors = total(rd_sectors, wr_sectors, dc_sectors or 0)
    busy = per_second(delta_u32(before.busy_ms, after.busy_ms), seconds)
    queue = per_second(delta_u32(before.queue_ms, after.queue_ms), seconds)
    return BlockRates(
        *_kind_rates(rd_ios, delta(before.rd_merges, after.rd_merges), rd_sectors, rd_ms, seconds),
        *_kind_rates(wr_ios, delta(before.wr_merges, after.wr_merges), wr_sectors, wr_ms, seconds),
        *_kind_rates(dc_ios, delta(before.dc_merges, after.dc_merges), dc_sectors, dc_ms, seconds),
        per_second(fl_ios, seconds),
        quotient(fl_ms, fl_ios),
        None if queue is None else queue / 1000,
        None if busy is None else busy / 1000,
        quotient(all_ms, all_ios),
        quotient(None if all_sectors is None else all_sectors * SECTOR_BYTES, all_ios),
        after.in_flight,
    )


BlockTable = Mapping[BlockKey, BlockCounters]
"""All lines of /proc/diskstats, in the file's order."""

IDLE_BLOCK_RATES = BlockRates(
    *(0.0, 0.0, 0.0, 0.0, None, None) * 3,
    flushes_per_s=0.0,
    flush_await_ms=None,
    queue_size=0.0,
    busy_ratio=0.0,
    await_ms=None,
    request_size_bytes=None,
    in_flight=0,
)
"""Rates of a 20-column device whose counters did not move and that holds nothing in flight."""


def block_rates(before: BlockTable | None, after: BlockTable, seconds: float | None) -> dict[BlockKey, BlockRates]:
    """Rates of every device present in ``after``; unknown where ``before`` has no equal key."""
    if before is None or seconds is None or seconds <= 0:
        return {key: UNKNOWN_BLOCK_RATES._replace(in_flight=now.in_flight) for key, now in after.items()}
    out = {}
    for key, now in after.items():
        old = before.get(key)
        if old is now and now.fl_ios is not None and not now.in_flight:
            out[key] = IDLE_BLOCK_RATES
        elif old is None:
            out[key] = UNKNOWN_BLOCK_RATES._replace(in_flight=now.in_flight)
        else:
            out[key] = block_rates_of(old, now, seconds)
    return out


def is_leaf(info: BlockInfo) -> bool:
    """Whether the device's bytes are counted in totals: physical or bottom-most, no partition, no hidden path.

    A loop over a local file is charged once more on the disk below it, so it is no leaf; zram and ram are memory.
    """
    return info.kind in ("disk", "rom", "floppy") and not info.slaves


class BlockTotals(NamedTuple):
    """Sums over the leaves: each byte once. None when no leaf's rate is known."""

    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    reads_per_s: float | None
    writes_per_s: float | None


def block_totals(rates: Mapping[BlockKey, BlockRates], infos: Iterable[BlockInfo]) -> BlockTotals:
    """Whole-machine totals over leaves only."""
    leaves = {info.name for info in infos if is_leaf(info)}
    chosen = [r for key, r in rates.items() if key.name in leaves]

    def add(field: str) -> float | None:
        known = [v for r in chosen if (v := getattr(r, field)) is not None]
        return sum(known) if known else None

    return BlockTotals(*(add(field) for field in BlockTotals._fields))
