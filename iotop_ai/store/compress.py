"""A finished recording as a gzip file: ``python -m iotop_ai.store.compress FILE`` at the lowest priority."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys

from iotop_ai.model.errors import IotopError
from iotop_ai.store.blocks import open_blocks
from iotop_ai.store.members import PREROLL, STARTS_SESSION, pack


def compress(path: str) -> str:
    """Write PATH.gz beside it, one member a keyframe, then remove PATH; the name of the new file.

    The new file appears whole or not at all. Raises InputError for what is no recording, OSError from the disk.
    """
    target = path + ".gz"
    part = target + ".part"
    blocks = open_blocks(path)
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            session = 0
            for block in blocks.found:
                flags = (STARTS_SESSION if block.session > session else 0) | (PREROLL if block.pre else 0)
                session = block.session
                data = memoryview(pack(blocks.data(block), block.at_ns, block.wall_ns, flags, level=9))
                while data:
                    data = data[os.write(fd, data) :]
            os.fdatasync(fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise
        finally:
            os.close(fd)
    finally:
        blocks.close()
    os.rename(part, target)
    os.unlink(path)
    return target


_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "ppc64le": 273, "s390x": 282, "riscv64": 30}
"""The number of ioprio_set(2), for which libc has no function, by machine."""
_WHO_PROCESS, _CLASS_IDLE = 1, 3 << 13


def step_back() -> None:
    """Take the lowest CPU and I/O priority there is."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _CLASS_IDLE)


def main() -> int:
    """Compress the file that is named; 0, or 2 with one line."""
    step_back()
    try:
        compress(sys.argv[1])
    except (IotopError, OSError, IndexError) as error:
        sys.stderr.write(f"input: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
