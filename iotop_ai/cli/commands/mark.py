"""``iotop-ai mark "epoch 3"``: set a mark on the timeline of every monitor and recording of this user."""

from __future__ import annotations

import argparse
import os

from iotop_ai.collectors.io.monitor_sockets import LONGEST_TEXT, SOCKET_VARIABLE, send_mark
from iotop_ai.model.errors import UnknownError

_DEFAULT_TEXT = "by command"
"""The text of a mark if the user gives none. A mark that is set with the screen's key has the text "by key"."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mark``."""
    parser.add_argument(
        "text", nargs="*", help=f'the text, {LONGEST_TEXT} characters at most (default "{_DEFAULT_TEXT}")'
    )


def run(args: argparse.Namespace) -> int:
    """Send the mark and return 0. Raises UnknownError when no monitor received it."""
    if not send_mark(" ".join(args.text).strip() or _DEFAULT_TEXT, os.environ):
        raise UnknownError(
            f"no monitor of this user received the mark (set {SOCKET_VARIABLE} to the socket of another monitor)"
        )
    return 0
