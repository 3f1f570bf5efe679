"""Kernel switches in /proc/sys. They are written as root, or else through ``sudo -n sysctl`` if sudoers allows it."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from typing import NamedTuple

from iotop_ai.actions.audit import user_name
from iotop_ai.collectors.health.commands import sudoers_command, sudoers_user
from iotop_ai.collectors.io.programs import SYSTEM_PATH, find_program
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.spawn import run
from iotop_ai.model.clean import clean

SUDO_TIMEOUT_S = 10.0
STDERR_BYTES = 4096


class Switch(NamedTuple):
    """A file in /proc/sys that we can write. name: the name that sysctl uses. values: the only values that we write."""

    name: str
    values: tuple[str, ...]

    @property
    def file(self) -> str:
        """The path of the file, relative to the root."""
        return "proc/sys/" + self.name.replace(".", "/")


DROP_CACHES = Switch("vm.drop_caches", ("1", "2", "3"))
TASK_DELAYACCT = Switch("kernel.task_delayacct", ("0", "1"))


class Permission(NamedTuple):
    """The permission to set a switch: how this user can set it.

    how: "root", "sudo", or "" if this user cannot set it. reason, remedy: why not, and what to do then.
    """

    how: str
    reason: str = ""
    remedy: str = ""


def permission_to(switch: Switch, root: Root, wanted: str = "") -> Permission:
    """Return this user's permission to set a switch.

    A user other than root needs a sudo rule for every value. Each rule is checked by running sudo without a prompt, for
    at most SUDO_TIMEOUT_S.

    wanted: the value that the remedy sets; "" for the switch's first one.
    """
    if not root.exists(switch.file):
        return Permission("", f"this kernel has no {switch.name}", "a container may hide it: run on the host")
    if os.geteuid() == 0:
        return Permission("root")
    line = sudoers(switch)
    sudo, sysctl = find_program("sudo"), find_program("sysctl")
    if not (sudo and sysctl):
        return Permission("", "needs root", f"run as root: sysctl -w {switch.name}={wanted or switch.values[0]}")
    allowed = all(not _run([sudo, "-n", "-l", sysctl, "-w", f"{switch.name}={value}"])[0] for value in switch.values)
    return (
        Permission("sudo")
        if allowed
        else Permission("", "needs root, and no sudo rule allows it without a password", line)
    )


def sudoers(switch: Switch) -> str:
    """Return the line for /etc/sudoers.d that allows exactly the values of this switch."""
    uid = os.getuid()
    sysctl = find_program("sysctl") or "/usr/sbin/sysctl"
    calls = ", ".join(sudoers_command([sysctl, "-w", f"{switch.name}={value}"]) for value in switch.values)
    return f"{sudoers_user(user_name(uid), uid)} ALL=(root) NOPASSWD: {calls}"


def set_switch(switch: Switch, value: str, root: Root) -> tuple[str, str]:
    """Set a switch; return ("", "") when it is set, else the reason and the remedy.

    Blocks until the kernel has finished, which may take long for vm.drop_caches.
    """
    if value not in switch.values:
        return f"{switch.name} may not be set to {clean(value)}", ""
    try:
        root.write(switch.file, value)
        return "", ""
    except OSError as error:
        if error.errno == errno.EROFS:
            return f"{switch.name} is read-only in this container", "do it on the host"
        if error.errno not in (errno.EACCES, errno.EPERM):
            return f"{switch.name} cannot be set: {error.strerror}", ""
    if os.geteuid() == 0:
        return f"{switch.name} cannot be set in this container, not even by root", "do it on the host"
    sudo, sysctl = find_program("sudo"), find_program("sysctl")
    if not (sudo and sysctl):
        return "needs root", f"run as root: sysctl -w {switch.name}={value}"
    code, stderr = _run([sudo, "-n", sysctl, "-w", f"{switch.name}={value}"], None)
    if code:
        return f"sudo failed: {stderr or f'exit {code}'}", sudoers(switch)
    return "", ""


def _run(argv: list[str], timeout_s: float | None = SUDO_TIMEOUT_S) -> tuple[int, str]:
    """Run a command; return its exit code and the beginning of its stderr, in one line.

    Returns 124 and the error's text if the command cannot run or takes longer than ``timeout_s``.

    timeout_s: None for no limit.
    """
    env = {"LC_ALL": "C", "PATH": SYSTEM_PATH}
    try:
        # A file instead of a pipe, so that any amount of output can be written and only its beginning is read.
        with tempfile.TemporaryFile() as stderr:
            null = subprocess.DEVNULL
            code = run(argv, stdin=null, stdout=null, stderr=stderr, timeout=timeout_s, env=env).returncode
            stderr.seek(0)
            head = stderr.read(STDERR_BYTES)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 124, clean(str(error), 160)
    return code, clean(head.decode("utf-8", "replace").strip().replace("\n", "; "), 160)
