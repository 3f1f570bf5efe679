"""The flag ``--alerts FILE`` and the alerts of the screen, ``record`` and ``serve``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from iotop_ai.cli.stderr import print_notice
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
    """Add the flag --alerts.

    sub: whether the parser belongs to a subcommand. A subcommand without the flag keeps the value that was given
    before the subcommand.
    """
    from argparse import SUPPRESS  # imported here, because start-up without a command needs no argparse

    parser.add_argument(
        "--alerts",
        metavar="FILE",
        default=SUPPRESS if sub else None,
        help="file with the alert rules and deliveries; 'none': no alerts (default: alerts.toml beside the settings)",
    )


def alerts_path() -> str:
    """Return the path of the default file, which is next to the settings file. The file may not exist."""
    return os.path.join(os.path.dirname(settings_file(os.environ)), FILE)


def load_alerts(flag: str | None, say: Callable[[str], object] = print_notice) -> AlertConfig | None:
    """Return the content of the file that --alerts names, or of the default file.

    Returns None if the default file is missing or does not answer, or if --alerts is "none". Raises UsageError or
    InputError.

    flag: the value of --alerts; None without it. say: reports a default file that does not answer.
    """
    if flag == "none":
        return None
    path = flag or alerts_path()
    try:
        if not flag and not call_with_timeout(HOME_TIMEOUT_S, path, lambda: os.path.lexists(path)):
            return None
        # Imported here, because it loads modules for HTTP and mail, which start-up without alerts does not need.
        from iotop_ai.alerts.config import read_alerts

        return call_with_timeout(HOME_TIMEOUT_S, path, lambda: read_alerts(path))
    except TimeoutError as error:
        if flag:
            raise UsageError(f"{clean(path)}: {error.strerror}; use --alerts none to run without alerts") from None
        say(f"alerts are off: {clean(path)}: {error.strerror}")  # the file is optional, so the command goes on
        return None


def start_alerts(
    config: AlertConfig | None, note: Callable[[str, str], None], say: Callable[[str], None]
) -> RunningAlerts | None:
    """Return the alerts of a run; None without a config or if no rule is enabled.

    note, say: as in RunningAlerts.
    """
    if config is None or not any(rule.enabled for rule in config.rules):
        return None
    from iotop_ai.alerts.running import RunningAlerts

    return RunningAlerts(config, note, say)
