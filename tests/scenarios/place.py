"""The folder of a run, and the removal of everything that a killed run has left."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PR_SET_PDEATHSIG = 1
PREFIX = "iotop-scenario-"
GROUPS = ("blkio", "memory", "cpu", "cpuset")
SWAPS = "swaps.json"
"""The name of a file in the run's folder: it holds the numbers of the zram devices to which the run swaps."""


def die_with_us() -> None:
    """Make a program end when this process ends in any way. For use as ``preexec_fn``."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Provide a folder whose name contains the pid of this process."""
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True) as place:
        yield Path(place)


@contextlib.contextmanager
def alone(base: Path | None = None) -> Iterator[None]:
    """Wait until no other run uses this machine, because its load would change the verdict."""
    with ((base or Path(tempfile.gettempdir())) / f"{PREFIX}lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block after this time, because a benchmark runs unattended."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def group_name(folder: Path) -> str:
    """Return a name for the run's control groups, by which they can be found again."""
    return folder.name


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def dead_folders(base: Path) -> list[Path]:
    """Return the folders of runs whose processes have ended."""
    out = []
    for folder in base.glob(f"{PREFIX}*"):
        found = re.match(rf"{PREFIX}(\d+)-", folder.name)
        if found and not _alive(int(found[1])):
            out.append(folder)
    return out


def clear_dead() -> int:
    """Remove everything that killed runs have left: swaps, mounts, loops, control groups and folders.

    Return the number of folders.
    """
    dead = dead_folders(Path(tempfile.gettempdir()))
    for folder in dead:
        clear(folder)
    return len(dead)


def clear(folder: Path) -> None:
    """Remove everything of one run from the machine, the innermost things first."""
    for number in json.loads((folder / SWAPS).read_text()) if (folder / SWAPS).exists() else ():
        give_back_zram(number)
    for group in (Path("/sys/fs/cgroup") / kind / folder.name for kind in GROUPS):
        drop_group(group)
    for kind in ("ext4", "other"):
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            _, target, fstype, *_ = line.split()
            if target.startswith(f"{folder}/") and (kind == "other" or fstype == "ext4"):
                subprocess.run(["umount", "-l", target], capture_output=True)
        _detach(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _detach(folder: Path) -> None:
    """Detach the loop devices over files in the folder, after the loop devices that are stacked on them."""
    done = subprocess.run(["losetup", "-n", "-O", "NAME,BACK-FILE", "-l"], capture_output=True, text=True)
    loops = [words[0] for line in done.stdout.splitlines() if len(words := line.split()) > 1]
    backs = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if len(line.split()) > 1}
    lower = [name for name in loops if backs[name].startswith(f"{folder}/")]
    for name in [*(n for n in loops if backs[n] in lower), *lower]:
        subprocess.run(["losetup", "-d", name], capture_output=True)


def drop_group(group: Path) -> None:
    """Kill the processes that still run in a control group, and remove the group."""
    if not group.exists():
        return
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        subprocess.run(["sleep", "0.05"])


def give_back_zram(number: int) -> None:
    """Stop swapping to a zram device and remove it."""
    subprocess.run(["swapoff", f"/dev/zram{number}"], capture_output=True)
    with contextlib.suppress(OSError):
        Path(f"/sys/block/zram{number}/reset").write_text("1")
        Path("/sys/class/zram-control/hot_remove").write_text(str(number))
