"""Switches of the kernel in /proc/sys: written as root, else through ``sudo -n sysctl`` where a rule allows that."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import NamedTuple

from iotop_ai.actions.audit import user_name
from iotop_ai.collectors.root import Root
from iotop_ai.collectors.smart_commands import SUDO_PATHS, sudoers_command, sudoers_user
from iotop_ai.collectors.spawn import nothing_blocked
from iotop_ai.model.clean import clean

SYSCTL_PATHS = ("/usr/sbin/sysctl", "/sbin/sysctl", "/usr/bin/sysctl", "/run/current-system/sw/bin/sysctl")
"""PATH is not searched: it is the caller's, and this runs as root."""
ASK_S = 10.0


class Switch(NamedTuple):
    """One of them: its name for sysctl, its file, and the values that we ever write."""

    name: str
    values: tuple[str, ...]

    @property
    def file(self) -> str:
        """Below the root."""
        return "proc/sys/" + self.name.replace(".", "/")


DROP_CACHES = Switch("vm.drop_caches", ("1", "2", "3"))
TASK_DELAYACCT = Switch("kernel.task_delayacct", ("0", "1"))


class Right(NamedTuple):
    """How a switch may be set: how is "root", "sudo" or "" (not at all); then why and what would mend it."""

    how: str
    reason: str = ""
    remedy: str = ""


def first_there(paths: tuple[str, ...]) -> str:
    """The first of them that can be run; "" without any."""
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def right_to(switch: Switch, root: Root) -> Right:
    """How this user may set it. Asks sudo, which is given no way to prompt; may take ASK_S."""
    if not root.exists(switch.file):
        return Right("", f"this kernel has no {switch.name}", "it is Linux's own; a container may hide it")
    if os.geteuid() == 0:
        return Right("root")
    line = sudoers(switch)
    sudo, sysctl = first_there(SUDO_PATHS), first_there(SYSCTL_PATHS)
    if not (sudo and sysctl):
        return Right("", "it needs root", f"run as root: sysctl -w {switch.name}={switch.values[0]}")
    asked = all(not _run([sudo, "-n", "-l", sysctl, "-w", f"{switch.name}={value}"])[0] for value in switch.values)
    return Right("sudo") if asked else Right("", "it needs root, and no sudo rule allows it without a password", line)


def sudoers(switch: Switch) -> str:
    """The line for /etc/sudoers.d that allows exactly this switch's values."""
    uid = os.getuid()
    sysctl = first_there(SYSCTL_PATHS) or SYSCTL_PATHS[0]
    calls = ", ".join(sudoers_command([sysctl, "-w", f"{switch.name}={value}"]) for value in switch.values)
    return f"{sudoers_user(user_name(uid), uid)} ALL=(root) NOPASSWD: {calls}"


def set_switch(switch: Switch, value: str, root: Root) -> tuple[str, str]:
    """Set it; ("", "") when that was done, else why not and what would mend it. Blocks as long as the kernel does."""
    if value not in switch.values:
        return f"{switch.name} is not set to {clean(value)}", ""
    try:
        root.write(switch.file, value)
        return "", ""
    except OSError as error:
        if error.errno == errno.EROFS:
            return f"{switch.name} is read-only here: this is a container", "do it on the host"
        if error.errno not in (errno.EACCES, errno.EPERM):
            return f"{switch.name} cannot be set: {error.strerror}", ""
    if os.geteuid() == 0:
        return f"{switch.name} may not be set here, even by root", "do it on the host: this is a container"
    sudo, sysctl = first_there(SUDO_PATHS), first_there(SYSCTL_PATHS)
    if not (sudo and sysctl):
        return "it needs root", f"run as root: sysctl -w {switch.name}={value}"
    code, said = _run([sudo, "-n", sysctl, "-w", f"{switch.name}={value}"], None)
    if code:
        return f"sudo did not do it: {said or f'exit {code}'}", sudoers(switch)
    return "", ""


def _run(argv: list[str], timeout_s: float | None = ASK_S) -> tuple[int, str]:
    """Exit code and what was said on stderr, in one line. A command that cannot be run or takes too long is 124."""
    env = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    try:
        with nothing_blocked():
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, cwd="/", env=env, check=False
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 124, clean(str(error), 160)
    return done.returncode, clean(done.stderr.decode("utf-8", "replace").strip().replace("\n", "; "), 160)
