"""The slow disks are as slow as configured, measured by the kernel's own counters."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.model.job.task_states import DISK, wait_state_in
from tests.rigs.slowdisk import FuseDisk, ThrottledDisk, why_no_fuse_disk, why_no_throttled_disk

pytestmark = pytest.mark.alone

READER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 65536)
size = os.lseek(fd, 0, 2)
at = 0
while True:
    os.preadv(fd, [buffer], at)
    at = (at + 65536) % (size - 65536)
"""


BUFFERED = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.lseek(fd, 0, 2)
at = 0
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
while True:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(fd, 4096, at)
    at = (at + 65536) % (size - 65536)
"""


def observe(
    name: str, popen: Callable[..., subprocess.Popen[bytes]], node: str, seconds: float, depth: int = 1
) -> tuple[float, ...]:
    """The reads per second, ms per read and busy ratio of ``depth`` readers, each with one request at a time."""
    stat = Path(f"/sys/block/{name}/stat")
    readers = [popen(sys.executable, "-c", READER, node) for _ in range(depth)]
    try:
        time.sleep(0.7)
        before, start = [int(x) for x in stat.read_text().split()], time.monotonic()
        time.sleep(seconds)
        after, end = [int(x) for x in stat.read_text().split()], time.monotonic()
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    reads = after[0] - before[0]
    return reads / (end - start), (after[3] - before[3]) / reads, (after[9] - before[9]) / (end - start) / 1000


def test_the_throttled_disk_is_as_slow_as_its_limit(tmp_path: Path) -> None:
    if why := why_no_throttled_disk(tmp_path):
        pytest.skip(why)
    with ThrottledDisk(tmp_path, 16) as disk:
        group = disk.group
        disk.limit(read_iops=50)
        # Some requests always wait for the throttle, even while a reader waits for a core. Other work on the disk below
        # can make it slower for a while but never faster, and requests of that time are still in the mean of the next
        # round.
        for _ in range(10):
            rate, wait_ms, busy = observe(disk.name, disk.popen, disk.node, 1.5, depth=4)
            assert rate <= 55
            assert wait_ms >= 0.85 * 4 * 20
            if rate >= 45 and wait_ms <= 1.15 * 4 * 20 and busy > 0.9:
                break
    assert rate >= 45
    assert wait_ms <= 1.15 * 4 * 20
    assert busy > 0.9
    assert not group.exists()
    assert not disk.image.exists()


def test_a_reader_that_waits_for_the_disk_is_in_state_d(tmp_path: Path) -> None:
    if why := why_no_throttled_disk(tmp_path):
        pytest.skip(why)
    samples: list[tuple[int, bytes]] = []
    with ThrottledDisk(tmp_path, 16) as disk:
        disk.limit(read_iops=50)
        readers = [disk.popen(sys.executable, "-c", text, disk.node) for text in (READER, BUFFERED)]
        try:
            end = time.monotonic() + 20
            while len(samples) < 200 and time.monotonic() < end:
                time.sleep(0.005)
                for reader in readers:
                    folder = Path(f"/proc/{reader.pid}")
                    before, stat, after = ((folder / name).read_bytes() for name in ("wchan", "stat", "wchan"))
                    wait_state = wait_state_in(before)
                    if before == after and wait_state is not None:
                        samples.append((wait_state, stat.rpartition(b") ")[2][:1]))
        finally:
            for reader in readers:
                reader.kill()
                reader.wait()
    blocked = [state for wait_state, state in samples if wait_state == DISK]
    assert len(blocked) > 100
    # Between the three reads, a reader may have been woken and have slept again.
    assert blocked.count(b"D") >= 0.95 * len(blocked)


def test_the_fuse_disk_is_as_slow_as_its_delay(tmp_path: Path) -> None:
    if why := why_no_fuse_disk():
        pytest.skip(why)
    with FuseDisk(tmp_path, 16) as disk:
        disk.set(delay_us=10_000)
        rate, wait_ms, busy = observe(disk.name, disk.popen, disk.node, 1.0)
        disk.set(fail=True)
        fd = os.open(disk.node, os.O_RDONLY | os.O_DIRECT)
        try:
            with pytest.raises(OSError, match="Input/output error"):
                os.preadv(fd, [mmap.mmap(-1, 4096)], 8192)
        finally:
            os.close(fd)
    # A read is never faster than the delay. On a busy machine, the server and the reader also wait for a core.
    assert wait_ms > 10
    assert rate < 101
    assert busy == pytest.approx(rate * wait_ms / 1000, rel=0.1)
