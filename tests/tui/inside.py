"""Steps of tests that run the program in a terminal with separate folders: start, record, end."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from pathlib import Path

from iotop_ai.store.read.file import FileRecording
from tests.cli.program import TOP
from tests.rigs.tmux import Terminal

PROGRAM = shlex.join([sys.executable, "-m", "iotop_ai", "--no-smart", "-d", "0.5"])
TITLE = re.compile(r"^[─━]+ ([a-z]+) ", re.MULTILINE)


def opened(folder: Path, width: int = 80, height: int = 24, **environment: str) -> Terminal:
    where = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(TOP)}
    return Terminal(width, height, {**where, **environment})


def start(terminal: Terminal, folder: Path, command: str = PROGRAM, shows: str = " q ?") -> None:
    folder.chmod(0o700)
    terminal.type(f"cd {shlex.quote(str(folder))}\n")
    terminal.type(f"{command}; echo rc=$?\n")
    terminal.wait_for(shows)


def record(terminal: Terminal, folder: Path) -> None:
    terminal.keys("R")
    terminal.wait_until(
        lambda _: any(path.stat().st_size for path in folder.glob("*.iotop.jsonl")), what="a first line"
    )


def closed(folder: Path) -> bool:
    (path,) = folder.glob("*.iotop.jsonl")
    return FileRecording(str(path)).closed()


def wait_for_exit(pid: int) -> None:
    """Wait until the process has exited."""
    end = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < end, "still running"
        time.sleep(0.05)


def assert_usable(terminal: Terminal) -> None:
    terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0")
    mode = terminal.mode()
    assert (mode["cursor_flag"], mode["mouse_any_flag"], mode["keypad_cursor_flag"]) == ("1", "0", "0")
    terminal.type("echo back=$((40+2))\n")
    terminal.wait_for("back=42")
