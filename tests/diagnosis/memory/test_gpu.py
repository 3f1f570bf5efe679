"""What is remembered about each GPU: how long it has been idle."""

from __future__ import annotations

from dataclasses import replace

from iotop_ai.diagnosis.memory.gpu import update
from tests.diagnosis.build import GIB, Machine, sample_of, snapshot_of
from tests.diagnosis.gpu_scenes import FED


def test_a_gpu_is_not_known_to_be_idle_during_a_gap() -> None:
    held = {**FED.gpu_state, "memory_used_bytes": 60 * GIB}
    resting: Machine = replace(FED, gpus=(0.0,), power=70.0, gpu_state=held)
    first = update({}, snapshot_of(resting, 1), sample_of(resting, 1))
    idle = {uuid: one.idle_ns for uuid, one in first.items()}
    assert list(idle.values()) == [10**9]
    behind = update(first, snapshot_of(resting, 900), sample_of(resting, 900)._replace(gap=True))
    later = update(behind, snapshot_of(resting, 901), sample_of(resting, 901))
    assert [one.idle_ns for one in later.values()] == [901 * 10**9]
