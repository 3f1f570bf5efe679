"""When the counted time of a job begins, when it begins again, and when it is unknown."""

from __future__ import annotations

from iotop_ai.collectors.job.time_accountant import BLIND_MS, COMPILES_NS
from iotop_ai.model.job.looks import LookCounts
from iotop_ai.model.job.records import Rank
from iotop_ai.model.job.time_shares import TimeCounts
from tests.collectors.job.accounted_machine import (
    CHILD,
    GPU,
    ON_GPU,
    OTHER,
    PEER,
    RUNS,
    SECOND,
    TRAINER,
    WAITS,
    WORKER,
    Machine,
)


def test_only_a_limited_time_without_a_sample_is_given_to_the_next_sample() -> None:
    machine = Machine()
    machine.next()
    machine.looks = {TRAINER: LookCounts()}
    for _ in range(3):
        assert machine.grown() == {}
    machine.looks = {TRAINER: RUNS}
    assert machine.grown() == {"host": 4000}, "the ticks without a sample were not counted"
    machine.looks = {TRAINER: LookCounts()}
    for _ in range(600):
        assert machine.grown() == {}
    machine.looks = {TRAINER: RUNS}
    (grown,) = machine.grown().values()
    assert grown <= BLIND_MS + 1000


def test_a_job_that_is_not_watched_is_forgotten() -> None:
    machine = Machine()
    machine.busy[GPU] = 90
    machine.next()
    machine.accountant.forget()
    machine.busy[GPU] = 0
    machine.looks = {TRAINER: LookCounts()}
    machine.next(600.0)
    machine.looks = {TRAINER: WAITS}
    machine.next()
    assert machine.counts == TimeCounts(data_disk=1000)


def test_a_launcher_that_starts_its_ranks_again_is_in_startup() -> None:
    machine = Machine(age_s=2.0)
    machine.jobs = {TRAINER: ON_GPU._replace(ranks=(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (GPU,))))}
    machine.looks = {TRAINER: RUNS, PEER: RUNS}
    machine.busy[GPU] = 90
    machine.next(100.0)
    machine.busy[GPU] = 0
    machine.looks = {PEER: RUNS, OTHER: RUNS}
    machine.jobs = {TRAINER: ON_GPU._replace(ranks=(Rank(PEER, (), (GPU,)), Rank(OTHER, (), (GPU,))))}
    assert machine.grown() == {"host": 1000}, "a job with one new process of two was taken for a new job"
    machine.age_s = 2.0
    machine.looks = {WORKER: RUNS}
    machine.jobs = {TRAINER: ON_GPU._replace(ranks=(Rank(WORKER, (), (GPU,)),))}
    assert machine.grown() == {"startup": 1000}
    machine.busy[GPU] = 90
    assert machine.grown() == {"compute": 900, "host": 100}
    machine.busy[GPU] = 0
    assert machine.grown() == {"host": 1000}


def test_a_compiler_that_does_nothing_does_not_count_as_compiling() -> None:
    machine = Machine()
    machine.child("gcc")
    machine.child_state = "Z"
    assert machine.grown() == {"host": 1000}
    machine.child_state = "S"
    machine.next(10.0)
    assert machine.grown(10.0) == {"host": 10_000}, "a compiler that waits for its input counts as compiling"
    machine.moves(CHILD, cpu=1)
    for _ in range(COMPILES_NS // SECOND):
        assert machine.grown() == {"compile": 1000}
    assert machine.grown() == {"host": 1000}
    machine.child_state = "D"
    assert machine.grown() == {"compile": 1000}
