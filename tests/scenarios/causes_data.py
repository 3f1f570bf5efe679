"""Causes with remote data, jobs that are still starting, and machines without a job."""

from __future__ import annotations

import random
import shutil

from tests.rigs.slowdisk import why_no_fuse_disk
from tests.scenarios.cause import Cause, with_options
from tests.scenarios.causes import LOADING
from tests.scenarios.scenes import far, object_store, plain


def _mount(cause: Cause, rng: random.Random) -> Cause:
    delay, size, batch = rng.randrange(15, 50), rng.choice([128, 256, 384]), rng.randrange(3, 9)
    step = round(batch * size / 128 * delay / 1000 / 2 * rng.uniform(0.1, 0.4), 3)
    return with_options(
        cause._replace(scene=far(delay * 1000)), "--batch", batch, "--size", size << 10, "--step", step,
        setting=f"{delay} ms a request, batch {batch}, {size} KiB, step {step} s",
    )  # fmt: skip


def _store(cause: Cause, rng: random.Random) -> Cause:
    delay, rate = rng.randrange(10, 80), rng.randrange(2, 9)
    size, batch, workers = rng.choice([128, 256, 512]), rng.randrange(4, 9), rng.randrange(2, 5)
    loaded_s = batch * (delay / 1000 + size / 1024 / rate) / workers
    step = round(loaded_s * rng.uniform(0.1, 0.4), 3)
    return with_options(
        cause._replace(scene=object_store(delay, rate << 20)), "--workers", workers, "--batch", batch,
        "--size", size << 10, "--step", step,
        setting=f"{delay} ms, {rate} MiB/s a connection, {workers} workers, batch {batch}, {size} KiB, step {step} s",
    )  # fmt: skip


def _why_no_compiler() -> str:
    return "" if shutil.which("g++") else "needs g++"


CAUSES: dict[str, Cause] = {
    "network_fs": Cause("network_fs", far(30_000), LOADING, draw=_mount, why_not=why_no_fuse_disk),
    "object_stream": Cause(
        "object_stream", object_store(40, 4 << 20), (*LOADING, "--stream"), draw=_store, window_s=15.0
    ),
    "starting": Cause(
        "starting", plain, (*LOADING, "--start", "600"), torch=True, why_not=_why_no_compiler, negative=True
    ),
    "idle": Cause("idle", plain, program=None, negative=True, background=False, window_s=30.0, seconds=50),
}
"""The causes of this module by name."""
