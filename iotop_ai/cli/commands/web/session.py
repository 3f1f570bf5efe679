"""``python -P -m iotop_ai.cli.commands.web.session PARENT …``: the monitor that serves one browser.

The session ends when the server ends. Its memory is limited, because the browser decides how much the session needs.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence

MEMORY_BYTES = 4 << 30
PR_SET_PDEATHSIG = 1
"""The number of the option in prctl(2). Source: linux/prctl.h."""


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent exits; exit now if the parent has exited. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    if os.getppid() != parent:
        raise SystemExit(0)


def limit_memory() -> None:
    """Limit the address space of this process and its children."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(argv: Sequence[str]) -> int:
    """Run the monitor of one browser; return its exit code."""
    die_with(int(argv[0]))
    limit_memory()
    from iotop_ai.cli.main import main

    return main(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
