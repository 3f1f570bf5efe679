"""Questions, progress and marks of commands that change something; what is said goes to stderr."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.marks import send_mark
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError, UsageError

TELL_EVERY_S = 0.2
_ERASE = "\r\x1b[K"


def confirm(word: str, yes: bool) -> bool:
    """Whether the user typed the word. yes: it was said already, by --yes.

    Raises UsageError where nobody can answer: nothing is done unasked.
    """
    if yes:
        return True
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError("nobody can confirm it here: standard input is no terminal; add --yes")
    print(f"Type {word} to go on: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == word


def mark_everywhere(text: str) -> None:
    """Mark the moment in every monitor and recording of this user; without any it is in the audit log alone."""
    try:
        send_mark(text, os.environ)
    except (OSError, IotopError) as error:
        print(f"not marked in the recordings: {clean(str(error))}", file=sys.stderr)


class Progress:
    """One line on the terminal that is written over, a few times a second; silent where stderr is none.

    ``with Progress() as tell: tell("1200 files, 3 GB")``; the line is gone at the end. after_s: nothing is told of what
    is done sooner.
    """

    def __init__(self, clock: Clock | None = None, after_s: float = 0.0) -> None:
        self._clock = clock or Clock()
        self._from_ns = self._clock.monotonic_ns() + int(after_s * 1e9)
        self._on = sys.stderr is not None and sys.stderr.isatty()
        self._told_ns: int | None = None

    def __enter__(self) -> Progress:
        return self

    def __call__(self, text: str, *, now: bool = False) -> None:
        """Show the text, which must be clean. now: however shortly after the one before."""
        at_ns = self._clock.monotonic_ns()
        if not self._on or at_ns < self._from_ns:
            return
        if not now and self._told_ns is not None and at_ns - self._told_ns < TELL_EVERY_S * 1e9:
            return
        self._told_ns = at_ns
        sys.stderr.write(f"{_ERASE}{text}")
        sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._told_ns is not None:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
