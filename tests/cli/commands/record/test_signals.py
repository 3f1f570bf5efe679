"""Which thread acts on a signal, and what happens to a command that cannot be signalled."""

from __future__ import annotations

import queue
import signal
import threading
from typing import Any

import pytest

from iotop_ai.cli.commands.record.command import Session
from iotop_ai.cli.commands.record.options import RecordOptions
from iotop_ai.cli.commands.record.signals import END_SIGNALS, Signals
from iotop_ai.model.settings import Settings
from iotop_ai.store.write.recorder import Rotation


def test_a_signal_that_reaches_the_main_thread_is_handled_by_the_signal_thread() -> None:
    """The main thread may hold a lock that the action needs, for example while it starts a child."""
    handled: queue.Queue[tuple[signal.Signals, str]] = queue.Queue()
    with Signals({signal.SIGUSR1}, lambda number, _: handled.put((number, threading.current_thread().name))):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.raise_signal(signal.SIGUSR1)
        assert handled.get(timeout=20) == (signal.SIGUSR1, "signals")


def test_a_hang_up_that_nohup_ignores_stays_ignored() -> None:
    handled: queue.Queue[signal.Signals] = queue.Queue()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals(END_SIGNALS, lambda number, _: handled.put(number)):
            # A signal to the process could reach a thread of the test runner that does not block it.
            receiver = next(thread.ident for thread in threading.enumerate() if thread.name == "signals")
            assert receiver is not None
            signal.pthread_kill(receiver, signal.SIGHUP)
            signal.pthread_kill(receiver, signal.SIGTERM)
            assert handled.get(timeout=20) is signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert handled.empty()


def test_a_command_of_another_user_does_not_end_the_signal_thread(capsys: pytest.CaptureFixture[str]) -> None:
    """This is the case when a user runs ``record -- sudo COMMAND``."""

    class RootCommand:
        def forward(self, number: signal.Signals) -> None:
            raise PermissionError(1, "Operation not permitted")

    command: Any = RootCommand()
    options = RecordOptions(Settings(), "", False, "", None, Rotation(), None, (), 0, None, command=("sudo", "true"))
    session = Session(options)
    session._command = command
    session.on_signal(signal.SIGTERM, False)
    assert capsys.readouterr().err == "record: SIGTERM is not forwarded: the command runs as another user\n"
