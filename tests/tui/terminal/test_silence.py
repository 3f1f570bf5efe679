"""The real screen while no reading arrives: a reading hangs, the remote end is stopped, or the screen is paused."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rigs.tmux import Terminal, why_no_tmux
from tests.tui.terminal.hanging import LEAVES_S, PROGRAM, leave, renewed, started

pytestmark = [
    pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux()),
    pytest.mark.timeout(180),
]

STUCK = """
import os, sys, time
from iotop_ai.cli.main import main
from iotop_ai.collectors.machine.memory import MemoryCollector

read = MemoryCollector.read

def stuck(self):
    while os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    return read(self)

MemoryCollector.read = stuck
sys.exit(main(["--no-smart", "-d", "0.5"]))
"""


@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=str)
def test_a_reading_that_hangs_is_reported_until_it_answers(tmp_path: Path, size: tuple[int, int]) -> None:
    stop = tmp_path / "stop"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(STUCK)} {shlex.quote(str(stop))}"
    with Terminal(*size) as terminal:
        started(terminal, command)
        terminal.wait_for("live")
        renewed(terminal)
        stop.touch()
        text = terminal.wait_for("no reading for 4 s", 20)
        (rule,) = (line for line in text.splitlines() if " path" in line and "no reading for 4 s" in line)
        assert " live" not in rule
        assert re.search(r"^ [A-Z]+ .* 4 s old$", text.splitlines()[0])
        assert "reading memory hangs" in text.splitlines()[1]
        terminal.keys("o")  # keys still have their effect
        terminal.wait_for("active rows")
        terminal.wait_for("6 s old")
        stop.unlink()
        text = terminal.wait_gone("no reading for")
        assert " old" not in text.splitlines()[0]
        terminal.wait_for("live")
        stop.touch()
        terminal.wait_for("no reading for", 20)
        assert leave(terminal) < LEAVES_S + 1.0


def test_a_pause_and_a_replay_are_not_reported_as_silence(tmp_path: Path) -> None:
    file = tmp_path / "x.iotop.jsonl"
    subprocess.run([PROGRAM, "record", "--no-smart", "-d", "0.5", "--duration", "3", "-o", str(file)], check=True)
    with Terminal(80, 24) as terminal:
        started(terminal)
        terminal.wait_for("live")
        renewed(terminal)
        terminal.keys("Space")
        terminal.wait_for("PAUSED")
        time.sleep(4.0)
        assert "no reading" not in terminal.text()
        terminal.keys("Space")
        terminal.wait_for("live")
        time.sleep(1.5)
        assert "no reading" not in terminal.text()
        leave(terminal)
        started(terminal, f"{PROGRAM} replay --allow-root {shlex.quote(str(file))}")
        terminal.wait_for("REPLAY")
        time.sleep(4.0)
        assert "no reading" not in terminal.text()
        leave(terminal)


def test_a_remote_end_that_stops_is_reported_until_it_continues() -> None:
    record = shlex.join([PROGRAM, "record", "--no-smart", "-d", "0.5", "-o", "-"])
    with Terminal(100, 30) as terminal:
        started(terminal, f"{record} | {PROGRAM} replay --allow-root -")
        terminal.wait_for("REMOTE")
        recorder = next(pid for pid in terminal.children() if b"record" in Path(f"/proc/{pid}/cmdline").read_bytes())
        time.sleep(2.0)
        assert "no reading" not in terminal.text()
        os.kill(recorder, signal.SIGSTOP)
        try:
            text = terminal.wait_for("no reading for 4 s", 20)
            assert "the remote end sends nothing" in text
        finally:
            os.kill(recorder, signal.SIGCONT)
        terminal.wait_gone("no reading for")
        terminal.wait_for("REMOTE")
        os.kill(recorder, signal.SIGSTOP)
        try:
            terminal.wait_for("no reading for", 20)
            begun = time.monotonic()
            terminal.keys("q")
            terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0", 20)
            assert time.monotonic() - begun < LEAVES_S + 1.0
        finally:
            os.kill(recorder, signal.SIGCONT)
