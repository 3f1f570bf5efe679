"""Writes to standard output, even if its reader has gone, as with ``| head -1``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from iotop_ai.model.clean import clean


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines and flush, because an error may follow on stderr. A broken pipe is not an error."""
    try:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()


def print_path(path: str) -> None:
    """Print a path and flush. A terminal gets it without control characters, a file or a program gets its exact bytes.

    A broken pipe is not an error.
    """
    if sys.stdout.isatty():
        print_lines([clean(path)])
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        drop_stdout()


def drop_stdout() -> None:
    """Send buffered output to /dev/null, so that the interpreter's last flush does not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
