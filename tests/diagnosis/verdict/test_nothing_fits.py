from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.engine import fold
from iotop_ai.model.finding import Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.machine.pool import ArcCounters
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.sample import Sample
from iotop_ai.model.verdict_class import State
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.advice import why_text
from tests.diagnosis.build import (
    GIB,
    MB,
    Disk,
    Machine,
    Task,
    Training,
    classes,
    play,
    sample_of,
    snapshot_of,
    verdict_of,
)
from tests.diagnosis.job_scenes import LOADERS, YOUNG

GCC = tuple(Task(70 + n, "gcc", cpu=0.95) for n in range(8))
COMPILING = Machine(cpu=0.97, tasks=GCC)
FLOODED = Disk(write_bytes_per_s=120 * MB, await_ms=1002.0, busy=1.0, rotational=True)
COPY = Task(60, "cp", write=120 * MB, blocked=0.9)


def sentence(machine: Machine, part: object = headline.headline) -> str:
    frame = play((machine, 15))[-1]
    return headline.text_of(part(frame.verdict))  # type: ignore[operator]


def test_the_busiest_program_of_a_busy_machine_without_a_job_is_named() -> None:
    verdict = verdict_of(COMPILING)
    assert (verdict.state, classes(verdict)) == (State.BUSY, ["unknown"])
    assert sentence(COMPILING) == "8 cores are 97 % busy, no training job seen"
    assert sentence(COMPILING, headline.because).startswith("most by gcc x8, 7.6 cores")
    assert sentence(replace(COMPILING, cores=1)).startswith("the core is 97 % busy")


def test_the_await_of_a_calm_disk_is_shown_once() -> None:
    """It is in the line "because", or in the line "not" if "because" names something else."""
    calm = Disk(read_bytes_per_s=8 * MB, await_ms=0.4, busy=0.1)
    unsure = Machine(cpu=0.3, disks=(calm,), tasks=(Task(60, "python", blocked=0.41),))
    assert verdict_of(unsure).state is State.UNSURE
    assert "sda answers in 0.4 ms" in sentence(unsure, headline.because)
    assert "the CPU: " in sentence(unsure, headline.ruled_out)
    assert "sda" not in sentence(unsure, headline.ruled_out)
    assert "sda answers in 0.4 ms" in sentence(replace(COMPILING, disks=(calm,)), headline.ruled_out)


def test_a_flooded_disk_without_a_job_is_named_with_its_figures() -> None:
    machine = Machine(disks=(FLOODED,), tasks=(COPY,))
    assert verdict_of(machine).state is State.BUSY
    assert sentence(machine) == "disk sda is at its limit: 100 % busy, no training job seen"
    because = sentence(machine, headline.because)
    assert because.startswith("it answers in 1002 ms (typical ≤ 12), reads 0 MB/s, writes 114 MB/s; cp blocked 90 %")


def test_full_memory_is_named_until_clearly_more_is_available() -> None:
    full = Machine(cpu=0.3, total_bytes=100 * GIB, available_bytes=4 * GIB, tasks=(Task(80, "chrome", cpu=0.1),))
    assert sentence(full) == "memory is 96 % used, no training job seen"
    assert "chrome" in sentence(full, headline.because)
    less, room = replace(full, available_bytes=7 * GIB), replace(full, available_bytes=40 * GIB)
    states = [f.verdict.state for f in play((full, 15), (less, 5), (room, 5))]
    assert set(states[12:20]) == {State.BUSY}
    assert states[-1] is State.CALM


@pytest.mark.parametrize(
    ("arc", "state"),
    [
        (ArcCounters(size_bytes=50 * GIB, min_bytes=3 * GIB), State.CALM),
        (ArcCounters(size_bytes=4 * GIB, min_bytes=3 * GIB), State.BUSY),
        (ArcCounters(size_bytes=2 * GIB, min_bytes=3 * GIB), State.BUSY),
        (ArcCounters(size_bytes=50 * GIB), State.BUSY),
        (ArcCounters(), State.BUSY),
    ],
)
def test_memory_that_the_cache_of_zfs_gives_back_is_available(arc: ArcCounters, state: State) -> None:
    full = Machine(cpu=0.3, total_bytes=100 * GIB, available_bytes=3 * GIB, arc=arc)
    assert verdict_of(full).state is state


@pytest.mark.parametrize(
    ("machine", "state"),
    [
        (Machine(cpu=0.5, tasks=(Task(70, "gcc", cpu=0.9),)), State.CALM),
        (Machine(cpu=None, tasks=(Task(70, "gcc", cpu=None),)), State.UNSURE),
        (Machine(cpu=0.5, disks=(Disk(unknown=True),)), State.UNSURE),
        (Machine(cpu=0.5, disks=(Disk(unknown=True), Disk("loop0", kind="loop"))), State.UNSURE),
        (Machine(without_readings=True), State.UNSURE),
        (Machine(cpu=0.5, tasks=(Task(60, "cat", blocked=0.9),)), State.UNSURE),
        (replace(COMPILING, gpus=(0.5,), gpu_pids=(70,)), State.UNSURE),
    ],
    ids=[
        "nothing slow",
        "CPU unknown",
        "disk unknown",
        "only a loop device known",
        "no readings",
        "a process waits",
        "a GPU at work",
    ],
)
def test_a_machine_is_calm_only_if_all_is_known_and_nothing_waits(machine: Machine, state: State) -> None:
    assert verdict_of(machine).state is state


def test_a_machine_stays_busy_until_it_is_clearly_less_busy() -> None:
    less, calm = replace(COMPILING, cpu=0.8), replace(COMPILING, cpu=0.4)
    states = [f.verdict.state for f in play((COMPILING, 15), (less, 15), (calm, 15))]
    assert set(states[12:30]) == {State.BUSY}
    assert states[-1] is State.CALM


def test_a_slow_disk_for_which_no_worker_waits_is_not_a_suspect() -> None:
    slow = Disk(read_bytes_per_s=MB, await_ms=1500.0, busy=1.0)
    young = Training(YOUNG.task, LOADERS, stall=0.4, disk=0.02, running=0.98, worker_cpu=0.6, worker_cpu_wait=0.4)
    computing = Machine(job=young, tasks=(YOUNG.task, *LOADERS), disks=(slow,))
    assert sentence(computing) == "train.py waits for data 40 % of the time, cause not seen"
    reading = replace(computing, job=replace(young, disk=0.98, running=0.02))
    assert sentence(reading) == "train.py waits for data 40 % of the time, suspect: disk sda"


def test_the_shares_of_a_wait_with_two_causes_are_named() -> None:
    unclear = Training(
        YOUNG.task, LOADERS, stall=0.77, disk=0.45, running=0.45, worker_cpu=0.45, worker_disk=0.45,
        time=(("data_disk", 0.38), ("data_cpu", 0.36), ("data_other", 0.03), ("compute", 0.23)),
    )  # fmt: skip
    machine = Machine(job=unclear, tasks=(YOUNG.task, *LOADERS), disks=(Disk(read_bytes_per_s=MB, await_ms=0.2),))
    assert sentence(machine) == "train.py waits for data 77 % of the time: disk 38 %, CPU 36 %"
    other = replace(unclear, time=(("data_disk", 0.1), ("data_other", 0.67), ("compute", 0.23)))
    assert sentence(replace(machine, job=other)) == "train.py waits for data 77 % of the time, cause not seen"


def judged_without_disk_counters(machine: Machine) -> Verdict:
    """The verdict if /proc/diskstats cannot be read."""
    carry = FoldState()
    history: tuple[Sample, ...] = ()
    for second in range(16):
        snapshot, sample = snapshot_of(machine, second), sample_of(machine, second)
        failed = Reading(None, Status.FAILED, "/proc/diskstats cannot be read", "", snapshot.at_ns)
        history = (*history, sample._replace(block=sample.block._replace(value=None)))
        carry, verdict = fold(carry, snapshot._replace(block=failed), history)
    return verdict


def test_disks_that_cannot_be_read_are_not_called_idle() -> None:
    verdict = judged_without_disk_counters(Machine(cpu=0.1))
    assert verdict.state is State.UNSURE
    assert "disks_idle" not in [one.template for one in verdict.primary.ruled_out]
    unknown = Machine(cpu=0.1, disks=(Disk(unknown=True),))
    assert "disks_idle" not in [one.template for one in verdict_of(unknown).primary.ruled_out]
    assert sentence(unknown) == "nothing slow is seen; no GPU, disks unknown"
    crowded = Machine(cpu=0.97, disks=(Disk(unknown=True),))
    assert verdict_of(crowded).state is State.UNSURE
    assert sentence(crowded) == "the CPUs are 97 % busy; no GPU, disks unknown"
    assert "disks_idle" in [one.template for one in verdict_of(Machine(cpu=0.1, disks=(Disk(),))).primary.ruled_out]


@pytest.mark.parametrize(("count", "why"), [(0, ""), (1, ", but 1 is unknown"), (2, ", but 2 are unknown")])
def test_disks_without_known_rates_are_counted_beside_idle_disks(count: int, why: str) -> None:
    disks = (Disk(), *(Disk(f"sd{letter}", unknown=True) for letter in "bcd"[:count]))
    machine = Machine(cpu=0.1, disks=disks, gpu_status=Status.FAILED)
    verdict = verdict_of(machine)
    (reason,) = [one for one in verdict.primary.ruled_out if one.template == "disks_idle"]
    assert why_text(reason) == f"no disk was active{why}"
    assert sentence(machine) == f"nothing slow is seen; GPU unknown, disks idle{f', {count} unknown' if count else ''}"
