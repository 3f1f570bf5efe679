"""The idle cores are those on which the monitor, and so its user's job, can run."""

from __future__ import annotations

import pytest

from iotop_ai.diagnosis.facts.gather import Facts, gather
from iotop_ai.model.machine.cpu import CoreRates, CpuRates
from tests.diagnosis.build import Machine, classes, play, sample_of, snapshot_of, verdict_of

BUSY, FREE = CoreRates(1.0, 1.0, 0.0, 0.0, 0.0), CoreRates(0.25, 0.25, 0.0, 0.0, 0.0)
MACHINE = Machine(cores=64)


def facts_within(numbers: tuple[int, ...] | None, machine: Machine = MACHINE) -> Facts:
    """The facts of a machine whose cores 0 to 7 are mostly free, and whose other 56 cores are busy.

    numbers: the cores on which the monitor can run
    """
    cores = {n: FREE if n < 8 else BUSY for n in range(64)}
    mean = CoreRates(0.90625, 0.90625, 0.0, 0.0, 0.0)
    samples = []
    for second in range(1, 13):
        sample = sample_of(machine, second)
        samples.append(sample._replace(cpu=sample.cpu._replace(value=CpuRates(mean, cores, 8))))
    snapshot = snapshot_of(machine, 12)
    table = snapshot.cpu.value
    assert table is not None
    table = table._replace(allowed=64 if numbers is None else len(numbers), allowed_numbers=numbers)
    return gather(snapshot._replace(cpu=snapshot.cpu._replace(value=table)), tuple(samples))


@pytest.mark.parametrize(("numbers", "idle"), [(tuple(range(8)), 6.0), (tuple(range(56, 64)), 0.0), (None, 6.0)])
def test_only_the_allowed_cores_count(numbers: tuple[int, ...] | None, idle: float) -> None:
    assert facts_within(numbers).idle_cores == pytest.approx(idle)


def test_a_busy_machine_is_shown_with_all_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Machine(cpu=0.97, cores=64)
    frame = play((busy, 15))[-1]
    table = frame.snapshot.cpu.value
    assert table is not None

    def in_a_cpuset(machine: Machine, second: int) -> object:
        snapshot = snapshot_of(machine, second)
        return snapshot._replace(cpu=snapshot.cpu._replace(value=table._replace(allowed=8)))

    monkeypatch.setattr("tests.diagnosis.build.snapshot_of", in_a_cpuset)
    verdict = play((busy, 15))[-1].verdict
    assert classes(verdict) == classes(verdict_of(busy)) == ["unknown"]
    assert dict(verdict.primary.args)["cores"] == 64
