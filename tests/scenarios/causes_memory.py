"""Causes in which something runs out or breaks: page cache, memory, shared memory, disk space, or a disk."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

from tests.machines import machine
from tests.rigs.slowdisk import why_no_fuse_disk
from tests.rigs.smart.disks import FAILING, HEALTHY, Smartctl, why_no_smartctl
from tests.scenarios.cause import Cause, Setting, with_options
from tests.scenarios.causes import LOADING
from tests.scenarios.needs import why_no_memory_group, why_no_namespace, why_no_zram
from tests.scenarios.scenes import full_filesystem, short_of_cache, short_of_memory, small_shm


def _thrash(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with two to three times as much data as the cache can hold, which is read again and again."""
    limit, rate = rng.randrange(80, 120), rng.randrange(20, 40)
    file_mib = round(limit * rng.uniform(2.0, 3.0) / 8)
    size, batch = rng.choice([256, 512]), rng.randrange(4, 9)
    step = round(batch * size / 1024 / rate * rng.uniform(0.2, 0.5), 3)
    return with_options(
        cause._replace(scene=short_of_cache(limit, 0, rate << 20, (8, file_mib))), "--batch", batch,
        "--size", size << 10, "--step", step,
        setting=f"{8 * file_mib} MiB of data in {limit} MiB, {rate} MiB/s, batch {batch}, {size} KiB",
    )  # fmt: skip


def _swapping(cause: Cause, rng: random.Random) -> Cause:
    limit, anon = rng.randrange(120, 180), rng.randrange(120, 200)
    return with_options(
        cause._replace(scene=short_of_memory(limit)), "--anon-mb", anon, "--batch", rng.randrange(8, 33),
        setting=f"2 x {anon} MiB in {limit} MiB",
    )  # fmt: skip


def _shm(cause: Cause, rng: random.Random) -> Cause:
    size = rng.randrange(12, 64)
    used = size - max(1, round(size * rng.uniform(0.02, 0.07)))
    return with_options(cause._replace(scene=small_shm(size)), "--shm-mb", used, setting=f"{used} of {size} MiB")


@contextlib.contextmanager
def failing(folder: Path) -> Iterator[Setting]:
    """A captured machine with two more disks, one of which is failing. The real smartctl reads prepared answers."""
    machine("vm-6.18", folder / "root")
    smartctl = Smartctl(folder)
    smartctl.disk("nvme0", HEALTHY)
    smartctl.disk("nvme1", FAILING)
    yield Setting(folder, env=(("SMARTCTL", str(smartctl.path)),), root=smartctl.tree)


CAUSES: dict[str, Cause] = {
    "cache_thrash": Cause(
        "cache_thrash", short_of_cache(100, 0, 30 << 20, (8, 30)),
        (*LOADING, "--sweep", "--keep", "--size", "262144"), window_s=30.0, seconds=60, draw=_thrash,
        why_not=lambda: why_no_memory_group() or why_no_fuse_disk(),
    ),
    "mem_pressure": Cause(
        "mem_pressure", short_of_memory(150), (*LOADING, "--warm", "--anon-mb", "150", "--batch", "16"),
        draw=_swapping, why_not=why_no_zram,
    ),
    "shm_full": Cause(
        "shm_full", small_shm(16), (*LOADING, "--warm", "--step", "0.1", "--shm-mb", "15"), draw=_shm,
        why_not=why_no_namespace,
    ),
    "fs_full": Cause("fs_full", full_filesystem, (*LOADING, "--warm", "--step", "0.1"), why_not=why_no_fuse_disk),
    "failing_disk": Cause(
        "failing_disk", failing, program=None, captured=True, background=False, why_not=why_no_smartctl
    ),
}  # fmt: skip
"""The causes of this module by name."""
