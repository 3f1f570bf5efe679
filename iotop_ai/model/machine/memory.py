"""Memory, page cache and writeback: /proc/meminfo (bytes) and /proc/vmstat (pages or events)."""

from __future__ import annotations

from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second
from iotop_ai.model.metric import Exported, Metric


class MemoryState(NamedTuple):
    """Levels in bytes, and counters in the kernel's units; None if this kernel does not print the figure.

    Counters start at boot: pgpgin and pgpgout count KiB, the others pages or events, as their names say. The two
    thresholds of dirty pages are levels in pages.
    """

    total_bytes: int | None
    available_bytes: int | None
    free_bytes: int | None
    cached_bytes: int | None
    buffers_bytes: int | None
    slab_reclaimable_bytes: int | None
    dirty_bytes: int | None
    writeback_bytes: int | None
    swap_total_bytes: int | None
    swap_free_bytes: int | None
    shmem_bytes: int | None
    refault_file_pages: Annotated[
        int | None, Exported("pages", "File pages read again soon after eviction.", "refault_file")
    ]
    refault_anon_pages: Annotated[
        int | None, Exported("pages", "Anonymous pages read again soon after eviction.", "refault_anon")
    ]
    major_faults: Annotated[int | None, Exported("count", "Faults that needed I/O.")]
    swapped_in_pages: Annotated[int | None, Exported("pages", "Bytes swapped in.", "swapped_in")]
    swapped_out_pages: Annotated[int | None, Exported("pages", "Bytes swapped out.", "swapped_out")]
    pgpgin_kib: int | None
    pgpgout_kib: int | None
    nr_dirtied_pages: int | None
    nr_written_pages: int | None
    alloc_stalls: Annotated[int | None, Exported("count", "Allocations that had to reclaim first.")]
    scanned_direct_pages: int | None
    oom_kills: Annotated[int | None, Exported("count", "Processes killed for lack of memory.")]
    drop_pagecache: int | None
    drop_slab: int | None
    dirty_threshold_pages: int | None
    dirty_background_pages: int | None
    page_bytes: int = 4096


class MemoryRates(NamedTuple):
    """The rates of the counters in MemoryState."""

    refault_file_bytes_per_s: Annotated[float | None, Metric("B/s", "File pages read again soon after eviction.")]
    refault_anon_bytes_per_s: Annotated[float | None, Metric("B/s", "Anonymous pages read again soon after eviction.")]
    major_faults_per_s: Annotated[float | None, Metric("1/s", "Faults that needed I/O.", "majflt/s")]
    swap_in_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes swapped in.")]
    swap_out_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes swapped out.")]
    paged_in_bytes_per_s: Annotated[
        float | None, Metric("B/s", "Bytes read from block devices; reads through a loop device count twice.")
    ]
    paged_out_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes written to block devices.")]
    alloc_stalls_per_s: Annotated[float | None, Metric("1/s", "Allocations that had to reclaim first.")]


def memory_rates(before: MemoryState | None, after: MemoryState, seconds: float | None) -> MemoryRates:
    """The rates between two readings; all are None without an earlier reading."""
    if before is None:
        return MemoryRates(*[None] * len(MemoryRates._fields))
    page = after.page_bytes

    def rate(old: int | None, new: int | None, scale: int = 1) -> float | None:
        growth = delta(old, new)
        return per_second(None if growth is None else growth * scale, seconds)

    return MemoryRates(
        rate(before.refault_file_pages, after.refault_file_pages, page),
        rate(before.refault_anon_pages, after.refault_anon_pages, page),
        rate(before.major_faults, after.major_faults),
        rate(before.swapped_in_pages, after.swapped_in_pages, page),
        rate(before.swapped_out_pages, after.swapped_out_pages, page),
        rate(before.pgpgin_kib, after.pgpgin_kib, 1024),
        rate(before.pgpgout_kib, after.pgpgout_kib, 1024),
        rate(before.alloc_stalls, after.alloc_stalls),
    )
