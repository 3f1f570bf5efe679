"""Advice about a loader names its present settings, and asks for none that is set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iotop_ai.model.job.steps import LoaderSettings
from iotop_ai.present.verdict.cures import advice_text
from tests.diagnosis.build import JOB_PREPARING, Machine, play
from tests.diagnosis.host_scenes import epochs
from tests.diagnosis.job_scenes import DATA_SCENES, STATE_SCENES, with_job
from tests.diagnosis.verdict.test_cures import cure_text, cures

SINGLE = DATA_SCENES["single_thread"]


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({}, "set pin_memory=True, persistent_workers=True"),
        ({"pin_tid": 77}, "set persistent_workers=True"),
        ({"loader": LoaderSettings(pinned=True, persistent=False)}, "set persistent_workers=True"),
        ({"loader": LoaderSettings(pinned=False, persistent=True)}, "set pin_memory=True"),
        ({"loader": LoaderSettings(workers=0, pinned=True, persistent=True)}, ""),
    ],
)
def test_options_of_the_loader_that_are_set_already_are_not_advised(changes: dict[str, Any], advice: str) -> None:
    found = cures(with_job(SINGLE, **changes)).get("worker_options")
    assert ("" if found is None else advice_text(found)) == advice


def test_the_advice_to_use_less_memory_names_the_present_settings() -> None:
    machine = STATE_SCENES["mem_pressure"]
    known = cure_text("less_memory", with_job(machine, loader=LoaderSettings(workers=8, prefetch=4)))
    assert "use fewer workers (8 now) or a lower prefetch_factor (4 now); " in known
    assert "use fewer workers (8 now) or a lower prefetch_factor; " in cure_text("less_memory", machine)
    shared = with_job(STATE_SCENES["shm_full"], loader=LoaderSettings(prefetch=8))
    assert "a lower prefetch_factor (8 now)" in cure_text("larger_shm", shared)


def test_workers_that_are_kept_already_are_lost_with_their_loader() -> None:
    def kept(scene: list[tuple[Machine, int]], persistent: bool) -> str:
        settings = LoaderSettings(persistent=persistent)
        frames = play(*[(with_job(machine, loader=settings), seconds) for machine, seconds in scene])
        found = {advice.template: advice for one in frames[-1].verdict.findings for advice in one.advice}
        return advice_text(found["keep_workers"])

    assert kept(epochs(20, 3, 5), False).startswith("use DataLoader(persistent_workers=True): ")
    assert kept(epochs(20, 3, 5), True).startswith("make the DataLoader once: ")


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--num-workers=8", "raise --num-workers 8 -> "),
        ("--num-workers=4", "raise num_workers 8 -> "),
        ("--seed=8", "raise num_workers 8 -> "),
    ],
)
def test_the_option_that_sets_the_workers_is_named(option: str, advice: str) -> None:
    job = JOB_PREPARING.job
    assert job is not None
    line = ("python", "train.py", option)
    tasks = tuple(replace(task, cmdline=line) if task == job.task else task for task in JOB_PREPARING.tasks)
    assert cure_text("more_workers", replace(JOB_PREPARING, tasks=tasks)).startswith(advice)
