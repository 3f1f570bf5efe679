"""Alerts in a real terminal: a rule fires, the bell rings once, a command runs, and the event is kept."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.rigs.tmux import Terminal, why_no_tmux

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux())

PROGRAM = shlex.join([sys.executable, "-m", "iotop_ai", "--no-smart", "-d", "0.5"])
RULE = '[[rule]]\nname = "memory_here"\nwhen = "memory.total_bytes > 1M for 2s"\nseverity = "critical"\n'
FIRING = "alert: memory_here firing"


def write_rules(folder: Path, text: str, mode: int = 0o600) -> Path:
    """Write the default alerts.toml below XDG_CONFIG_HOME=folder."""
    path = folder / "iotop-ai" / "alerts.toml"
    path.parent.mkdir(mode=0o700)
    path.write_text(text)
    path.chmod(mode)
    return path


def bells(path: Path) -> int:
    """The number of bells among the bytes; a BEL that ends an escape sequence, such as a title, does not count."""
    return len(re.findall(rb"\x07", re.sub(rb"\x1b\][^\x07\x1b]*\x07", b"", path.read_bytes())))


def environment(folder: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(folder)}


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 48)])
def test_a_rule_that_fires_rings_the_bell_runs_its_command_and_is_kept_as_an_event(
    own_folder: Path, width: int, height: int
) -> None:
    sent, hook = own_folder / "sent", own_folder / "hook"
    hook.write_text(f"#!/bin/sh\ncat >> '{sent}'\n")
    hook.chmod(0o755)
    write_rules(own_folder, f'{RULE}[deliver.hook]\ncommand = ["{hook}"]\n')
    output = own_folder / "terminal"
    with Terminal(width, height, environment(own_folder)) as terminal:
        terminal.record(output)
        terminal.type(f"{PROGRAM}\n")
        terminal.wait_until(lambda text: FIRING in text.splitlines()[-1], what=FIRING)
        terminal.wait_for_match(r"^── path .*ALERT memory_here")
        terminal.wait_gone(FIRING)  # the message disappears, the sign stays
        assert re.search(r"^── path .*ALERT memory_here.* live", terminal.text(), re.MULTILINE)
        terminal.wait_until(lambda _: sent.exists() and sent.stat().st_size, what="the command's file")
        terminal.keys("[")
        terminal.wait_for_match(r"^ \d\d:\d\d:\d\d .*!.* now")
        terminal.keys("q")
        terminal.wait_until(lambda _: terminal.mode()["alternate_on"] == "0", what="the normal screen")
    assert bells(output) == 1
    (line,) = sent.read_text().splitlines()
    alert = json.loads(line)
    assert (alert["rule"], alert["state"], alert["severity"]) == ("memory_here", "firing", "critical")


def test_the_bell_and_the_alerts_can_be_turned_off(own_folder: Path) -> None:
    path = write_rules(own_folder, f"bell = false\n{RULE}")
    output = own_folder / "terminal"
    with Terminal(100, 24, environment(own_folder)) as terminal:
        terminal.record(output)
        terminal.type(f"{PROGRAM}\n")
        terminal.wait_for_match(r"── path .*ALERT memory_here")
        terminal.keys("q")
        terminal.wait_for("ready>")
        terminal.cleared()
        terminal.type(f"{PROGRAM} --alerts none\n")
        terminal.wait_for_match(r"measuring [4-9] of 10 s", 40)
        assert "ALERT" not in terminal.text()
        terminal.keys("q")
        terminal.wait_for("ready>")
        terminal.cleared()
        terminal.type(f"{PROGRAM} --alerts {path}.missing\n")
        terminal.wait_for("alerts.toml.missing: No such file")
    assert bells(output) == 0


def test_a_file_that_others_can_change_is_reported(own_folder: Path) -> None:
    write_rules(own_folder, RULE, 0o666)
    with Terminal(120, 24, environment(own_folder)) as terminal:
        terminal.type(f"{PROGRAM}\n")
        terminal.wait_for("failed: alerts are off:")
        terminal.wait_for_match(r"measuring [5-9] of 10 s", 40)
        assert "ALERT" not in terminal.text()
        terminal.keys("q")
        terminal.wait_for("ready>")


def test_a_replay_checks_no_rules(own_folder: Path) -> None:
    write_rules(own_folder, RULE)
    recording = own_folder / "run.iotop.jsonl"
    with Terminal(100, 24, environment(own_folder)) as terminal:
        terminal.type(f"{PROGRAM.partition(' --no-smart')[0]} record -o {recording} --duration 4 -d 0.5 --no-smart\n")
        terminal.wait_for("alert: memory_here firing", 60)
        terminal.wait_for_match(r"(?m)^ready> $|^ready>$", 60)
        terminal.cleared()
        terminal.type(f"{PROGRAM.partition(' --no-smart')[0]} replay {recording}\n")
        terminal.wait_for_match(r"^ \d\d:\d\d:\d\d .*!.* \d\d:\d\d:\d\d $|^ \d\d:\d\d:\d\d .*!.* \d\d:\d\d:\d\d")
        terminal.wait_app()
        terminal.keys("Home", "'")
        terminal.wait_for("alert: memory_here firing")
        terminal.keys("Space")
        terminal.wait_for("REPLAY")
        assert "ALERT" not in terminal.text()
        terminal.keys("q")
