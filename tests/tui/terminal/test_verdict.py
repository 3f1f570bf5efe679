"""The keys about the verdict in a real terminal, on recordings of real causes: reasons, jobs, copy, acknowledge."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.tmux import Terminal, why_no_tmux

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux())

TOP = Path(__file__).resolve().parents[3]
RECORDING = TOP / "tests" / "data" / "verdicts" / "storage_read_torch.iotop.jsonl.gz"
SIZES = [(80, 24), (160, 48)]


@pytest.fixture(params=SIZES, ids=str)
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal with the replay of a trainer on a slow disk, near the end of the recording."""
    words = ["-m", "iotop_ai", "replay", str(RECORDING), "--allow-root", "--at", "90%"]
    environment = {"XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1"}
    with Terminal(*request.param, environment) as terminal:
        terminal.type(shlex.join([sys.executable, *words]) + "\n")
        terminal.wait_for("workers  BLOCKED")
        yield terminal


def test_enter_opens_the_reasons_which_can_be_scrolled(terminal: Terminal) -> None:
    terminal.keys("Enter")
    text = terminal.wait_for("why storage_read")
    assert "time without data" in text
    assert "against" in text
    assert "ruled out" in text
    terminal.keys("End")
    text = terminal.wait_for("last hour")
    assert " 1 copy /data/data" in text
    terminal.keys("Home")
    terminal.wait_for("why storage_read")
    terminal.keys("?", "x")  # both arrive together: the help is opened and closed
    terminal.wait_for("why storage_read")
    terminal.keys("?")
    terminal.wait_for("help: reasons")
    terminal.keys("x")
    terminal.wait_for("why storage_read")
    terminal.keys("Escape")
    terminal.wait_for("Enter:why")


def test_a_click_on_the_banner_opens_the_reasons(terminal: Terminal) -> None:
    terminal.keys("r")  # when a key has an effect, the layout exists; a click before that would be lost
    terminal.wait_for("smallest first")
    terminal.click(20, 1)
    terminal.wait_for("why storage_read")
    terminal.keys("j")
    terminal.wait_for("it is the only job")
    terminal.keys("Enter")
    terminal.wait_for("Enter:why")


def test_the_jobs_are_listed_and_one_is_selected(terminal: Terminal) -> None:
    terminal.type("J")
    text = terminal.wait_for("AU%")
    assert "trainer.py of root" in text
    assert "data     /data/data ext4" in text
    terminal.keys("Down", "Enter")
    terminal.wait_for("done: trainer.py of root")
    terminal.click(20, 5 if terminal.height < 40 else 9)
    terminal.wait_for("AU%")
    terminal.keys("Escape")
    terminal.wait_for("Enter:jobs")


def test_the_key_c_copies_the_text_of_why_through_tmux(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("c")
    terminal.wait_for("done: copied")
    text = (tmp_path / "iotop-ai" / "copied.txt").read_text()
    assert text.startswith("STARVED   trainer.py waits for data ")
    assert "\npath      root trainer.py > 2 workers > /data/data" in text


def test_in_a_replay_nothing_can_be_acknowledged_and_the_reason_is_shown(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("x")
    terminal.wait_for("only a failing disk or GPU")
    assert not (tmp_path / "iotop-ai" / "acknowledged.json").exists()
