"""The real screen while the user's home, or the disk of a recording, hangs forever."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.home import Home, may_hide, why_no_home
from tests.rigs.tmux import Terminal, why_no_tmux
from tests.tui.terminal.hanging import CLEAR, LEAVES_S, PROGRAM, assert_moves, leave, renewed, started

pytestmark = [
    *([] if may_hide() else [pytest.mark.alone]),
    pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux()),
    pytest.mark.skipif(bool(why_no_home()), reason=why_no_home()),
    pytest.mark.timeout(180),
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with Home(tmp_path, hidden=may_hide()) as made:
        yield made


def test_the_screen_goes_on_and_ends_when_the_home_begins_to_hang(home: Home) -> None:
    with Terminal(100, 30, home.environment, home.inside) as terminal:
        started(terminal)
        renewed(terminal)
        terminal.keys(">")  # this gives the program a setting to remember
        usual_s = leave(terminal)
        assert (home.behind / "state/iotop-ai/screen.json").exists()
        started(terminal)
        renewed(terminal)
        home.hang()
        assert_moves(terminal)
        terminal.keys(">")
        time.sleep(0.3)
        took_s = leave(terminal)
        # The terminal and the interpreter need as long as before; the program may take one second more.
        assert took_s < LEAVES_S + usual_s, (took_s, usual_s)
        assert terminal.mode()["alternate_on"] == "0"


def test_the_screen_starts_with_a_home_that_hangs(home: Home) -> None:
    home.hang()
    with Terminal(100, 30, home.environment, home.inside) as terminal:
        begun = time.monotonic()
        started(terminal)
        assert time.monotonic() - begun < 20
        renewed(terminal)
        assert_moves(terminal)
        terminal.keys(">")
        time.sleep(0.3)
        assert leave(terminal) < LEAVES_S + 1.0
        assert "config.toml: no answer" in terminal.text().replace("\n", "")


def test_the_screen_works_with_alerts_on_a_home_that_hangs(home: Home) -> None:
    rules = home.behind / "config/iotop-ai/alerts.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text('[[rule]]\nname = "memory_here"\nwhen = "memory.total_bytes > 1M"\n')
    home.hang()
    with Terminal(160, 30, home.environment, home.inside) as terminal:
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
        argv = [*home.inside, PROGRAM, *words, *more, "--no-smart", "-d", "0.5"]
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


def test_a_settings_file_that_cannot_be_created_is_a_one_line_error(home: Home) -> None:
    home.hang()
    argv, environment = [*home.inside, PROGRAM, "config", "init"], {**os.environ, **home.environment}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr == f"usage: {home.path}/config/iotop-ai/config.toml: no answer for 5 s\n"


def test_the_screen_goes_on_when_the_disk_of_a_recording_begins_to_hang(home: Home, tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    home.behind.chmod(0o700)
    with Terminal(100, 30, environment, home.inside) as terminal:
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


def test_a_recording_that_cannot_be_begun_is_reported(home: Home, tmp_path: Path) -> None:
    with Terminal(100, 30, {"XDG_STATE_HOME": str(tmp_path / "state")}, home.inside) as terminal:
        terminal.type(f"cd {shlex.quote(str(home.path))}\n")
        started(terminal)
        renewed(terminal)
        home.hang()
        terminal.keys("R")
        terminal.wait_for("no answer for 5 s", 15)
        terminal.keys("R")
        time.sleep(0.2)
        assert leave(terminal) < LEAVES_S + 1.0


def test_record_ends_at_the_second_ctrl_c_while_its_disk_hangs(home: Home) -> None:
    with Terminal(100, 30, inside=home.inside) as terminal:
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
        [*home.inside, PROGRAM, "record", "--no-smart", "-o", str(home.path / "x")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"input: {home.path}/x: no answer for 5 s")
