"""The order of jobs, and which jobs are kept if there are more than MOST_JOBS."""

from __future__ import annotations

from iotop_ai.model.job.detection import Work, find_jobs
from iotop_ai.model.job.order import job_order, work_level
from iotop_ai.model.job.programs import is_candidate
from iotop_ai.model.job.records import MOST_JOBS, Job
from iotop_ai.model.process.records import ProcessKey
from tests.model.job.build import TORCH, Machine


def test_levels_have_coarse_steps() -> None:
    assert [work_level(cores, None) for cores in (None, 0.0, 0.04, 0.06, 0.12, 1.0, 1.1)] == [0, 0, 0, 1, 2, 5, 5]
    assert work_level(0.0, 100e6) == work_level(1.0, 0.0)


def test_gpus_come_before_work_and_work_before_age() -> None:
    jobs = [(0, 5, 30), (0, 5, 10), (1, 0, 99), (0, 0, 1), (8, 0, 50)]
    assert sorted(jobs, key=lambda job: job_order(*job)) == [(8, 0, 50), (1, 0, 99), (0, 5, 10), (0, 5, 30), (0, 0, 1)]


class Notebooks(Machine):
    """More idle notebooks than MOST_JOBS, and a trainer that is younger than all of them."""

    def __init__(self) -> None:
        super().__init__()
        command = ("python", "-m", "ipykernel_launcher", "-f", "/tmp/k.json")
        self.inspections = {self.add(10 + i, "python", 1, command): TORCH for i in range(MOST_JOBS + 4)}
        self.trainer = self.add(900, "python", 1, ("python", "train.py"))
        self.inspections[self.trainer] = TORCH

    def found(
        self, work: Work, on_gpu: dict[int, tuple[str, ...]], kept: dict[ProcessKey, Job]
    ) -> dict[ProcessKey, Job]:
        candidates = [key for key, info in self.info.items() if is_candidate(info)]
        return find_jobs(self.info, self.stat, candidates, self.inspections, on_gpu, work, kept)


def test_idle_notebooks_do_not_hide_the_job_that_works() -> None:
    m = Notebooks()
    assert m.trainer not in m.found(Work(), {}, {})
    for work, on_gpu in (
        (Work(cores={m.trainer: 0.4}), {}),
        (Work(bytes_per_s={m.trainer: 3e7}), {}),
        (Work(), {900: ("G",)}),
    ):
        jobs = m.found(work, on_gpu, {})
        assert len(jobs) == MOST_JOBS
        assert next(iter(jobs)) == m.trainer


def test_a_job_on_a_gpu_comes_before_one_that_computes() -> None:
    m = Notebooks()
    jobs = m.found(Work(cores={m.trainer: 16.0}), {12: ("GPU-0",)}, {})
    assert [key.pid for key in jobs][:2] == [12, 900]


def test_a_job_is_not_replaced_by_an_equal_one() -> None:
    m = Notebooks()
    kept = m.found(Work(cores={m.trainer: 0.4}), {}, {})
    assert m.trainer in m.found(Work(), {}, kept)
    young = {key: job for key, job in m.found(Work(), {}, {}).items() if key.pid > 14}
    assert young.keys() <= m.found(Work(), {}, young).keys()
