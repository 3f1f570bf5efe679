"""The memory's figures from meminfo and vmstat."""

from __future__ import annotations

import os
from pathlib import Path

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.memory import MemoryCollector, memory_state, parse_meminfo, parse_vmstat
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.reading import Status
from tests.machines import build

MEMINFO = b"""MemTotal:       24684096 kB
MemFree:        24273824 kB
MemAvailable:   24258800 kB
Buffers:            2060 kB
Cached:           150488 kB
Active(anon):      12345 kB
Dirty:              6940 kB
Writeback:             4 kB
Shmem:              8788 kB
SReclaimable:      73396 kB
SwapTotal:       1048576 kB
SwapFree:        1048000 kB
HugePages_Total:       7
"""
VMSTAT = b"""nr_dirty 1735
workingset_refault_anon 3
workingset_refault_file 118693
pgpgin 1386169
pgpgout 968980
pswpin 11
pswpout 12
pgmajfault 1482
pgscan_direct 5
pgscan_direct_throttle 9
allocstall_dma32 1
allocstall_normal 2
nr_dirtied 298275
nr_written 235614
nr_dirty_threshold 1214402
nr_dirty_background_threshold 606459
oom_kill 1
drop_pagecache 2
drop_slab 3
"""
KB = 1024


def test_every_field_is_read() -> None:
    assert memory_state(parse_meminfo(MEMINFO), parse_vmstat(VMSTAT), 4096) == MemoryState(
        total_bytes=24684096 * KB,
        available_bytes=24258800 * KB,
        free_bytes=24273824 * KB,
        cached_bytes=150488 * KB,
        buffers_bytes=2060 * KB,
        slab_reclaimable_bytes=73396 * KB,
        dirty_bytes=6940 * KB,
        writeback_bytes=4 * KB,
        swap_total_bytes=1048576 * KB,
        swap_free_bytes=1048000 * KB,
        shmem_bytes=8788 * KB,
        refault_file_pages=118693,
        refault_anon_pages=3,
        major_faults=1482,
        swapped_in_pages=11,
        swapped_out_pages=12,
        pgpgin_kib=1386169,
        pgpgout_kib=968980,
        nr_dirtied_pages=298275,
        nr_written_pages=235614,
        alloc_stalls=3,
        scanned_direct_pages=5,
        oom_kills=1,
        drop_pagecache=2,
        drop_slab=3,
        dirty_threshold_pages=1214402,
        dirty_background_pages=606459,
        page_bytes=4096,
    )


def test_an_old_kernel_counts_by_zone_and_lacks_fields() -> None:
    old = b"workingset_refault 9\npgscan_direct_dma 1\npgscan_direct_normal 2\nallocstall 4\n"
    state = memory_state({}, parse_vmstat(old), 4096)
    assert (state.refault_file_pages, state.refault_anon_pages) == (9, None)
    assert (state.scanned_direct_pages, state.alloc_stalls) == (3, 4)
    assert state.total_bytes is None
    assert state.oom_kills is None


def test_a_broken_line_does_not_affect_the_others() -> None:
    assert parse_vmstat(b"pgpgin 5\nstrange\npgpgout 6\nx y\n") == {b"pgpgin": 5, b"pgpgout": 6}
    assert parse_meminfo(b"MemTotal: 1 kB\nMemFree: x kB\n") == {b"MemTotal": 1024}


def test_new_values_are_read_from_the_open_descriptors(tmp_path: Path) -> None:
    collector = MemoryCollector(build({"proc/meminfo": MEMINFO, "proc/vmstat": VMSTAT}, tmp_path))
    first = collector.read()
    (tmp_path / "proc/meminfo").write_bytes(MEMINFO.replace(b"24273824", b"24000000"))
    second = collector.read()
    collector.close()
    collector.close()
    assert first == memory_state(parse_meminfo(MEMINFO), parse_vmstat(VMSTAT), os.sysconf("SC_PAGE_SIZE"))
    assert second == first._replace(free_bytes=24000000 * KB)


def test_without_vmstat_only_its_fields_are_unknown(tmp_path: Path) -> None:
    collector = MemoryCollector(build({"proc/meminfo": MEMINFO}, tmp_path))
    state = collector.read()
    collector.close()
    assert state.total_bytes == 24684096 * KB
    assert state.pgpgin_kib is None


def test_without_meminfo_the_memory_is_absent(tmp_path: Path) -> None:
    assert take_reading(MemoryCollector(Root(str(tmp_path))), Clock()).status is Status.ABSENT


def test_the_running_machine_is_read() -> None:
    collector = MemoryCollector(Root())
    state = collector.read()
    collector.close()
    assert state.total_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert state.available_bytes is not None
    assert 0 < state.available_bytes < (state.total_bytes or 0)
