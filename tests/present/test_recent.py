"""What devices did lately is kept from picture to picture; it must be what the history says, whatever came before."""

from __future__ import annotations

import random

import pytest

from iotop_ai.model.block import BlockKey
from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.present.recent import did, direction
from tests.present.scenes import starved_snapshots


def plain(frame: Frame) -> tuple[dict[str, float], set[str], dict[BlockKey, str]]:
    """The same, worked out from the whole history."""
    queue: dict[str, float] = {}
    active: set[str] = set()
    moved: dict[BlockKey, float] = {}
    for rated in (sample.block for sample in frame.history):
        for key, rates in (rated.value or {}).items():
            seconds = (rated.seconds or 0.0) if rated.renewed else 0.0
            queue[key.name] = queue.get(key.name, 0.0) + (rates.queue_size or 0.0) * seconds
            if rates.active and rated.renewed:
                active.add(key.name)
            moved[key] = moved.get(key, 0.0) + (rates.write_bytes_per_s or 0.0) - (rates.read_bytes_per_s or 0.0)
    return queue, active, {key: "write" if more > 0 else "read" for key, more in moved.items()}


@pytest.fixture(scope="module")
def seconds() -> list[Frame]:
    """Two minutes with a device that goes, one that comes back as another, and some that begin and end to work."""
    made = starved_snapshots(100, onset=20)
    changed = []
    for i, snapshot in enumerate(made):
        devices = dict(snapshot.block.value or {})
        names = sorted(devices, key=lambda key: key.name)
        if 40 <= i < 55:
            del devices[names[0]]
        if i >= 50:
            counters = devices.pop(names[-1])
            devices[names[-1]._replace(diskseq=9000)] = counters
        changed.append(snapshot._replace(block=snapshot.block._replace(value=devices)))
    return list(frames(changed))


def agrees(frame: Frame) -> None:
    """Both say the same."""
    queue, active, ways = plain(frame)
    told, busy = did(frame)
    assert busy == active
    assert {name: pytest.approx(value) for name, value in told.items()} == {name: queue[name] for name in told}
    assert not any(value for name, value in queue.items() if name not in told)
    assert {key: direction(frame, key) for key in ways} == ways


def test_second_by_second(seconds: list[Frame]) -> None:
    assert any(did(frame)[1] for frame in seconds)
    for frame in seconds:
        agrees(frame)


def test_jumps_and_shorter_histories(seconds: list[Frame]) -> None:
    draw = random.Random(3)
    for _ in range(60):
        frame = draw.choice(seconds)
        agrees(frame)
        agrees(frame._replace(history=frame.history[draw.randrange(len(frame.history)) :]))
    agrees(seconds[-1])
    agrees(seconds[-1]._replace(history=()))
