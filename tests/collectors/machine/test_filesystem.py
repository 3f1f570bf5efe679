"""The threads that call statvfs: answers, refusals, and mounts that never answer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.filesystem import FilesystemCollector, mounts_to_query
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.reading import Reading, Status
from tests.clocks import SetClock
from tests.machines import build, machine
from tests.rigs.threads import no_thread
from tests.waiting import until

SECOND = 10**9


@dataclass
class Mounts:
    mounts: tuple[Mount, ...] = ()
    generation: int = 1
    real_paths: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Server:
    """A statvfs that answers only while ``up`` is set."""

    up: threading.Event = field(default_factory=threading.Event)
    asked: int = 0

    def __call__(self, path: str) -> os.statvfs_result:
        self.asked += 1
        self.up.wait(20)
        return os.statvfs("/")


def test_the_usage_on_this_machine_equals_statvfs() -> None:
    mounts = MountsCollector(Root())
    mounts.read()
    collector = FilesystemCollector(Root(), Clock(), mounts)
    assert {r.status for r in collector.read().values()} == {Status.PENDING}
    until(lambda: all(r.status is not Status.PENDING for r in collector.read().values()))
    reading = collector.read()["/"]
    now = os.statvfs("/")
    assert reading.value is not None
    assert reading.at_ns is not None
    assert reading.value.total_bytes == now.f_blocks * now.f_frsize
    assert reading.value.inodes_total == now.f_files
    assert reading.value.free_bytes == pytest.approx(now.f_bfree * now.f_frsize, rel=0.05)


def test_a_dead_server_blocks_only_its_mount_and_comes_back() -> None:
    """The reading of a mount that hangs says for how long. The mount is queried again when its server is back."""
    server, clock = Server(), SetClock(1000 * SECOND)
    mounts = Mounts((Mount("/", "ext4", "/dev/sda1", device="8:1"), Mount("/home", "nfs4", "nas:/x", device="0:40")))

    def statvfs(path: str) -> os.statvfs_result:
        return server(path) if path == "/home" else os.statvfs("/")

    collector = FilesystemCollector(Root(), clock, mounts, statvfs)
    start = time.monotonic()
    collector.read()
    until(lambda: collector.read()["/"].status is Status.OK)
    assert collector.read()["/home"] == Reading()
    for step, reason in ((14, "no answer for 14 s"), (60, "no answer for 74 s")):
        clock.now_ns += step * SECOND
        home = collector.read()["/home"]
        assert (home.value, home.status, home.reason) == (None, Status.FAILED, reason)
        assert home.remedy == "look at the server of nas:/x"
        until(lambda: collector.read()["/"].at_ns == clock.now_ns)
    assert server.asked == 1
    assert time.monotonic() - start < 5
    server.up.set()
    until(lambda: collector.read()["/home"].status is Status.OK)
    clock.now_ns += 11 * SECOND
    collector.read()
    until(lambda: server.asked == 2)


def test_another_filesystem_at_the_same_path_begins_anew() -> None:
    """A disk is mounted over a hung server, and then another disk in its place."""
    server, clock = Server(), SetClock(1000 * SECOND)
    mounts = Mounts((Mount("/data", "nfs4", "nas:/x", device="0:40"),))
    collector = FilesystemCollector(Root(), clock, mounts, server)
    collector.read()
    until(lambda: server.asked == 1)
    clock.now_ns += 5 * SECOND
    assert collector.read()["/data"].reason == "no answer for 5 s"
    mounts.mounts = (Mount("/data", "ext4", "/dev/sda1", device="8:1"),)
    assert collector.read()["/data"] == Reading()
    until(lambda: server.asked == 2)
    server.up.set()
    until(lambda: collector.read()["/data"].status is Status.OK)
    # A disk that becomes read-only is still the same filesystem.
    mounts.mounts = (Mount("/data", "ext4", "/dev/sda1", read_only=True, device="8:1"),)
    assert collector.read()["/data"].status is Status.OK
    server.up.clear()
    mounts.mounts = (Mount("/data", "ext4", "/dev/sdb1", device="8:17"),)
    assert collector.read()["/data"] == Reading()
    until(lambda: server.asked == 3)
    server.up.set()


def test_a_thread_that_cannot_start_fails_only_its_mount_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server, clock = Server(), SetClock(1000 * SECOND)
    mounts = Mounts((Mount("/home", "nfs4", "nas:/x", device="0:40"), Mount("/z", "ext4", "/dev/sda1", device="8:1")))
    collector = FilesystemCollector(Root(), clock, mounts, server)
    start, started = threading.Thread.start, list[threading.Thread]()

    def one_thread(thread: threading.Thread) -> None:
        if started:
            no_thread(thread)
        started.append(thread)
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", one_thread)
        for _ in range(3):
            readings = collector.read()
            assert readings["/home"] == Reading()
            assert (readings["/z"].status, readings["/z"].reason) == (
                Status.FAILED,
                "it is not queried: can't start new thread",
            )
    server.up.set()
    collector.read()
    until(lambda: all(one.status is Status.OK for one in collector.read().values()))
    assert server.asked == 2


def test_a_mount_is_queried_every_ten_seconds() -> None:
    server, clock = Server(), SetClock(1000 * SECOND)
    server.up.set()
    collector = FilesystemCollector(Root(), clock, Mounts((Mount("/a", "ext4", "/dev/sda1", device="8:1"),)), server)
    for _ in range(25):
        collector.read()
        until(lambda: collector.read()["/a"].status is Status.OK)
        clock.now_ns += SECOND
    assert server.asked == 3


def test_a_refusal_and_an_error_are_readings(tmp_path: Path) -> None:
    def statvfs(path: str) -> os.statvfs_result:
        raise PermissionError(13, "Permission denied", path) if "secret" in path else OSError(116, "Stale file handle")

    mounts = Mounts((Mount("/secret", "fuse.sshfs", "a:", device="0:5"), Mount("/old", "nfs", "b:/", device="0:6")))
    collector = FilesystemCollector(Root(str(tmp_path)), Clock(), mounts, statvfs)
    collector.read()
    until(lambda: all(r.status is not Status.PENDING for r in collector.read().values()))
    readings = {path: (r.status, r.reason) for path, r in collector.read().items()}
    assert readings["/old"] == (Status.FAILED, "filesystems: Stale file handle")
    assert readings["/secret"] == (Status.DENIED, f"{tmp_path}/secret: Permission denied")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"/mnt/donn\xe9es", "/mnt/donn\ufffdes"),
        ("/mnt/a\u00a0b".encode(), "/mnt/a\ufffdb"),
        (b"/mnt/a\nb c", "/mnt/a\ufffdb c"),
        (b"/mnt" + b"/folder" * 100, ("/mnt" + "/folder" * 100)[:512]),
    ],
)
def test_a_mount_whose_path_cannot_be_shown_unchanged_is_queried(path: bytes, shown: str, tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + path)
    in_octal = path.replace(b"\n", b"\\012").replace(b" ", b"\\040")
    root = build({"proc/self/mountinfo": b"30 1 8:1 / %s rw - ext4 /dev/sda1 rw\n" % in_octal}, tmp_path)
    mounts = MountsCollector(root)
    mounts.read()
    collector = FilesystemCollector(root, Clock(), mounts)
    until(lambda: collector.read()[shown].status is not Status.PENDING)
    reading = collector.read()[shown]
    assert reading.status is Status.OK, reading.reason


def test_an_unmounted_filesystem_is_removed() -> None:
    mounts = Mounts((Mount("/a", "ext4", "/dev/sda1", device="8:1"),))
    collector = FilesystemCollector(Root(), Clock(), mounts, lambda path: os.statvfs("/"))
    assert list(collector.read()) == ["/a"]
    mounts.mounts = ()
    assert collector.read() == {}


def test_only_some_mounts_are_queried(tmp_path: Path) -> None:
    mounts = MountsCollector(machine("made-gpu-server", tmp_path)).read()
    queried = [m.path for m in mounts_to_query(mounts)]
    # Not queried are the squashfs of a loop, and /srv/data, which is the filesystem of /raid under a second path.
    assert queried == ["/", "/boot/efi", "/cold data", "/dev/shm", "/home", "/lustre", "/mnt/s3", "/raid", "/scratch"]


def test_only_the_overlay_of_a_containers_root_is_queried() -> None:
    overlays = tuple(Mount(p, "overlay", "overlay", device=f"0:{i}") for i, p in enumerate(("/", "/var/lib/docker/m")))
    assert [m.path for m in mounts_to_query(overlays)] == ["/"]


def test_a_size_that_does_not_fit_into_64_bits_is_unknown() -> None:
    """A FUSE server may report any number of blocks."""
    answer = os.statvfs_result((4096, 4096, 2**61, 2**61, 2**61, 0, 0, 0, 0, 255))
    collector = FilesystemCollector(
        Root(), Clock(), Mounts((Mount("/mnt/s3", "fuse.x", "x", device="0:50"),)), lambda path: answer
    )
    until(lambda: collector.read()["/mnt/s3"].status is not Status.PENDING)
    reading = collector.read()["/mnt/s3"]
    assert (reading.value, reading.status) == (None, Status.UNSUPPORTED)
    assert reading.reason == "its size in bytes does not fit into 64 bits"


def test_ratios_equal_those_of_df() -> None:
    usage = FilesystemUsage(1000, 400, 300, 100, 75)
    assert (usage.used_ratio, usage.inodes_used_ratio) == (600 / 900, 0.25)
    assert FilesystemUsage(0, 0, 0, 0, 0).used_ratio is None
    assert FilesystemUsage(10, 5, 5, 0, 0).inodes_used_ratio is None


@pytest.mark.parametrize(("whole", "free"), [(4_000_000, 2**64 - 1), (2**64 - 1, 2**64 - 1), (2**64 - 1, 0), (5, 6)])
def test_a_filesystem_without_a_fixed_number_of_inodes_has_no_ratio(whole: int, free: int) -> None:
    """CephFS reports the number of its files, and -1 free inodes."""
    assert FilesystemUsage(10, 5, 5, whole, free).inodes_used_ratio is None
