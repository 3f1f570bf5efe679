"""Causes on GPUs. A simulated NVML library shows the GPUs; their figures follow the work of the ranks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.rigs.slowdisk import why_no_fuse_disk
from tests.scenarios.cause import Cause, with_options
from tests.scenarios.ranks import BREAKS_S
from tests.scenarios.scenes import plain, slow

RANKS = Path(__file__).with_name("ranks.py")
FED = ("--workers", "1", "--batch", "4", "--cpu-ms", "1", "--warm", "--step", "0.15")
CARD = (
    ("pcie_gen_gpu", 5), ("power_default_mw", 700_000), ("power_min_mw", 200_000), ("power_max_mw", 700_000),
    ("temp_thr0", 95), ("temp_thr1", 90), ("ecc_mode", 1), ("ecc10", 0), ("rows", "0,0,0,0"), ("events", 8),
    ("fi.74", 0), ("fi.138", 4096), ("fi.139", 8192), ("fi.230", 0),
)  # fmt: skip
"""Figures of a data-centre card, in addition to the figures from ranks.py."""
LONG_S = 30.0
"""The window of the classes that need half a minute. Imbalance needs a whole minute."""


def _step(rng: random.Random) -> float:
    return round(rng.uniform(0.08, 0.3), 3)


def _steps(cause: Cause, rng: random.Random) -> Cause:
    step, batch = _step(rng), rng.randrange(2, 9)
    return with_options(cause, "--step", step, "--batch", batch, setting=f"step {step} s, batch {batch}")


def _amount(cause: Cause, rng: random.Random, low: float, high: float, unit: str = "") -> Cause:
    step, amount = _step(rng), round(rng.uniform(low, high), 3)
    return with_options(cause, "--step", step, "--amount", amount, setting=f"step {step} s, {amount}{unit}")


def _throttled(cause: Cause, rng: random.Random) -> Cause:
    return _amount(cause, rng, 1.15, 2.5, " times as slow")


def _copies(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with a copy that takes most of the time, and kernels that take the rest."""
    step = _step(rng)
    copy = round(step * rng.uniform(9, 12), 3)
    step = round(step * 0.6, 3)
    return with_options(cause, "--step", step, "--amount", copy, setting=f"step {step} s, copy {copy} s")


def _late_data(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with such slow samples on one rank that its batch takes two to four times as long as a step."""
    step, batch = _step(rng), rng.randrange(3, 7)
    cpu = round(1000 * step * rng.uniform(2, 4) / batch)
    return with_options(
        cause,
        "--step",
        step,
        "--batch",
        batch,
        "--amount",
        cpu,
        setting=f"step {step} s, batch {batch}, {cpu} ms a sample",
    )


def _late_step(cause: Cause, rng: random.Random) -> Cause:
    return _amount(cause, rng, 2.5, 5.0, " times as long")


def _network(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with an exchange that takes eight to twenty times as long as the computing."""
    step = round(rng.uniform(0.02, 0.05), 3)
    exchange = round(step * rng.uniform(8, 20), 3)
    return with_options(cause, "--step", step, "--amount", exchange, setting=f"step {step} s, exchange {exchange} s")


def _workers(cause: Cause, rng: random.Random) -> Cause:
    step, workers = _step(rng), rng.randrange(1, 4)
    return with_options(cause, "--step", step, "--workers", workers, setting=f"step {step} s, {workers} workers")


def _shared_disk(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with a disk on which the batches of all ranks take two to four times as long as a step."""
    delay_ms, batch = rng.randrange(3, 7), rng.randrange(6, 11)
    step = round(cause.gpus * batch * delay_ms / 1000 / rng.uniform(2, 4), 3)
    return with_options(
        cause._replace(scene=slow(delay_ms * 1000, serial=True)), "--batch", batch, "--step", step,
        setting=f"{delay_ms} ms a request, batch {batch}, step {step} s",
    )  # fmt: skip


def ranks(label: str, gpus: int, *trouble: object, **more: Any) -> Cause:
    """Return a cause with ranks on ``gpus`` GPUs and a fault. trouble: the options that describe the fault."""
    options = (*FED, "--ranks", str(gpus), *map(str, trouble))
    return Cause(label, plain, options, gpu=True, gpus=gpus, card=CARD, program=RANKS, **{"draw": _steps, **more})


CAUSES: dict[str, Cause] = {
    "gpu_throttle heat": ranks(
        "gpu_throttle", 1, "--trouble", "throttle", "--amount", 2, window_s=LONG_S, draw=_throttled
    ),
    "gpu_throttle brake of 1 in 4": ranks(
        "gpu_throttle", 4, "--trouble", "throttle", "--amount", 2, "--reason", 271, window_s=LONG_S, draw=_throttled,
    ),
    "gpu_throttle by mask": ranks(
        "gpu_throttle", 1, "--trouble", "throttle", "--amount", 2, "--reason", 0, window_s=LONG_S, draw=_throttled
    ),
    "pcie narrow": ranks("pcie", 1, "--trouble", "link", "--amount", 1, window_s=LONG_S, draw=_copies),
    "pcie replays": ranks("pcie", 2, "--trouble", "replays", "--amount", 5000, window_s=LONG_S),
    "gpu_memory grows": ranks("gpu_memory", 1, "--trouble", "memory", "--amount", 40_000_000),
    "gpu_memory shared": ranks("gpu_memory", 1, "--trouble", "shared", "--amount", 1),
    "gpu_fault Xid 48": ranks("gpu_fault", 2, "--trouble", "xid", "--amount", 48, window_s=BREAKS_S + 2.0),
    "gpu_fault Xid 31": ranks("gpu_fault", 1, "--trouble", "xid", "--amount", 31, window_s=BREAKS_S + 2.0),
    "gpu_fault lost": ranks("gpu_fault", 2, "--trouble", "lost", "--amount", 1, window_s=BREAKS_S + 2.0),
    "comm_wait hang": ranks("comm_wait", 4, "--trouble", "hang", "--with", 4, window_s=20.0),
    "comm_wait network": ranks(
        "comm_wait", 4, "--trouble", "slow-network", "--amount", 0.4, "--with", 4, window_s=20.0, draw=_network
    ),
    "imbalance data": ranks(
        "imbalance", 2, "--trouble", "late-data", "--amount", 100, window_s=60.0, seconds=75, draw=_late_data,
        background=False,
    ),
    "imbalance step": ranks(
        "imbalance", 4, "--trouble", "late-step", "--amount", 3, window_s=60.0, seconds=75, draw=_late_step
    ),
    "no_gpu": Cause(
        "no_gpu", plain, (*FED, "--on-cpu"), gpu=True, card=CARD, program=RANKS, window_s=LONG_S, draw=_workers
    ),
    "spinning main thread": ranks("gpu_bound", 1, "--workers", 0, "--kind", "spin", negative=True, background=False),
    "storage_read of eight GPUs": Cause(
        "storage_read", slow(4_000, serial=True), ("--workers", "2", "--batch", "8", "--step", "0.08", "--ranks", "8"),
        gpu=True, gpus=8, card=CARD, program=RANKS, window_s=20.0, draw=_shared_disk, why_not=why_no_fuse_disk,
    ),
    "eight GPUs spin": ranks("comm_wait", 8, "--trouble", "hang", "--with", 8, window_s=20.0, negative=True),
    "eight GPUs compute": ranks("gpu_bound", 8, negative=True, background=False),
}  # fmt: skip
