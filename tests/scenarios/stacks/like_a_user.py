"""iotop-ai as a user without root has it on Ubuntu: ``python -m tests.scenarios.stacks.like_a_user record ...``.

With kernel.yama.ptrace_scope=1, the default there, the kernel shows neither the system calls nor the memory of a user's
own processes (Documentation/admin-guide/LSM/Yama.rst, PTRACE_MODE_ATTACH in fs/proc/base.c). This machine's kernel may
lack Yama, so this program refuses the same reads.
"""

from __future__ import annotations

import errno
import os
import sys

from iotop_ai.cli.main import main
from iotop_ai.collectors.io.root import Root

REFUSED = ("/syscall", "/mem", "/stack")


def refuse_like_yama() -> None:
    """Make every read of these files fail as it fails under Yama."""
    original = Root.read_once

    def read_once(root: Root, path: str, size: int, offset: int = 0) -> bytes:
        if path.endswith(REFUSED):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return original(root, path, size, offset)

    Root.read_once = read_once  # type: ignore[method-assign]


if __name__ == "__main__":
    refuse_like_yama()
    sys.exit(main())
