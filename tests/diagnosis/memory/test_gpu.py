"""What is remembered about each GPU: since when it is idle, and the peak of its power."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.memory.gpu import update
from iotop_ai.model.fold_state import GpuMemory
from tests.diagnosis.build import GIB, Machine, sample_of, snapshot_of
from tests.diagnosis.gpu_scenes import FED

HELD = replace(FED, gpus=(0.0,), power=70.0, gpu_rates={**FED.gpu_rates, "memory_used_bytes": 60.0 * GIB})
"""A GPU that is idle while a process occupies its memory."""


def memory_after(*scenes: tuple[Machine, int]) -> GpuMemory:
    """The memory of the first GPU after machines that follow each other, each for its number of seconds."""
    seconds = [machine for machine, ticks in scenes for _ in range(ticks)]
    memories = update({}, snapshot_of(seconds[0], 0), sample_of(seconds[0], 0))
    for at, machine in enumerate(seconds, 1):
        memories = update(memories, snapshot_of(machine, at), sample_of(machine, at))
    return memories.get("GPU-0", GpuMemory())


def unlisted(machine: Machine) -> Machine:
    """The machine, with the process lists of its GPUs unread."""
    return replace(machine, gpu_state={**machine.gpu_state, "processes": None})


def test_a_gpu_is_not_known_to_be_idle_during_a_gap() -> None:
    held = {**FED.gpu_state, "memory_used_bytes": 60 * GIB}
    resting: Machine = replace(FED, gpus=(0.0,), power=70.0, gpu_state=held)
    first = update({}, snapshot_of(resting, 1), sample_of(resting, 1))
    idle = {uuid: one.idle_ns for uuid, one in first.items()}
    assert list(idle.values()) == [10**9]
    during_gap = update(first, snapshot_of(resting, 900), sample_of(resting, 900)._replace(gap=True))
    later = update(during_gap, snapshot_of(resting, 901), sample_of(resting, 901))
    assert [one.idle_ns for one in later.values()] == [901 * 10**9]


def test_an_unread_list_of_processes_keeps_the_peak() -> None:
    computing, spinning = (replace(FED, gpus=(1.0,), power=share * 700.0) for share in (0.9, 0.3))
    assert memory_after((computing, 60), (spinning, 30), (unlisted(spinning), 1), (spinning, 1)).peak == 0.9
    freed = replace(spinning, gpu_pids=())
    assert memory_after((computing, 60), (spinning, 30), (freed, 1), (spinning, 1)).peak is None


@pytest.mark.parametrize(
    "unread",
    [
        unlisted(HELD),
        replace(HELD, gpus=(None,)),
        replace(HELD, gpu_rates={**HELD.gpu_rates, "memory_used_bytes": None}),
    ],
)
def test_an_unread_figure_does_not_restart_the_idle_time_of_a_gpu(unread: Machine) -> None:
    assert memory_after((HELD, 150), (unread, 1), (HELD, 149)).idle_ns == memory_after((HELD, 300)).idle_ns == 10**9
    assert memory_after((unread, 3)).idle_ns is None


def test_a_known_figure_ends_the_idle_time_although_another_is_unread() -> None:
    busy = replace(unlisted(HELD), gpus=(0.9,))
    assert memory_after((HELD, 150), (busy, 1), (HELD, 149)).idle_ns == 152 * 10**9
    assert memory_after((HELD, 150), (replace(HELD, gpu_pids=()), 1), (HELD, 149)).idle_ns == 152 * 10**9
