"""The places where causes are made: slow, limited, full or distant disks, and groups that are short of memory.

Each scene takes the run's folder and yields the Setting of its trainer. At its end everything is removed again.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.rigs.slowdisk import FuseDisk
from tests.rigs.slowdisk.loop import attach, detach, run
from tests.scenarios.cause import Scene, Setting
from tests.scenarios.place import SWAPS, die_with_us, drop_group, give_back_zram, group_name

CGROUPS = Path("/sys/fs/cgroup")
BLKIO = CGROUPS / "blkio"
MEMORY = CGROUPS / "memory"
STORE = Path(__file__).with_name("object_store.py")
EXT4 = ("mkfs.ext4", "-q", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")


def write_files(folder: Path, count: int, mebibytes: int) -> None:
    """Write files of random bytes, none of which stays in the page cache."""
    block = os.urandom(1 << 20)
    for number in range(count):
        with (folder / f"{number:03}.bin").open("wb") as file:
            for _ in range(mebibytes):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_files(folder: Path) -> None:
    """Read all files of a folder, so that they are in the page cache."""
    for path in folder.glob("*.bin"):
        path.read_bytes()


def within_group(group: Path) -> tuple[str, ...]:
    """Return the words that start a program inside a control group."""
    return ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")


@contextlib.contextmanager
def plain(folder: Path) -> Iterator[Setting]:
    """Provide a folder on the machine's disk, with some data."""
    data = folder / "data"
    data.mkdir()
    write_files(data, 4, 8)
    yield Setting(data)


@contextlib.contextmanager
def mounted(node: str, folder: Path, make: Sequence[str] = EXT4) -> Iterator[None]:
    """Mount a new filesystem on a device, by default ext4."""
    folder.mkdir()
    run(*make, node)
    run("mount", "-o", "noatime,nodiscard", node, str(folder))
    try:
        yield
    finally:
        run("umount", "-l", str(folder))


def slow(
    delay_us: int,
    bytes_per_s: int = 0,
    *,
    serial: bool = False,
    files: tuple[int, int] = (8, 16),
    mebibytes: int = 256,
    cached: bool = False,
    make: Sequence[str] = EXT4,
) -> Scene:
    """Return a scene with a disk that is slow for every process: an ext4 on a loop device over FUSE.

    serial: whether it serves one request after the other. files: the number of files, and the MiB of each. cached:
    whether they are in the page cache. make: the command that makes another filesystem on the disk.
    """

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        data = folder / "data"
        with FuseDisk(folder, mebibytes, serial=serial) as disk, mounted(disk.node, data, make):
            write_files(data, *files)
            if cached:
                read_files(data)
            disk.set(delay_us=delay_us, bytes_per_s=bytes_per_s)
            try:
                yield Setting(data)
            finally:
                disk.set()

    return scene


def stacked(read_bytes_per_s: int = 0, read_ios: int = 0, *, files: tuple[int, int] = (8, 16)) -> Scene:
    """Return a scene with a disk that is slow for every process.

    It is a loop device on a loop device. The lower one is throttled for the whole machine.
    """

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        image, data = folder / "stack.img", folder / "data"
        run("fallocate", "-l", "256M", str(image))
        with contextlib.ExitStack() as stack:
            lower = attach(image)
            stack.callback(detach, lower)
            upper = attach(Path(lower))
            stack.callback(detach, upper)
            stack.enter_context(mounted(upper, data))
            write_files(data, *files)
            number = Path(f"/sys/block/{Path(lower).name}/dev").read_text().strip()
            wanted = {"read_bps": read_bytes_per_s, "read_iops": read_ios}
            for what, value in wanted.items():
                limit = BLKIO / f"blkio.throttle.{what}_device"
                stack.callback(limit.write_text, f"{number} 0")
                limit.write_text(f"{number} {value}")
            yield Setting(data)

    return scene


def limited(read_bytes_per_s: int) -> Scene:
    """Return a scene with a folder on the machine's disk, and a control group whose reads from it are limited."""

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        group = BLKIO / group_name(folder)
        group.mkdir()
        disk = os.stat(folder).st_dev
        device = f"{os.major(disk)}:{os.minor(disk)}"
        (group / "blkio.throttle.read_bps_device").write_text(f"{device} {read_bytes_per_s}")
        try:
            with plain(folder) as setting:
                yield setting._replace(within=within_group(group))
        finally:
            drop_group(group)

    return scene


def short_of_cache(limit_mb: int, delay_us: int, bytes_per_s: int, files: tuple[int, int]) -> Scene:
    """Return a scene with a slow disk, and a control group that has less memory than the data needs."""

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        with (
            memory_group(folder, limit_mb) as group,
            slow(delay_us, bytes_per_s, files=files, mebibytes=512)(folder) as s,
        ):
            yield s._replace(within=within_group(group))

    return scene


@contextlib.contextmanager
def memory_group(folder: Path, limit_mb: int) -> Iterator[Path]:
    """Provide a control group with this much memory. Its processes may swap."""
    group = MEMORY / group_name(folder)
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(f"{limit_mb}M")
    try:
        yield group
    finally:
        drop_group(group)


def short_of_memory(limit_mb: int) -> Scene:
    """Return a scene with a control group that has little memory, and with swap on compressed memory."""

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        number = int(Path("/sys/class/zram-control/hot_add").read_text())
        (folder / SWAPS).write_text(json.dumps([number]))
        Path(f"/sys/block/zram{number}/disksize").write_text("1G")
        node = f"/dev/zram{number}"
        try:
            run("mkswap", node)
            run("swapon", node)
            with memory_group(folder, limit_mb) as group, plain(folder) as setting:
                yield setting._replace(within=within_group(group))
        finally:
            give_back_zram(number)

    return scene


def small_shm(mebibytes: int) -> Scene:
    """Return a scene in a mount namespace with a small /dev/shm."""
    mount = f'mount -t tmpfs -o size={mebibytes}m tmpfs /dev/shm && exec "$@"'

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        with plain(folder) as setting:
            yield setting._replace(within=("unshare", "-m", "sh", "-c", mount, "sh"))

    return scene


@contextlib.contextmanager
def full_filesystem(folder: Path) -> Iterator[Setting]:
    """Provide a disk with a full filesystem."""
    data = folder / "data"
    with FuseDisk(folder, 64) as disk, mounted(disk.node, data):
        write_files(data, 2, 8)
        with contextlib.suppress(OSError), (data / "old.checkpoint").open("wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass
        yield Setting(data)


def far(delay_us: int, bytes_per_s: int = 0) -> Scene:
    """Return a scene with a folder on a FUSE filesystem, which is slow and has no block device, as over a network."""

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        with FuseDisk(folder, 256, source="slowfs@far:/data") as disk:
            served = folder / "fuse.mnt"
            with (served / "disk.img").open("r+b") as file:
                for _ in range(256):
                    file.write(os.urandom(1 << 20))
                file.flush()
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            disk.set(delay_us=delay_us, bytes_per_s=bytes_per_s)
            try:
                yield Setting(served)
            finally:
                disk.set()

    return scene


def object_store(delay_ms: int, bytes_per_s: int) -> Scene:
    """Return a scene with a folder that names an HTTP server on this machine.

    The server waits for ``delay_ms`` before each answer, and sends at most ``bytes_per_s`` on each connection.
    """

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        command = [sys.executable, str(STORE), str(folder / "url"), str(delay_ms), str(bytes_per_s)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=die_with_us
        ) as server:
            try:
                assert server.stdout is not None
                if not server.stdout.readline():
                    raise RuntimeError(f"the object store ended with {server.wait()}")
                yield Setting(folder)
            finally:
                server.kill()

    return scene
