"""Linux 5.3 with NVMe multipath, where the number in a disk's name differs from that of its controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.block.temperature import read_temperature
from iotop_ai.collectors.health.targets import disks_named, smart_disks, without_smart
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.diagnosis.rules.health import _disk_of
from iotop_ai.model.block.counters import UNKNOWN_BLOCK_RATES, BlockKey, BlockRates, block_rates
from tests.machines import machine


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return machine("made-nvme-5.3", tmp_path)


def test_smartctl_uses_the_controller_of_the_disk(root: Root) -> None:
    disks = smart_disks(root)
    assert {disk.name: disk.device for disk in disks} == {
        "nvme0n1": "/dev/nvme1",
        "nvme1n1": "/dev/nvme0",
        "nvme2n1": "/dev/nvme2",
    }
    found = {disk.name: without_smart(root, disk) for disk in disks}
    assert {name: (one.model, one.serial, one.temperature_celsius) for name, one in found.items()} == {
        "nvme0n1": ("Made SSD 1", "S1", 31),
        "nvme1n1": ("Made SSD 0", "S0", 30),
        "nvme2n1": ("Made array", "S2", 32),
    }
    assert [disk.name for disk in disks_named(root, "/dev/nvme0", disks)] == ["nvme1n1"]


def test_an_invisible_controller_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "sys/block/nvme0n1").mkdir(parents=True)
    (disk,) = smart_disks(Root(str(tmp_path)))
    assert (disk.device, disk.reason) == ("", "the kernel does not show its NVMe controller")


def test_temperature_and_log_lines_are_mapped_by_the_sysfs_links(root: Root) -> None:
    block = BlockCollector(root, Clock())
    block.read()
    infos = BlockInfoCollector(root, Clock(), block).read()
    assert {name: info.controllers for name, info in infos.items() if info.kind != "partition"} == {
        "nvme0n1": ("nvme1",),
        "nvme1n1": ("nvme0",),
        "nvme2n1": ("nvme2", "nvme10"),
        "nvme2c1n1": ("nvme2",),
        "nvme2c2n1": ("nvme10",),
    }
    assert (infos["nvme0n1"].pcie, infos["nvme1n1"].pcie) == ("4x2", "4x1")
    assert [read_temperature(root, name) for name in ("nvme0n1", "nvme1n1")] == [31.0, 30.0]
    # On this machine, "nvme nvme1: I/O 5 QID 3 timeout, aborting" is about nvme0n1.
    named = [_disk_of(name, infos) for name in ("nvme0", "nvme1", "nvme10", "nvme7", "nvme0n1", "sda")]
    assert named == ["nvme1n1", "nvme0n1", "nvme2n1", "nvme7", "nvme0n1", "sda"]
    old = {name: info._replace(controllers=None) for name, info in infos.items()}
    assert _disk_of("nvme1", old) == "nvme1n1", "the disk of an old recording without links was not found"


def test_partitions_of_a_multipath_disk_that_counts_nothing_are_unknown(root: Root) -> None:
    collector = BlockCollector(root, Clock())
    before = collector.read()
    file = Path(root.join("proc/diskstats"))
    text = file.read_text()

    def rates_after(text: str) -> dict[str, BlockRates]:
        file.write_text(text)
        return {key.name: rates for key, rates in block_rates(before, collector.read(), 1.0).items()}

    one = text.replace("nvme2c1n1 700 0 44800 700 0 0 0 0 0 501", "nvme2c1n1 705 0 45120 705 0 0 0 0 0 751")
    rates = rates_after(one)
    assert rates["nvme2n1p1"] == UNKNOWN_BLOCK_RATES
    head = rates["nvme2n1"]
    assert (head.reads_per_s, head.busy_ratio) == (5.0, 0.25), "the head lacks the time of its only busy path"
    both = one.replace("nvme2c2n1 300 0 19200 300 0 0 0 0 0 201", "nvme2c2n1 310 0 19840 310 0 0 0 0 0 301")
    head = rates_after(both)["nvme2n1"]
    assert (head.reads_per_s, head.busy_ratio) == (15.0, None), "the times of two paths were added, though they overlap"
    assert BlockKey("nvme2n1p1", 0) in before
