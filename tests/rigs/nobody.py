"""Run a program as nobody: uid 65534, no groups, no rights but that of reaching a Python below /root."""

from __future__ import annotations

import os
import shutil

UID = 65534


def why_not_nobody() -> str:
    """Why that cannot be done here; "" when it can."""
    if os.geteuid() != 0:
        return "needs root to become nobody"
    return "" if shutil.which("setpriv") else "needs setpriv (util-linux)"


def as_nobody(*argv: str) -> list[str]:
    """The argv that runs another one as nobody. It may read and enter everything, write nothing of others."""
    rights = ("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search")
    bounds = ("--bounding-set", "-all,+dac_read_search")
    return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *rights, *bounds, *argv]
