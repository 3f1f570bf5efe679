"""``--alerts FILE``: the alerts of the screen, ``record`` and ``serve``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import settings_file
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from iotop_ai.alerts.config import AlertConfig
    from iotop_ai.alerts.running import RunningAlerts

FILE = "alerts.toml"


def add_alerts_flag(parser: argparse._ActionsContainer, *, sub: bool = True) -> None:
    """Add --alerts. sub: the parser belongs to a subcommand, where an absent flag keeps a value before the command."""
    from argparse import SUPPRESS  # iotop-ai without arguments needs this module, but not argparse

    parser.add_argument(
        "--alerts",
        metavar="FILE",
        default=SUPPRESS if sub else None,
        help="file with the alert rules and deliveries; 'none': no alerts (default: alerts.toml beside the settings)",
    )


def alerts_path() -> str:
    """Return the path of the default file, existing or not: beside the settings file."""
    return os.path.join(os.path.dirname(settings_file(os.environ)), FILE)


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def find_alerts(given: str | None, say: Callable[[str], object] = _to_stderr) -> AlertConfig | None:
    """Return the content of the named file, else of the default one; None where that is missing or does not answer.

    say: reports a default file that does not answer. Raises UsageError or InputError.
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
        say(f"alerts are off: {clean(path)}: {error.strerror}")  # a hung home ends no recording
        return None


def start_alerts(
    config: AlertConfig | None, note: Callable[[str, str], None], say: Callable[[str], None]
) -> RunningAlerts | None:
    """Return the alerts of a run, as RunningAlerts; None where no rule is enabled."""
    if config is None or not any(rule.enabled for rule in config.rules):
        return None
    from iotop_ai.alerts.running import RunningAlerts

    return RunningAlerts(config, note, say)
