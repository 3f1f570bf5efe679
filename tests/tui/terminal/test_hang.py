"""The real screen while something hangs for good: the user's home, a recording's disk, a reading, the other end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.home import Home, why_no_home
from tests.rigs.tmux import Terminal, why_no_tmux

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux()),
    pytest.mark.skipif(bool(why_no_home()), reason=why_no_home()),
    pytest.mark.timeout(180),
]
PROGRAM = str(Path(sys.executable).with_name("iotop-ai"))
COMMAND = shlex.join([PROGRAM, "--no-smart", "-d", "0.5"])
LEAVES_S = 1.0
CLEAR = r"printf '\033[2J\033[H'"
"""Of the shell alone: clear looks for ~/.terminfo."""
_CLOCK = re.compile(r"\d\d:\d\d:\d\d")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with Home(tmp_path) as made:
        yield made


def seconds_shown(screen: str) -> set[str]:
    """The times of day in the path's rule."""
    return {found[0] for line in screen.splitlines() if " path" in line and (found := _CLOCK.search(line))}


def assert_moves(terminal: Terminal, seconds: float = 4.0) -> None:
    """New figures come: the time of the readings goes on."""
    seen: set[str] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        text = terminal.text()
        assert "no reading for" not in text
        seen |= seconds_shown(text)
        time.sleep(0.1)
    assert len(seen) >= seconds - 1, seen


def leave(terminal: Terminal) -> float:
    """Seconds from the key q to the shell's next line."""
    begun = time.monotonic()
    terminal.keys("q")
    terminal.wait_until(lambda text: "left=0" in text, 20)
    return time.monotonic() - begun


def started(terminal: Terminal, command: str = COMMAND) -> None:
    terminal.type(f"{CLEAR}; {command}; echo left=$?\n")
    terminal.wait_for(" q ?", 30)


def renewed(terminal: Terminal) -> None:
    """Wait until the first picture, which comes before the app, has been replaced by another second's."""
    first = seconds_shown(terminal.text())
    terminal.wait_until(lambda text: seconds_shown(text) - first, what="another second")


def test_a_home_that_begins_to_hang(home: Home) -> None:
    with Terminal(100, 30, home.environment) as terminal:
        started(terminal)
        renewed(terminal)
        terminal.keys(">")  # something to remember
        usual_s = leave(terminal)
        assert (home.path / "state/iotop-ai/screen.json").exists()
        started(terminal)
        renewed(terminal)
        home.hang()
        assert_moves(terminal)
        terminal.keys(">")
        time.sleep(0.3)
        took_s = leave(terminal)
        # What the terminal and the interpreter need is the same; the rest is the second.
        assert took_s < LEAVES_S + usual_s, (took_s, usual_s)
        assert terminal.mode()["alternate_on"] == "0"


def test_a_home_that_hangs_from_the_start(home: Home) -> None:
    home.hang()
    with Terminal(100, 30, home.environment) as terminal:
        begun = time.monotonic()
        started(terminal)
        assert time.monotonic() - begun < 10
        renewed(terminal)
        assert_moves(terminal)
        terminal.keys(">")
        time.sleep(0.3)
        assert leave(terminal) < LEAVES_S + 1.0
        assert "config.toml: no answer" in terminal.text().replace("\n", "")


def test_alerts_on_a_home_that_hangs(home: Home) -> None:
    rules = home.path / "config/iotop-ai/alerts.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text('[[rule]]\nname = "memory_here"\nwhen = "memory.total_bytes > 1M"\n')
    home.hang()
    with Terminal(160, 30, home.environment) as terminal:
        started(terminal)
        terminal.wait_for("failed: alerts are off:")
        assert_moves(terminal)
        assert "ALERT" not in terminal.text()
        assert leave(terminal) < LEAVES_S + 1.0


@pytest.mark.parametrize(
    "words",
    [("-b", "-n", "3"), ("snapshot", "--json"), ("why", "--duration", "3"), ("record", "--duration", "2", "-o")],
    ids=lambda words: words[0],
)
def test_commands_work_while_the_home_hangs(home: Home, tmp_path: Path, words: tuple[str, ...]) -> None:
    def run(name: str) -> subprocess.CompletedProcess[str]:
        more = (str(tmp_path / name),) if words[-1] == "-o" else ()
        argv = [PROGRAM, *words, *more, "--no-smart", "-d", "0.5"]
        return subprocess.run(
            argv, env={**os.environ, **home.environment}, capture_output=True, text=True, timeout=40, cwd="/tmp"
        )

    usual = run("usual")
    home.hang()
    hung = run("hung")
    assert hung.returncode == usual.returncode
    assert "using the defaults" in hung.stderr
    assert "Traceback" not in hung.stderr
    if words[0] == "-b":
        assert hung.stdout.count("total") == usual.stdout.count("total")
        assert abs(len(hung.stdout.splitlines()) - len(usual.stdout.splitlines())) < len(usual.stdout.splitlines()) / 2
    if words[0] == "snapshot":
        current = json.loads(hung.stdout)
        assert current.keys() == json.loads(usual.stdout).keys()
    if words[0] == "record":
        assert (tmp_path / "hung").read_text().count('"k":"snap"') >= 3


def test_a_recording_whose_disk_begins_to_hang(home: Home, tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    home.path.chmod(0o700)
    with Terminal(100, 30, environment) as terminal:
        terminal.type(f"cd {shlex.quote(str(home.path))}\n")
        started(terminal)
        renewed(terminal)
        terminal.keys("R")
        terminal.wait_for("REC")
        time.sleep(2.0)
        home.hang()
        assert_moves(terminal)
        assert leave(terminal) < LEAVES_S + 1.0
        assert "its disk does not answer" in terminal.text().replace("\n", " ")


def test_a_recording_that_cannot_be_begun_says_so(home: Home, tmp_path: Path) -> None:
    with Terminal(100, 30, {"XDG_STATE_HOME": str(tmp_path / "state")}) as terminal:
        terminal.type(f"cd {shlex.quote(str(home.path))}\n")
        started(terminal)
        renewed(terminal)
        home.hang()
        terminal.keys("R")
        terminal.wait_for("no answer for 5 s", 15)
        terminal.keys("R")
        time.sleep(0.2)
        assert leave(terminal) < LEAVES_S + 1.0


def test_record_ends_at_the_second_ctrl_c_when_its_disk_hangs(home: Home) -> None:
    with Terminal(100, 30) as terminal:
        file = home.path / "x.iotop.jsonl"
        terminal.type(f"{CLEAR}; {PROGRAM} record --no-smart -d 0.5 -o {shlex.quote(str(file))}; echo left=$?\n")
        terminal.wait_for("record: to")
        time.sleep(2.0)
        home.hang()
        time.sleep(1.0)
        terminal.keys("C-c")
        time.sleep(1.0)
        assert "left=" not in terminal.text()
        begun = time.monotonic()
        terminal.keys("C-c")
        terminal.wait_for("left=", 20)
        assert time.monotonic() - begun < 2.5
        assert "not written in time" in terminal.text()


def test_record_to_a_disk_that_hangs_is_refused(home: Home) -> None:
    home.hang()
    done = subprocess.run(
        [PROGRAM, "record", "--no-smart", "-o", str(home.path / "x")], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"input: {home.path}/x: no answer for 5 s")


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
def test_a_reading_that_hangs_is_told_and_goes_away(tmp_path: Path, size: tuple[int, int]) -> None:
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
        terminal.keys("o")  # keys answer all the same
        terminal.wait_for("active rows")
        terminal.wait_for("6 s old")
        stop.unlink()
        text = terminal.wait_gone("no reading for")
        assert " old" not in text.splitlines()[0]
        terminal.wait_for("live")
        stop.touch()
        terminal.wait_for("no reading for", 20)
        assert leave(terminal) < LEAVES_S + 1.0


def test_a_pause_and_a_recording_are_not_called_silent(tmp_path: Path) -> None:
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


def test_the_other_end_that_stops_is_told_and_goes_away() -> None:
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
