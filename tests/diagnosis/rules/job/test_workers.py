from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    Machine,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.host_scenes import (
    epochs,
)
from tests.diagnosis.job_scenes import NO_READINGS, with_job


def test_workers_that_restart_each_epoch_cost_their_start_up_time() -> None:
    primary = play(*epochs(20, 4, 4))[-1].verdict.primary
    args = dict(primary.args)
    assert (primary.class_id, primary.state) == ("worker_respawn", State.STARVED)
    assert args["epoch_s"] == pytest.approx(20)
    assert args["turn_s"] == pytest.approx(4, abs=1.2)
    assert primary.lost_ratio == pytest.approx(0.2, abs=0.06)
    assert primary.confidence == 0.85
    assert [a.template for a in primary.advice] == ["keep_workers"]


@pytest.mark.parametrize(("length", "wait_s"), [(3, 1), (2, 1), (5, 1)])
def test_short_epochs_lose_much_to_short_restarts(length: int, wait_s: int) -> None:
    primary = play(*epochs(length, wait_s, 8))[-1].verdict.primary
    assert primary.class_id == "worker_respawn"
    assert primary.lost_ratio == pytest.approx(wait_s / length, abs=0.08)
    assert dict(primary.args)["epoch_s"] == pytest.approx(length)


def restarting(main_running: float, stall: float, gpu: float) -> list[tuple[Machine, int]]:
    """Epochs of a second, in which the main thread of a large process starts workers for a part of the time."""
    out = []
    for machine, seconds in epochs(1, 0, 20, stall):
        if seconds:
            assert machine.job is not None
            scene = with_job(machine, main_running=main_running)
            out.append((replace(scene, gpus=(gpu,), gpu_pids=(machine.job.task.pid,)), seconds))
    return out


def test_the_start_of_workers_in_the_main_thread_is_a_loss_while_the_gpu_idles() -> None:
    primary = play(*restarting(0.2, 0.05, 0.78))[-1].verdict.primary
    assert (primary.class_id, dict(primary.args)["epoch_s"]) == ("worker_respawn", 1.0)
    assert primary.lost_ratio == pytest.approx(0.22, abs=0.05)
    assert "worker_respawn" not in classes(play(*restarting(0.2, 0.02, 0.99))[-1].verdict)


def test_the_finding_ends_when_the_workers_stay() -> None:
    last = epochs(20, 4, 4)[-1][0]
    assert play(*epochs(20, 4, 4), (last, 170))[-1].verdict.primary.class_id == "healthy"


NO_RESPAWNS = {
    "one restart": epochs(40, 4, 2),
    "the same workers": epochs(20, 4, 4, fresh=False),
    "restarts without a wait": epochs(20, 0, 4),
    "a wait all the time": epochs(20, 4, 4, stall=0.9),
}


@pytest.mark.parametrize("name", NO_RESPAWNS)
def test_scenes_that_only_resemble_a_respawn_are_not_found(name: str) -> None:
    scenes = [(machine, ticks) for machine, ticks in NO_RESPAWNS[name] if ticks]
    assert "worker_respawn" not in classes(play(*scenes)[-1].verdict)


@pytest.mark.parametrize("machine", [NO_READINGS, JOB_HEALTHY, JOB_ALONE, JOB_PREPARING])
def test_no_respawn_is_found_where_none_is_known(machine: Machine) -> None:
    assert "worker_respawn" not in classes(verdict_of(machine))
