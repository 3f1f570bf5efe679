"""Runs a program as the user nobody (uid 65534) without groups, or a function as any user."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable

UID = 65534


def why_not_nobody() -> str:
    """The reason why no program can run as the user nobody here; "" if one can."""
    if os.geteuid() != 0:
        return "needs root to become nobody"
    return "" if shutil.which("setpriv") else "needs setpriv (util-linux)"


def as_nobody(*argv: str) -> list[str]:
    """The command line that runs ``argv`` as nobody.

    The program may read every file and enter every folder, because its Python may be below /root.
    """
    rights = ("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search")
    bounds = ("--bounding-set", "-all,+dac_read_search")
    return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *rights, *bounds, *argv]


def as_user(uid: int, act: Callable[[], None]) -> int:
    """Call ``act`` in a fork of this process as another user, with the same groups. Returns 0, or 1 if it raised."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setresuid(uid, uid, uid)
            act()
            status = 0
        except BaseException:  # the child must not go on with the parent's tests
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
