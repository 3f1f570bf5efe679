"""Several lines in the kernel's log about one failed command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.kernel_log.collector import KernelLogCollector
from iotop_ai.collectors.machine.kernel_log.event import LogEvent
from iotop_ai.model.reading import Status
from tests.clocks import SetClock
from tests.collectors.machine.kernel_log.test_collector import Log
from tests.rigs.descriptors import too_many_open_files


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    made.close()


def test_an_ata_incident_counts_once_and_has_its_kind(log: Log, tmp_path: Path) -> None:
    way = "../devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sdb"
    (tmp_path / "sys/block").mkdir(parents=True)
    (tmp_path / "sys/block/sdb").symlink_to(way)
    (tmp_path / "sys/block/sdc").symlink_to(way.replace("ata3", "ata31").replace("sdb", "sdc"))
    log.collector.read()
    (tmp_path / "sys/block/sdb").unlink()  # the disk is removed before the line about it is read
    log.write("ata3.00: exception Emask 0x0 SAct 0x40000000 SErr 0x0 action 0x0")
    log.write("ata3.00: irq_stat 0x40000008")
    log.write("ata3.00: failed command: READ FPDMA QUEUED")
    log.write("ata3.00: status: { DRDY ERR }")
    assert log.collector.read().errors["sdb"][::2] == (1, "ATA command")
    log.write("ata3.00: error: { UNC }")
    log.write("ata4.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen")
    errors = log.collector.read().errors
    assert {name: (one.lines, one.what) for name, one in errors.items()} == {
        "sdb": (1, "critical medium"), "ata4.00": (1, "link"),
    }  # fmt: skip
    assert [(one.subject, one.text) for one in log.collector.events()] == [
        ("sdb", "sdb, ata3.00: link error (SErr 0x0) (and 2 more)"),
        ("ata4.00", "ata4.00: link error (SErr 0x0, frozen)"),
    ]


def test_an_error_of_an_optical_drive_does_not_count_for_its_neighbour(log: Log, tmp_path: Path) -> None:
    way = "../devices/pci0000:00/0000:00:01.1/ata2/host1/target1:0:{0}/1:0:{0}:0/block/{1}"
    (tmp_path / "sys/block").mkdir(parents=True)
    (tmp_path / "sys/block/sda").symlink_to(way.format(0, "sda"))
    log.collector.read()
    # No driver has taken the drive yet, so /sys does not list it.
    log.write("ata2.01: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen")
    assert {name: one.lines for name, one in log.collector.read().errors.items()} == {"ata2.01": 1}
    (tmp_path / "sys/block/sr0").symlink_to(way.format(1, "sr0"))
    log.write("ata2.01: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen")
    log.write("ata2.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen")
    log.write("ata2: exception Emask 0x10 SAct 0x0 SErr 0x4010000 action 0xe frozen")
    errors = log.collector.read().errors
    assert {name: one.lines for name, one in errors.items()} == {"ata2.01": 1, "sr0": 1, "sda": 1, "ata2": 1}


SATA = "../devices/pci0000:00/0000:00:1f.2/ata6/host5/target5:0:0/5:0:0:0/block/sdb"
BAD_READ = (
    "ata6.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x0",
    "ata6.00: failed command: READ DMA",
    "ata6.00: status: { DRDY ERR }",
    "ata6.00: error: { UNC }",
    "ata6.00: configured for UDMA/133",
    "sd 5:0:0:0: [sdb] tag#22 Add. Sense: Unrecovered read error - auto reallocate failed",
    "blk_update_request: I/O error, dev sdb, sector 1845312 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
    "Buffer I/O error on dev sdb, logical block 230664, async page read",
    "ata6: EH complete",
)
PLAIN = BAD_READ[6]


@pytest.mark.parametrize(
    ("lines", "count", "what"),
    [
        (BAD_READ, 1, "critical medium"),
        (BAD_READ * 3, 3, "critical medium"),
        ([line.replace("UNC", "ICRC ABRT") for line in BAD_READ], 1, "interface CRC"),
        ([line for line in BAD_READ if "UNC" not in line], 1, "ATA command"),
        ([line.replace(": I/O", ": critical medium") for line in BAD_READ if "UNC" not in line], 1, "critical medium"),
        ([PLAIN, PLAIN.replace("I/O", "critical medium"), PLAIN], 3, "critical medium"),
        ([PLAIN, PLAIN], 2, "I/O"),
    ],
    ids=["one bad read", "retried", "cable", "no cause", "the cause last", "without libata", "plain"],
)
def test_one_bad_read_of_a_sata_disk_is_one_error_with_its_cause(
    log: Log, tmp_path: Path, lines: list[str], count: int, what: str
) -> None:
    (tmp_path / "sys/block").mkdir(parents=True)
    (tmp_path / "sys/block/sdb").symlink_to(SATA)
    log.collector.read()
    for line in lines:
        log.write(line)
    assert {name: one[::2] for name, one in log.collector.read().errors.items()} == {"sdb": (count, what)}


def test_a_known_cause_is_dropped_when_the_errors_end(tmp_path: Path) -> None:
    now = SetClock()
    collector = KernelLogCollector(Root(str(tmp_path)), now)
    medium = LogEvent("io_error", "sda", "", "critical medium", is_counted=True)
    plain = medium._replace(what="I/O")
    found = []
    for seconds, one in ((0, medium), (500, plain), (1000, plain), (1700, plain)):
        now.now_ns = seconds * 10**9
        collector._add_events([one], 0)
        found.append(collector._errors["sda"].what)
    assert found == ["critical medium", "critical medium", "critical medium", "I/O"]


READ_ERROR = "I/O error, dev sdb, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({"diskseq": "7"}, {"diskseq": "12"}, False),
        ({"diskseq": "7", "wwid": "naa.5a"}, {"diskseq": "12", "wwid": "naa.5b"}, False),
        ({"diskseq": "7", "wwid": "naa.5a"}, {"diskseq": "12", "wwid": "naa.5a"}, True),  # a cable with a bad contact
        ({"serial": "A"}, {"serial": "B"}, False),  # before Linux 5.15
        ({}, {"diskseq": "12"}, True),
        ({"diskseq": "7"}, {}, True),
    ],
)
def test_a_disk_does_not_inherit_the_errors_of_the_disk_that_it_replaces(
    log: Log, tmp_path: Path, before: dict[str, str], after: dict[str, str], kept: bool
) -> None:
    def connect(files: dict[str, str]) -> None:
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")

    folder = tmp_path / "sys/block/sdb"
    folder.mkdir(parents=True)
    connect(before)
    log.collector = KernelLogCollector(Root(str(tmp_path)), clock := SetClock())
    log.collector.read()
    log.write(READ_ERROR)
    assert log.collector.read().errors["sdb"].lines == 1
    for name in before:
        (folder / name).unlink()
    clock.skip(11)
    assert log.collector.read().errors["sdb"].lines == 1  # a disk that is removed keeps its errors
    connect(after)
    clock.skip(11)
    assert ("sdb" in log.collector.read().errors) is kept
    log.write(READ_ERROR)
    assert log.collector.read().errors["sdb"].lines == (2 if kept else 1)


def test_the_first_error_of_a_replacement_is_its_own(log: Log, tmp_path: Path) -> None:
    number = tmp_path / "sys/block/sdb/diskseq"
    number.parent.mkdir(parents=True)
    number.write_text("7\n")
    log.collector.read()
    for _ in range(3):
        log.write(READ_ERROR)
    assert log.collector.read().errors["sdb"].lines == 3
    number.write_text("12\n")
    log.write(READ_ERROR)
    assert log.collector.read().errors["sdb"].lines == 1


def test_another_nvme_controller_does_not_inherit_errors(log: Log, tmp_path: Path) -> None:
    serial = tmp_path / "sys/class/nvme/nvme0/serial"
    serial.parent.mkdir(parents=True)
    serial.write_text("A\n")
    log.collector.read()
    log.write("nvme nvme0: I/O 834 QID 3 timeout, aborting")
    assert log.collector.read().errors["nvme0"].lines == 1
    serial.write_text("B\n")
    log.write("nvme nvme0: I/O 834 QID 3 timeout, aborting")
    assert log.collector.read().errors["nvme0"].lines == 1


def test_the_log_is_opened_again_after_too_many_open_files(log: Log, tmp_path: Path) -> None:
    clock = SetClock()
    collector = KernelLogCollector(Root(str(tmp_path)), clock)
    with too_many_open_files():
        failed = take_reading(collector, clock)
    assert (failed.status, failed.reason) == (Status.FAILED, "/dev/kmsg: Too many open files")
    clock.skip(29)
    assert take_reading(collector, clock).status is Status.FAILED
    clock.skip(1)
    assert take_reading(collector, clock).status is Status.OK
    log.write("critical medium error, dev sdb, sector 7 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2")
    assert [*collector.read().errors] == ["sdb"]
    collector.close()


def test_a_further_device_replaces_the_one_with_the_oldest_error(log: Log, tmp_path: Path) -> None:
    clock = SetClock()
    collector = KernelLogCollector(Root(str(tmp_path)), clock)
    collector.read()
    for number in (*range(256), 0, 256):
        clock.skip(1)
        log.write(f"critical medium error, dev dm-{number}, sector 7 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2")
        collector.read()
    assert {*collector.read().errors} == {f"dm-{number}" for number in range(257)} - {"dm-1"}
    collector.close()
