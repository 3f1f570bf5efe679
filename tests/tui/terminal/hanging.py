"""Steps that several tests share, in which the live screen waits for something that hangs."""

from __future__ import annotations

import re
import shlex
import sys
import time
from pathlib import Path

from tests.rigs.tmux import Terminal

PROGRAM = str(Path(sys.executable).with_name("iotop-ai"))
COMMAND = shlex.join([PROGRAM, "--no-smart", "-d", "0.5"])
LEAVES_S = 1.0
"""The seconds that the program may take to end after q. The terminal and the interpreter need further time."""
CLEAR = r"printf '\033[2J\033[H'"
"""The shell's own printf is used, because clear would look for ~/.terminfo."""
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")


def seconds_shown(screen: str) -> set[str]:
    """The times of day in the rule above the path."""
    return {found[0] for line in screen.splitlines() if " path" in line and (found := _CLOCK.search(line))}


def assert_moves(terminal: Terminal, seconds: float = 4.0) -> None:
    """Assert that new figures arrive: the time of the readings advances."""
    seen: set[str] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        text = terminal.text()
        assert "no reading for" not in text
        seen |= seconds_shown(text)
        time.sleep(0.1)
    assert len(seen) >= seconds - 1, seen


def leave(terminal: Terminal) -> float:
    """Press q, and return the seconds until the shell's next line."""
    begun = time.monotonic()
    terminal.keys("q")
    terminal.wait_until(lambda text: "left=0" in text, 20)
    return time.monotonic() - begun


def started(terminal: Terminal, command: str = COMMAND) -> None:
    terminal.type(f"{CLEAR}; {command}; echo left=$?\n")
    terminal.wait_for(" q ?", 30)


def renewed(terminal: Terminal) -> None:
    """Wait until a picture of a later second has replaced the first one, which is shown before the app runs."""
    first = seconds_shown(terminal.text())
    terminal.wait_until(lambda text: seconds_shown(text) - first, what="another second")
