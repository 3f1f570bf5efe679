"""The confirmation prompt and the timeline mark of commands that change the machine, and a progress line.

All text goes to stderr.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

from iotop_ai.cli.stderr import print_notice
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.monitor_sockets import send_mark
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError, UsageError

SHOW_EVERY_S = 0.2
"""The shortest time between two updates of the progress line, in seconds."""
_ERASE = "\r\x1b[K"


def confirm(word: str, yes: bool) -> bool:
    """Ask the user to type a word; return whether it was typed, or True at once if ``yes`` is set.

    yes: whether the user gave --yes. Raises UsageError when stdin is not a terminal.
    """
    if yes:
        return True
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError("cannot ask for confirmation: stdin is not a terminal; use --yes")
    print_notice(f"Type {word} to continue: ", end="")
    return sys.stdin.readline().strip() == word


def mark_everywhere(text: str) -> None:
    """Set a mark with this text in every running monitor and recording of this user. A failure is printed."""
    try:
        send_mark(text, os.environ)
    except (OSError, IotopError) as error:
        print_notice(f"not marked in the recordings: {clean(str(error))}")


class Progress:
    """A progress line on the terminal, rewritten a few times a second. It is silent when stderr is not a terminal.

    Use it as ``with Progress() as show: show("1200 files, 3 GB")``; the end of the ``with`` block erases the line.

    after_s: the seconds before the line first appears, so that a short run shows none.
    """

    def __init__(self, clock: Clock | None = None, after_s: float = 0.0) -> None:
        self._clock = clock or Clock()
        self._from_ns = self._clock.monotonic_ns() + int(after_s * 1e9)
        self._on = sys.stderr is not None and sys.stderr.isatty()
        self._last_ns: int | None = None

    def __enter__(self) -> Progress:
        return self

    def __call__(self, text: str, *, now: bool = False) -> None:
        """Show the text, which must hold no control characters.

        now: show it even if SHOW_EVERY_S has not passed since the last text.
        """
        at_ns = self._clock.monotonic_ns()
        if not self._on or at_ns < self._from_ns:
            return
        if not now and self._last_ns is not None and at_ns - self._last_ns < SHOW_EVERY_S * 1e9:
            return
        self._last_ns = at_ns
        print_notice(f"{_ERASE}{text}", end="")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last_ns is not None:
            print_notice(_ERASE, end="")
