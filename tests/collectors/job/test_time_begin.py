"""When the counted time of a job begins, when it begins again, and when it is unknown."""

from __future__ import annotations

from iotop_ai.collectors.job.time_accountant import ALONE_S, ATTACHED_S, BLIND_MS, COMPILES_NS
from iotop_ai.model.job.looks import LookCounts
from iotop_ai.model.job.records import Rank
from iotop_ai.model.job.time_shares import TimeCounts
from tests.collectors.job.accounted_machine import (
    ALONE,
    CHILD,
    GPU,
    ON_GPU,
    OTHER,
    PEER,
    RUNS,
    SECOND,
    TRAINER,
    WAITS,
    WITH_WORKERS,
    WORKER,
    Machine,
    job_of,
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


def test_startup_ends_at_the_first_use_of_the_gpu() -> None:
    machine = Machine(age_s=2.0)
    assert machine.grown() == {"startup": 1000}
    machine.next(50.0)
    assert machine.grown() == {"startup": 1000}
    machine.busy[GPU] = 90
    assert machine.grown() == {"compute": 900, "host": 100}
    machine.busy[GPU] = 0
    assert machine.grown() == {"host": 1000}


def test_waiting_for_loaders_ends_the_startup_of_a_job_that_hardly_uses_its_gpu() -> None:
    machine = Machine(WITH_WORKERS, age_s=2.0)
    machine.looks = {TRAINER: WAITS}
    for _ in range(30):  # the loaders import their libraries, and no batch has come yet
        assert machine.grown() == {"startup": 1000}
    machine.busy[GPU] = 3
    for _ in range(10):
        assert machine.grown() == {"compute": 30, "startup": 970}
    machine.next()
    assert machine.grown() == {"compute": 30, "data_disk": 970}


def test_waiting_for_its_own_threads_ends_the_startup_of_a_job_that_hardly_uses_its_gpu() -> None:
    """It takes longer than with loaders, because a job that starts may also read its weights."""
    machine = Machine(age_s=2.0)
    machine.looks = {TRAINER: WAITS}
    machine.busy[GPU] = 4
    for _ in range(40):
        assert machine.grown() == {"compute": 40, "startup": 960}
    for _ in range(4):
        machine.next()
    assert machine.grown() == {"compute": 40, "data_disk": 960}


def test_a_main_thread_that_reads_weights_is_still_starting() -> None:
    machine = Machine(age_s=2.0)
    machine.looks, machine.busy[GPU] = {TRAINER: LookCounts(looks=20, main_disk=20)}, 2
    for _ in range(60):
        assert machine.grown() == {"compute": 20, "startup": 980}


def test_a_job_that_compiles_in_its_own_process_does_not_wait_for_its_loaders() -> None:
    machine = Machine(WITH_WORKERS, age_s=2.0)
    machine.busy[GPU] = 3
    machine.next(60.0)
    assert machine.grown() == {"compute": 30, "startup": 970}


def test_a_job_that_is_old_when_first_watched_is_not_starting() -> None:
    assert Machine(age_s=ATTACHED_S + 1).grown() == {"host": 1000}
    assert Machine(age_s=ATTACHED_S - 1).grown() == {"startup": 1000}


def test_loaders_or_some_seconds_end_the_startup_of_a_job_without_a_gpu() -> None:
    machine = Machine(ALONE, age_s=1.0)
    assert machine.grown() == {"startup": 1000}
    machine.next(ALONE_S)
    assert machine.grown() == {"compute": 1000}
    assert Machine(job_of(Rank(TRAINER, (WORKER,))), age_s=1.0).grown() == {"compute": 1000}
