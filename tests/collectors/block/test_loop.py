"""A real loop device that is attached, read, detached and attached again, which the kernel treats as another device."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.model.block.counters import BlockKey, block_rates
from tests.waiting import until

MIB = 1 << 20
LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
"""Source: linux/loop.h."""


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout.strip()


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file with 8 MiB of allocated blocks. The test is skipped where a loop device cannot be attached."""
    if os.geteuid() or not shutil.which("losetup"):
        pytest.skip("needs root and losetup to attach a loop device")
    path = tmp_path / "disk.img"
    path.write_bytes(os.urandom(8 * MIB))
    return path


@pytest.fixture
def loop(image: Path) -> Iterator[str]:
    """A loop device on the image. Its number is high, because other tests take the lowest free number."""
    number = 1000 + os.getpid() % 9000
    device = f"/dev/loop{number}"
    try:
        with open("/dev/loop-control", "rb") as control:
            fcntl.ioctl(control, LOOP_CTL_ADD, number)
            until(lambda: os.path.exists(device), device, 5.0)
        run("losetup", device, str(image))
    except (OSError, AssertionError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop device can be attached: {error}")
    yield device
    subprocess.run(["losetup", "-d", device], capture_output=True, timeout=20, check=False)
    until_detached(device)
    with open("/dev/loop-control", "rb") as control:
        fcntl.ioctl(control, LOOP_CTL_REMOVE, number)


def until_detached(device: str) -> None:
    """Wait until the kernel has detached the device, which happens when the last program that uses it closes it."""
    until(lambda: not os.path.exists(f"/sys/block/{device.removeprefix('/dev/')}/loop"), "it is detached", 20.0)


def read_directly(device: str, mib: int) -> None:
    run("dd", f"if={device}", "of=/dev/null", "bs=1M", f"count={mib}", "iflag=direct")


def diskseq(name: str) -> int:
    return int(Path(f"/sys/block/{name}/diskseq").read_text())


def test_a_loop_device_that_is_attached_again_is_another_device(loop: str, image: Path) -> None:
    name = loop.removeprefix("/dev/")
    if not os.path.exists(f"/sys/block/{name}/diskseq"):
        pytest.skip("this kernel has no diskseq (before 5.15)")
    collector = BlockCollector(Root(), Clock())
    key = BlockKey(name, diskseq(name))
    before = collector.read()
    assert key in before
    read_directly(loop, 4)
    after = collector.read()
    rates = block_rates(before, after, 1.0)[key]
    assert (rates.read_bytes_per_s, rates.write_bytes_per_s) == (4.0 * MIB, 0.0)

    run("losetup", "-d", loop)
    until_detached(loop)
    run("losetup", loop, str(image))
    again = BlockKey(name, diskseq(name))
    assert again != key
    read_directly(loop, 2)
    replugged = collector.read()
    rates_again = block_rates(after, replugged, 1.0)
    assert key not in rates_again
    assert rates_again[again].read_bytes_per_s is None
    # The kernel keeps the old device's totals: without diskseq in the key, both would count as one device, with a rate.
    assert replugged[again].rd_sectors >= after[key].rd_sectors

    read_directly(loop, 3)
    assert block_rates(replugged, collector.read(), 1.0)[again].read_bytes_per_s == 3.0 * MIB
    collector.close()


def test_a_loop_device_names_its_file_and_the_disk_below(loop: str, image: Path) -> None:
    root, clock = Root(), Clock()
    block, mounts = BlockCollector(root, clock), MountsCollector(root)
    block.read()
    mounts.read()
    infos = BlockInfoCollector(root, clock, block, mounts).read()
    info = infos[loop.removeprefix("/dev/")]
    assert (info.kind, info.detail, info.size_bytes) == ("loop", f"loop {image}", 8 * MIB)
    number = os.stat(image).st_dev
    disk = [i.name for i in infos.values() if (i.major, i.minor) == (os.major(number), os.minor(number))]
    assert list(info.below) == disk
