"""Keys that arrive faster than screens change: each reaches the screen for which it was typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rigs.tmux import Terminal, why_no_tmux
from tests.tui.inside import TITLE, opened, start

pytestmark = pytest.mark.skipif(bool(why_no_tmux()), reason=why_no_tmux() or "there")

OPENED = (
    (":", "actions"), ("?", "── help"), ("s", "sort processes by"), ("d", "── devices"), ("C", "── columns"),
    ("D", "DROP CACHES"), ("C-t", "DELAY ACCOUNTING"), ("h", "Esc:back"), ("J", "Esc:back"), ("/", "Esc:clear"),
)  # fmt: skip


def wait_until_reversed(terminal: Terminal, times: int) -> None:
    """Wait until the order was reversed this many times and the main screen is in front."""
    terminal.wait_for("smallest first" if times % 2 else "largest first")
    terminal.wait_until(lambda seen: {"path", "disk", "process"} <= set(TITLE.findall(seen)), what="the main screen")


def test_a_key_right_after_the_escape_that_closes_a_screen_is_for_the_screen_below(tmp_path: Path) -> None:
    with opened(tmp_path, 100, 30) as terminal:
        start(terminal, tmp_path)
        terminal.keys("r")
        wait_until_reversed(terminal, 1)
        for times, (key, shows) in enumerate(OPENED, start=2):
            terminal.keys(key)
            terminal.wait_for(shows)
            terminal.keys("Escape", "r")
            wait_until_reversed(terminal, times)
        terminal.keys("?")
        terminal.wait_for("── help")
        terminal.keys("x", "q")  # the first key closes the help, and the next one leaves the program
        terminal.wait_for("rc=0")


def test_keys_after_an_escape_keep_their_order(tmp_path: Path) -> None:
    with opened(tmp_path, 100, 30) as terminal:
        start(terminal, tmp_path)
        terminal.keys(":")
        terminal.wait_for("actions")
        terminal.keys("Escape", "/", "z", "q", "x")
        terminal.wait_for_match("^ /zqx")
        terminal.keys("Escape", "q")
        terminal.wait_for("rc=0")
