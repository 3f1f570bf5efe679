"""Receives signals on a thread, and finds out whether the terminal or a process has sent a signal."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FORWARDED = (*END_SIGNALS, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_POLL_S = 0.2
_SI_KERNEL = 0x80
"""The si_code of a signal that a key or the terminal's hang-up causes. The whole foreground group receives it."""


class Signals:
    """Receives signals on a thread while the ``with`` block runs. An ignored SIGHUP, as under nohup, stays ignored.

    Enter the block before other threads start, so that every thread blocks these signals.

    on_signal: called with the signal, and with True if the terminal sent it to this process and its children alike, or
    False if a process sent it or the sender is unknown.
    """

    def __init__(self, numbers: Iterable[signal.Signals], on_signal: Callable[[signal.Signals, bool], None]) -> None:
        self._numbers = frozenset(numbers)
        self._on_signal = on_signal
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="signals", daemon=True)
        self._old_mask: set[signal.Signals | int] = set()
        self._old_handlers: dict[signal.Signals, Any] = {}
        self._unblocked: deque[signal.Signals] = deque()
        """The signals that arrived while a thread had them unblocked."""

    def __enter__(self) -> Signals:
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
            self._numbers -= {signal.SIGHUP}
        # A thread that starts a child unblocks all signals for a moment. With a handler, a signal in that moment is
        # neither lost nor fatal.
        self._old_handlers = {number: signal.signal(number, self._handle) for number in self._numbers}
        self._old_mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self._thread.join(5 * _POLL_S)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def unblock(self) -> None:
        """Restore the handlers and the signal mask in a child, between fork and exec."""
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        # The main thread may hold any lock now, so the signal is left to the thread of ``_run``.
        self._unblocked.append(signal.Signals(number))

    def _run(self) -> None:
        while not self._stopping:
            info = signal.sigtimedwait(self._numbers, _POLL_S)
            if info is not None:
                self._on_signal(signal.Signals(info.si_signo), info.si_code == _SI_KERNEL)
            while self._unblocked:
                self._on_signal(self._unblocked.popleft(), False)
