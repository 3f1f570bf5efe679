"""Whether a shell controls this program: whether it can continue the program after Ctrl-Z, and has the terminal now."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from iotop_ai.collectors.io.root import Root

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the C module, because the enumerations of ``signal`` cost a millisecond

_INIT = 1
_STOP_BIT = 1 << (signal.SIGTSTP - 1)
"""The bit of SIGTSTP in the masks of /proc/PID/status."""


def is_orphaned(root: Root | None = None) -> bool:
    """Whether our process group is orphaned: a stop would last for ever, because no shell would continue the group.

    The group's shell is the first of our ancestors with another group, and is in our session. ``ssh -t host iotop-ai``,
    ``tmux new-window iotop-ai`` and ``docker run -it IMAGE iotop-ai`` start the program without such a shell.
    """
    root = root or Root()
    group, session, pid = os.getpgrp(), os.getsid(0), os.getppid()
    while pid > 0:  # 0: the parent is outside of our PID namespace
        try:
            if os.getpgid(pid) != group:
                return os.getsid(pid) != session or (pid == _INIT and not _ignores_stops(root, pid))
            parent = _parent(root, pid)
        except ProcessLookupError:
            return True
        except PermissionError:  # a security module
            parent = None
        if parent is None:  # hidepid hides the processes of other users, such as sudo
            return not _has_other_leader(group, session)
        pid = parent
    return True


def in_background(terminal: int) -> bool:
    """Whether another process group, such as the shell, has this terminal now. The kernel stops a background process
    that changes its terminal or reads from it.
    """
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:  # it is closed, or belongs to another session
        return False


def _parent(root: Root, pid: int) -> int | None:
    """The parent of a process, field 4 of /proc/PID/stat; None if we cannot read it."""
    fields = root.text_or(f"proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdecimal() else None


def _has_other_leader(group: int, session: int) -> bool:
    """Whether the leader of our session is alive in another group: a shell, or a program above our shell."""
    try:
        return session > 0 and os.getpgid(session) != group
    except OSError:
        return False


def _ignores_stops(root: Root, pid: int) -> bool:
    """Whether a process ignores SIGTSTP as an interactive shell does. The init of a container does not.

    True if we cannot read its status.
    """
    masks = [line.split()[1] for line in root.lines(f"proc/{pid}/status") if line.startswith("SigIgn:")]
    return not masks or bool(int(masks[0], 16) & _STOP_BIT)
