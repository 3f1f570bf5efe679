"""A job that has not moved for a minute hangs if it trained before and does not wait for a person."""

from __future__ import annotations

import pytest

from iotop_ai.collectors.job.time_accountant import HUNG_S
from iotop_ai.model.gpu.state import GpuProcess
from iotop_ai.model.job.records import Job, JobPlace, Rank
from iotop_ai.model.job.serving import may_rest
from tests.collectors.job.test_time_accountant import (
    GPU,
    ON_GPU,
    PEER,
    RESTS,
    SECOND_GPU,
    TRAINER,
    WITH_WORKERS,
    WORKER,
    Machine,
    job_of,
)


def hangs(job: Job, place: JobPlace, used: int | None = 90, **gpu: object) -> bool:
    """Whether a job hangs after resting for over a minute. used: percent of its GPU used in the second before."""
    machine = Machine(job)
    machine.looks = {rank.key: RESTS for rank in job.ranks}
    machine.place, machine.gpu = place, gpu
    machine.busy = dict.fromkeys(job.gpus, used)
    machine.next()
    machine.busy = dict.fromkeys(job.gpus, 0)
    machine.next(HUNG_S)
    return machine.grown() == {"hung": 1000}


QUIET, LISTENS, HIDDEN = JobPlace(listening=0), JobPlace(listening=1), JobPlace()
PAPERMILL = ("gpu", "library", "notebook")
TWO = job_of(Rank(TRAINER, (), (GPU,)), Rank(PEER, (), (SECOND_GPU,)))


def test_a_job_that_used_its_gpu_can_hang() -> None:
    assert hangs(ON_GPU, QUIET)
    assert not hangs(ON_GPU, QUIET, used=0), "a job that only holds its GPU was taken for a hang"
    assert hangs(WITH_WORKERS, HIDDEN, used=0), "a job whose loaders prove that it trains did not hang"


def test_a_server_without_requests_does_not_hang() -> None:
    assert not hangs(ON_GPU, LISTENS)
    assert not hangs(ON_GPU, HIDDEN), "a possible server of another user was taken for a hang"
    assert not hangs(TWO, LISTENS), "a server with a model split over GPUs was taken for a hang"
    assert hangs(ON_GPU._replace(evidence=("gpu", "launcher")), LISTENS), (
        "the socket at which the ranks meet was taken for a server's"
    )


def test_a_notebook_between_two_cells_does_not_hang() -> None:
    assert not hangs(ON_GPU._replace(notebook=True), QUIET)
    assert not hangs(WITH_WORKERS._replace(notebook=True), HIDDEN), (
        "the loaders that a notebook keeps were taken for training"
    )


def test_a_notebook_that_papermill_runs_can_hang() -> None:
    """Each kernel listens for clients, although none is a server."""
    for job in (ON_GPU, WITH_WORKERS):
        assert hangs(job._replace(evidence=PAPERMILL), LISTENS)


def test_a_program_that_waits_for_its_user_does_not_hang() -> None:
    for job in (ON_GPU, WITH_WORKERS, ON_GPU._replace(evidence=("gpu", "launcher"))):
        assert not hangs(job, QUIET._replace(waits_for_input=True))


@pytest.mark.parametrize(("percent", "expected"), [(60, True), (0, False), (None, False)])
def test_another_programs_work_on_the_gpu_does_not_count_as_the_jobs(percent: int | None, expected: bool) -> None:
    mine = GpuProcess(TRAINER.pid, None, "compute", percent)
    other = GpuProcess(999, None, "compute", 30)
    assert hangs(ON_GPU, QUIET, processes=(mine, other)) is expected
    assert hangs(ON_GPU, QUIET, processes=(mine, other._replace(kind="graphics")))


def test_a_job_without_loaders_that_listens_may_rest() -> None:
    assert may_rest(ON_GPU, LISTENS)
    assert not may_rest(ON_GPU, QUIET)
    assert not may_rest(job_of(Rank(TRAINER, (WORKER,), (GPU,))), LISTENS)
