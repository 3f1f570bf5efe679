"""Text from outside cannot control the terminal: the real program beside hostile processes, devices and mounts."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.hostile import TITLE, hostile_mount, hostile_processes, why_no_hostile, why_no_hostile_mount
from tests.rigs.tmux import Terminal, why_no_tmux

PROGRAM = (sys.executable, "-m", "iotop_ai")
CSI = re.compile(rb"\x1b\[([0-9;:?<>=$]*)[ -/]*([@-~])")
OWN_OTHER = re.compile(rb"\x1b[78=>]|\x1b\([B0]|\x1b\]22;[a-z-]*\x07")
"""The sequences besides CSI that the program sends: save and restore, keypad, character set, shape of the pointer."""
OUTSIDE = (TITLE, b"\x1b[5m", b"\x1b[2Jb", b"\xc2\x9b", b"\x9b7m", b"\xe2\x80\xae")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """Hostile processes, which write to a hostile mount or, if nothing can be mounted, to a plain folder."""
    if why := why_no_hostile():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("hostile")
    with contextlib.ExitStack() as stack:
        if not why_no_hostile_mount():
            folder = stack.enter_context(hostile_mount(folder))
        yield stack.enter_context(hostile_processes(folder))


def assert_harmless(raw: bytes) -> None:
    """Assert that the bytes have no control characters but line ends and the sequences of our own program."""
    for outside in OUTSIDE:
        if outside != b"\x9b7m":  # 0x9b may be a continuation byte in our own UTF-8; the decoded text is checked below
            assert outside not in raw, outside
    rest = OWN_OTHER.sub(b"", CSI.sub(b"", raw))
    assert b"\x1b" not in rest, rest[max(0, rest.index(b"\x1b") - 60) :][:120]
    text = rest.decode("utf-8")
    controls = {c for c in text if not c.isprintable() and c not in "\r\n"}
    assert not controls, controls


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def find(screen: list[str], text: str) -> tuple[int, int] | None:
    """The column and the row of a text on the screen."""
    for row, line in enumerate(screen):
        if (column := line.find(text)) >= 0:
            return column, row
    return None


def test_hostile_names_cannot_control_the_screen(hostile: list[int], tmp_path: Path) -> None:
    if why := why_no_tmux():
        pytest.skip(why)
    raw = tmp_path / "raw"
    with Terminal(160, 48) as terminal:
        terminal.record(raw)
        time.sleep(0.2)
        begin = len(raw.read_bytes()) if raw.exists() else 0
        terminal.type(f"exec {' '.join(PROGRAM)} --no-smart -d 0.5\n")
        terminal.wait_for("�]0;owned�")
        terminal.wait_for("[/x]")
        terminal.wait_for("[@click=app.quit]")
        for text in ("[@click=", "[/x]", "�]0;owned�"):
            terminal.wait_for(text)
            spot = find(terminal.screen(), text)
            if spot:
                terminal.click(spot[0] + 2, spot[1])
                time.sleep(0.6)
            assert terminal.mode()["alternate_on"] == "1", f"a click on {text!r} ended the program"
            # A click on the banner or the path opens another screen.
            terminal.keys("Escape")
            time.sleep(0.6)
        terminal.wait_for("[/x]")
        painted = raw.read_bytes()[begin:]
    echo, _, painted = painted.partition(b"\r\n")
    assert b"iotop_ai" in echo
    assert len(painted) > 4000
    # Sequences that tmux sends for the shell's prompt come before the first byte of the program.
    assert_harmless(painted)


def test_hostile_names_are_harmless_in_the_json(hostile: list[int]) -> None:
    done = subprocess.run([*PROGRAM, "snapshot", "--json", "--no-smart", "-d", "0.5"], capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert not re.search(rb"[^\x20-\x7e\n]", done.stdout)
    document = json.loads(done.stdout)
    for text in strings(document):
        assert text.isprintable(), ascii(text)
    names = {process["pid"]: process["name"] for process in document["processes"]}
    assert [names[pid] for pid in hostile] == ["[/x]", "�]0;owned�", "[@click=quit]"]


@pytest.mark.parametrize(
    "command", [("-b", "-n", "1", "-d", "0.5", "--no-smart"), ("snapshot", "-d", "0.5", "--no-smart")]
)
def test_hostile_names_are_harmless_in_text(hostile: list[int], command: tuple[str, ...]) -> None:
    done = subprocess.run([*PROGRAM, *command], capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("utf-8")
    assert all(c.isprintable() for c in text.replace("\n", "")), ascii(text)
    assert "]0;owned" in text
    assert "[@click=app.quit]" in text
