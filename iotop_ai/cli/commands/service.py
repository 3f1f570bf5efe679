"""``iotop-ai service``: print a systemd unit that records continuously."""

from __future__ import annotations

import argparse
import os
import stat
from importlib.resources import files

from iotop_ai.cli.options.alerts import load_alerts
from iotop_ai.cli.stderr import print_notice
from iotop_ai.collectors.io.spawn import own_program
from iotop_ai.collectors.io.trust import path_components
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError, UnknownError

NAME = "iotop-ai.service"
SYSTEM_PATH = f"/etc/systemd/system/{NAME}"
RECORDINGS = "/var/lib/iotop-ai/recordings"
USER_PATH = f"~/.config/systemd/user/{NAME}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``service``."""
    parser.add_argument("--user", action="store_true", help="a unit for this user, without root")


def run(args: argparse.Namespace) -> int:
    """Print the unit to stdout, and the steps to install it to stderr; return 0."""
    words = program()
    print(unit(words, user=args.user), end="")
    for line in _advice(words, user=args.user):
        print_notice(f"service: {clean(line)}")
    return 0


def program() -> list[str]:
    """Return the command that starts this program, as words: its script, or else this Python with the package.

    Raises UnknownError when Python does not know its own path.
    """
    try:
        return own_program()
    except FileNotFoundError as error:
        raise UnknownError(str(error)) from None


def quoted(word: str) -> str:
    """Return a word of the command line in the quoting of ExecStart=. Source: systemd.service(5), systemd.unit(5)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return word if escaped == word and not any(c.isspace() or c in "';" for c in word) else f'"{escaped}"'


def unit(words: list[str], *, user: bool) -> str:
    """Return the unit's text. Raises UnknownError for a path that a unit cannot hold."""
    if not all(word.isprintable() for word in words):
        raise UnknownError("this program's path contains characters that are not allowed in a unit")
    template = files("iotop_ai.cli") / "units" / ("user.service" if user else "system.service")
    return template.read_text(encoding="utf-8").replace("@PROGRAM@", " ".join(map(quoted, words)))


def _advice(words: list[str], *, user: bool) -> list[str]:
    if user:
        return [
            f"save it:  mkdir -p {os.path.dirname(USER_PATH)} && iotop-ai service --user > {USER_PATH}",
            "start it: systemctl --user daemon-reload && systemctl --user enable --now iotop-ai",
            "run it without a login: loginctl enable-linger",
        ]
    lines = [
        f"save it:  {words[0] if len(words) == 1 else 'iotop-ai'} service | sudo tee {SYSTEM_PATH} > /dev/null",
        "start it: sudo systemctl daemon-reload && sudo systemctl enable --now iotop-ai",
        f"view it:  sudo cat {RECORDINGS}/$(hostname -s).iotop.jsonl | iotop-ai replay -",
    ]
    if unsafe := writable_by_others(words[0]):
        lines.append(f"warning:  users other than root can change {unsafe}, and this service runs it as root")
    return lines + _alerts_advice()


def _alerts_advice() -> list[str]:
    """Return the steps that let the unit's alerts reach other hosts; [] if this user's alerts need none."""
    try:
        config = load_alerts(None, lambda text: None)
    except IotopError:  # the command ``alerts list`` reports this error
        return []
    if config is None:
        return []
    from iotop_ai.alerts.drop_in import drop_in

    lines = drop_in(config.deliveries)
    return ["alerts:   this unit blocks them; to allow them: sudo systemctl edit iotop-ai", *lines] if lines else []


def writable_by_others(path: str) -> str:
    """Return the last part of the path (a folder, a link or the file) that users other than root can change.

    Returns "" if there is none. A part that cannot be examined counts too.
    """
    unsafe_part = ""
    try:
        for part in path_components(path):
            status = os.lstat(part)
            shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
            if status.st_uid != 0 or (shared and not stat.S_ISLNK(status.st_mode)):
                unsafe_part = part
    except OSError as error:
        return str(error.filename or path)
    return unsafe_part
