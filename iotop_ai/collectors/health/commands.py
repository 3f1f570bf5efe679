"""All smartctl commands that this program uses, in one table for the calls and for the sudoers lines that allow them.

``DISK_COMMANDS`` only read data. With ``-n standby,3`` a sleeping disk stays asleep and the exit status is 3
(smartctl(8)). ``TEST_COMMANDS`` start or abort a self-test in the background, since a captive test (-C) would block the
disk. All commands on a disk give its type with ``-d``, because detecting the type may spin the disk up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from iotop_ai.collectors.io.trust import why_untrusted
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean

COMMANDS: dict[str, tuple[str, ...]] = {
    "scan": ("--json=c", "--scan-open"),
    "json": ("--json=c", "-a", "-n", "standby,3", "-d", "{type}", "{device}"),
    "text": ("-n", "standby,3", "-d", "{type}", "--all", "{device}"),
    "short": ("--json=c", "-t", "short", "-d", "{type}", "{device}"),
    "long": ("--json=c", "-t", "long", "-d", "{type}", "{device}"),
    "abort": ("--json=c", "-X", "-d", "{type}", "{device}"),
}
"""The arguments of smartctl by command.

scan: lists the disks. json: reads all data of one disk. text: reads the same data in the form that pySMART parses.
short, long: start a self-test. abort: aborts a self-test.
"""

DISK_COMMANDS = ("json", "text")
TEST_COMMANDS = ("short", "long", "abort")

_DEVICE = pattern(r"/dev/(?:sd[a-z]{1,4}|hd[a-z]|nvme[0-9]{1,4}(?:n[0-9]{1,4})?|sg[0-9]{1,4}|bus/[0-9]{1,4})")
_TYPE_PART = "[a-z0-9](?:[a-z0-9-]{0,14}[a-z0-9])?"
_TYPE = pattern(rf"{_TYPE_PART}(?:[,+/]{_TYPE_PART}){{0,5}}")
_USER = pattern(r"[a-z_][a-z0-9_-]{0,31}")
_SUDOERS_SPECIAL = pattern(r"([,:=\\ ])")
_SUDOERS_PATH = pattern(r"(?:/[A-Za-z0-9_.+,:= -]+)+")
"""Paths that sudoers can name exactly. Other characters, even if escaped, may be wildcards or end the line."""


def is_device(device: str) -> bool:
    """Whether the text has the form of a device node that smartctl can read."""
    return _DEVICE.fullmatch(device) is not None


def is_type(kind: str) -> bool:
    """Whether the text has the form of a ``-d`` argument: ``megaraid,3``, ``jmb39x-q,1``, ``sat+megaraid,0``."""
    return _TYPE.fullmatch(kind) is not None


def sudoers_user(name: str, uid: int) -> str:
    """Return a user in the form of sudoers(5): by number if the name would need quoting."""
    return name if _USER.fullmatch(name) else f"#{uid}"


def argv(command: str, smartctl: str, kind: str = "", device: str = "") -> list[str]:
    """Return the command line for one command of the table. Raises ValueError for an invalid path, type or device."""
    if not smartctl.startswith("/"):
        raise ValueError("smartctl's path is not absolute")
    template = COMMANDS[command]
    if "{device}" in template and not (is_device(device) and is_type(kind)):
        raise ValueError("invalid device or type")
    filled = {"{type}": kind, "{device}": device}
    return [smartctl, *(filled.get(word, word) for word in template)]


def sudoers_command(arguments: Iterable[str]) -> str:
    """Return a command in the form of sudoers(5): exact path and arguments, with special characters escaped."""
    return " ".join(_SUDOERS_SPECIAL.sub(r"\\\1", word) for word in arguments)


def _why_replaceable(path: str) -> str:
    """Return why users other than root can replace the program at this path, in words; "" when they cannot."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return why_untrusted(path)


def sudoers_line(
    user: str,
    uid: int,
    smartctl: str,
    disks: Iterable[tuple[str, str]],
    commands: tuple[str, ...] = ("scan", *DISK_COMMANDS),
) -> str:
    """Return a line for /etc/sudoers.d that allows exactly these commands on these disks.

    disks: pairs of (type, device). If sudoers cannot name the path, or if a user other than root can replace the
    program, the result is the reason and the remedy.
    """
    if _SUDOERS_PATH.fullmatch(smartctl) is None:
        return f"no sudoers line can name {clean(smartctl)}: use a path with only letters and digits, or run as root"
    if why := _why_replaceable(smartctl):
        return f"no sudoers line for {clean(smartctl)}: {why}; install smartmontools as root, or run as root"
    calls = [argv("scan", smartctl)] if "scan" in commands else []
    per_disk = [command for command in commands if command != "scan"]
    calls += [argv(command, smartctl, kind, device) for kind, device in disks for command in per_disk]
    return f"{sudoers_user(user, uid)} ALL=(root) NOPASSWD: " + ", ".join(sudoers_command(call) for call in calls)
