"""Decides what root may trust: files that only root can change, and environment variables that root has set."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, MutableMapping

from iotop_ai.model.clean import clean

MOST_LINKS = 40
"""The most symbolic links that are followed in one path; the kernel has the same limit."""
_LOGIN = "/proc/self/loginuid"
_UNSET = 2**32 - 1
"""The loginuid of a process that does not belong to a login, such as a service."""
UNTRUSTED_VARIABLES: Mapping[str, str] = {
    "IOTOP_AI_SMARTCTL": "--smartctl",
    "IOTOP_AI_SSH": "",
    "IOTOP_AI_CONFIG": "--config",
    "IOTOP_AI_PROCFS": "--procfs",
    "IOTOP_AI_SYSFS": "--sysfs",
    "XDG_CONFIG_HOME": "--config",
    "XDG_STATE_HOME": "",
    "XDG_RUNTIME_DIR": "",
    "IOTOP_AI_LOG": "",
    "IOTOP_AI_SOCKET": "",
    "TEXTUAL_DRIVER": "",
    "TEXTUAL_LOG": "",
    "TEXTUAL_PRESS": "",
    "TEXTUAL_SCREENSHOT": "",
    "TEXTUAL_SCREENSHOT_LOCATION": "",
    "TEXTUAL_SCREENSHOT_FILENAME": "",
}
"""Variables that name code to run, a path or key presses, each with the flag to use instead; "" if there is none."""
_IN_BROWSER = "textual.drivers.web_driver:WebDriver"
"""The driver that ``iotop-ai web`` sets in its own sessions."""


def in_browser(environ: Mapping[str, str]) -> bool:
    """Whether textual-serve shows this screen in a browser. There, the screen is read-only and writes no files."""
    return environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def why_untrusted(path: str, owner: int = 0) -> str:
    """Return why a file must not be trusted, in words; "" when it may be.

    It must not be trusted if a user other than root and ``owner`` can change the file or a folder above it.
    """
    try:
        for component in path_components(path):
            status = os.lstat(component)
            if status.st_uid not in (0, owner):
                return f"{clean(component)} belongs to user {status.st_uid}, not to {'you' if owner else 'root'}"
            if not stat.S_ISLNK(status.st_mode) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return f"users other than {'you' if owner else 'root'} can write to {clean(component)}"
    except OSError as error:
        return f"{clean(error.filename or path)}: {error.strerror}"
    return ""


def others_may_rename(path: str) -> bool:
    """Whether a user other than root and us may replace this file or a folder above it.

    In a folder with the sticky bit, only the owner of a file and the owner of the folder may replace that file.
    """
    trusted = (0, os.geteuid())
    try:
        for component in path_components(path):
            status, parent = os.lstat(component), os.lstat(os.path.dirname(component))
            shared = parent.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not parent.st_mode & stat.S_ISVTX
            if parent.st_uid not in trusted or shared or status.st_uid not in trusted:
                return True
    except OSError:
        return True
    return False


def path_components(path: str) -> Iterator[str]:
    """Yield every folder and link that the kernel passes on the way to a path, and the file itself. Raises OSError."""
    folder, parts, links = "/", os.path.join(os.getcwd(), path).split("/")[::-1], 0
    yield folder
    while parts:
        part = parts.pop()
        if part == "..":
            folder = os.path.dirname(folder)  # ``folder`` is not a link, so its parent is correct
        elif part not in ("", "."):
            component = os.path.join(folder, part)
            yield component
            if not os.path.islink(component):
                folder = component
                continue
            links += 1
            if links > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(component)
            parts += target.split("/")[::-1]
            if target.startswith("/"):
                folder = "/"


def invoking_user(environ: Mapping[str, str]) -> int | None:
    """Return the UID of the user who became root; None if we are not root, after a login as root, and if unknown."""
    if os.geteuid() != 0:
        return None
    for name in ("SUDO_UID", "PKEXEC_UID"):
        if (uid := environ.get(name, "")).isdecimal() and int(uid) != 0:
            return int(uid)
    try:
        with open(_LOGIN, encoding="ascii") as file:
            login = int(file.read(16))
    except (OSError, ValueError):
        return None
    return None if login in (0, _UNSET) else login


def drop_untrusted_variables(environ: MutableMapping[str, str]) -> str:
    """Remove the variables that another user may have set for root; return a warning line, "" if none was removed."""
    present = [
        name
        for name in UNTRUSTED_VARIABLES
        if environ.get(name) and (name, environ[name]) != ("TEXTUAL_DRIVER", _IN_BROWSER)
    ]
    if not present or (uid := invoking_user(environ)) is None:
        return ""
    for name in present:
        del environ[name]
    flags = [f"{UNTRUSTED_VARIABLES[name]} in place of {name}" for name in present if UNTRUSTED_VARIABLES[name]]
    use = f"; use {', '.join(flags)}" if flags else ""
    reason = f"because user {uid} may have set them"
    return f"warning: running as root, so these are ignored, {reason}: {', '.join(present)}{use}"
