"""Writes to standard error, which may be closed, full, or a pipe whose reader has gone."""

from __future__ import annotations

import os
import sys


def print_notice(text: str) -> None:
    """Print text to stderr. If that fails, the command's output and exit code stay as they are.

    Without stderr nothing is printed: ``print(file=None)`` would write to standard output.
    """
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        # The interpreter's last flush would fail too, and would replace the exit code.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
