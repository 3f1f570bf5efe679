"""How the live screen restores the terminal when the program is stopped or hung up, or fails."""

import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cli.program import TOP
from tests.rigs.pty_pair import PtyPair
from tests.rigs.tmux import LONG_S, STOPS, Terminal, why_no_tmux
from tests.tui.inside import closed
from tests.waiting import until

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux())

COMMAND = shlex.join([sys.executable, "-m", "iotop_ai", "--no-smart", "-d", "0.5"])
BROKEN = """
from iotop_ai.cli.commands.monitor.command import run_monitor
from iotop_ai.model.settings import Settings
from iotop_ai.store.source import MemoryRecording
from tests.tui.scene import snapshot

class Breaking(MemoryRecording):
    def __iter__(self):
        yield snapshot(0)
        raise ValueError("the disk cable fell out")

    def pending(self, seq):
        return ()

import sys
from iotop_ai.cli.main import _fail
try:
    run_monitor(Settings(), Breaking())
except ValueError as error:
    sys.exit(_fail("unknown", str(error), 2))
"""


@STOPS
def test_ctrl_z_and_fg_stop_and_continue_the_screen() -> None:
    with Terminal(80, 24) as terminal:
        terminal.type(COMMAND + "\n")
        terminal.wait_for(" q ?")  # this is the first frame, before the app controls the terminal
        terminal.keys("C-z")
        terminal.wait_for("Stopped")
        assert terminal.mode()["alternate_on"] == "0"
        assert terminal.mode()["mouse_any_flag"] == "0"
        terminal.type("echo typed=$((40+2))\n")
        terminal.wait_for("typed=42")
        terminal.type("fg\n")
        terminal.wait_until(lambda text: all(word in text for word in ("path", "process", " q ?")), what="the screen")
        assert terminal.mode()["alternate_on"] == "1"
        terminal.keys("q")
        terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0")
        terminal.type("echo after=$((40+2))\n")
        terminal.wait_for("after=42")


def test_a_hangup_ends_the_program() -> None:
    with Terminal(80, 24) as terminal:
        terminal.type(COMMAND + "\n")
        terminal.wait_for(" q ?")
        (child,) = terminal.children()
        os.kill(child, signal.SIGHUP)
        terminal.wait_for("ended by SIGHUP")
        assert terminal.mode()["alternate_on"] == "0"


def test_a_terminal_that_is_gone_ends_the_program() -> None:
    with Terminal(80, 24) as terminal:
        terminal.type(COMMAND + "\n")
        terminal.wait_for(" q ?")
        (child,) = terminal.children()
        terminal.tmux("kill-server")
        end = time.monotonic() + LONG_S
        while os.path.exists(f"/proc/{child}") and time.monotonic() < end:
            time.sleep(0.05)
        assert not os.path.exists(f"/proc/{child}")


def test_an_exception_is_reported_in_one_line() -> None:
    with Terminal(80, 24) as terminal:
        terminal.type(f"{shlex.quote(sys.executable)} -c {shlex.quote(BROKEN)} && echo never || echo rc=$?\n")
        text = terminal.wait_for("rc=2")
        assert "unknown: the disk cable fell out" in text
        assert "Traceback" not in text
        assert terminal.mode()["alternate_on"] == "0"
        assert terminal.mode()["cursor_flag"] == "1"


STUCK = """
import asyncio
import pathlib
import sys
from iotop_ai.cli.main import main
from iotop_ai.tui import app, terminal_app

async def stuck(self):
    pathlib.Path(sys.argv[1]).touch()
    await asyncio.Event().wait()

terminal_app.END_WAIT_S = 1.0
app.MonitorApp.action_picture = stuck
main(["--no-smart", "-d", "0.5"])
"""


def test_an_app_that_waits_for_ever_is_ended_by_force(tmp_path: Path) -> None:
    stuck = tmp_path / "stuck"
    with Terminal(80, 24) as terminal:
        words = [sys.executable, "-c", STUCK, str(stuck)]
        terminal.type(f"{shlex.join(words)}; echo rc=$?\n")
        terminal.wait_for(" q ?")
        (child,) = terminal.children()
        terminal.wait_app()
        terminal.keys("P")
        terminal.wait_until(lambda _: stuck.exists(), what="an app that waits")
        os.kill(child, signal.SIGTERM)
        terminal.wait_for(f"rc={128 + signal.SIGTERM}")
        assert terminal.mode()["alternate_on"] == "0"


SOON = """
from iotop_ai.cli.main import main
from iotop_ai.tui import terminal_app

terminal_app.END_WAIT_S = 1.0
main(["--no-smart", "-d", "0.5"])
"""


def test_sigterm_ends_an_app_whose_terminal_takes_no_output(tmp_path: Path) -> None:
    """The connection hangs, or the program above is stopped. The recording is closed nevertheless."""
    tmp_path.chmod(0o700)
    environment = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(TOP)}
    with PtyPair([sys.executable, "-c", SOON], 80, 24, environment, tmp_path) as terminal:
        terminal.wait_for("\x1b[?2004h")
        terminal.type("R")
        terminal.wait_for("REC")
        until(lambda: any(path.stat().st_size for path in tmp_path.glob("*.jsonl")), "a first line")
        # From here on, nothing is read from the terminal.
        terminal.type("?\x1b" * 60)
        wait_for_lock(terminal.process.pid)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(LONG_S) == 128 + signal.SIGTERM
        assert terminal.attributes() == terminal.before
        assert closed(tmp_path)


def wait_for_lock(pid: int) -> None:
    """Wait until the main thread of a process waits for a lock, and goes on waiting."""
    samples = 0

    def waits() -> bool:
        nonlocal samples
        samples = samples + 1 if "futex" in Path(f"/proc/{pid}/task/{pid}/wchan").read_text() else 0
        return samples > 30

    until(waits, "a main thread that waits for a lock")
