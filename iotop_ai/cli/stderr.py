"""Writes to standard error, which may be closed, full, or a pipe whose reader has gone."""

from __future__ import annotations

import os
import sys


def print_notice(text: str, end: str = "\n") -> None:
    """Print text to stderr, followed by ``end``. If that fails, the command's output and exit code stay as they are.

    Without stderr nothing is printed: ``print(file=None)`` would write to standard output.
    """
    if sys.stderr is None:
        return
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except BlockingIOError:  # the pipe is full and non-blocking: the text stays in the buffer for the next write
        pass
    except OSError:
        # The interpreter's last flush would fail too, and would replace the exit code.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
