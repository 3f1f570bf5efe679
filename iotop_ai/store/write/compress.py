"""Compresses a finished recording, at the lowest priority: ``python -m iotop_ai.store.write.compress FILE``."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys

from iotop_ai.collectors.io.own_file import create_part, give_name, is_named, parent_of
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, IotopError
from iotop_ai.store.read.blocks import open_blocks
from iotop_ai.store.read.gzip_members import PREROLL, STARTS_SESSION, pack


def compress(path: str) -> str:
    """Write PATH.gz with one member for each keyframe, remove PATH, and return the name of the new file.

    The new file appears either complete or not at all. Raises InputError for a file that is not a recording or has no
    keyframe, and OSError.
    """
    folder, name = parent_of(path)
    try:
        _compress(path, name, folder)
    finally:
        os.close(folder)
    return path + ".gz"


def _compress(path: str, name: str, folder: int) -> None:
    part = f"{name}.gz.part"
    blocks = open_blocks(path)
    try:
        if not is_named(blocks.fileno(), name, folder):
            raise InputError(f"{clean(path)} is a symbolic link or was replaced; nothing is packed")
        if not blocks.index:
            raise InputError(f"{clean(path)}: no complete keyframe in it; nothing is packed")
        fd = create_part(part, folder, path + ".gz.part")
        try:
            session = 0
            for block in blocks.index:
                flags = (STARTS_SESSION if block.session > session else 0) | (PREROLL if block.pre else 0)
                session = block.session
                data = memoryview(pack(blocks.data(block), block.at_ns, block.wall_ns, flags, level=9))
                while data:
                    data = data[os.write(fd, data) :]
            os.fdatasync(fd)
            give_name(fd, part, f"{name}.gz", folder, replace=False)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
        finally:
            os.close(fd)
        os.unlink(name, dir_fd=folder)
    finally:
        blocks.close()


_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273, "s390x": 282, "riscv64": 30}
"""The number of the system call ioprio_set(2), which libc does not wrap, by machine type."""
_IOPRIO_WHO_PROCESS, _CLASS_IDLE = 1, 3 << 13


def lower_priority() -> None:
    """Set the lowest CPU and I/O priority for this process."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _IOPRIO_WHO_PROCESS, 0, _CLASS_IDLE)


def main() -> int:
    """Compress the file that the first argument names; return 0, or 2 after printing a one-line error."""
    lower_priority()
    try:
        compress(sys.argv[1])
    except (IotopError, OSError, IndexError) as error:
        sys.stderr.write(f"input: {clean(str(error))}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
