"""``iotop-ai web``: show the screen in a browser on this machine, read-only."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os

from iotop_ai.cli.options.common import add_source_flags, quoted, settings_of, whole_number
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.cli.start.logging import quiet_log
from iotop_ai.cli.stderr import print_notice
from iotop_ai.collectors.io.root import absolute_path
from iotop_ai.collectors.io.spawn import own_environment, own_python
from iotop_ai.collectors.state.folder import CONFIG_VARIABLE, settings_file
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.settings import THEMES, Settings

NO_TEXTUAL_SERVE = "the browser needs textual-serve: pip install 'iotop-ai[web]'"
PORT = 8137


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``web``."""
    parser.add_argument(
        "--port", metavar="PORT", type=parse_port, default=PORT, help=f"port on 127.0.0.1 (default {PORT})"
    )
    add_source_flags(parser, sub=True)
    parser.add_argument("--theme", choices=THEMES, default=argparse.SUPPRESS, help="one of " + ", ".join(THEMES))


def parse_port(text: str) -> int:
    """Return a port from 1024 to 65535; lower ports are privileged. Raises ArgumentTypeError."""
    number = whole_number(text)
    if number is None or not 1024 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a port; write 1024 to 65535")
    return number


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C is pressed; return 0."""
    if importlib.util.find_spec("textual_serve") is None:
        raise UnknownError(NO_TEXTUAL_SERVE)
    settings = resolve_devices(settings_of(args))  # reports a mistake here, not in every browser
    quiet_log()
    from iotop_ai.tui.web.server import BrowserServer

    try:
        BrowserServer(command(settings, args), environment(), args.port, _AddressPrinter(), _print_note).serve()
    except OSError as error:
        raise UnknownError(f"port {args.port} of 127.0.0.1: {error.strerror}; choose another with --port") from None
    return 0


def command(settings: Settings, args: argparse.Namespace) -> list[str]:
    """Return the command of a browser's session: the read-only live screen with this command's flags.

    The session runs in another folder, so paths are absolute.
    """
    words = own_python(
        "iotop_ai.cli.commands.web.session", str(os.getpid()), "--readonly", "-d", f"{settings.interval_s:g}"
    )
    words += ["--theme", settings.theme] if settings.theme else []
    words += ["--device", ",".join(settings.devices)] if settings.devices else []
    words.append("--smart" if settings.smart else "--no-smart")
    words += ["--exact"] if settings.exact else []
    words += ["--procfs", absolute_path(settings.procfs)] if settings.procfs else []
    words += ["--sysfs", absolute_path(settings.sysfs)] if settings.sysfs else []
    words += ["--smartctl", settings.smartctl] if settings.smartctl else []
    for disk, kind in settings.smart_types:
        words += ["--smart-type", f"{disk}={kind}"]
    if args.config or os.environ.get(CONFIG_VARIABLE):
        words += ["--config", absolute_path(settings_file(os.environ, args.config))]
    return words


def environment() -> dict[str, str]:
    """Return the environment of a browser's session.

    The session's terminal is the page's xterm.js, not the terminal or tmux in which the server was started. The
    session's address space is limited and each malloc arena takes part of it, so the number of arenas is small.
    """
    kept = {name: value for name, value in own_environment(libraries=True).items() if name not in ("TMUX", "TMUX_PANE")}
    return {**kept, "TERM": "xterm-256color", "MALLOC_ARENA_MAX": "2"}


class _AddressPrinter:
    """Prints a first address to open, and another address each time a browser has opened the last one."""

    def __init__(self) -> None:
        self._first = True

    def __call__(self, address: str) -> None:
        first, self._first = self._first, False
        text = f"open {address}\nread-only, on this machine only; Ctrl-C ends it"
        with contextlib.suppress(OSError):  # open screens continue when this terminal is gone
            print(text if first else f"opened; for another browser: {address}", flush=True)


def _print_note(text: str) -> None:
    print_notice(f"web: {clean(text)}")
