"""A job that has no workers for a while: between two sets of workers, during an evaluation, or for good."""

from __future__ import annotations

from dataclasses import replace

from tests.diagnosis.build import COMPUTING, LOADERS, TRAINER_OLD, Machine, Training, classes, play
from tests.diagnosis.job_scenes import ON_GPU

LOADS_ITSELF = (("data_cpu", 0.8), ("compute", 0.2))
ALONE = replace(
    ON_GPU, job=Training(TRAINER_OLD, main_running=0.9, time=LOADS_ITSELF), tasks=(TRAINER_OLD,), gpus=(0.2,)
)
"""The job without workers, whose main thread loads the data."""


def epoch(number: int, stall: float = 0.0) -> Machine:
    """An epoch of the job, which has new workers in each epoch."""
    workers = tuple(
        replace(w, pid=w.pid + 20 * number, start=100 + 8000 * number, cpu=0.5, blocked=0.0) for w in LOADERS[:2]
    )
    time = (("compute", 0.97 - stall), ("data_cpu", 0.03 + stall))
    job = replace(COMPUTING, workers=workers, stall=stall, running=0.7, disk=0.3, time=time)
    return replace(ON_GPU, job=job, tasks=(TRAINER_OLD, *workers), gpus=(0.95 - stall,), power=600.0)


def test_an_evaluation_without_workers_does_not_count_as_the_start_of_workers() -> None:
    scenes = [scene for number in range(5) for scene in ((epoch(number), 40), (ALONE, 40))]
    frames = play(*scenes)
    assert all("worker_respawn" not in classes(frame.verdict) for frame in frames)
    restarts = frames[-1].carry.memory[TRAINER_OLD.key].restarts
    assert all(restart.lost_s < 3.5 for restart in restarts)
    assert all(restart.other_s > 25 for restart in restarts[:-1])


def test_the_time_between_two_sets_of_workers_is_the_cost_of_a_restart() -> None:
    parts = [((ALONE, 3), (epoch(number, 0.9), 3), (epoch(number), 30)) for number in range(4)]
    verdict = play(*[scene for part in parts for scene in part])[-1].verdict
    assert verdict.primary.class_id == "worker_respawn"


def test_a_job_that_goes_on_without_its_workers_loads_its_data_itself() -> None:
    class_ids = [frame.verdict.primary.class_id for frame in play((epoch(0), 20), (ALONE, 60))]
    assert "single_thread" not in class_ids[:40], "the job was judged before it could start new workers"
    assert class_ids[-1] == "single_thread"
    back = [frame.verdict.primary.class_id for frame in play((epoch(0), 20), (ALONE, 60), (epoch(1), 60))]
    assert "single_thread" not in back[-45:]
