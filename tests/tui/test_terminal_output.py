"""Writes to a terminal that takes no output end in time."""

from __future__ import annotations

import contextlib
import os
import pty
import time
from collections.abc import Iterator

import pytest

from iotop_ai.tui.terminal_output import open_again, write_in_time
from tests.rigs.pty_pair import readable


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The terminal's own end and the program's end of a pseudo-terminal."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def fill(handle: int) -> None:
    """Write to a terminal until it takes no more. Other users of the descriptor still wait."""
    second = open_again(handle)
    assert second is not None
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(second, b"x" * 4096)
    os.close(second)
    assert os.get_blocking(handle)


def test_a_text_is_written(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    write_in_time(theirs, "é", 20.0)
    assert os.read(ours, 100) == "é".encode()


def test_a_terminal_that_takes_no_output_is_given_up(terminal: tuple[int, int]) -> None:
    _, theirs = terminal
    fill(theirs)
    begun = time.monotonic()
    write_in_time(theirs, "x", 0.05)
    assert time.monotonic() - begun < 20


def test_another_file_that_takes_no_output_is_given_up() -> None:
    reading, writing = os.pipe()
    assert open_again(writing) is None
    write_in_time(writing, "x", 20.0)
    assert readable(reading, 0)
    os.write(writing, b"x" * 65535)
    begun = time.monotonic()
    write_in_time(writing, "x", 0.05)
    assert time.monotonic() - begun < 20
    os.close(reading)
    os.close(writing)
