"""``--alerts FILE``: the alerts of ``record`` and ``serve``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import settings_file
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError
from iotop_ai.model.frame import Frame

if TYPE_CHECKING:
    from iotop_ai.alerts.config import AlertConfig

FILE = "alerts.toml"
EVENT = "alert"
CLOSE_S = 5.0


def add_alerts_flag(parser: argparse.ArgumentParser) -> None:
    """Add --alerts."""
    parser.add_argument(
        "--alerts",
        metavar="FILE",
        help="rules and deliveries; 'none' for none (default alerts.toml beside the settings)",
    )


def alerts_path(environ: Mapping[str, str] = os.environ) -> str:
    """Where the file is or would be: beside the settings file."""
    return os.path.join(os.path.dirname(settings_file(environ)), FILE)


def find_alerts(given: str | None) -> AlertConfig | None:
    """The file as named, else the default one; None where that is missing or does not answer.

    Raises UsageError or InputError.
    """
    if given == "none":
        return None
    path = given or alerts_path()
    try:
        if not given and not call_with_timeout(HOME_TIMEOUT_S, path, lambda: os.path.lexists(path)):
            return None
        # Imported here: it loads modules for HTTP and mail, which a start without alerts does not need.
        from iotop_ai.alerts.config import read_alerts

        return call_with_timeout(HOME_TIMEOUT_S, path, lambda: read_alerts(path))
    except TimeoutError as error:
        if given:
            raise UsageError(f"{clean(path)}: {error.strerror}; --alerts none goes without") from None
        sys.stderr.write(f"alerts: off, {clean(path)}: {error.strerror}\n")  # a hung home ends no recording
        return None


class RunningAlerts:
    """The alerts of one run. note: puts an event into the next Snapshot; say: prints a line."""

    def __init__(self, config: AlertConfig, note: Callable[[str, str], None], say: Callable[[str], None]) -> None:
        from iotop_ai.alerts.deliveries.outbox import Outbox
        from iotop_ai.alerts.rules import AlertRules

        self._rules = AlertRules(config.rules)
        self._outbox = Outbox(config.deliveries, say)
        self._note, self._say = note, say

    def take(self, frame: Frame) -> None:
        """Check the rules; never waits."""
        for rule, alert in self._rules.add(frame):
            self._note(EVENT, f"{alert.severity} {alert.text}")
            self._say(f"alert: {alert.text}")
            if alert.state == "firing" or rule.resolved:
                self._outbox.put(alert)

    def close(self) -> None:
        """Deliver what waits."""
        self._outbox.close(CLOSE_S)


def start_alerts(
    config: AlertConfig | None, note: Callable[[str, str], None], say: Callable[[str], None]
) -> RunningAlerts | None:
    """The alerts of a run; None where no rule is enabled."""
    if config is None or not any(rule.enabled for rule in config.rules):
        return None
    return RunningAlerts(config, note, say)
