"""The alerts of the live screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iotop_ai.cli.options.alerts import load_alerts, start_alerts
from iotop_ai.tui.threads.alerts import LiveAlerts

if TYPE_CHECKING:
    from iotop_ai.alerts.config import AlertConfig
    from iotop_ai.alerts.running import RunningAlerts
    from iotop_ai.sources.live.source import LiveSource
    from iotop_ai.tui.threads.source import MessageReceiver


def live_alerts(named: AlertConfig | None, source: LiveSource, app: MessageReceiver, *, default: bool) -> LiveAlerts:
    """Return the alerts of ``named``, or those of the default file.

    named: the content of the file that the user named; None for no alerts. default: whether to read the default file
    instead, on a separate thread.
    """

    def begin(say: Callable[[str], None]) -> RunningAlerts | None:
        return start_alerts(load_alerts(None, say) if default else named, source.add_event, say)

    return LiveAlerts(begin, app)
