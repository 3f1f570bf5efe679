"""Filesystems that do not have a block device of their own: ZFS and btrfs pools, Lustre clients.

Sources: OpenZFS module/os/linux/spl/spl-kstat.c, module/zfs/arc.c (arcstats), dataset_kstats.c (objset-0x*);
fs/btrfs/sysfs.c (devinfo/*/error_stats), https://docs.kernel.org/admin-guide/btrfs.html; Lustre Operations Manual,
"Monitoring Client Activity" (llite.*.stats).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second, quotient, total
from iotop_ai.model.metric import Metric


class ArcCounters(NamedTuple):
    """The state of the cache of ZFS (ARC).

    hits, misses: counters of the reads that the cache served, and of those that it did not
    size_bytes: the current size
    limit_bytes: the size limit (c_max)
    io_hits: a counter of the reads that waited for a running read of the same block; counted separately since
        OpenZFS 2.2
    min_bytes: the size at which the cache stops shrinking when programs need memory (c_min); None if not recorded
    """

    hits: int | None = None
    misses: int | None = None
    size_bytes: int | None = None
    limit_bytes: int | None = None
    io_hits: int | None = None
    min_bytes: int | None = None

    @property
    def reclaimable_bytes(self) -> int | None:
        """The bytes that the cache frees when programs need memory; None if unknown."""
        if self.size_bytes is None or self.min_bytes is None:
            return None
        return max(0, self.size_bytes - self.min_bytes)


class ProgramIo(NamedTuple):
    """Counters of the reads and writes of programs; ``opens`` counts opened files. None if unknown."""

    read_bytes: int | None = None
    write_bytes: int | None = None
    reads: int | None = None
    writes: int | None = None
    opens: int | None = None


class BtrfsErrors(NamedTuple):
    """The errors of a mounted btrfs on all its devices, since the counts were last reset.

    Missing devices are left out. All counts are None if a device is missing and the others count no errors.

    label: the label of the filesystem; "" without one
    """

    label: str = ""
    write: int | None = None
    read: int | None = None
    flush: int | None = None
    corruption: int | None = None
    generation: int | None = None

    @property
    def whole(self) -> int | None:
        """The sum of the errors; None if unknown, as on kernels before 5.14."""
        return total(*self[1:])


class PoolTable(NamedTuple):
    """The pools of filesystems that span disks or servers.

    arc: the cache of ZFS; None without ZFS
    zfs: reads and writes by pool
    btrfs: errors by UUID
    lustre: reads and writes by client ("scratch-ffff8800")
    """

    arc: ArcCounters | None = None
    zfs: Mapping[str, ProgramIo] = {}
    btrfs: Mapping[str, BtrfsErrors] = {}
    lustre: Mapping[str, ProgramIo] = {}


class ProgramIoRates(NamedTuple):
    """The reads and writes of programs on one ZFS pool or Lustre client, including those that its cache serves."""

    read_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes read per second (objset nread, llite read_bytes).")]
    write_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes written per second (nwritten, write_bytes).")]
    reads_per_s: Annotated[float | None, Metric("1/s", "Reads per second.")]
    writes_per_s: Annotated[float | None, Metric("1/s", "Writes per second.")]
    opens_per_s: Annotated[float | None, Metric("1/s", "Files opened per second (Lustre).")]


class PoolRates(NamedTuple):
    """The cache of ZFS, and the rates of each ZFS pool and each Lustre client."""

    arc_hit_ratio: Annotated[float | None, Metric("ratio", "Share of ZFS's reads that its cache (ARC) served.")]
    arc_bytes: Annotated[int | None, Metric("B", "Size of the ARC (arcstats size).")]
    arc_limit_bytes: Annotated[int | None, Metric("B", "Size limit of the ARC (arcstats c_max).")]
    zfs: Mapping[str, ProgramIoRates]
    lustre: Mapping[str, ProgramIoRates]


def pool_rates(before: PoolTable | None, after: PoolTable, seconds: float | None) -> PoolRates:
    """The rates of one interval; a rate is None without an earlier reading, or if its counter fell."""
    old, now = (before and before.arc) or ArcCounters(), after.arc or ArcCounters()
    hits, misses = delta(old.hits, now.hits), delta(old.misses, now.misses)
    return PoolRates(
        quotient(hits, total(hits, misses, delta(old.io_hits or 0, now.io_hits or 0))),
        now.size_bytes,
        now.limit_bytes,
        _program_io_rates({} if before is None else before.zfs, after.zfs, seconds),
        _program_io_rates({} if before is None else before.lustre, after.lustre, seconds),
    )


def _program_io_rates(
    before: Mapping[str, ProgramIo], after: Mapping[str, ProgramIo], seconds: float | None
) -> dict[str, ProgramIoRates]:
    return {
        name: ProgramIoRates._make(
            per_second(delta(old_count, new_count), seconds)
            for old_count, new_count in zip(before.get(name, ProgramIo()), now, strict=True)
        )
        for name, now in after.items()
    }
