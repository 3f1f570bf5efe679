"""Handles SIGTERM and SIGHUP during start-up of the live screen, until its app handles them itself.

The handler only notes the signal, and start-up checks for a signal between its steps. An exception from the handler
could strike anywhere: Python 3.11 turns an exception inside a descriptor's __set_name__ into a RuntimeError, and
Textual's tasks swallow exceptions, so that the screen would stay open.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the C module, because the enumerations of ``signal`` cost a millisecond

FORCE_S = 2.0
"""The seconds between a signal and the forced end of the process, if it has not ended by itself."""


class SignalledError(Exception):
    """Start-up ends because of a signal. number: the signal's number."""

    def __init__(self, number: int) -> None:
        self.number = number


class EndingSignals:
    """Notes the first SIGTERM or SIGHUP. Use it in the main thread.

    give_back: returns the terminal to the shell without waiting for it.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._number: int | None = None

    def install(self) -> None:
        """Install the handlers for the signals that end the program."""
        signal.signal(signal.SIGALRM, self._end_by_force)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def check(self) -> None:
        """Raise SignalledError if a signal has come. The forced end still limits the time that the caller may take."""
        if self._number is not None:
            raise SignalledError(self._number)

    def take(self) -> int | None:
        """Return the number of the signal that has come; None if none has come.

        If a signal has come, this cancels the forced end, so the app must end the process.
        """
        if self._number is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return self._number

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._number is None:
            self._number = number
            signal.setitimer(signal.ITIMER_REAL, FORCE_S)

    def _end_by_force(self, alarm: int, _frame: FrameType | None) -> None:
        """End the process because start-up or its end takes too long, or because another program sent SIGALRM.

        The kernel closes the open files.
        """
        try:
            self._give_back()
        finally:
            os._exit(128 + (self._number or alarm))
