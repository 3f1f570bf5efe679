"""The alerts of one run of ``record``, ``serve`` or the screen."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.alerts.config import AlertConfig
from iotop_ai.alerts.deliveries.outbox import Outbox
from iotop_ai.alerts.rules import Alert, AlertRules
from iotop_ai.model.frame import Frame
from iotop_ai.playback.timeline_reader import ALERT

CLOSE_S, END_S = 5.0, 5.0
"""How long ``close`` waits for deliveries, and then for the end of a delivery that is still running, in seconds."""


class RunningAlerts:
    """Checks the rules on every Frame and delivers the alerts.

    note: adds an event to the next Snapshot. say: reports an alert that could not be delivered; any thread may call
    it.
    """

    def __init__(self, config: AlertConfig, note: Callable[[str, str], None], say: Callable[[str], None]) -> None:
        self._rules = AlertRules(config.rules)
        self._outbox = Outbox(config.deliveries, say)
        self._note = note
        self.bell = config.bell
        self._firing: dict[str, Alert] = {}

    @property
    def firing(self) -> tuple[Alert, ...]:
        """The newest alert of each rule that fires now, in the order in which the rules began to fire."""
        return tuple(self._firing.values())

    def take(self, frame: Frame) -> list[Alert]:
        """Check the rules; note and return each alert that fires or is resolved. Never waits.

        An alert that fires is delivered. One that is resolved is delivered only if its rule says so.
        """
        out = []
        for rule, alert in self._rules.add(frame):
            self._note(ALERT, f"{alert.severity} {alert.text}")
            if alert.fires:
                self._firing[alert.rule] = alert
            else:
                self._firing.pop(alert.rule, None)
            if alert.fires or rule.resolved:
                self._outbox.put(alert)
            out.append(alert)
        return out

    def close(self, seconds: float = CLOSE_S, end_s: float = END_S) -> None:
        """Deliver the queued alerts for up to ``seconds``, then wait up to ``end_s`` for a running delivery to end."""
        self._outbox.close(seconds, end_s)
