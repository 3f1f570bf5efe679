"""Which thread acts on a signal."""

from __future__ import annotations

import queue
import signal
import threading

from iotop_ai.cli.commands.record.signals import Signals


def test_a_signal_that_reaches_the_main_thread_is_acted_on_by_the_other() -> None:
    """As while a child is started: the main thread may hold a lock that the action needs."""
    acted: queue.Queue[tuple[signal.Signals, str]] = queue.Queue()
    with Signals({signal.SIGUSR1}, lambda number, _: acted.put((number, threading.current_thread().name))):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.raise_signal(signal.SIGUSR1)
        assert acted.get(timeout=20) == (signal.SIGUSR1, "signals")
