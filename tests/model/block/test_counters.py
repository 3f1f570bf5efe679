"""The figures of iostat -x. A figure that could be wrong is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.block.counters import (
    IDLE_BLOCK_RATES,
    UNKNOWN_BLOCK_RATES,
    BlockCounters,
    BlockInfo,
    BlockKey,
    BlockRates,
    _checked_rates,
    block_rates,
    block_rates_of,
    block_totals,
    is_leaf,
    nvme_head,
)

ZERO = BlockCounters(*[0] * 17)
U32 = 2**32

grown = st.builds(
    BlockCounters,
    *(st.integers(0, 10**9),) * 3,
    st.integers(0, 10**9),
    *(st.integers(0, 10**9),) * 3,
    st.integers(0, 10**9),
    in_flight=st.integers(0, 1000),
    busy_ms=st.integers(0, 10**6),
    queue_ms=st.just(0),
    dc_ios=st.integers(0, 10**6),
    dc_merges=st.integers(0, 10**6),
    dc_sectors=st.integers(0, 10**9),
    dc_ms=st.integers(0, 10**9),
    fl_ios=st.integers(0, 10**6),
    fl_ms=st.integers(0, 10**9),
)


def add(before: BlockCounters, by: BlockCounters) -> BlockCounters:
    """The counters after this growth, where the fields in ms wrap around like the kernel's uint32."""
    out = {}
    for name, old, more in zip(BlockCounters._fields, before, by, strict=True):
        new = old + more
        out[name] = more if name == "in_flight" else new % U32 if name.endswith("_ms") else new
    return BlockCounters(**out)


def test_every_figure_is_that_of_iostat() -> None:
    before = BlockCounters(1000, 50, 80000, 400, 2000, 700, 64000, 900, 0, 700, 1300, 10, 0, 800, 5, 40, 60)
    after = BlockCounters(1300, 150, 99200, 1000, 2100, 900, 72000, 1150, 3, 1600, 2173, 20, 10, 2400, 8, 50, 80)
    # These figures were computed by hand from iostat.c: 300 reads and 19,200 sectors in 2 s, and so on.
    assert block_rates_of(before, after, 2.0) == BlockRates(
        reads_per_s=150.0,
        read_bytes_per_s=19200 * 512 / 2,
        read_merges_per_s=50.0,
        read_merged_ratio=0.25,
        read_await_ms=2.0,
        read_size_bytes=32768.0,
        writes_per_s=50.0,
        write_bytes_per_s=8000 * 512 / 2,
        write_merges_per_s=100.0,
        write_merged_ratio=200 / 300,
        write_await_ms=2.5,
        write_size_bytes=40960.0,
        discards_per_s=5.0,
        discard_bytes_per_s=1600 * 512 / 2,
        discard_merges_per_s=5.0,
        discard_merged_ratio=0.5,
        discard_await_ms=0.3,
        discard_size_bytes=81920.0,
        flushes_per_s=5.0,
        flush_await_ms=2.0,
        queue_size=873 / 2 / 1000,
        busy_ratio=0.45,
        await_ms=853 / 410,
        request_size_bytes=28800 * 512 / 410,
        in_flight=3,
    )


@given(before=st.builds(add, st.just(ZERO), grown), by=grown, seconds=st.floats(0.1, 3600))
def test_littles_law_holds(before: BlockCounters, by: BlockCounters, seconds: float) -> None:
    """If time_in_queue is the sum of all latencies, as in the kernel, aqu-sz is the sum of rate x await / 1000."""
    by = by._replace(
        **{
            ms: 0 if not getattr(by, ios) else getattr(by, ms)
            for ios, ms in (("rd_ios", "rd_ms"), ("wr_ios", "wr_ms"), ("dc_ios", "dc_ms"), ("fl_ios", "fl_ms"))
        }
    )
    by = by._replace(queue_ms=min(by.rd_ms + by.wr_ms + by.dc_ms + by.fl_ms, U32 // 2 - 1))  # type: ignore[operator]
    rates = block_rates_of(before, add(before, by), seconds)
    parts = (
        (rates.reads_per_s, rates.read_await_ms),
        (rates.writes_per_s, rates.write_await_ms),
        (rates.discards_per_s, rates.discard_await_ms),
        (rates.flushes_per_s, rates.flush_await_ms),
    )
    little = sum((rate or 0) * (wait or 0) for rate, wait in parts) / 1000
    if by.rd_ms + by.wr_ms + by.dc_ms + by.fl_ms < U32 // 2:  # type: ignore[operator]
        assert rates.queue_size == pytest.approx(little, rel=1e-9, abs=1e-12)


@given(before=st.builds(add, st.just(ZERO), grown), by=grown, seconds=st.floats(0.1, 3600), idle=st.booleans())
def test_the_fast_path_equals_the_checked_one(
    before: BlockCounters, by: BlockCounters, seconds: float, idle: bool
) -> None:
    by = by._replace(wr_ios=0, wr_merges=0, dc_ios=0, fl_ios=0) if idle else by
    after = add(before, by)
    assert block_rates_of(before, after, seconds) == _checked_rates(before, after, seconds)


@given(before=st.builds(add, st.just(ZERO), grown), by=grown)
def test_wraps_of_the_ms_fields_do_not_change_the_rates(before: BlockCounters, by: BlockCounters) -> None:
    near = before._replace(rd_ms=U32 - 5, wr_ms=U32 - 1, busy_ms=U32 - 100, queue_ms=U32 - 7)
    far = before._replace(rd_ms=1000, wr_ms=1000, busy_ms=1000, queue_ms=1000)
    assert block_rates_of(near, add(near, by), 1.0) == block_rates_of(far, add(far, by), 1.0)


def test_the_growth_across_a_wrap_is_exact() -> None:
    before = ZERO._replace(rd_ios=5, rd_ms=U32 - 10, busy_ms=U32 - 500, queue_ms=U32 - 1)
    after = before._replace(rd_ios=7, rd_ms=30, busy_ms=500, queue_ms=1999)
    rates = block_rates_of(before, after, 1.0)
    assert (rates.read_await_ms, rates.busy_ratio, rates.queue_size) == (20.0, 1.0, 2.0)


@pytest.mark.parametrize("field", [f for f in BlockCounters._fields if not f.endswith("_ms") and f != "in_flight"])
def test_any_count_that_fell_makes_the_interval_unknown(field: str) -> None:
    before = BlockCounters(*[1000] * 17)
    after = BlockCounters(*[2000] * 17)._replace(**{field: 999, "in_flight": 4})
    assert block_rates_of(before, after, 1.0) == UNKNOWN_BLOCK_RATES._replace(in_flight=4)


def test_an_ms_field_that_falls_without_a_wrap_is_unknown_and_does_not_count_as_49_days() -> None:
    before = ZERO._replace(rd_ios=10, rd_ms=500, busy_ms=800)
    rates = block_rates_of(before, before._replace(rd_ios=20, rd_ms=499, busy_ms=799), 1.0)
    assert (rates.reads_per_s, rates.read_await_ms, rates.busy_ratio) == (10.0, None, None)


def test_the_mean_time_of_all_requests_is_unknown_if_that_of_the_discards_is_unknown() -> None:
    rates = block_rates_of(ZERO._replace(dc_ms=9), ZERO._replace(rd_ios=10, rd_ms=100, dc_ios=20, dc_ms=8), 1.0)
    assert (rates.read_await_ms, rates.discard_await_ms, rates.await_ms) == (10.0, None, None)


def test_an_undefined_figure_is_none_and_a_measured_zero_is_zero() -> None:
    rates = block_rates_of(ZERO, ZERO, 1.0)
    assert rates == IDLE_BLOCK_RATES
    assert rates.read_await_ms is None
    assert rates.reads_per_s == 0.0


@pytest.mark.parametrize(("columns", "discards", "flushes"), [(11, None, None), (15, 0.0, None), (17, 0.0, 0.0)])
def test_columns_that_the_kernel_does_not_count_are_unknown(
    columns: int, discards: float | None, flushes: float | None
) -> None:
    now = BlockCounters(*[7] * columns)
    rates = block_rates_of(now, now._replace(rd_ios=9, rd_sectors=23), 2.0)
    assert (rates.reads_per_s, rates.discards_per_s, rates.flushes_per_s) == (1.0, discards, flushes)
    assert (rates.await_ms, rates.request_size_bytes) == (0.0, 4096.0)


def test_a_device_is_unknown_in_its_first_reading_and_after_a_replug() -> None:
    old, new = BlockKey("nvme0n1", 3), BlockKey("nvme0n1", 9)
    # The new disk has larger counters than the old one, so that no counter falls and only the diskseq differs.
    table = {new: ZERO._replace(rd_ios=5000, rd_sectors=9, in_flight=2)}
    rates = block_rates({old: ZERO._replace(rd_ios=10)}, table, 1.0)
    assert rates == {new: UNKNOWN_BLOCK_RATES._replace(in_flight=2)}
    assert block_rates(None, table, None)[new].reads_per_s is None
    assert block_rates(table, table, 0.0)[new].reads_per_s is None


HEAD, ONE, TWO = BlockKey("nvme0n1", 1), BlockKey("nvme0c0n1", 2), BlockKey("nvme0c1n1", 3)


def test_a_multipath_head_that_counts_nothing_is_the_sum_of_its_paths() -> None:
    some = ZERO._replace(rd_ios=100, rd_sectors=800, rd_ms=U32 - 10, queue_ms=U32 - 10, in_flight=1)
    more = some._replace(rd_ios=150, rd_sectors=1200, rd_ms=90, queue_ms=90, in_flight=2)
    head = block_rates({HEAD: ZERO, ONE: some, TWO: ZERO}, {HEAD: ZERO, ONE: more, TWO: more}, 1.0)[HEAD]
    assert (head.reads_per_s, head.read_bytes_per_s) == (50.0 + 150.0, (400 + 1200) * 512.0)
    assert (head.read_await_ms, head.in_flight, head.busy_ratio) == ((100 + 90) / 200, 4, None)


def test_a_head_with_a_new_path_is_unknown_in_that_interval() -> None:
    some = ZERO._replace(rd_ios=100)
    rates = block_rates({HEAD: ZERO, ONE: some}, {HEAD: ZERO, ONE: some, TWO: some}, 1.0)
    assert rates[HEAD] == UNKNOWN_BLOCK_RATES._replace(in_flight=0)


def test_a_head_with_counts_of_its_own_keeps_them() -> None:
    own = ZERO._replace(rd_ios=40)
    rates = block_rates({HEAD: ZERO, ONE: ZERO}, {HEAD: own, ONE: own}, 1.0)
    assert rates[HEAD].reads_per_s == 40.0


def test_only_hidden_paths_have_a_head() -> None:
    names = ("nvme12c3n4", "nvme0n1", "nvme0n1p2", "nvme1c1n1p1", "sda")
    assert [nvme_head(name) for name in names] == ["nvme12n4", "", "", "", ""]


def info(name: str, kind: str = "disk", *slaves: str, stats_off: bool = False) -> BlockInfo:
    return BlockInfo(name, 1, 1, kind, name, slaves=slaves, stats_off=stats_off)


def test_a_disk_whose_accounting_is_off_is_unknown_and_not_idle() -> None:
    still, moved = BlockCounters(*[5] * 17)._replace(in_flight=0), BlockCounters(*[9] * 17)._replace(in_flight=0)
    keys = [BlockKey(name, 0) for name in ("sda", "sdb", "zram0")]
    before = dict.fromkeys(keys, still)
    after = {keys[0]: still, keys[1]: still, keys[2]: moved}
    infos = {i.name: i for i in (info("sda"), info("sdb", stats_off=True), info("zram0", "zram", stats_off=True))}
    rates = block_rates(before, after, 1.0, infos)
    assert rates[keys[0]] == IDLE_BLOCK_RATES
    assert rates[keys[1]] == UNKNOWN_BLOCK_RATES
    assert rates[keys[2]].reads_per_s == 4.0, "the reads that this driver counts are missing"
    assert infos["sdb"].stats_remedy == "echo 1 > /sys/block/sdb/queue/iostats"


@pytest.mark.parametrize(
    ("name", "kind", "parent", "folder"),
    [
        ("sda", "disk", "", "sda"),
        ("sda1", "partition", "sda", "sda"),
        ("cciss/c0d0p1", "partition", "cciss/c0d0", "cciss!c0d0"),
        ("nvme0c1n1", "nvme-path", "nvme0n1", "nvme0c1n1"),
    ],
)
def test_the_accounting_of_a_partition_is_that_of_its_disk(name: str, kind: str, parent: str, folder: str) -> None:
    info = BlockInfo(name, 8, 0, kind, name, parent=parent, stats_off=True)
    assert info.stats_remedy == f"echo 1 > /sys/block/{folder}/queue/iostats"


def test_a_device_backed_by_a_program_or_a_file_is_not_a_leaf() -> None:
    infos = (info("nvme0n1"), info("ublkb0", "ublk"), info("zloop0", "zloop"), info("loop0", "loop"))
    assert [i.name for i in infos if is_leaf(i)] == ["nvme0n1"]


STACK = (
    info("nvme0n1"),
    info("nvme0n1p1", "partition"),
    info("nvme1n1"),
    info("md0", "md", "nvme0n1p1", "nvme1n1"),
    info("dm-0", "dm", "md0"),
    info("loop0", "loop"),
    info("zram0", "zram"),
    info("nvme5n1"),
    info("nvme5c0n1", "nvme-path"),
    info("nvme5c1n1", "nvme-path"),
    info("sda"),
    info("sdb"),
    info("dm-1", "dm", "sda", "sdb"),
)


def rates_of(**reads: float | None) -> dict[BlockKey, BlockRates]:
    return {
        BlockKey(name.replace("_", "-"), 0): IDLE_BLOCK_RATES._replace(read_bytes_per_s=value, reads_per_s=value)
        for name, value in reads.items()
    }


def test_totals_count_each_byte_once() -> None:
    """10 bytes are read through loop > dm > md > two NVMe, 4 through a multipath head, 6 through dm-multipath."""
    moved = rates_of(
        nvme0n1=5.0, nvme0n1p1=5.0, nvme1n1=5.0, md0=10.0, dm_0=10.0, loop0=10.0, zram0=99.0,
        nvme5n1=4.0, nvme5c0n1=2.0, nvme5c1n1=2.0, sda=3.0, sdb=3.0, dm_1=6.0,
    )  # fmt: skip
    totals = block_totals(moved, STACK)
    assert (totals.read_bytes_per_s, totals.reads_per_s, totals.write_bytes_per_s) == (20.0, 20.0, 0.0)


def test_a_total_with_an_unknown_part_is_unknown() -> None:
    assert block_totals(rates_of(sda=3.0, sdb=None), STACK).read_bytes_per_s is None
    assert block_totals(rates_of(sda=3.0, md0=None), STACK).read_bytes_per_s == 3.0
    assert block_totals({}, STACK).read_bytes_per_s is None


def test_a_disk_that_counts_nothing_is_left_out_of_the_totals() -> None:
    infos = (info("sda"), info("sdb", stats_off=True))
    assert block_totals(rates_of(sda=3.0, sdb=0.0), infos).read_bytes_per_s == 3.0
    assert block_totals(rates_of(sdb=0.0), infos).read_bytes_per_s is None
