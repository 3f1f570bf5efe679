"""Ctrl-Z, and other ways to stop and continue the live screen."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests.cli.program import TOP
from tests.rigs.pty_pair import PtyPair
from tests.rigs.tmux import STOPS, why_no_tmux
from tests.tui.inside import PROGRAM, assert_usable, opened, start

NEEDS_TMUX = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux() or "there")
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


@NEEDS_TMUX
@STOPS
def test_ctrl_z_stops_all_programs_of_a_pipe(tmp_path: Path) -> None:
    """Otherwise the shell would wait for the program that sends the Snapshots."""
    record = PROGRAM.replace("iotop_ai", "iotop_ai record") + " -"
    replay = PROGRAM.partition(" --")[0] + " replay --allow-root -"
    with opened(tmp_path) as terminal:
        start(terminal, tmp_path, f"{record} | {replay}", shows="REMOTE")
        terminal.wait_app()
        terminal.keys("C-z")
        terminal.wait_for("Stopped")
        assert_usable(terminal)
        terminal.type("clear; fg; echo rc=$?\n")
        terminal.wait_for("REMOTE")
        terminal.wait_app()
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert_usable(terminal)
