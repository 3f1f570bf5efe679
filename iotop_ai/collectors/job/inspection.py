"""Inspects one process: the libraries that it maps, its environment, its open devices and its pin-memory thread.

Sources: /proc/PID/maps, environ, fd and task/TID/comm, https://docs.kernel.org/filesystems/proc.html. The kernel shows
the first three only to root and to the same user, who must also be permitted to ptrace the process.
"""

from __future__ import annotations

import os

from iotop_ai.collectors.io.process_memory import ProcessMemory
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.job.inspection import (
    LIBRARIES,
    MODULES,
    NO_IDS,
    NOTHING_SEEN,
    Inspection,
    names_in,
    rank_ids,
)

DEVICES = ("/dev/nvidia-uvm", "/dev/kfd", "/dev/accel")
"""Device files that only a computing program opens. Monitors open /dev/nvidia0 too, so it is not among them."""
SHARED_DEVICES = ("/dev/dxg", "/dev/nvmap")
"""Device files through which programs compute on a GPU in WSL and on a Jetson. Monitors in WSL and cameras on a Jetson
use them too, so they count only for a program that maps a library of ``LIBRARIES``."""
MOST_FDS = 512
"""The most descriptors of a process that are searched for a GPU's device file."""
MOST_THREADS = 256
"""The most threads of a process that are searched for the pin-memory thread."""
MOST_ENVIRON = 1 << 16
"""The most bytes that are read from an environment. Environments under Slurm and Kubernetes have a few KiB."""
_PIN = "pt_data_pin"
"""The name of the pin-memory thread of PyTorch's DataLoader."""


def inspect(root: Root, pid: int, memory: ProcessMemory, before: Inspection = NOTHING_SEEN) -> Inspection:
    """Inspect a process. ``hidden`` in the result names the parts that we cannot read.

    before: the previous inspection of the process. A part whose read takes too long stays as it was: a job must not
    become unknown because a file server has stopped it.
    """
    folder, hidden = f"proc/{pid}", []
    libraries: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    ids, device = NO_IDS, False
    try:
        maps = memory.read_file(pid, "maps")
        libraries, modules = names_in(maps, LIBRARIES), names_in(maps, MODULES)
    except TimeoutError:
        libraries, modules = before.libraries, before.modules
    except OSError as error:
        hidden += _denied(error, "libraries")
    try:
        ids = rank_ids(memory.read_file(pid, "environ", MOST_ENVIRON))
    except TimeoutError:
        ids = before.ids
    except OSError as error:
        hidden += _denied(error, "environment")
    try:
        device = opens_gpu(root, pid, libraries)
    except OSError as error:
        hidden += _denied(error, "open files")
    pin = _pin_thread(root, folder) if libraries else 0
    return Inspection(libraries, device, pin, modules, ids, tuple(hidden))


def opens_gpu(root: Root, pid: int, libraries: tuple[str, ...]) -> bool:
    """Return whether a process has the device file of a GPU open. libraries: those that it maps.

    Raises OSError if its open files cannot be listed.
    """
    folder, devices = f"proc/{pid}/fd", DEVICES + SHARED_DEVICES if libraries else DEVICES
    # A program opens its GPU before most of its files, and shared tensors may keep thousands of files open.
    names = sorted(os.listdir(root.join(folder)), key=lambda name: (len(name), name))[:MOST_FDS]
    return any(root.link(f"{folder}/{name}").startswith(devices) for name in names)


def _denied(error: OSError, part: str) -> list[str]:
    """Return [part] if the kernel refuses to show this part; [] for other errors, as after the process has ended."""
    return [part] if isinstance(error, PermissionError) else []


def _pin_thread(root: Root, folder: str) -> int:
    """Return the ID of the pin-memory thread; 0 when none is found."""
    for tid in root.names(f"{folder}/task")[:MOST_THREADS]:
        if root.text_or(f"{folder}/task/{tid}/comm") == _PIN:
            return int(tid)
    return 0
