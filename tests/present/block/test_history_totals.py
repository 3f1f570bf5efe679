"""The totals of devices over the history, even if a device is removed or comes back as another device."""

from __future__ import annotations

import pytest

from iotop_ai.model.block.counters import BlockKey
from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.present.block.history_totals import NO_TOTALS, device_totals
from iotop_ai.present.screen.view import View
from tests.present.scenes import starved_snapshots

VIEW = View()


def expected(frame: Frame) -> tuple[dict[BlockKey, float], set[BlockKey], dict[BlockKey, str]]:
    """The request-seconds, the active devices and their directions, computed from the whole history."""
    queue_s: dict[BlockKey, float] = {}
    active: set[BlockKey] = set()
    more_written: dict[BlockKey, float] = {}
    for rated in (sample.block for sample in frame.history):
        for key, rates in (rated.value or {}).items():
            seconds = (rated.seconds or 0.0) if rated.renewed else 0.0
            queue_s[key] = queue_s.get(key, 0.0) + (rates.queue_size or 0.0) * seconds
            if rates.active and rated.renewed:
                active.add(key)
            more = (rates.write_bytes_per_s or 0.0) - (rates.read_bytes_per_s or 0.0)
            more_written[key] = more_written.get(key, 0.0) + more
    return queue_s, active, {key: "write" if more > 0 else "read" for key, more in more_written.items()}


@pytest.fixture(scope="module")
def run() -> list[Frame]:
    """100 seconds in which devices are busy or idle, one is removed, and one comes back with another identity."""
    changed = []
    for i, snapshot in enumerate(starved_snapshots(100, onset=20)):
        devices = dict(snapshot.block.value or {})
        names = sorted(devices, key=lambda key: key.name)
        if 40 <= i < 55:
            del devices[names[0]]
        if i >= 50:
            counters = devices.pop(names[-1])
            devices[names[-1]._replace(diskseq=9000)] = counters
        changed.append(snapshot._replace(block=snapshot.block._replace(value=devices)))
    return list(frames(changed))


def test_totals_are_right_in_every_second(run: list[Frame]) -> None:
    assert any(totals.active for totals in device_totals(run[-1], VIEW).values())
    for frame in (*run, run[-1]._replace(history=()), run[70]._replace(history=run[70].history[9:])):
        queue_s, active, directions = expected(frame)
        totals = {key: device_totals(frame, VIEW).get(key, NO_TOTALS) for key in queue_s}
        assert {key: found.queue_s for key, found in totals.items()} == pytest.approx(queue_s)
        assert {key for key, found in totals.items() if found.active} == active
        assert {key: found.direction for key, found in totals.items()} == directions
