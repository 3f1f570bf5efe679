"""The number, the utilisation and the power of the GPUs. An integrated GPU on which nothing computes is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.facts.gpu import GpuFacts, gpu_facts
from iotop_ai.diagnosis.facts.process_tree import NO_PROCESSES
from iotop_ai.diagnosis.facts.window import recent_window
from iotop_ai.model.gpu.state import GpuProcess
from tests.diagnosis.build import IDLE, Machine, play
from tests.diagnosis.gpu_scenes import INTEGRATED


def gpu_facts_of(machine: Machine) -> GpuFacts:
    frame = play((machine, 12))[-1]
    window = recent_window(frame.history, frame.snapshot.at_ns, 10, ("gpu",))
    return gpu_facts(frame.snapshot, lambda: NO_PROCESSES, window)


def test_an_integrated_gpu_is_not_counted_beside_a_card() -> None:
    machine = replace(IDLE, gpus=(0.04, 0.0), power=70.0, gpu_only={0: INTEGRATED})
    facts = gpu_facts_of(replace(machine, gpu_only_rates={0: {"power_watts": 700.0}}))
    assert (facts.visible, facts.total, facts.used) == (True, 1, 0)
    assert (facts.busy_ratio, facts.power_ratio) == (0.0, pytest.approx(0.1))


def test_an_integrated_gpu_alone_is_like_no_gpu() -> None:
    facts = gpu_facts_of(replace(IDLE, gpus=(0.01,), gpu_only={0: INTEGRATED}))
    assert (facts.visible, facts.total, facts.used, facts.busy_ratio) == (True, 0, 0, None)


def test_an_integrated_gpu_that_computes_is_counted() -> None:
    computing = {**INTEGRATED, "processes": (GpuProcess(50, None, "compute"),)}
    facts = gpu_facts_of(replace(IDLE, gpus=(0.6,), gpu_only={0: computing}))
    assert (facts.total, facts.used, facts.busy_ratio) == (1, 1, pytest.approx(0.6))
