"""The cast can be played, shows its steps in order, and names no path of the machine that recorded it.

Each script that makes a picture can be imported.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import TOP

SCREENSHOTS = TOP / "screenshots"
CAST = SCREENSHOTS / "iotop-ai.cast"
STORY = ("REPLAY", "STARVED", "why storage_read", "ruled out", "── devices", "disk pinned", "a read took")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[P_^][^\x1b]*\x1b\\|[@-Z\\-_a-z=>])")


@cache
def read() -> tuple[dict[str, Any], list[list[Any]]]:
    head, *events = (json.loads(line) for line in CAST.read_text(encoding="utf-8").splitlines())
    return head, events


def test_the_cast_is_valid() -> None:
    head, events = read()
    assert head == {"version": 2, "width": 80, "height": 24, "title": head["title"]}
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    assert times[0] >= 0
    assert 25 <= times[-1] <= 60
    assert max(b - a for a, b in pairwise(times)) < 6
    assert all(kind == "o" and isinstance(data, str) for _, kind, data in events)
    assert CAST.stat().st_size < 400_000


def test_the_scenes_are_in_order_and_the_terminal_is_restored() -> None:
    whole = "".join(data for _, _, data in read()[1])
    shown = _ESCAPE.sub("", whole)
    at = 0
    for word in STORY:
        at = shown.find(word, at)
        assert at >= 0, word
    assert whole.count("\x1b[?1049h") == 1
    assert whole.rindex("\x1b[?1049l") > whole.index("\x1b[?1049h")
    assert whole.rindex("\x1b[?25h") > whole.rindex("\x1b[?25l")


def test_the_cast_has_no_path_of_the_recording_machine() -> None:
    text = CAST.read_text(encoding="utf-8")
    for word in ("/tmp", "/work", "/root", "/home", "Traceback", "failed:"):
        assert word not in text


@pytest.mark.parametrize("script", sorted(SCREENSHOTS.glob("*.py")), ids=lambda path: path.name)
def test_each_script_that_makes_a_picture_finds_what_it_imports(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import runpy, sys; runpy.run_path(sys.argv[1])", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
