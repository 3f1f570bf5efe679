"""``iotop-ai web``: the screen in a browser on this machine, where no key changes anything."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys

from iotop_ai.cli.log import quiet_log
from iotop_ai.cli.options import add_source_flags, settings_of
from iotop_ai.cli.select import resolved
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.settings import THEMES, Settings

EXTRA = "the browser needs textual-serve: pip install 'iotop-ai[web]'"
PORT = 8137


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``web``."""
    parser.add_argument("--port", metavar="PORT", type=port, default=PORT, help=f"on 127.0.0.1 (default {PORT})")
    add_source_flags(parser, sub=True)
    parser.add_argument("--theme", choices=THEMES, default=argparse.SUPPRESS, help="one of " + ", ".join(THEMES))


def port(text: str) -> int:
    """A port that an ordinary user may have. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal() and 1024 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write 1024 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C; 0 then."""
    if importlib.util.find_spec("textual_serve") is None:
        raise UnknownError(EXTRA)
    settings = resolved(settings_of(args))  # a mistake is said here, not in every browser
    quiet_log()
    from iotop_ai.tui.served import BrowserServer

    server = BrowserServer(shlex.join(command(settings, args)), args.port, _ready)
    try:
        server.serve()
    except OSError as error:
        raise UnknownError(f"port {args.port} of 127.0.0.1: {error.strerror}; --port names another") from None
    return 0


def command(settings: Settings, args: argparse.Namespace) -> list[str]:
    """What each browser's session runs: the live screen with the same flags, read-only."""
    words = [sys.executable, "-m", "iotop_ai", "--readonly", "-d", f"{settings.interval_s:g}"]
    words += ["--theme", settings.theme] if settings.theme else []
    words += ["--device", ",".join(settings.devices)] if settings.devices else []
    words += [] if settings.smart else ["--no-smart"]
    words += ["--exact"] if settings.exact else []
    words += ["--smartctl", settings.smartctl] if settings.smartctl else []
    for disk, kind in settings.smart_types:
        words += ["--smart-type", f"{disk}={kind}"]
    words += ["--config", args.config] if args.config else []
    return words


def _ready(address: str) -> None:
    print(f"open {address}\nread-only, on this machine alone; Ctrl-C ends it", flush=True)
