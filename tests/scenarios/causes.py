"""The causes: each makes its trouble for real in a folder and says how the trainer is to be started in it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.rigs.slowdisk import FuseDisk, why_no_fuse_disk
from tests.rigs.slowdisk.loop import run
from tests.scenarios.cause import Cause, Scene, Setting

BLKIO = Path("/sys/fs/cgroup/blkio")


def write_files(folder: Path, count: int, mebibytes: int) -> None:
    block = os.urandom(1 << 20)
    for number in range(count):
        with (folder / f"{number:03}.bin").open("wb") as file:
            for _ in range(mebibytes):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def plain(folder: Path) -> Iterator[Setting]:
    """A folder on the machine's own disk."""
    data = folder / "data"
    data.mkdir()
    write_files(data, 4, 8)
    yield Setting(data)


def slow(delay_us: int, bytes_per_s: int = 0) -> Scene:
    """A disk that is slow for everybody: a loop over FUSE with ext4."""

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        data = folder / "data"
        data.mkdir()
        with FuseDisk(folder, 256) as disk:
            run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", disk.node)
            run("mount", "-o", "noatime,nodiscard", disk.node, str(data))
            try:
                write_files(data, 8, 16)
                disk.set(delay_us=delay_us, bytes_per_s=bytes_per_s)
                yield Setting(data)
                disk.set()
            finally:
                disk.set()
                run("umount", "-l", str(data))

    return scene


def limited(read_bytes_per_s: int) -> Scene:
    """A folder on the machine's own disk, and a control group that may read so many bytes per second from it."""

    @contextlib.contextmanager
    def scene(folder: Path) -> Iterator[Setting]:
        group = BLKIO / f"scenario-{os.getpid()}"
        group.mkdir()
        disk = os.stat(folder).st_dev
        device = f"{os.major(disk)}:{os.minor(disk)}"
        (group / "blkio.throttle.read_bps_device").write_text(f"{device} {read_bytes_per_s}")
        try:
            with plain(folder) as setting:
                yield setting._replace(within=("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"))
        finally:
            subprocess.run(["rmdir", str(group)], check=False)

    return scene


def why_no_blkio() -> str:
    """Why no group can be limited here; "" when one can."""
    return "" if (BLKIO / "blkio.throttle.read_bps_device").exists() else "needs cgroup v1 with blkio"


LOADING = ("--workers", "2", "--batch", "4", "--step", "0.05")
ALONE = ("--workers", "0", "--batch", "4", "--step", "0.05")


def on_slow_disk(label: str, delay_us: int, bytes_per_s: int, *options: str, gpu: bool = False) -> Cause:
    """A trainer on a disk that is slow for everybody."""
    return Cause(label, slow(delay_us, bytes_per_s), options, gpu=gpu, why_not=why_no_fuse_disk)


CAUSES: dict[str, Cause] = {
    "storage_read": on_slow_disk("storage_read", 40_000, 0, *LOADING),
    "small_random": on_slow_disk("small_random", 8_000, 0, *LOADING, "--size", "8192", "--batch", "16"),
    "loader_serial": on_slow_disk("loader_serial", 4_000, 0, *LOADING, "--workers", "1", "--step", "0.01"),
    "io_limit": Cause("io_limit", limited(8 << 20), LOADING, why_not=why_no_blkio, window_s=15.0),
    "cpu_prep": Cause("cpu_prep", plain, (*LOADING, "--warm", "--cpu-ms", "30", "--workers", "1")),
    "healthy": Cause("healthy", plain, (*LOADING, "--warm", "--cpu-ms", "1", "--step", "0.1"), negative=True),
    "healthy gpu": Cause(
        "gpu_bound", plain, (*LOADING, "--warm", "--cpu-ms", "1", "--step", "0.1"), gpu=True, negative=True
    ),
    "single_thread": Cause(
        "single_thread", plain, (*ALONE, "--warm", "--cpu-ms", "20", "--batch", "8"), gpu=True, window_s=15.0
    ),
    "storage_read nw=0": on_slow_disk("storage_read", 40_000, 0, *ALONE, gpu=True),
    "checkpoint_write": on_slow_disk(
        "checkpoint_write", 0, 10_000_000,
        *LOADING, "--warm", "--size", "4096", "--step", "0.1", "--save-every", "60", "--save-bytes", "50000000",
    ),
}  # fmt: skip
