"""Messages about steps that arrive on the socket for marks: hostile senders, limits and rates."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.marks_socket import MarksSocket
from iotop_ai.model.job.steps import StepCounts
from tests.rigs.nobody import as_user
from tests.waiting import until

GOOD = {"kind": "steps", "steps": 3, "batches": 4, "data_ns": 5, "rank": 1}


class Monitor:
    """A listening socket, and the messages that it passed on."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.marks: list[str] = []
        self.steps: list[tuple[int, StepCounts]] = []
        self._socket = MarksSocket(
            self.path, Clock(), self.marks.append, lambda pid, one: self.steps.append((pid, one))
        )

    def send(self, *messages: dict[str, object] | bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            for one in messages:
                sender.sendto(one if isinstance(one, bytes) else json.dumps(one).encode(), self.path)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    found = Monitor(tmp_path / "m.sock")
    yield found
    found.close()


def test_the_kernel_names_the_sender(monitor: Monitor) -> None:
    now = time.monotonic_ns()
    monitor.send({**GOOD, "at_ns": now, "pid": 1})
    until(lambda: bool(monitor.steps))
    assert monitor.steps == [(os.getpid(), StepCounts(now, 3, 4, 5, 1))]


def test_invalid_messages_are_dropped_and_a_later_mark_still_arrives(monitor: Monitor) -> None:
    monitor.send(
        {**GOOD},
        {**GOOD, "at_ns": 1, "batches": -1},
        {**GOOD, "at_ns": 1, "batches": 2**70},
        {**GOOD, "at_ns": "now"},
        json.dumps({**GOOD, "at_ns": 1, "more": "x" * 5000}).encode(),
        b'{"kind":"steps","at_ns":1e999,"batches":NaN}',
        {"kind": "mark", "text": "after"},
    )
    until(lambda: monitor.marks == ["after"])
    assert monitor.steps == []


def test_a_flood_of_steps_is_bounded(monitor: Monitor) -> None:
    for number in range(300):
        monitor.send({**GOOD, "at_ns": time.monotonic_ns(), "batches": number})
    monitor.close()  # this waits until the messages that were sent are read
    begin = monitor.steps[0][1].at_ns
    seconds = (monitor.steps[-1][1].at_ns - begin) / 1e9
    assert len(monitor.steps) <= 20 * (int(seconds) + 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to send as another user")
def test_another_users_steps_are_refused(monitor: Monitor, tmp_path: Path) -> None:
    os.chmod(monitor.path, 0o666)
    for folder in [tmp_path, *tmp_path.parents][:-2]:
        os.chmod(folder, folder.stat().st_mode | 0o111)
    assert as_user(65534, lambda: monitor.send({**GOOD, "at_ns": 1})) == 0
    monitor.send({"kind": "mark", "text": "own"})
    until(lambda: monitor.marks == ["own"])
    assert monitor.steps == []
