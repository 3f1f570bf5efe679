"""The write phase of a check, on slow storage."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from iotop_ai.model.preflight.storage import MIB, WRITE, Measured, Phase
from iotop_ai.preflight.storage import reader, session
from iotop_ai.preflight.storage.reader import HangError
from tests.preflight.storage.here import measured_here

ONLY_WRITE = (Phase(WRITE, MIB, 1, 0.1),)


def slow_calls(monkeypatch: pytest.MonkeyPatch, name: str, seconds: float) -> None:
    """Make a function of ``os`` take longer."""
    call = getattr(os, name)

    def slowly(*arguments: object) -> object:
        time.sleep(seconds)
        return call(*arguments)

    monkeypatch.setattr(os, name, slowly)


@pytest.fixture
def brief_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HANG_S", 1.0)
    monkeypatch.setattr(session, "_WRITE_HANG_S", 1.0)


@pytest.mark.usefixtures("brief_limits")
def test_each_write_shows_that_the_storage_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_calls(monkeypatch, "pwrite", 0.4)
    (write,) = (one for one in measured_here(tmp_path, ONLY_WRITE) if isinstance(one, Measured))
    assert (write.ops, write.size_bytes, write.unread_bytes) == (1, 4 * MIB, 0)
    assert write.seconds >= 1.6


@pytest.mark.usefixtures("brief_limits")
def test_a_flush_may_wait_for_the_writes_of_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_WRITE_HANG_S", 20.0)
    slow_calls(monkeypatch, "fsync", 1.5)
    (write,) = (one for one in measured_here(tmp_path, ONLY_WRITE) if isinstance(one, Measured))
    assert write.ops == 1
    assert write.latency is not None
    assert write.latency.most_ms >= 1500


@pytest.mark.usefixtures("brief_limits")
@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_write_or_flush_that_does_not_end_is_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    slow_calls(monkeypatch, call, 60.0)
    with pytest.raises(HangError):
        measured_here(tmp_path, ONLY_WRITE)
    assert not list(tmp_path.iterdir())


def test_an_operation_writes_no_more_when_it_has_taken_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_LONGEST_WRITE_NS", 600_000_000)
    slow_calls(monkeypatch, "pwrite", 0.4)
    (write,) = (one for one in measured_here(tmp_path, ONLY_WRITE) if isinstance(one, Measured))
    assert (write.ops, write.size_bytes) == (1, 2 * MIB)
