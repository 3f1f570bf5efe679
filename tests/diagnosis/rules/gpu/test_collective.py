"""One late GPU of a job: whether its rank alone is late, or all ranks wait for the same disk or cores."""

from __future__ import annotations

import pytest

from iotop_ai.diagnosis.engine import fold
from iotop_ai.model.finding import Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.job.task_states import TaskRates
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from tests.diagnosis.build import LOADERS, play
from tests.diagnosis.gpu_scenes import GPU_SCENES

WINDOW_S = 61


def two_ranks(snapshot: Snapshot) -> Snapshot:
    """The Snapshot with a rank on each of two GPUs. Each rank has half of the loaders."""
    table = snapshot.jobs.value
    assert table is not None
    ((key, job),) = table.jobs.items()
    half = len(LOADERS) // 2
    ranks = tuple(
        job.ranks[0]._replace(workers=tuple(task.key for task in tasks), gpus=(f"GPU-{gpu}",))
        for gpu, tasks in enumerate((LOADERS[:half], LOADERS[half:]))
    )
    return snapshot._replace(jobs=snapshot.jobs._replace(value=table._replace(jobs={key: job._replace(ranks=ranks)})))


def with_loaders(sample: Sample, late: TaskRates, others: TaskRates) -> Sample:
    """The Sample with the rates ``late`` for the loaders of the first rank, and ``others`` for the second rank."""
    jobs = sample.jobs.value
    assert jobs is not None
    half = len(LOADERS) // 2
    tasks = {task.key: late if number < half else others for number, task in enumerate(LOADERS)}
    return sample._replace(jobs=sample.jobs._replace(value=jobs._replace(tasks={**jobs.tasks, **tasks})))


def verdict(late: TaskRates, others: TaskRates, scene: str = "imbalance") -> Verdict:
    carry, history, found = FoldState(), (), None
    for frame in play((GPU_SCENES[scene], WINDOW_S)):
        history = (*history, with_loaders(frame.sample, late, others))
        carry, found = fold(carry, two_ranks(frame.snapshot), history)
    assert found is not None
    return found


def rates(blocked: float, computing: float = 0.02) -> TaskRates:
    return TaskRates(blocked, computing, 0.0, computing, 0.0, 1.0)


@pytest.mark.parametrize(
    ("late", "others", "why"),
    [
        (rates(0.99), rates(0.05), "blocked"),
        (rates(0.99), rates(0.85), "blocked"),
        (rates(0.0, 0.95), rates(0.0, 0.3), "computes"),
        (rates(0.99), rates(0.98), ""),
        (rates(0.6), rates(0.9), ""),
        (rates(0.0, 0.95), rates(0.0, 0.93), ""),
    ],
)
def test_a_late_rank_is_named_unless_all_ranks_wait_alike(late: TaskRates, others: TaskRates, why: str) -> None:
    found = [dict(finding.args) for finding in verdict(late, others).findings if finding.class_id == "imbalance"]
    assert [args["why"] for args in found] == ([why] if why else [])


@pytest.mark.parametrize("loaders", [rates(0.55), rates(0.0, 0.75), rates(0.0, 0.3)])
@pytest.mark.parametrize(("scene", "why"), [("imbalance clock", "clock"), ("imbalance by power", "longer")])
def test_a_slow_gpu_is_named_though_all_loaders_are_busy_alike(scene: str, why: str, loaders: TaskRates) -> None:
    found = verdict(loaders, loaders, scene)
    assert found.primary.class_id == "imbalance"
    assert dict(found.primary.args)["why"] == why
