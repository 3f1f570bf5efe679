"""The limit of the files that this process may have open."""

from __future__ import annotations

import resource


def raise_open_files_limit() -> int:
    """Raise the soft limit of open files to the hard limit, which any user may do; return the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # a sandbox may forbid it
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft
