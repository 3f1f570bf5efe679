"""Ctrl-Z, and other ways to stop and continue the live screen."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tests.cli.program import TOP
from tests.rigs.pty_pair import PtyPair
from tests.tui.inside import PROGRAM

STARTED = "\x1b[?2004h"
"""The app writes this when it has taken over the terminal."""


def monitor(folder: Path) -> PtyPair:
    """The program as the leader of the terminal's session, as ``ssh -t host iotop-ai`` starts it."""
    folder.chmod(0o700)
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONPATH": str(TOP),
    }
    return PtyPair(shlex.split(PROGRAM), 80, 24, environment, folder)


def test_ctrl_z_is_refused_where_no_shell_could_continue_the_program(tmp_path: Path) -> None:
    with monitor(tmp_path) as terminal:
        terminal.wait_for(STARTED)
        terminal.type("\x1a")
        terminal.wait_for("cannot suspend: no shell")
        terminal.type("q")
        assert terminal.ended() == 0
