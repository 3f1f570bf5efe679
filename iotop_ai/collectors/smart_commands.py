"""Every smartctl command that is ever run, in one table: the calls and the sudoers lines that allow them.

Those of ``DISK_COMMANDS`` only read; each carries ``-n standby,3``: a sleeping disk is left asleep and the exit status
is 3 (smartctl(8)). Those of ``TEST_COMMANDS`` begin or end a self-test, in the background: a captive one (-C) would
take the disk away from its users. ``-d`` is always given, because finding the type out may spin a disk up.
"""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.model.pattern import pattern

SMARTCTL_PATHS = (
    "/usr/sbin/smartctl",
    "/usr/local/sbin/smartctl",
    "/sbin/smartctl",
    "/usr/bin/smartctl",
    "/usr/local/bin/smartctl",
    "/run/current-system/sw/bin/smartctl",
)
"""Where smartctl may be. PATH is not searched: it is the caller's, and this may run as root."""

SUDO_PATHS = ("/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo", "/run/wrappers/bin/sudo")

COMMANDS: dict[str, tuple[str, ...]] = {
    "scan": ("--json=c", "--scan-open"),
    "json": ("--json=c", "-a", "-n", "standby,3", "-d", "{type}", "{device}"),
    "text": ("-n", "standby,3", "-d", "{type}", "--all", "{device}"),
    "short": ("--json=c", "-t", "short", "-d", "{type}", "{device}"),
    "long": ("--json=c", "-t", "long", "-d", "{type}", "{device}"),
    "abort": ("--json=c", "-X", "-d", "{type}", "{device}"),
}
"""scan: which disks there are. json: all about one disk. text: the same in the form that pySMART reads.
short, long, abort: a self-test's."""

DISK_COMMANDS = ("json", "text")
TEST_COMMANDS = ("short", "long", "abort")

_DEVICE = pattern(r"/dev/(?:sd[a-z]{1,4}|hd[a-z]|nvme[0-9]{1,4}(?:n[0-9]{1,4})?|sg[0-9]{1,4}|bus/[0-9]{1,4})")
_TYPE = pattern(r"[a-z0-9]{1,16}(?:[,+/][a-z0-9]{1,16}){0,5}")
_USER = pattern(r"[a-z_][a-z0-9_-]{0,31}")
_SUDOERS_SPECIAL = pattern(r"([,:=\\])")


def is_device(device: str) -> bool:
    """Whether the text is a device node that smartctl may be asked about, and nothing else."""
    return _DEVICE.fullmatch(device) is not None


def is_type(kind: str) -> bool:
    """Whether the text has the form of a ``-d`` argument: ``sat``, ``nvme``, ``megaraid,3``, ``sat+megaraid,0``."""
    return _TYPE.fullmatch(kind) is not None


def sudoers_user(name: str, uid: int) -> str:
    """A user as sudoers(5) wants it; one whose name needs quoting is named by number."""
    return name if _USER.fullmatch(name) else f"#{uid}"


def argv(command: str, smartctl: str, kind: str = "", device: str = "") -> list[str]:
    """The arguments of one call of the table. Raises ValueError for a path, type or device that cannot be meant."""
    if not smartctl.startswith("/"):
        raise ValueError("smartctl's path is not absolute")
    template = COMMANDS[command]
    if "{device}" in template and not (is_device(device) and is_type(kind)):
        raise ValueError("no such kind of device")
    filled = {"{type}": kind, "{device}": device}
    return [smartctl, *(filled.get(word, word) for word in template)]


def sudoers_command(arguments: Iterable[str]) -> str:
    """A command as sudoers(5) wants it: exact arguments, with its four special characters escaped."""
    path, *rest = arguments
    return " ".join([path, *(_SUDOERS_SPECIAL.sub(r"\\\1", word) for word in rest)])


def sudoers_line(
    user: str,
    uid: int,
    smartctl: str,
    disks: Iterable[tuple[str, str]],
    commands: tuple[str, ...] = ("scan", *DISK_COMMANDS),
) -> str:
    """One line for /etc/sudoers.d that allows these commands on exactly these disks, nothing wider.

    disks: (type, device) pairs.
    """
    calls = [argv("scan", smartctl)] if "scan" in commands else []
    each = [command for command in commands if command != "scan"]
    calls += [argv(command, smartctl, kind, device) for kind, device in disks for command in each]
    return f"{sudoers_user(user, uid)} ALL=(root) NOPASSWD: " + ", ".join(sudoers_command(call) for call in calls)
