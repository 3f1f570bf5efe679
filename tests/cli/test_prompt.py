"""Progress is printed only to a terminal, not too often, and is erased at the end."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from iotop_ai.cli.prompt import Progress
from tests.clocks import SetClock


def terminal(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make stderr a terminal, and return its other end. As a fixture it would have no effect: pytest resets stderr."""
    ours, theirs = pty.openpty()
    monkeypatch.setattr(sys, "stderr", os.fdopen(theirs, "w"))
    os.set_blocking(ours, False)
    return ours


def shown(fd: int) -> bytes:
    try:
        return os.read(fd, 1000)
    except BlockingIOError:
        return b""


def test_progress_begins_after_a_while_and_is_erased_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, other = SetClock(), terminal(monkeypatch)
    with Progress(clock, after_s=1.0) as progress:
        clock.now_ns = 900_000_000
        progress("a")
        assert shown(other) == b""
        clock.now_ns = 1_000_000_000
        progress("b")
        progress("c")
        assert shown(other) == b"\r\x1b[Kb"
        clock.now_ns += 200_000_000
        progress("d")
        assert shown(other) == b"\r\x1b[Kd"
    assert shown(other) == b"\r\x1b[K"


def test_without_a_terminal_there_is_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(SetClock()) as progress:
        progress("a", now=True)
    assert capsys.readouterr().err == ""
