"""Jobs that stand still, simulate, save in the background or wait in a driver; a slow disk beside a full filesystem."""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.rigs.slowdisk import why_no_fuse_disk
from tests.rigs.slowdisk.loop import attach, detach, run
from tests.scenarios.cause import Cause, Scene, Setting, with_options
from tests.scenarios.causes import CAUSES as CAUSES_ON_DISKS
from tests.scenarios.causes import LOADING, WARM, on_slow_disk
from tests.scenarios.causes_host import HOST
from tests.scenarios.play import running
from tests.scenarios.scenes import far, mounted, plain, slow
from tests.scenarios.steps import why_no_ioctl

UNUSUAL = Path(__file__).with_name("unusual.py")
BTRFS = ("mkfs.btrfs", "-q", "-f", "--nodiscard")
LOADER = ("--workers", "2", "--batch", "4", "--warm", "--cpu-ms", "1", "--step", "0.1")
STUCK_S = 85.0
"""The seconds to wait: at most 8 until the job stops, a minute without movement, the 10 s window, and a reserve."""


def beside_full(scene: Scene) -> Scene:
    """Return the scene with two small full filesystems that its job does not use. One of them is called boot."""

    @contextlib.contextmanager
    def both(folder: Path) -> Iterator[Setting]:
        with contextlib.ExitStack() as stack:
            for name in ("scratch", "boot"):
                image, place = folder / f"{name}.img", folder / "other" / name
                place.parent.mkdir(exist_ok=True)
                run("fallocate", "-l", "16M", str(image))
                node = attach(image)
                stack.callback(detach, node)
                stack.enter_context(mounted(node, place))
                with contextlib.suppress(OSError), (place / "old").open("wb", buffering=0) as file:
                    while file.write(bytes(1 << 16)):
                        pass
            yield stack.enter_context(scene(folder))

    return both


def beside_reader(scene: Scene) -> Scene:
    """Return the scene with a slow local disk, from which another program reads at a rate similar to the job's."""

    @contextlib.contextmanager
    def both(folder: Path) -> Iterator[Setting]:
        other = folder / "local"
        other.mkdir()
        with contextlib.ExitStack() as stack:
            local = stack.enter_context(slow(30_000)(other))
            reader = [sys.executable, str(HOST), str(local.folder), "--mode", "read", "--count", "2"]
            stack.enter_context(running(reader))
            yield stack.enter_context(scene(folder))

    return both


def _after(cause: Cause, rng: random.Random) -> Cause:
    after, workers = round(rng.uniform(5, 8), 1), rng.randrange(1, 4)
    return with_options(cause, "--after", after, "--workers", workers, setting=f"after {after} s, {workers} workers")


def _simulating(cause: Cause, rng: random.Random) -> Cause:
    count, cpu, batch = rng.randrange(2, 5), rng.randrange(3, 8), rng.randrange(6, 12)
    step = round(batch * cpu / 1000 * rng.uniform(0.4, 0.8), 3)
    return with_options(
        cause, "--workers", count, "--cpu-ms", cpu, "--batch", batch, "--step", step,
        setting=f"{count} environments, {cpu} ms an action, {batch} actions, step {step} s",
    )  # fmt: skip


def _shared_slow_disk(cause: Cause, rng: random.Random) -> Cause:
    delay, batch, workers = rng.randrange(20, 60), rng.randrange(3, 9), rng.randrange(2, 5)
    step = round(batch * delay / 1000 * rng.uniform(0.2, 0.5), 3)
    return with_options(
        cause._replace(scene=beside_full(slow(delay * 1000, serial=True))),
        "--workers", workers, "--batch", batch, "--step", step,
        setting=f"{delay} ms a request, {workers} workers, batch {batch}, step {step} s",
    )  # fmt: skip


def _saving_in_background(cause: Cause, rng: random.Random) -> Cause:
    every, size = rng.randrange(30, 60), rng.randrange(20, 50)
    return with_options(
        cause, "--save-every", every, "--save-bytes", size * 1_000_000, setting=f"{size} MB every {every} steps"
    )


def _ahead(cause: Cause, rng: random.Random) -> Cause:
    """Return the cause with loaders that reads block for 40 to 60 % of the time, and that stay ahead of the trainer."""
    delay, batch = rng.randrange(10, 25), rng.randrange(4, 9)
    step = round(batch * delay / 1000 / 2 / rng.uniform(0.4, 0.6), 3)
    return with_options(
        cause._replace(scene=slow(delay * 1000)), "--batch", batch, "--step", step,
        setting=f"{delay} ms a request, any number at once, batch {batch}, step {step} s",
    )  # fmt: skip


def _ioctl_disk(cause: Cause, rng: random.Random) -> Cause:
    delay, batch = rng.randrange(20, 60), rng.randrange(3, 9)
    step = round(batch * delay / 1000 * rng.uniform(0.2, 0.5), 3)
    return with_options(
        cause._replace(scene=slow(delay * 1000, serial=True)), "--batch", batch, "--step", step,
        setting=f"{delay} ms a request, batch {batch}, step {step} s",
    )  # fmt: skip


def why_no_btrfs() -> str:
    """Return why this machine cannot have btrfs on a slow disk; "" when it can."""
    return why_no_fuse_disk() or ("" if shutil.which("mkfs.btrfs") else "needs mkfs.btrfs (btrfs-progs)")


def unusual(label: str, mode: str, *options: str, scene: Scene = plain) -> Cause:
    """Return a cause whose job is unusual.py in this mode."""
    return Cause(label, scene, ("--mode", mode, *options), program=UNUSUAL, background=False)


def _stuck(cause: Cause) -> Cause:
    return cause._replace(window_s=STUCK_S, draw=_after, background=True)


SIMULATING = ("--workers", "2", "--cpu-ms", "8", "--batch", "10", "--step", "0.03")
AHEAD = ("--workers", "2", "--batch", "5", "--step", "0.1")
SAVING = (*LOADER, "--save-every", "40", "--save-bytes", "30000000")
DRIVER = ("--kind", "ioctl")
CAUSES: dict[str, Cause] = {
    "hung loader": _stuck(unusual("hung", "deadlock", *LOADER)),
    "hung loader beside a tracker": _stuck(unusual("hung", "deadlock", *LOADER, "--tracker")),
    "hung rank": _stuck(unusual("hung", "lost-rank", *LOADER))._replace(
        torch=True, draw=None, window_s=STUCK_S + 25
    ),
    "job_died preparation": unusual(
        "job_died", "prepare", "--workers", "2", "--cpu-ms", "40", "--step", "0.1", "--after", "25"
    )._replace(window_s=30.0),
    "storage_read beside a full disk": Cause(
        "storage_read", beside_full(slow(40_000, serial=True)), LOADING, draw=_shared_slow_disk,
        why_not=why_no_fuse_disk,
    ),
    "single_thread beside a tracker": CAUSES_ON_DISKS["single_thread"]._replace(
        options=(*CAUSES_ON_DISKS["single_thread"].options, "--tracker")
    ),
    "network_fs beside a busy disk": Cause(
        "network_fs", beside_reader(far(30_000)), LOADING, why_not=why_no_fuse_disk
    ),
    "storage_read btrfs": on_slow_disk(
        "storage_read", slow(40_000, serial=True, make=BTRFS), *LOADING
    )._replace(why_not=why_no_btrfs),
    "storage_read 64 workers": on_slow_disk(
        "storage_read", slow(20_000, serial=True), *LOADING, "--workers", "64", "--batch", "2", "--step", "0.01",
        "--prefetch", "1"
    ),
    "simulation": unusual("cpu_prep", "simulate", *SIMULATING)._replace(draw=_simulating),
    "save in a thread": unusual("healthy", "save", *SAVING)._replace(negative=True, draw=_saving_in_background),
    "save in a process": unusual("healthy", "save", *SAVING, "--process")._replace(
        negative=True, draw=_saving_in_background
    ),
    "save in a thread gpu": unusual(
        "checkpoint_write", "save", *LOADER, "--step", "0.02", "--kind", "futex", "--save-every", "1",
        "--save-bytes", "100000000", "--pack-ms", "60",
    )._replace(gpu=True),
    "healthy poll": on_slow_disk(
        "healthy", slow(20_000), *AHEAD, "--kind", "poll", negative=True, draw=_ahead
    ),
    "healthy ioctl": Cause(
        "healthy", slow(20_000), (*AHEAD, *DRIVER), negative=True, draw=_ahead,
        why_not=lambda: why_no_ioctl() or why_no_fuse_disk(),
    ),
    "healthy gpu ioctl": Cause(
        "gpu_bound", plain, (*WARM, *DRIVER), gpu=True, negative=True, also=("healthy",), why_not=why_no_ioctl
    ),
    "storage_read ioctl": Cause(
        "storage_read", slow(40_000, serial=True), (*LOADING, *DRIVER), gpu=True, draw=_ioctl_disk,
        why_not=lambda: why_no_ioctl() or why_no_fuse_disk(),
    ),
}  # fmt: skip
"""The causes of this module by name."""
