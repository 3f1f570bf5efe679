from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.cli.commands.record.csv_log import CsvLog
from iotop_ai.export.logs.disk_csv import HEADER
from iotop_ai.store.write.frame_queue import MOST_FRAMES
from tests.cli.commands.record.test_command import FAST, kinds, lines
from tests.cli.forked import Run
from tests.cli.program import PLAIN
from tests.store.scenario import lived


@pytest.fixture
def full_pipe() -> Iterator[tuple[int, int]]:
    """A pipe that is full, as (the end to read, the end to write)."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(write_end, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write_end, b"\n" * 512)
    os.set_blocking(write_end, True)
    yield read_end, write_end
    os.close(read_end)
    os.close(write_end)


@contextlib.contextmanager
def standard_output(descriptor: int) -> Iterator[None]:
    saved = os.dup(1)
    os.dup2(descriptor, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def test_a_reader_that_does_not_read_holds_up_neither_the_recording_nor_its_end(
    tmp_path: Path, full_pipe: tuple[int, int]
) -> None:
    path = tmp_path / "a.iotop.jsonl"
    began = time.monotonic()
    with open(full_pipe[1], "w", closefd=False) as stdout:
        run = Run(("record", "--csv", "-", "-o", str(path), *FAST, "--duration", "3"), PLAIN, stdout)
    _, stderr = run.communicate(30)
    assert run.returncode == 0, stderr
    assert time.monotonic() - began < 20
    assert "the last lines of the CSV log were not written in time" in stderr
    assert kinds(path)[-1] == "end"
    times = [line["m"] for line in lines(path) if line["k"] == "snap"]
    assert len(times) >= 10
    assert not any(line.get("gap") for line in lines(path))


def test_dropped_lines_are_reported_once_and_counted_at_the_end(full_pipe: tuple[int, int]) -> None:
    messages: list[str] = []
    frame = lived(6, 1)[0]
    with standard_output(full_pipe[1]):
        log = CsvLog("-", append=False, devices=(), say=messages.append, on_end=lambda: None)
        for _ in range(MOST_FRAMES + 3):
            log.put(frame)
        assert messages == ["the CSV log lacks lines from here on: its reader does not keep up"]
        log.close(0.2)
        assert messages[1:] == [
            "the last lines of the CSV log were not written in time",
            "3 intervals missing in the CSV log",
        ]
        os.read(full_pipe[0], 1 << 16)
        log.close()
    assert not log.alive


def test_an_incomplete_last_line_is_ended_before_more_lines_are_appended(tmp_path: Path) -> None:
    """A power loss may cut the last line off."""
    path = tmp_path / "log.csv"
    path.write_text(f"{HEADER}\n2026-01-01T00:00:01Z,sd")
    log = CsvLog(str(path), append=True, devices=(), say=print, on_end=lambda: None)
    log.put(lived(2, 20)[-1])
    log.close()
    head, torn, *rows = path.read_text().splitlines()
    assert (head, torn) == (HEADER, "2026-01-01T00:00:01Z,sd")
    assert rows
    assert {row.count(",") for row in rows} == {HEADER.count(",")}
