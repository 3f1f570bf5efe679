from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.finding import Severity
from iotop_ai.model.job.exits import Ended
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Event
from iotop_ai.model.verdict_class import State
from tests.diagnosis.build import (
    COMPUTING,
    JOB_ALONE,
    JOB_HEALTHY,
    JOB_PREPARING,
    LOADERS,
    TRAINER_OLD,
    Machine,
    classes,
    play,
    verdict_of,
)
from tests.diagnosis.host_scenes import (
    GONE,
    OOM,
    ended,
)
from tests.diagnosis.job_scenes import NO_READINGS

DEATHS = {
    "SIGKILL": ((ended("trainer", -9),), "who_killed", 0.95),
    "killed for memory": ((OOM, ended("trainer", -9)), "less_memory", 0.95),
    "an unknown exit code": ((OOM, ended("trainer", None)), "less_memory", 0.6),
    "an error": ((ended("trainer", 1),), "read_log", 0.95),
    "a crash": ((ended("trainer", -11),), "fault_handler", 0.95),
    "another crash": ((ended("trainer", -4),), "fault_handler", 0.95),
    "its session ended": ((ended("trainer", -1),), "outlive_session", 0.95),
    "a broken pipe": ((ended("trainer", -13),), "outlive_session", 0.95),
    "a signal of the scheduler": ((ended("trainer", -10),), "who_stopped", 0.95),
    "stopped": ((ended("trainer", -15),), "who_stopped", 0.95),
    "a worker": ((ended("worker", -7, "pt_data_worker", 101), ended("trainer", 1)), "larger_shm", 0.95),
}


@pytest.mark.parametrize("name", DEATHS)
def test_a_death_is_shown_at_once_and_kept(name: str) -> None:
    events, cure, confidence = DEATHS[name]
    frames = play((JOB_HEALTHY, 20), (replace(GONE, events=events), 1), (GONE, 300))
    death = frames[20].verdict.primary
    assert (death.class_id, death.state, death.confidence) == ("job_died", State.BLOCKED, confidence)
    assert death.advice[0].template == cure
    assert dict(death.args)["job"] == "train.py"
    assert dict(death.args)["worker"] == ("pt_data_worker" if name == "a worker" else "")
    assert death.severity is (Severity.WARNING if name == "stopped" else Severity.CRITICAL)
    assert frames[-1].verdict.primary.class_id == "job_died"


WORKER_KILLED = ended("worker", -9, "pt_data_worker", 101)


@pytest.mark.parametrize("later", [1, -6, -9, -15])
def test_the_end_of_a_trainer_does_not_hide_a_worker_killed_before_it(later: int) -> None:
    killed, end = (OOM, WORKER_KILLED), (ended("trainer", later),)
    frames = play((JOB_HEALTHY, 20), (replace(JOB_HEALTHY, events=killed), 1), (replace(GONE, events=end), 3))
    found = frames[-1].verdict.primary
    assert (found.class_id, dict(found.args)["worker"], dict(found.args)["end"]) == (
        "job_died",
        "pt_data_worker",
        "SIGKILL",
    )
    assert [one.template for one in found.advice] == ["less_memory"]


def test_an_oom_kill_replaces_an_end_just_before_it() -> None:
    error, killed = (ended("trainer", 1),), (OOM, ended("trainer", -9))
    frames = play((JOB_HEALTHY, 20), (replace(GONE, events=error), 1), (replace(GONE, events=killed), 1))
    assert [one.template for one in frames[-1].verdict.primary.advice] == ["less_memory"]


def test_a_death_long_after_another_is_shown() -> None:
    first, second = (replace(GONE, events=(WORKER_KILLED,)), 1), (replace(GONE, events=(ended("trainer", 1),)), 1)
    found = play((JOB_HEALTHY, 20), first, (GONE, 61), second)[-1].verdict.primary
    assert (found.class_id, dict(found.args)["end"]) == ("job_died", "exit 1")


@pytest.mark.parametrize("code", [-9, None])
def test_a_worker_killed_for_memory_is_the_cause_of_its_trainers_end(code: int | None) -> None:
    named = Event(0, 0, "oom_kill", "the kernel killed pt_data_worker (pid 101) for memory", pid=101)
    events = (named, ended("trainer", -6), ended("worker", code, "pt_data_worker", 101))
    found = play((JOB_HEALTHY, 20), (replace(GONE, events=events), 1))[-1].verdict.primary
    assert dict(found.args)["worker"] == "pt_data_worker"
    assert [one.template for one in found.advice] == ["less_memory"]


@pytest.mark.parametrize(("role", "worker"), [("trainer", ""), ("worker", "pt of data")])
def test_a_name_that_contains_the_word_of_is_not_cut(role: str, worker: str) -> None:
    text = Ended(ProcessKey(50, 1), worker or "end of run", role, -9, 50, "end of run").text
    event = Event(0, 0, "process_ended", text, role, 50, -9, 50)
    args = dict(verdict_of(replace(GONE, events=(event,))).primary.args)
    assert (args["job"], args["worker"]) == ("end of run", worker)


def test_the_death_of_another_job_is_shown_beside_the_running_job() -> None:
    other = ended("trainer", -9)._replace(pid=77, job_pid=77)
    frames = play((JOB_HEALTHY, 20), (replace(JOB_HEALTHY, events=(other,)), 1), (JOB_HEALTHY, 10), (GONE, 15))
    assert classes(frames[25].verdict) == ["healthy", "job_died"]
    assert frames[-1].verdict.primary.class_id == "job_died"


def test_a_death_is_forgotten_after_ten_minutes_or_when_training_goes_on() -> None:
    death = (replace(GONE, events=(ended("trainer", -9),)), 1)
    assert play((JOB_HEALTHY, 20), death, (GONE, 620))[-1].verdict.primary.class_id != "job_died"
    young = replace(TRAINER_OLD, pid=60, start=4_000)
    again = replace(JOB_HEALTHY, tasks=(young, *LOADERS), job=replace(COMPUTING, task=young, stall=0.0))
    frames = play((JOB_HEALTHY, 20), death, (GONE, 25), (again, 30))
    assert frames[44].verdict.primary.class_id == "job_died"
    assert frames[-1].verdict.primary.class_id == "healthy"


NAMED = Event(0, 0, "oom_kill", "the kernel killed python (pid 50) for memory", pid=50)


@pytest.mark.parametrize("gap", [1, 5])
@pytest.mark.parametrize("code", [-9, None])
@pytest.mark.parametrize("kill", [NAMED, OOM], ids=["named", "unnamed"])
def test_a_process_that_was_killed_for_memory_may_end_some_seconds_later(
    kill: Event, code: int | None, gap: int
) -> None:
    killed, end = replace(JOB_HEALTHY, events=(kill,)), replace(GONE, events=(ended("trainer", code),))
    last = play((JOB_HEALTHY, 15), (killed, 1), (JOB_HEALTHY, gap - 1), (end, 1))[-1]
    assert last.verdict.primary.class_id == "job_died"
    assert [one.template for one in last.verdict.primary.advice] == ["less_memory"]
    assert last.carry.ended == (), "the same kill would explain a second death"


@pytest.mark.parametrize(
    ("kill", "gap", "end"),
    [
        (NAMED, 61, ended("trainer", None)),
        (OOM, 16, ended("trainer", None)),
        (OOM, 3, ended("worker", None, "pt_data_worker", 101)),
        (NAMED, 3, ended("worker", None, "pt_data_worker", 101)),
        (NAMED, 3, ended("trainer", 0)),
    ],
    ids=["much later", "later, of an unknown process", "a worker", "another process", "done"],
)
def test_a_kill_for_memory_does_not_explain_every_end(kill: Event, gap: int, end: Event) -> None:
    killed = replace(JOB_HEALTHY, events=(kill,))
    frames = play((JOB_HEALTHY, 15), (killed, 1), (JOB_HEALTHY, gap - 1), (replace(GONE, events=(end,)), 1), (GONE, 3))
    assert all("job_died" not in classes(f.verdict) for f in frames)


def test_a_kill_is_remembered_among_many_ends() -> None:
    killed = replace(JOB_HEALTHY, events=(NAMED,))
    workers = tuple(ended("worker", 0, "pt_data_worker", 100 + i) for i in range(128))
    end = replace(GONE, events=(ended("trainer", -9), *workers))
    found = play((JOB_HEALTHY, 15), (killed, 1), (JOB_HEALTHY, 2), (end, 1))[-1].verdict.primary
    assert (found.class_id, found.advice[0].template) == ("job_died", "less_memory")


NO_DEATHS = {
    "done": (ended("trainer", 0),),
    "Ctrl-C": (ended("trainer", -2),),
    "Ctrl-C caught": (ended("trainer", 130),),
    "unknown": (ended("trainer", None),),
    "a worker that is done": (ended("worker", 0, "pt_data_worker", 101),),
    "a worker that was asked to end": (ended("worker", -15, "pt_data_worker", 101),),
    "a kill elsewhere": (OOM,),
    "a member of no job": (ended("", 1),),
}


@pytest.mark.parametrize("name", NO_DEATHS)
def test_normal_ends_are_not_shown_as_a_death(name: str) -> None:
    frames = play((JOB_HEALTHY, 20), (replace(GONE, events=NO_DEATHS[name]), 1), (GONE, 5))
    assert all("job_died" not in classes(f.verdict) for f in frames)


def test_an_end_between_two_decisions_is_not_lost() -> None:
    quick = replace(GONE, interval_s=0.3)
    frames = play((quick, 50), (replace(quick, events=(ended("trainer", -9),)), 1), (quick, 4))
    assert frames[-1].verdict.primary.class_id == "job_died"
    assert frames[-1].carry.ended == ()


@pytest.mark.parametrize("machine", [NO_READINGS, JOB_HEALTHY, JOB_ALONE, JOB_PREPARING])
def test_no_death_is_shown_where_none_is_known(machine: Machine) -> None:
    assert "job_died" not in classes(verdict_of(machine))
