"""Block devices: the kernel's counters, the identity of a device, and the exact figures of ``iostat -x``.

Source: /proc/diskstats, https://docs.kernel.org/admin-guide/iostats.html; formulas as in sysstat's iostat.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import sub
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.counter import U32, delta, delta_u32, per_second, quotient, total
from iotop_ai.model.metric import Exported, Metric

SECTOR_BYTES = 512


class BlockKey(NamedTuple):
    """A device's identity: its kernel name and the number in /sys/block/X/diskseq (0 before Linux 5.15, or if unknown).

    A device that is connected again under its old name gets a new diskseq. A partition has the diskseq of its disk.
    """

    name: str
    diskseq: int


class BlockCounters(NamedTuple):
    """Columns 4 to 20 of one line of /proc/diskstats, as printed; None for columns that the kernel does not print.

    A sector is always 512 B. The ``*_ms`` fields are unsigned 32-bit counters that wrap. ``in_flight`` is a current
    value, not a counter; it is None in an imported log that lacks it.
    """

    rd_ios: Annotated[int, Exported("count", "Reads completed, after merging.", "reads_completed")]
    rd_merges: Annotated[int, Exported("count", "Read requests merged.", "reads_merged")]
    rd_sectors: Annotated[int, Exported("sectors", "Bytes read.", "read")]
    rd_ms: Annotated[int, Exported("ms", "Time of all reads together, queue and service.", "read_time")]
    wr_ios: Annotated[int, Exported("count", "Writes completed, after merging.", "writes_completed")]
    wr_merges: Annotated[int, Exported("count", "Write requests merged.", "writes_merged")]
    wr_sectors: Annotated[int, Exported("sectors", "Bytes written.", "written")]
    wr_ms: Annotated[int, Exported("ms", "Time of all writes together, queue and service.", "write_time")]
    in_flight: int | None
    busy_ms: Annotated[int, Exported("ms", "Time with a request in flight.", "io_time")]
    queue_ms: Annotated[
        int,
        Exported("ms", "Total time of all requests; since Linux 5.0 of completed ones only.", "io_time_weighted"),
    ]
    dc_ios: Annotated[int | None, Exported("count", "Discards completed.", "discards_completed")] = None
    dc_merges: Annotated[int | None, Exported("count", "Discard requests merged.", "discards_merged")] = None
    dc_sectors: Annotated[int | None, Exported("sectors", "Bytes discarded.", "discarded")] = None
    dc_ms: Annotated[int | None, Exported("ms", "Time of all discards together.", "discard_time")] = None
    fl_ios: Annotated[int | None, Exported("count", "Flushes completed.", "flush_requests")] = None
    fl_ms: Annotated[int | None, Exported("ms", "Time of all flushes together.", "flush_requests_time")] = None


class Mount(NamedTuple):
    """A mount that matters to the monitor, from a line of mountinfo.

    device: the superblock's st_dev as mountinfo prints it, such as "254:0" ("0:39" for btrfs, NFS and overlay); "" if
        unknown
    root: the part of the filesystem that is mounted here; it differs from "/" for a bind mount or a btrfs subvolume
    layers: the upper and lower folders of an overlay, as paths in the namespace that mounted it
    """

    path: str
    fstype: str
    source: str
    read_only: bool = False
    device: str = ""
    root: str = "/"
    layers: tuple[str, ...] = ()


class BlockInfo(NamedTuple):
    """A device's identity, its settings, and facts that change slowly, such as its temperature.

    kind: disk, partition, dm, md, loop, ublk, zloop, ram, zram, rom, floppy, zvol, or nvme-path (a hidden path of a
        multipath head)
    label: the name of a device-mapper device or LVM volume; otherwise the kernel name
    detail: the type of the device ("LVM", "crypt", "mpath", "raid1 degraded", "SATA SSD", "NVMe", "virtio"); for a loop
        device, its file too ("loop /images/a.img")
    parent: the whole disk of a partition, or the multipath head of an nvme-path; "" for other kinds
    slaves, holders: the kernel names of the devices directly below and above it
    transport: nvme, ata, scsi, usb, virtio, xen, mmc, loop, virtual or unknown
    rotational: the kernel's value, which is meaningful only for SCSI and ATA
    queue_depth: the smaller of queue/nr_requests and the device's hardware queue depth; None without a queue of its own
    stats_off: whether the kernel does not count its I/O (queue/iostats is 0, and its driver obeys that)
    pcie: the current PCIe link of an NVMe disk as "4x4" (generation x width)
    pcie_max: the fastest PCIe link that both the disk and its slot support
    md_sync: the running resync, check or recovery of an md array; "" when it is idle
    below: the devices that hold the file of a loop device; () if it has no file or the file is not on a local disk
    backing_fstype: the type of the filesystem that holds the file of a loop device ("ext4", "fuse.sshfs"); "" if
        unknown
    write_cache: "write back" if a power cut may lose writes before a flush, else "write through"; "" if unknown
    fua: whether the device supports writes that bypass its write cache (FUA); None if unknown
    wbt_us: the read latency in µs above which the kernel throttles background writes; 0 for never, None if unknown
    controllers: the controllers of an NVMe disk or path ("nvme1"), whose numbers may differ from the disk's; None in a
        recording without them

    Source of write_cache, fua and wbt_us: queue/write_cache, fua and wbt_lat_usec in
    https://docs.kernel.org/admin-guide/abi-stable.html.
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
    below: tuple[str, ...] = ()
    backing_fstype: str = ""
    write_cache: str = ""
    fua: bool | None = None
    wbt_us: int | None = None
    controllers: tuple[str, ...] | None = None

    @property
    def stats_remedy(self) -> str:
        """The command that switches on the I/O accounting of the device, or of its disk if it is a partition."""
        disk = self.parent if self.kind == "partition" else self.name
        return f"echo 1 > /sys/block/{disk.replace('/', '!')}/queue/iostats"


class BlockRates(NamedTuple):
    """The figures of ``iostat -x`` for one device and one interval; None if unknown, or for a mean over no requests."""

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
        """Whether a request was completed in the interval or is in flight."""
        completed = (self.reads_per_s, self.writes_per_s, self.discards_per_s, self.flushes_per_s)
        return any(completed) or bool(self.in_flight)


UNKNOWN_BLOCK_RATES = BlockRates(*[None] * len(BlockRates._fields))

# The indexes of fields of BlockCounters.
_COUNT_FIELDS = tuple(
    i for i, name in enumerate(BlockCounters._fields) if not name.endswith("_ms") and name != "in_flight"
)
_IN_FLIGHT = BlockCounters._fields.index("in_flight")
_MS_FIELDS = frozenset(i for i, name in enumerate(BlockCounters._fields) if name.endswith("_ms"))


def is_reset(before: BlockCounters, after: BlockCounters) -> bool:
    """Whether a count has fallen between two readings, because the device was created or attached again."""
    for i in _COUNT_FIELDS:
        old, new = before[i], after[i]
        if old is not None and new is not None and new < old:
            return True
    return False


def _request_rates(
    ios: int | None, merges: int | None, sectors: int | None, ms: int | None, seconds: float
) -> tuple[float | None, float | None, float | None, float | None, float | None, float | None]:
    """The six rates of one kind of request (read, write or discard), in the order of BlockRates."""
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


def _delta_ms(before: int | None, after: int | None) -> int | None:
    """The growth of an unsigned 32-bit counter of milliseconds, which may wrap.

    None if the growth is at least half the range, because then the counter probably fell.
    """
    growth = delta_u32(before, after)
    return None if growth is None or growth >= U32 // 2 else growth


def block_rates_of(before: BlockCounters, after: BlockCounters, seconds: float) -> BlockRates:
    """The rates of one device between two readings with the same BlockKey, taken ``seconds`` (> 0) apart.

    If the device was reset, all rates are None and only in_flight is known. The ms fields are subtracted modulo 2**32,
    which is valid because no count has fallen.
    """
    if None not in before and None not in after:
        growth = [*map(sub, after, before)]
        growth[_IN_FLIGHT] = 0
        if min(growth) >= 0 and max(growth) < U32 // 2:
            return _plain_rates(growth, after.in_flight, seconds)
    return _checked_rates(before, after, seconds)


def _plain_rates(growth: list[int], in_flight: int | None, seconds: float) -> BlockRates:
    """The rates when every counter is known and has neither fallen nor wrapped, as in nearly every reading."""
    rd_ios, rd_merges, rd_sectors, rd_ms, wr_ios, wr_merges, wr_sectors, wr_ms = growth[:_IN_FLIGHT]
    busy_ms, queue_ms, dc_ios, dc_merges, dc_sectors, dc_ms, fl_ios, fl_ms = growth[_IN_FLIGHT + 1 :]
    all_ios = rd_ios + wr_ios + dc_ios
    return BlockRates(
        *_plain_request_rates(rd_ios, rd_merges, rd_sectors, rd_ms, seconds),
        *_plain_request_rates(wr_ios, wr_merges, wr_sectors, wr_ms, seconds),
        *_plain_request_rates(dc_ios, dc_merges, dc_sectors, dc_ms, seconds),
        fl_ios / seconds,
        fl_ms / fl_ios if fl_ios else None,
        queue_ms / seconds / 1000,
        busy_ms / seconds / 1000,
        (rd_ms + wr_ms + dc_ms) / all_ios if all_ios else None,
        (rd_sectors + wr_sectors + dc_sectors) * SECTOR_BYTES / all_ios if all_ios else None,
        in_flight,
    )


def _plain_request_rates(
    ios: int, merges: int, sectors: int, ms: int, seconds: float
) -> tuple[float, float, float, float, float | None, float | None]:
    """The same as ``_request_rates``, for known counts."""
    size = sectors * SECTOR_BYTES
    if not ios:
        return 0.0, size / seconds, merges / seconds, 1.0 if merges else 0.0, None, None
    return ios / seconds, size / seconds, merges / seconds, merges / (merges + ios), ms / ios, size / ios


def _checked_rates(before: BlockCounters, after: BlockCounters, seconds: float) -> BlockRates:
    """The rates when a counter is unknown, has fallen or has wrapped."""
    if is_reset(before, after):
        return UNKNOWN_BLOCK_RATES._replace(in_flight=after.in_flight)
    rd_ios, wr_ios = delta(before.rd_ios, after.rd_ios), delta(before.wr_ios, after.wr_ios)
    dc_ios, fl_ios = delta(before.dc_ios, after.dc_ios), delta(before.fl_ios, after.fl_ios)
    rd_sectors, wr_sectors = delta(before.rd_sectors, after.rd_sectors), delta(before.wr_sectors, after.wr_sectors)
    dc_sectors = delta(before.dc_sectors, after.dc_sectors)
    rd_ms, wr_ms = _delta_ms(before.rd_ms, after.rd_ms), _delta_ms(before.wr_ms, after.wr_ms)
    dc_ms, fl_ms = _delta_ms(before.dc_ms, after.dc_ms), _delta_ms(before.fl_ms, after.fl_ms)
    # iostat's combined figures exclude flushes. On a kernel that does not count discards, 0 is added for them.
    all_ios = total(rd_ios, wr_ios, dc_ios or 0)
    all_ms = total(rd_ms, wr_ms, 0 if dc_ios is None else dc_ms)
    all_sectors = total(rd_sectors, wr_sectors, dc_sectors or 0)
    busy = per_second(_delta_ms(before.busy_ms, after.busy_ms), seconds)
    queue = per_second(_delta_ms(before.queue_ms, after.queue_ms), seconds)
    return BlockRates(
        *_request_rates(rd_ios, delta(before.rd_merges, after.rd_merges), rd_sectors, rd_ms, seconds),
        *_request_rates(wr_ios, delta(before.wr_merges, after.wr_merges), wr_sectors, wr_ms, seconds),
        *_request_rates(dc_ios, delta(before.dc_merges, after.dc_merges), dc_sectors, dc_ms, seconds),
        per_second(fl_ios, seconds),
        quotient(fl_ms, fl_ios),
        None if queue is None else queue / 1000,
        None if busy is None else busy / 1000,
        quotient(all_ms, all_ios),
        quotient(None if all_sectors is None else all_sectors * SECTOR_BYTES, all_ios),
        after.in_flight,
    )


BlockTable = Mapping[BlockKey, BlockCounters]
"""All lines of /proc/diskstats, in the order of that file."""

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
"""The rates of a device that has no request in flight and whose counters, in all 20 columns, did not change."""


def block_rates(
    before: BlockTable | None, after: BlockTable, seconds: float | None, infos: Mapping[str, BlockInfo] | None = None
) -> dict[BlockKey, BlockRates]:
    """The rates of every device in ``after``.

    Only in_flight is known for a device that ``before`` lacks, and for all devices without ``before`` or a positive
    interval. If the kernel does not count the I/O of the head of an NVMe multipath device, the head gets the sum of its
    paths, and the rates of its partitions are unknown. If a device's I/O accounting is off and its counters of reads
    and writes did not change, its rates are unknown; some drivers count even without accounting.
    """
    if before is None or seconds is None or seconds <= 0:
        return {key: UNKNOWN_BLOCK_RATES._replace(in_flight=now.in_flight) for key, now in after.items()}
    out = {}
    for key, now in after.items():
        old = before.get(key)
        # For a line that did not change, the reader returns the old record itself.
        if old is now and now.fl_ios is not None and now.in_flight == 0:
            out[key] = IDLE_BLOCK_RATES
        elif old is None:
            out[key] = UNKNOWN_BLOCK_RATES._replace(in_flight=now.in_flight)
        else:
            out[key] = block_rates_of(old, now, seconds)
    without_accounting = (
        [key for key in after if (info := infos.get(key.name)) is not None and info.stats_off] if infos else []
    )
    for key in without_accounting:
        if (old := before.get(key)) is not None and old[:_IN_FLIGHT] == after[key][:_IN_FLIGHT]:
            out[key] = UNKNOWN_BLOCK_RATES
    heads = uncounted_heads(after)
    for head, paths in heads.items():
        out[head] = head_rates([(before.get(path), after[path]) for path in paths], seconds)
    if heads:
        # The counters of the paths do not distinguish the partitions of the head.
        prefixes = tuple(f"{head.name}p" for head in heads)
        out.update({key: UNKNOWN_BLOCK_RATES for key in after if key.name.startswith(prefixes) and not any(after[key])})
    return out


NETWORK_DISKS = ("nbd", "rbd", "drbd")
"""Name prefixes of disks whose data is on another machine."""
_NVME_PATH = pattern(r"nvme(\d+)c\d+n(\d+)")


def nvme_head(name: str) -> str:
    """The multipath head ("nvme0n1") of a hidden path ("nvme0c1n1"); "" for any other name."""
    match = _NVME_PATH.fullmatch(name) if name.startswith("nvme") and "c" in name else None
    return "" if match is None else f"nvme{match[1]}n{match[2]}"


def uncounted_heads(table: BlockTable) -> dict[BlockKey, list[BlockKey]]:
    """The multipath heads that the kernel does not count, each with its paths.

    The counters of such a head are zero although those of its paths are not. Kernels before 6.2 count I/O only on
    the paths; later kernels count it on the head too (commit d4d957b53d91).
    """
    paths: dict[str, list[BlockKey]] = {}
    for key in table:
        if "c" in key.name and (head := nvme_head(key.name)):
            paths.setdefault(head, []).append(key)
    if not paths:
        return {}
    return {
        key: paths[key.name]
        for key, own in table.items()
        if key.name in paths and not any(own) and any(any(table[path]) for path in paths[key.name])
    }


def head_rates(pairs: Iterable[tuple[BlockCounters | None, BlockCounters]], seconds: float) -> BlockRates:
    """The rates of a multipath head, computed from the (before, after) counters of its paths.

    busy_ratio is None if several paths were active, because their busy times overlap by an unknown amount. If a path is
    new or was reset, all rates are None and only in_flight is known, because the growth of that path is unknown.
    """
    active_paths = 0
    sums: list[int | None] = [0] * len(BlockCounters._fields)
    in_flight: int | None = 0
    complete = True
    for before, after in pairs:
        in_flight = total(in_flight, after.in_flight)
        if before is None or is_reset(before, after):
            complete = False
            continue
        growth = [
            _delta_ms(a, b) if i in _MS_FIELDS else delta(a, b)
            for i, (a, b) in enumerate(zip(before, after, strict=True))
        ]
        active_paths += any(growth)
        sums = [total(a, b) for a, b in zip(sums, growth, strict=True)]
    if not complete:
        return UNKNOWN_BLOCK_RATES._replace(in_flight=in_flight)
    zero = BlockCounters(*[0] * len(sums))
    whole = BlockCounters(*sums)  # type: ignore[arg-type]  # an unknown sum stays unknown in its rates
    rates = block_rates_of(zero, whole, seconds)._replace(in_flight=in_flight)
    return rates._replace(busy_ratio=None) if active_paths > 1 else rates


def is_leaf(info: BlockInfo) -> bool:
    """Whether the device counts in the machine's totals, because it is at the bottom of its stack.

    These do not count: partitions and hidden paths; dm, md, zvol and loop, because the disks below them usually count
    the same bytes; ublk and zloop, because the kernel does not list the devices below them; zram and ram, which are
    memory.
    """
    return info.kind in ("disk", "rom", "floppy") and not info.slaves


class BlockTotals(NamedTuple):
    """Sums over the leaves (``is_leaf``), which count each byte once; None without leaves, or if a rate is unknown."""

    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    reads_per_s: float | None
    writes_per_s: float | None


def block_totals(rates: Mapping[BlockKey, BlockRates], infos: Iterable[BlockInfo]) -> BlockTotals:
    """The totals of the whole machine, without devices whose I/O accounting is off."""
    leaves = {info.name for info in infos if is_leaf(info) and not info.stats_off}
    counted = [r for key, r in rates.items() if key.name in leaves]
    return BlockTotals(
        _sum([r.read_bytes_per_s for r in counted]),
        _sum([r.write_bytes_per_s for r in counted]),
        _sum([r.reads_per_s for r in counted]),
        _sum([r.writes_per_s for r in counted]),
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None
