from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    LOADERS,
    MB,
    Machine,
    classes,
    verdict_of,
)
from tests.diagnosis.host_scenes import (
    SERVER,
    SERVING,
)
from tests.diagnosis.job_scenes import NO_READINGS


def test_a_server_without_requests_is_serving() -> None:
    verdict = verdict_of(SERVING)
    primary = verdict.primary
    assert (primary.class_id, verdict.state, primary.confidence) == ("serving", State.CALM, 0.7)
    assert dict(primary.args)["listening"] == 1.0
    assert verdict_of(replace(SERVING, gpus=(), gpu_pids=())).primary.class_id == "serving"


NO_SERVERS = {
    "it does not listen": replace(SERVING, job=replace(SERVER, listening=0)),
    "not known": replace(SERVING, job=replace(SERVER, listening=None)),
    "it is awake": replace(SERVING, job=replace(SERVER, queue=0.3)),
    "it has loaders": replace(SERVING, job=replace(SERVER, workers=LOADERS)),
    "a launcher started it": replace(SERVING, job=replace(SERVER, evidence=("gpu", "launcher"))),
    "it computes": replace(SERVING, tasks=(replace(SERVER.task, cpu=1.5),)),
    "it reads": replace(SERVING, tasks=(replace(SERVER.task, read=20 * MB),)),
    "a busy GPU": replace(SERVING, gpus=(0.9,), power=500.0),
}


@pytest.mark.parametrize("name", NO_SERVERS)
def test_a_job_that_only_resembles_a_server_is_not_serving(name: str) -> None:
    assert "serving" not in classes(verdict_of(NO_SERVERS[name]))


FIRST_RANK = replace(
    SERVING, job=replace(SERVER, evidence=("gpu", "library", "slurm"), queue=0.9), gpus=(0.6,), power=400.0
)
"""A rank that listens for the other ranks, and sleeps while its GPU works."""


@pytest.mark.parametrize(
    ("lost", "expected"), [("data_other", State.UNSURE), ("host", State.SLOWED), ("data_network", State.STARVED)]
)
def test_a_rank_that_listens_for_its_peers_and_loses_time_is_not_serving(lost: str, expected: State) -> None:
    job = replace(FIRST_RANK.job or SERVER, time=(("compute", 0.55), (lost, 0.45)))
    verdict = verdict_of(replace(FIRST_RANK, job=job), 40)
    assert "serving" not in classes(verdict)
    assert verdict.state is expected


@pytest.mark.parametrize(
    ("busy", "times"),
    [
        (0.2, (("compute", 0.2), ("host", 0.25), ("unexplained", 0.55))),
        (0.4, (("compute", 0.4), ("host", 0.05), ("data_network", 0.04), ("unexplained", 0.51))),
        (0.01, (("compute", 0.01), ("data_other", 0.99))),
    ],
    ids=["few requests", "more requests", "none, with a helper that sleeps"],
)
def test_a_server_that_rests_between_requests_is_serving(busy: float, times: tuple[tuple[str, float], ...]) -> None:
    """Its main thread prepares a batch on the CPU, and sleeps in epoll while no request is there."""
    machine = replace(SERVING, job=replace(SERVER, queue=0.7, time=times), gpus=(busy,), power=200.0)
    verdict = verdict_of(machine, 40)
    assert (verdict.primary.class_id, verdict.state) == ("serving", State.CALM)


@pytest.mark.parametrize("machine", [NO_READINGS, JOB_HEALTHY, JOB_ALONE, JOB_PREPARING])
def test_no_server_is_found_where_none_is_known(machine: Machine) -> None:
    assert "serving" not in classes(verdict_of(machine))
