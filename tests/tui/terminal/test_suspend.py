"""Ctrl-Z, and other ways to stop and continue the live screen."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import TOP
from tests.rigs.pty_pair import PtyPair
from tests.rigs.tmux import STOPS, Terminal, why_no_tmux
from tests.tui.inside import PROGRAM, assert_usable, opened, start
from tests.waiting import until

NEEDS_TMUX = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux() or "there")
NEEDS_BASH = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
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


@contextlib.contextmanager
def opened_by_bash(folder: Path) -> Iterator[Terminal]:
    """Open a terminal in which bash has started the program."""
    with opened(folder) as terminal:
        terminal.type("exec bash --norc --noprofile\n")
        start(terminal, folder)
        terminal.wait_app()
        yield terminal


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


def test_a_stop_from_outside_changes_nothing(tmp_path: Path) -> None:
    """The terminal still belongs to the program, so the program only paints its screen again."""
    with monitor(tmp_path) as terminal:
        terminal.wait_for("process", terminal.wait_for(STARTED))
        for _ in range(3):
            stop(terminal.process.pid)
            while terminal.read(0.1):
                pass
            at = len(terminal.written)
            os.kill(terminal.process.pid, signal.SIGCONT)
            terminal.wait_for("process", terminal.wait_for("path", at))
        assert b"\x1b[?1049l" not in terminal.written
        at = len(terminal.written)
        terminal.type("r")
        terminal.wait_for("smallest first", at)
        terminal.type("q")
        assert terminal.ended() == 0
        assert terminal.attributes() == terminal.before


@NEEDS_TMUX
@NEEDS_BASH
@STOPS
def test_the_screen_comes_back_after_a_shell_has_used_its_terminal(tmp_path: Path) -> None:
    with opened_by_bash(tmp_path) as terminal:
        (child,) = terminal.children()
        stop(child)
        terminal.wait_for("Stopped")
        terminal.type("clear; fg; echo rc=$?\n")
        terminal.wait_for_match("(?s)path.*process.* q [?]")
        terminal.keys("r")
        terminal.wait_for("smallest first")
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert_usable(terminal)


@NEEDS_TMUX
@NEEDS_BASH
@STOPS
@pytest.mark.parametrize("stopped_by", ["Ctrl-Z", "SIGSTOP"])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_kill_ends_a_stopped_program(tmp_path: Path, stopped_by: str, name: str) -> None:
    """bash's ``kill %1`` sends the signal and then SIGCONT, and leaves the terminal to the shell."""
    with opened_by_bash(tmp_path) as terminal:
        (child,) = terminal.children()
        if stopped_by == "Ctrl-Z":
            terminal.keys("C-z")
        else:
            stop(child)
        terminal.wait_for("Stopped")
        # bash's own "wait" may return at once, while it still takes the job for stopped.
        ended = f"while kill -0 {child} 2>/dev/null; do sleep 0.1; done"
        terminal.type(f"clear; kill -{name[3:]} %1; {ended}; echo it is g''one\n")
        text = terminal.wait_for("it is gone")
        assert f"ended by {name}" in text
        assert_usable(terminal)


@NEEDS_TMUX
@NEEDS_BASH
@STOPS
def test_bg_leaves_the_terminal_to_the_shell(tmp_path: Path) -> None:
    with opened_by_bash(tmp_path) as terminal:
        terminal.keys("C-z")
        terminal.wait_for("Stopped")
        terminal.cleared()
        terminal.type("set -b; bg\n")
        terminal.wait_for("Stopped")
        assert_usable(terminal)
        terminal.type("clear; fg; echo rc=$?\n")
        terminal.wait_app()
        terminal.keys("q")
        terminal.wait_for("rc=0")
        assert_usable(terminal)


def stop(pid: int) -> None:
    """Stop a process, and wait until it has stopped."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T", "a stopped process")


def state(pid: int) -> str:
    """The state letter of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
