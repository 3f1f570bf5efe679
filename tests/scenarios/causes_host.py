"""Causes around a job: programs on its disk and cores, restarts of its workers, its end; and similar negatives."""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.rigs.slowdisk import why_no_fuse_disk
from tests.scenarios.cause import Cause, Scene, Setting, with_options
from tests.scenarios.play import running
from tests.scenarios.scenes import plain, slow

HOST = Path(__file__).with_name("host.py")
FED = ("--workers", "2", "--batch", "4", "--warm", "--cpu-ms", "1", "--step", "0.1")
EPOCHS = ("--mode", "epochs", "--workers", "2", "--batch", "2", "--warm", "--step", "0.05", "--epoch", "120")


def with_program(scene: Scene, mode: str, count: int = 1) -> Scene:
    """Return the scene with another program beside the job.

    mode: what the program does. count: the number of its threads or processes.
    """

    @contextlib.contextmanager
    def both(folder: Path) -> Iterator[Setting]:
        with scene(folder) as setting:
            command = [sys.executable, str(HOST), str(setting.folder), "--mode", mode, "--count", str(count)]
            with running(command):
                yield setting

    return both


@contextlib.contextmanager
def one_core(folder: Path) -> Iterator[Setting]:
    """Give the job only one of the machine's cores."""
    with plain(folder) as setting:
        yield setting._replace(within=("taskset", "-c", "0"))


def why_no_gcc() -> str:
    """Return why C programs cannot be compiled here; "" when they can."""
    return "" if shutil.which("gcc") else "needs gcc"


def why_no_taskset() -> str:
    """Return why a job cannot be bound to a core here; "" when it can."""
    return "" if shutil.which("taskset") else "needs taskset"


def _shared_disk(cause: Cause, rng: random.Random) -> Cause:
    rate, readers, batch = rng.randrange(12, 33), rng.randrange(3, 7), rng.randrange(4, 9)
    step = round(batch / 8 * rng.uniform(0.02, 0.06), 3)
    return with_options(
        cause._replace(scene=with_program(slow(0, rate << 20), "read", readers)), "--batch", batch, "--step", step,
        setting=f"{rate} MiB/s, {readers} other readers, batch {batch}, step {step} s",
    )  # fmt: skip


def _shared_cores(cause: Cause, rng: random.Random) -> Cause:
    others, cpu, batch = rng.randrange(8, 15), rng.randrange(10, 25), rng.randrange(3, 7)
    step = round(batch * cpu / 1000 * rng.uniform(0.5, 0.9), 3)
    return with_options(
        cause._replace(scene=with_program(plain, "spin", others)), "--cpu-ms", cpu, "--batch", batch, "--step", step,
        setting=f"{others} other programs, {cpu} ms a sample, batch {batch}, step {step} s",
    )  # fmt: skip


def _epochs(cause: Cause, rng: random.Random) -> Cause:
    step, epoch, imports = round(rng.uniform(0.03, 0.08), 3), rng.randrange(100, 180), rng.uniform(1.5, 3.0)
    return with_options(
        cause, "--step", step, "--epoch", epoch, "--import-s", round(imports, 2),
        setting=f"epochs of {epoch} steps of {step} s, {imports:.1f} s of imports",
    )  # fmt: skip


def _dies(cause: Cause, rng: random.Random) -> Cause:
    after = round(rng.uniform(8, 12), 1)
    return with_options(cause, "--after", after, setting=f"after {after} s")


def _fed(cause: Cause, rng: random.Random) -> Cause:
    batch, workers, step = rng.randrange(2, 6), rng.randrange(1, 4), round(rng.uniform(0.1, 0.25), 3)
    return with_options(
        cause, "--batch", batch, "--workers", workers, "--step", step,
        setting=f"{workers} workers, batch {batch}, step {step} s",
    )  # fmt: skip


CAUSES: dict[str, Cause] = {
    "noisy_neighbour disk": Cause(
        "noisy_neighbour", with_program(slow(0, 20 << 20), "read", 4),
        ("--workers", "2", "--batch", "8", "--step", "0.03"),
        draw=_shared_disk, why_not=why_no_fuse_disk, background=False,
    ),
    "noisy_neighbour cores": Cause(
        "noisy_neighbour", with_program(plain, "spin", 10),
        ("--workers", "1", "--batch", "4", "--warm", "--cpu-ms", "20", "--step", "0.06"),
        draw=_shared_cores, background=False,
    ),
    "worker_respawn": Cause(
        "worker_respawn", plain, EPOCHS, program=HOST, draw=_epochs, window_s=30.0, seconds=60, background=False
    ),
    "job_died SIGKILL": Cause("job_died", plain, (*FED, "--mode", "dies"), program=HOST, draw=_dies),
    "job_died SIGSEGV": Cause("job_died", plain, (*FED, "--mode", "dies", "--signal", "11"), program=HOST, draw=_dies),
    "inference server": Cause(
        "serving", plain, ("--mode", "serve"), gpu=True, program=HOST, negative=True, window_s=20.0
    ),
    "busy core beside": Cause(
        "healthy", with_program(plain, "spin", 1), FED, negative=True, draw=_fed, background=False
    ),
    "noisy log": Cause("healthy", with_program(plain, "write"), FED, negative=True, draw=_fed),
    "compile jobs": Cause(
        "healthy", with_program(plain, "compile"), FED, negative=True, draw=_fed, background=False, why_not=why_no_gcc
    ),
    "idle desktop": Cause("idle", with_program(plain, "desktop", 3), program=None, negative=True, background=False),
    "one core of several": Cause(
        "healthy", one_core, FED, negative=True, draw=_fed, why_not=why_no_taskset, background=False
    ),
}  # fmt: skip
"""The causes of this module by name, including variants of those in causes.py and causes_gpu.py."""
