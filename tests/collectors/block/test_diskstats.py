"""A changing /proc/diskstats: only changed lines are parsed, and no device is mistaken for another."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from iotop_ai.collectors.block.diskstats import BlockCollector, disk_of, parse_line
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.block.counters import (
    UNKNOWN_BLOCK_RATES,
    BlockCounters,
    BlockKey,
    BlockRates,
    block_rates,
    block_rates_of,
)
from tests.machines import machine, names
from tests.rigs.descriptors import too_many_open_files

U32 = 2**32


class Machine:
    """A folder with proc/diskstats and sys/block/*/diskseq, and the collector that reads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "proc").mkdir()
        self.stats = folder / "proc/diskstats"
        self.collector = BlockCollector(Root(str(folder)), Clock())
        self.before: dict[BlockKey, BlockCounters] | None = None

    def plug(self, name: str, diskseq: int) -> None:
        place = self.folder / "sys/block" / name / "diskseq"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{diskseq}\n")

    def rates(self, *lines: str, seconds: float = 1.0) -> dict[BlockKey, BlockRates]:
        """Write the file, read it, and return the rates since the previous reading."""
        # The file is changed in place, because the collector keeps its descriptor open.
        self.stats.write_text("".join(line + "\n" for line in lines))
        now = self.collector.read()
        rates = block_rates(self.before, now, seconds if self.before is not None else None)
        self.before = now
        return rates


def line(name: str, *numbers: int, columns: int = 17, major: int = 8, minor: int = 0) -> str:
    padded = [*numbers, *[0] * (columns - len(numbers))]
    return f"{major:4d} {minor:7d} {name} " + " ".join(map(str, padded))


@pytest.fixture
def box(tmp_path: Path) -> Machine:
    box = Machine(tmp_path)
    box.plug("sda", 1)
    box.plug("nvme0n1", 2)
    return box


def test_a_line_becomes_a_record() -> None:
    numbers = (32443, 9626, 2122210, 4852, 8818, 14773, 1892664, 3423, 2, 3600, 8578, 3971, 51, 90360, 243, 1530, 58)
    sample = b" 254       0 vda 32443 9626 2122210 4852 8818 14773 1892664 3423 2 3600 8578 3971 51 90360 243 1530 58"
    assert parse_line(sample) == (254, 0, "vda", BlockCounters(*numbers))


NONE, SEVEN = (None,), (7,)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(11, NONE * 6), (13, NONE * 6), (15, SEVEN * 4 + NONE * 2), (17, SEVEN * 6), (22, SEVEN * 6)],
)
def test_lines_of_older_and_newer_kernels_are_parsed(columns: int, expected: tuple[int | None, ...]) -> None:
    parsed = parse_line(line("sda", *[7] * columns, columns=columns).encode())
    assert parsed is not None
    assert tuple(parsed[3]) == (7,) * 11 + expected


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"   8      1 sda1 100 800 20 160",
        b"8 0 sda",
        b"8 0 sda " + b"x " * 17,
        b"a b sda " + b"1 " * 17,
        b"8 0 sda " + b"-1 " * 17,
    ],
)
def test_incomplete_lines_are_left_out(raw: bytes) -> None:
    assert parse_line(raw) is None


@pytest.mark.parametrize(
    ("printed", "known"), [("0", 0), ("7", 7), ("4294967295", None), ("4294967290", None), ("-1", None)]
)
def test_requests_in_flight_below_zero_are_unknown(printed: str, known: int | None) -> None:
    """part_in_flight prints an unsigned 32-bit sum, which falls below zero when a driver ends a request twice."""
    parsed = parse_line(f"8 0 sda 1 2 3 4 5 6 7 8 {printed} 10 11 12 13 14 15 16 17".encode())
    assert parsed is not None
    counters = parsed[3]
    assert (counters.in_flight, counters.wr_ms, counters.busy_ms) == (known, 8, 10)
    rates = block_rates_of(counters, counters._replace(rd_ios=4), 1.0)
    assert (rates.in_flight, rates.reads_per_s) == (known, 3.0)


def test_a_hostile_name_is_cleaned() -> None:
    parsed = parse_line(b"8 0 s\x1bda " + b"1 " * 17)
    assert parsed is not None
    assert parsed[2] == "s�da"


def test_partitions_are_recognised_by_the_kernels_naming_scheme() -> None:
    disks = {"sda", "nvme0n1", "md127", "loop0", "mmcblk0", "mmcblk0boot0"}
    found = {n: disk_of(n, disks) for n in ("sda12", "nvme0n1p3", "md127p1", "loop0p2", "mmcblk0p1", "sda", "xvdb1")}
    assert found == {
        "sda12": "sda", "nvme0n1p3": "nvme0n1", "md127p1": "md127", "loop0p2": "loop0", "mmcblk0p1": "mmcblk0",
        "sda": "", "xvdb1": "",
    }  # fmt: skip
    assert all(disk_of(name, disks) == "" for name in disks)


def test_unchanged_records_are_the_same_objects(box: Machine) -> None:
    box.rates(line("sda", 10), line("nvme0n1", 20))
    first = box.before
    assert first is not None
    assert box.collector.changed == set()
    box.rates(line("sda", 10), line("nvme0n1", 21))
    second = box.before
    assert second is not None
    assert second is not first
    assert second[BlockKey("sda", 1)] is first[BlockKey("sda", 1)]
    assert box.collector.changed == {"nvme0n1"}
    assert box.collector.read() is second
    assert (box.collector.changed, box.collector.generation) == (set(), 1)


def test_a_handed_out_table_is_never_changed_later(box: Machine) -> None:
    box.rates(line("sda", 10))
    first = box.before
    assert first is not None
    copy = dict(first)
    box.rates(line("sda", 11))
    box.rates(line("sda", 11), line("nvme0n1", 1))
    assert first == copy


def test_counters_of_ms_may_wrap_around(box: Machine) -> None:
    box.rates(line("sda", 100, 0, 800, U32 - 20, 0, 0, 0, 0, 0, U32 - 300, U32 - 20))
    rates = box.rates(line("sda", 110, 0, 880, 80, 0, 0, 0, 0, 0, 200, 80))[BlockKey("sda", 1)]
    assert (rates.reads_per_s, rates.read_await_ms, rates.busy_ratio, rates.queue_size) == (10.0, 10.0, 0.5, 0.1)


def test_after_a_reset_one_interval_is_unknown_and_the_next_exact(box: Machine) -> None:
    box.rates(line("sda", 5000, 0, 40000, 900))
    assert box.rates(line("sda", 3, 0, 24, 6))[BlockKey("sda", 1)] == UNKNOWN_BLOCK_RATES._replace(in_flight=0)
    assert box.rates(line("sda", 5, 0, 40, 26))[BlockKey("sda", 1)].read_await_ms == 10.0


def test_a_replugged_disk_of_the_same_name_is_another_disk(box: Machine) -> None:
    box.rates(line("sda", 5000), line("sda1", 4000, minor=1))
    box.plug("sda", 7)
    rates = box.rates(line("sda", 9000), line("sda1", 8000, minor=1))
    assert rates == {BlockKey(n, 7): UNKNOWN_BLOCK_RATES._replace(in_flight=0) for n in ("sda", "sda1")}
    assert box.collector.generation == 2
    assert box.rates(line("sda", 9010), line("sda1", 8010, minor=1))[BlockKey("sda1", 7)].reads_per_s == 10.0


def test_a_disk_keeps_its_number_while_too_many_files_are_open(box: Machine) -> None:
    box.rates(line("sda", 5000))
    box.stats.write_text(line("sda", 5010) + "\n")
    with too_many_open_files():
        during = box.collector.read()
    assert list(during) == [BlockKey("sda", 1)]
    assert box.rates(line("sda", 5020))[BlockKey("sda", 1)].reads_per_s is not None
    assert box.collector.generation == 1
    box.plug("sda", 7)
    assert list(box.rates(line("sda", 5030))) == [BlockKey("sda", 7)]


def test_a_loop_device_attached_again_is_another_device_although_it_keeps_its_counters(box: Machine) -> None:
    """The kernel keeps the totals of a loop device, so only diskseq shows that another file is attached."""
    box.plug("loop0", 74)
    box.rates(line("loop0", 500, major=7))
    box.plug("loop0", 76)
    assert box.rates(line("loop0", 500, major=7))[BlockKey("loop0", 74)].reads_per_s == 0.0
    assert box.rates(line("loop0", 900, major=7)) == {BlockKey("loop0", 76): UNKNOWN_BLOCK_RATES._replace(in_flight=0)}
    assert box.rates(line("loop0", 910, major=7))[BlockKey("loop0", 76)].reads_per_s == 10.0


def test_devices_may_come_and_go(box: Machine) -> None:
    sda, nvme = BlockKey("sda", 1), BlockKey("nvme0n1", 2)
    box.rates(line("sda", 10))
    rates = box.rates(line("sda", 20), line("nvme0n1", 999999))
    assert rates[sda].reads_per_s == 10.0
    assert rates[nvme] == UNKNOWN_BLOCK_RATES._replace(in_flight=0)
    rates = box.rates(line("nvme0n1", 1000009))
    assert list(rates) == [nvme]
    assert rates[nvme].reads_per_s == 10.0
    # The device was removed and came back between two readings, with the same counters but another identity.
    box.plug("nvme0n1", 5)
    assert box.rates(line("nvme0n1", 1000010))[BlockKey("nvme0n1", 5)].reads_per_s is None
    assert box.rates() == {}
    assert box.collector.generation == 5


def test_two_swapped_lines_stay_with_their_devices(box: Machine) -> None:
    box.rates(line("sda", 10), line("nvme0n1", 500))
    rates = box.rates(line("nvme0n1", 510), line("sda", 12))
    assert {key.name: r.reads_per_s for key, r in rates.items()} == {"nvme0n1": 10.0, "sda": 2.0}
    assert next(iter(rates)).name == "nvme0n1"


def test_a_broken_line_hides_only_its_own_device(box: Machine) -> None:
    box.rates(line("sda", 10), line("nvme0n1", 500))
    assert [key.name for key in box.rates("garbage", line("nvme0n1", 510))] == ["nvme0n1"]
    rates = box.rates(line("sda", 30), line("nvme0n1", 520))
    assert rates[BlockKey("sda", 1)].reads_per_s is None


def test_an_old_kernel_has_no_diskseq_and_no_counters_of_discards_and_flushes(tmp_path: Path) -> None:
    root = machine("made-kernel-4.15", tmp_path)
    table = BlockCollector(root, Clock()).read()
    assert {key.diskseq for key in table} == {0}
    assert [key.name for key in table][:2] == ["sda", "sda1"]
    assert "sde1" not in {key.name for key in table}
    assert all(counters.dc_ios is None and counters.fl_ios is None for counters in table.values())


@pytest.mark.parametrize("name", names())
def test_every_captured_machine_can_be_read_again_after_close(name: str, tmp_path: Path) -> None:
    root = machine(name, tmp_path)
    collector = BlockCollector(root, Clock())
    table = collector.read()
    lines = root.read("proc/diskstats").splitlines()
    assert len(table) == len([raw for raw in lines if parse_line(raw)]) > 0
    collector.close()
    assert collector.read() == table


def test_a_partition_has_the_diskseq_of_its_disk(tmp_path: Path) -> None:
    table = BlockCollector(machine("made-laptop", tmp_path), Clock()).read()
    numbers = {key.name: key.diskseq for key in table}
    assert numbers["nvme0n1p2"] == numbers["nvme0n1"] > 0
    assert numbers["sda1"] == numbers["sda"] != numbers["nvme0n1"]


def test_a_missing_diskstats_file_is_an_error_until_it_appears(tmp_path: Path) -> None:
    collector = BlockCollector(Root(str(tmp_path)), Clock())
    with pytest.raises(FileNotFoundError):
        collector.read()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/diskstats").write_text(line("sda", 1) + "\n")
    assert list(collector.read()) == [BlockKey("sda", 0)]


def test_few_descriptors_are_open_and_all_are_closed(box: Machine) -> None:
    def open_count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = open_count()
    for i in range(20):
        box.rates(line("sda", i), line("nvme0n1", i))
    assert open_count() <= before + 3
    box.collector.close()
    assert open_count() == before


def test_a_thousand_devices_are_read_fast(box: Machine) -> None:
    """Each of 1,000 devices has its rate, and a reading takes far less than a tick if 100 devices are active."""
    for i in range(1000):
        box.plug(f"nvme{i}n1", i + 10)
    box.rates(*(line(f"nvme{i}n1", i, i, i, i) for i in range(1000)))
    cost = []
    for tick in range(1, 6):
        moved = [line(f"nvme{i}n1", i + (tick * i if i % 10 == 0 else 0), i, i, i) for i in range(1000)]
        box.stats.write_text("\n".join(moved) + "\n")
        start = time.process_time()
        now = box.collector.read()
        cost.append(time.process_time() - start)
        rates = block_rates(box.before, now, 1.0)
        box.before = now
        assert [rates[BlockKey(f"nvme{i}n1", i + 10)].reads_per_s for i in range(1000)] == [
            float(i if i % 10 == 0 else 0) for i in range(1000)
        ]
    assert min(cost) < 0.02
