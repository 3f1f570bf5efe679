"""``iotop-ai service``: a systemd unit for always-on recording, on standard output."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from importlib.resources import files

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError

NAME = "iotop-ai.service"
SYSTEM_PATH = f"/etc/systemd/system/{NAME}"
RECORDINGS = "/var/lib/iotop-ai/recordings"
USER_PATH = f"~/.config/systemd/user/{NAME}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``service``."""
    parser.add_argument("--user", action="store_true", help="for this user alone, without root")


def run(args: argparse.Namespace) -> int:
    """Print the unit; what to do with it goes to standard error."""
    words = program()
    print(unit(words, user=args.user), end="")
    for line in _advice(words, user=args.user):
        print(f"service: {clean(line)}", file=sys.stderr)
    return 0


def program() -> list[str]:
    """The words that start this very program: its script, else this Python with the package."""
    if not sys.executable:
        raise UnknownError("this Python does not know its own path")
    script = os.path.join(os.path.dirname(sys.executable), "iotop-ai")
    return [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "iotop_ai"]


def quoted(word: str) -> str:
    """The program's path for ExecStart=, where no variable is replaced. Source: systemd.service(5), systemd.unit(5)."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return plain if plain == word and not any(c.isspace() or c in "';" for c in word) else f'"{plain}"'


def unit(words: list[str], *, user: bool) -> str:
    """The unit's text. Raises UnknownError for a path that no unit can hold."""
    if not all(word.isprintable() for word in words):
        raise UnknownError("the path of this program holds characters that a unit cannot")
    template = files("iotop_ai.cli") / "units" / ("user.service" if user else "system.service")
    return template.read_text(encoding="utf-8").replace("@PROGRAM@", " ".join(map(quoted, words)))


def _advice(words: list[str], *, user: bool) -> list[str]:
    if user:
        return [
            f"save it:  mkdir -p {os.path.dirname(USER_PATH)} && iotop-ai service --user > {USER_PATH}",
            "start it: systemctl --user daemon-reload && systemctl --user enable --now iotop-ai",
            "keep it without a login: loginctl enable-linger",
        ]
    lines = [
        f"save it:  {words[0] if len(words) == 1 else 'iotop-ai'} service | sudo tee {SYSTEM_PATH} > /dev/null",
        "start it: sudo systemctl daemon-reload && sudo systemctl enable --now iotop-ai",
        f"look:     sudo cat {RECORDINGS}/$(hostname -s).iotop.jsonl | iotop-ai replay -",
    ]
    open_part = changeable(words[0])
    if open_part:
        lines.append(f"careful:  {open_part} can be changed by others than root, and this service runs it as root")
    return lines


def changeable(path: str) -> str:
    """The first part of a path, links followed, that others than root may change; "" when there is none."""
    part = os.path.realpath(path)
    while True:
        try:
            found = os.stat(part)
        except OSError:
            return part
        if found.st_uid != 0 or (found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX):
            return part
        above = os.path.dirname(part)
        if above == part:
            return ""
        part = above
