"""Causes on disks and in loaders, and negatives: similar cases in which nothing is wrong."""

from __future__ import annotations

import random
from typing import Any

from tests.rigs.slowdisk import why_no_fuse_disk
from tests.scenarios.cause import Cause, Scene, Setting, with_options
from tests.scenarios.needs import why_no_blkio, why_no_losetup
from tests.scenarios.scenes import limited, plain, slow, stacked, write_files

__all__ = ["CAUSES", "Cause", "Scene", "Setting", "limited", "plain", "slow", "why_no_blkio", "write_files"]

LOADING = ("--workers", "2", "--batch", "4", "--step", "0.05")
NO_WORKERS = ("--workers", "0", "--batch", "4", "--step", "0.05")
KIB = 1 << 10


def _serial_disk(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with parameters for which a batch takes at least twice as long as a step."""
    delay, size, batch = rng.randrange(20, 60), rng.choice([128, 256, 384]), rng.randrange(3, 9)
    loaded_s = batch * size / 128 * delay / 1000
    scene = slow(delay * 1000, serial=True, files=(rng.randrange(4, 9), rng.randrange(8, 17)))
    workers = 0 if "0" in cause.options[:2] else rng.randrange(2, 5)
    step = round(loaded_s * rng.uniform(0.2, 0.5), 3)
    return with_options(
        cause._replace(scene=scene), "--workers", workers, "--batch", batch, "--size", size * KIB, "--step", step,
        setting=f"{delay} ms a request, {workers} workers, batch {batch}, {size} KiB, step {step} s",
    )  # fmt: skip


def _stack(cause: Cause, rng: random.Random) -> Cause:
    rate, size, batch = rng.randrange(4, 13), rng.choice([128, 256, 512]), rng.randrange(8, 17)
    step = round(batch * size / 1024 / rate * rng.uniform(0.2, 0.5), 3)
    workers = rng.randrange(2, 5)
    return with_options(
        cause._replace(scene=stacked(rate << 20)), "--workers", workers, "--batch", batch, "--size", size * KIB,
        "--step", step, setting=f"{rate} MiB/s, {workers} workers, batch {batch}, {size} KiB, step {step} s",
    )  # fmt: skip


def _small(cause: Cause, rng: random.Random) -> Cause:
    delay, size, batch = rng.randrange(4, 13), rng.choice([4, 8, 16]), rng.randrange(12, 33)
    step = round(batch * delay / 1000 * rng.uniform(0.2, 0.5), 3)
    workers = rng.randrange(2, 4)
    return with_options(
        cause._replace(scene=slow(delay * 1000, serial=True)), "--workers", workers, "--batch", batch,
        "--size", size * KIB, "--step", step,
        setting=f"{delay} ms a request, {workers} workers, batch {batch}, {size} KiB, step {step} s",
    )  # fmt: skip


def _small_stack(cause: Cause, rng: random.Random) -> Cause:
    rate, size, batch = rng.randrange(100, 400), rng.choice([4, 8, 16]), rng.randrange(16, 49)
    step = round(batch / rate * rng.uniform(0.2, 0.5), 3)
    return with_options(
        cause._replace(scene=stacked(0, rate)), "--batch", batch, "--size", size * KIB, "--step", step,
        setting=f"{rate} requests/s, batch {batch}, {size} KiB, step {step} s",
    )  # fmt: skip


def _fast_disk(cause: Cause, rng: random.Random) -> Cause:
    delay, size, batch = rng.randrange(2, 6), rng.choice([128, 256]), rng.randrange(4, 13)
    step = round(batch * size / 128 * delay / 1000 * rng.uniform(0.2, 0.5), 4)
    return with_options(
        cause._replace(scene=slow(delay * 1000)), "--batch", batch, "--size", size * KIB, "--step", step,
        setting=f"{delay} ms a request, any number at once, batch {batch}, {size} KiB, step {step} s",
    )  # fmt: skip


def _first_epoch(cause: Cause, rng: random.Random) -> Cause:
    rate, size = rng.randrange(4, 9), rng.choice([256, 512])
    step = round(8 * size / 1024 / rate * rng.uniform(0.2, 0.5), 3)
    files = (10, 44)
    return with_options(
        cause._replace(scene=slow(0, rate << 20, files=files, mebibytes=512)), "--batch", 8, "--size", size * KIB,
        "--step", step, setting=f"{rate} MiB/s, {size} KiB, step {step} s",
    )  # fmt: skip


def _limit(cause: Cause, rng: random.Random) -> Cause:
    rate, size, batch = rng.randrange(4, 17), rng.choice([128, 256, 512]), rng.randrange(8, 17)
    step = round(batch * size / 1024 / rate * rng.uniform(0.2, 0.5), 3)
    workers = rng.randrange(2, 5)
    return with_options(
        cause._replace(scene=limited(rate << 20)), "--workers", workers, "--batch", batch, "--size", size * KIB,
        "--step", step, setting=f"{rate} MiB/s, {workers} workers, batch {batch}, {size} KiB, step {step} s",
    )  # fmt: skip


def _computing(cause: Cause, rng: random.Random) -> Cause:
    cpu, batch, workers = rng.randrange(15, 45), rng.randrange(3, 9), rng.randrange(1, 3)
    step = round(batch * cpu / 1000 / workers * rng.uniform(0.1, 0.4), 3)
    return with_options(
        cause, "--cpu-ms", cpu, "--batch", batch, "--workers", workers, "--step", step,
        setting=f"{cpu} ms a sample, {workers} workers, batch {batch}, step {step} s",
    )  # fmt: skip


def _without_workers(cause: Cause, rng: random.Random) -> Cause:
    cpu, batch = rng.randrange(10, 30), rng.randrange(4, 13)
    step = round(batch * cpu / 1000 * rng.uniform(0.2, 0.6), 3)
    return with_options(
        cause,
        "--cpu-ms",
        cpu,
        "--batch",
        batch,
        "--step",
        step,
        setting=f"{cpu} ms a sample, batch {batch}, step {step} s",
    )


def _fed(cause: Cause, rng: random.Random) -> Cause:
    batch, workers, step = rng.randrange(2, 9), rng.randrange(2, 5), round(rng.uniform(0.08, 0.25), 3)
    return with_options(
        cause, "--batch", batch, "--workers", workers, "--step", step,
        setting=f"{workers} workers, batch {batch}, step {step} s",
    )  # fmt: skip


def _saving(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with a save of 3 to 6 s after every 4 to 8 s of steps."""
    rate = rng.randrange(6, 13)
    size, every = rate * rng.randrange(3, 7), rng.randrange(40, 80)
    return with_options(
        cause._replace(scene=slow(0, rate * 1_000_000)), "--save-bytes", size * 1_000_000, "--save-every", every,
        setting=f"{rate} MB/s, {size} MB every {every} steps",
    )  # fmt: skip


def _rank_saves(cause: Cause, rng: random.Random) -> Cause:
    rate, seconds = rng.randrange(8, 15), rng.uniform(1.0, 2.5)
    size = round(rate * seconds)
    return with_options(
        cause._replace(scene=slow(0, rate * 1_000_000)), "--save-bytes", size * 1_000_000, "--save-every", 500,
        setting=f"{size} MB at {rate} MB/s once a minute",
    )  # fmt: skip


def on_slow_disk(label: str, scene: Scene, *options: str, **more: Any) -> Cause:
    """Return a cause whose trainer reads from a disk that is slow for every process."""
    return Cause(label, scene, options, why_not=why_no_fuse_disk)._replace(**more)


WARM = (*LOADING, "--warm", "--cpu-ms", "1", "--step", "0.1")
CAUSES: dict[str, Cause] = {
    "storage_read": on_slow_disk("storage_read", slow(40_000, serial=True), *LOADING, draw=_serial_disk),
    "storage_read torch": on_slow_disk(
        "storage_read", slow(40_000, serial=True), *LOADING, "--torch", torch=True, draw=_serial_disk
    ),
    "storage_read stack": Cause(
        "storage_read", stacked(10 << 20), (*LOADING, "--batch", "12"), draw=_stack, why_not=why_no_losetup
    ),
    "storage_read nw=0": on_slow_disk(
        "storage_read", slow(40_000, serial=True), *NO_WORKERS, gpu=True, draw=_serial_disk
    ),
    "cold first epoch": on_slow_disk(
        "storage_read", slow(0, 6 << 20, files=(10, 44), mebibytes=512), *LOADING, "--sweep", "--keep",
        negative=True, draw=_first_epoch,
    ),
    "small_random": on_slow_disk(
        "small_random", slow(8_000, serial=True), *LOADING, "--size", "8192", "--batch", "16", draw=_small
    ),
    "small_random stack": Cause(
        "small_random", stacked(0, 300), (*LOADING, "--size", "8192", "--batch", "24"), draw=_small_stack,
        why_not=why_no_losetup,
    ),
    "loader_serial": on_slow_disk(
        "loader_serial", slow(4_000), *LOADING, "--workers", "1", "--step", "0.01", negative=True, draw=_fast_disk
    ),
    "loader_serial torch": on_slow_disk(
        "loader_serial", slow(4_000), *LOADING, "--workers", "1", "--step", "0.01", "--torch", torch=True,
        draw=_fast_disk,
    ),
    "io_limit": Cause(
        "io_limit", limited(8 << 20), (*LOADING, "--batch", "12"), draw=_limit, why_not=why_no_blkio, window_s=15.0
    ),
    "cpu_prep": Cause("cpu_prep", plain, (*LOADING, "--warm", "--cpu-ms", "30", "--workers", "1"), draw=_computing),
    "cpu_prep torch": Cause(
        "cpu_prep", plain, (*LOADING, "--warm", "--cpu-ms", "30", "--workers", "1", "--torch"), torch=True,
        draw=_computing,
    ),
    "single_thread": Cause(
        "single_thread", plain, (*NO_WORKERS, "--warm", "--cpu-ms", "20", "--batch", "8"), gpu=True, window_s=15.0,
        draw=_without_workers,
    ),
    "checkpoint_write": on_slow_disk(
        "checkpoint_write", slow(0, 10_000_000),
        *LOADING, "--warm", "--size", "4096", "--step", "0.1", "--save-every", "60", "--save-bytes", "50000000",
        draw=_saving,
    ),
    "healthy": Cause("healthy", plain, WARM, negative=True, draw=_fed),
    "healthy torch": Cause("healthy", plain, (*WARM, "--torch"), torch=True, negative=True, draw=_fed),
    "healthy gpu": Cause("gpu_bound", plain, WARM, gpu=True, negative=True, draw=_fed),
    "healthy from cache": on_slow_disk(
        "healthy", slow(40_000, serial=True, files=(4, 8), cached=True), *LOADING, "--step", "0.1", "--keep",
        negative=True, draw=_fed,
    ),
    "checkpoint while peers spin": on_slow_disk(
        "gpu_bound", slow(0, 10_000_000), *WARM, "--peers", "1", "--save-every", "500", "--save-bytes", "20000000",
        gpu=True, gpus=2, negative=True, also=("checkpoint_write", "healthy"), background=False, seconds=75,
        draw=_rank_saves,
    ),
}  # fmt: skip
"""The causes of this module by name. The other modules causes_* add more."""
