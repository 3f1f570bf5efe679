"""The alerts of the live screen. One thread reads the rules, the source's thread checks them, and a third delivers the
alerts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.message import Message

from iotop_ai.model.errors import IotopError
from iotop_ai.model.finding import Severity
from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.alert_state import alert_text
from iotop_ai.present.screen.view import FiringAlert
from iotop_ai.tui.threads.source import MessageReceiver

if TYPE_CHECKING:
    from iotop_ai.alerts.rules import Alert
    from iotop_ai.alerts.running import RunningAlerts


class AlertsChanged(Message):
    """A rule began or stopped firing, or alerts failed. answer: the message on the screen. firing: the rules that fire
    now. bell: whether to ring the terminal's bell.
    """

    def __init__(self, answer: str, firing: tuple[FiringAlert, ...] = (), *, bell: bool = False) -> None:
        self.answer = answer
        self.firing = firing
        self.bell = bell
        super().__init__()


class LiveAlerts:
    """Runs the alerts of a live session.

    begin: reads the rules and starts their deliveries; returns None if there are no rules. It may take a long time, and
    may raise IotopError. Its argument is called with the text of each failure, during the call or later, from any
    thread.
    """

    def __init__(self, begin: Callable[[Callable[[str], None]], RunningAlerts | None], app: MessageReceiver) -> None:
        self._begin = begin
        self._app = app
        self._running: RunningAlerts | None = None
        self._closed = False
        self.late_failures: list[str] = []
        """The texts of the failures since ``close`` began. The screen is gone by then, so cli prints them."""
        self._lock = threading.Lock()

    def start(self) -> None:
        """Read the rules on a thread, so that the screen does not wait for them."""
        try:
            threading.Thread(target=self._read, name="read-alerts", daemon=True).start()
        except RuntimeError as error:  # this user has too many threads
            self._report_failure(f"alerts are off: {error}")

    def _read(self) -> None:
        try:
            running = self._begin(self._report_failure)
        except (IotopError, RuntimeError) as error:  # RuntimeError: reading them needs a thread that cannot start
            self._report_failure(f"alerts are off: {error}")
            return
        with self._lock:
            is_closed = self._closed
            if not is_closed:
                self._running = running
        if is_closed and running is not None:
            running.close(0.0, 0.0)

    def put(self, frame: Frame) -> None:
        """Check the rules against this Frame; never waits."""
        running = self._running
        if running is None or not (changed := running.take(frame)):
            return
        bell = running.bell and any(alert.fires for alert in changed)
        self._post(_answer(changed), bell=bell)

    def close(self, seconds: float) -> None:
        """Deliver the waiting alerts for at most half of ``seconds``; use the other half to end deliveries that still
        run.
        """
        with self._lock:
            self._closed = True
            running, self._running = self._running, None
        if running is not None:
            running.close(seconds / 2, seconds / 2)

    def _report_failure(self, text: str) -> None:
        if self._closed:
            self.late_failures.append(text)
        else:
            self._post(f"failed: {text}")

    def _post(self, answer: str, *, bell: bool = False) -> None:
        """Post a message with the rules that fire now. The lock keeps the messages of several threads in order."""
        with self._lock:
            running = self._running
            self._app.post_message(AlertsChanged(answer, () if running is None else _firing(running), bell=bell))


def _firing(running: RunningAlerts) -> tuple[FiringAlert, ...]:
    return tuple(FiringAlert(alert.rule, Severity(alert.severity)) for alert in running.firing)


def _answer(changed: list[Alert]) -> str:
    """The screen's message. It is about the last rule that began to fire; if none did, about the last one that
    stopped. The message gives only the number of the others.
    """
    shown = next((alert for alert in reversed(changed) if alert.fires), changed[-1])
    return alert_text(shown.rule, shown.state, shown.measurements, len(changed) - 1)
