"""Signals of a program that runs a command: who sent one decides whether it is passed on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PASSED = (*ENDING, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_LOOK_S = 0.2
_FROM_KERNEL = 0x80
"""si_code SI_KERNEL: a key on the terminal or its hang-up, which every process in its foreground has got."""


class Signals:
    """Takes signals on a thread while the block runs. Entered before any other thread starts, so that all block them.

    take: called with the signal and whether the terminal sent it, to us and to our children alike.
    """

    def __init__(self, numbers: Iterable[signal.Signals], take: Callable[[signal.Signals, bool], None]) -> None:
        self._numbers = frozenset(numbers)
        self._take = take
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="signals", daemon=True)
        self._before: set[signal.Signals | int] = set()
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        # A thread that starts a child blocks nothing for that moment: what comes then is not lost and kills nobody.
        self._handlers = {number: signal.signal(number, self._handle) for number in self._numbers}
        self._before = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self._thread.join(5 * _LOOK_S)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def unblock(self) -> None:
        """In a child between fork and exec: take signals as before."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._take(signal.Signals(number), False)

    def _run(self) -> None:
        while not self._stopping:
            found = signal.sigtimedwait(self._numbers, _LOOK_S)
            if found is not None:
                self._take(signal.Signals(found.si_signo), found.si_code == _FROM_KERNEL)
