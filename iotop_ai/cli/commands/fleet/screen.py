"""The screen of ``iotop-ai fleet``, and the screen of the machine that the user opens from there."""

from __future__ import annotations

import gc
import os
import sys
import termios
from typing import TYPE_CHECKING

from iotop_ai.cli.commands.fleet.options import FleetOptions
from iotop_ai.cli.commands.monitor.command import CANNOT_SHOW, is_terminal, refusal
from iotop_ai.cli.start.terminal import Terminal, terminal
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.subcommands import shell_commands
from iotop_ai.fleet.refresh import FirstAnswer
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError
from iotop_ai.model.settings import Settings
from iotop_ai.present.fleet.view import FleetView
from iotop_ai.present.screen.view import View

if TYPE_CHECKING:
    from iotop_ai.tui.fleet_app import FleetApp

SIGNALLED = 128
"""An exit code above this value means that a signal ended the screen."""
_HOST = pattern(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
"""Matches a label that may be passed to ssh as a host: a name or an address, but neither an option nor user@host."""


def show_fleet(options: FleetOptions, settings: Settings, first: FirstAnswer | None) -> int:
    """Show the fleet until the user leaves it; return the exit code. Raises the error that ended the screen.

    first: the answer to a request already sent; None without one.
    """
    if why := refusal(os.environ.get("TERM", ""), is_terminal(), "--once for text"):
        print_notice(why)
        return CANNOT_SHOW
    if settings.theme:  # with NO_COLOR set, Textual would show even a chosen theme in grey
        os.environ.pop("NO_COLOR", None)
    this_terminal = terminal(settings, os.environ)
    fleet_view = FleetView(
        View(
            pattern=options.pattern,
            ascii_only=this_terminal.ascii_only,
            keymap=settings.keymap,
        ),
        options.sort,
        options.server.address.text,
        options.window_s,
        options.interval_s,
    )
    while True:
        app = _run_app(options, fleet_view, this_terminal, settings.mouse, first)
        first = None
        if app.failure is not None:
            from iotop_ai.cli.start.crash import note_crash

            raise note_crash(app.failure)
        if app.ended_by is not None:
            return SIGNALLED + app.ended_by
        if not app.opened:
            return app.return_code or 0
        this_terminal = this_terminal._replace(theme=app.theme_name)
        message, code = _show_machine(settings._replace(theme=app.theme_name), app.opened)
        if code > SIGNALLED:
            return code
        from iotop_ai.tui.textual_internals.ended_apps import free_ended_apps

        free_ended_apps()
        fleet_view = app.state.fleet_view
        fleet_view = fleet_view._replace(view=fleet_view.view._replace(message=message))


def _show_machine(settings: Settings, name: str) -> tuple[str, int]:
    """Show a machine through ssh; return the reason for a failure ("" for none) and the exit code."""
    if not _HOST.fullmatch(name):
        return f"failed: {clean(name)} is not a host's name", CANNOT_SHOW
    from iotop_ai.cli.commands.monitor.remote import show_host

    try:
        return "", show_host(settings, name)
    except IotopError as error:
        return f"failed: {error}", CANNOT_SHOW


def _run_app(
    options: FleetOptions, fleet_view: FleetView, this_terminal: Terminal, mouse: bool, first: FirstAnswer | None
) -> FleetApp:
    gc.disable()  # imports create no garbage
    from iotop_ai.cli.commands.monitor.session_recording import save_screenshot
    from iotop_ai.tui.fleet_app import FleetApp
    from iotop_ai.tui.textual_internals.driver import driver_class

    attributes = termios.tcgetattr(sys.stderr.fileno())
    app = FleetApp(
        options.server.new_client(),
        fleet_view,
        this_terminal.theme,
        driver_class(False, attributes),
        save_screenshot,
        first,
    )
    app.shell_commands = shell_commands()
    gc.enable()
    app.run(mouse=mouse)
    return app
