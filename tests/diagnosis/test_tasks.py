"""What processes did over a window, asked for as few as a rule needs."""

from __future__ import annotations

from iotop_ai.diagnosis.facts import gather
from iotop_ai.diagnosis.tasks import all_tasks, family, monitor_pids
from iotop_ai.pipeline import frames
from tests.bench.fold import Training, histories
from tests.diagnosis.build import OWN_PID, STARVED, Machine, Task, play
from tests.store.scenario import session


def test_a_part_of_the_processes_is_as_all_of_them_say() -> None:
    for frame in list(frames(session(21, 60)))[2:]:
        facts = gather(frame.snapshot, frame.history)
        table = frame.snapshot.processes.value
        whole = all_tasks(table, facts.look, 1)
        some = frozenset(task.key.pid for task in whole[::2]) | {999_999}
        part = all_tasks(table, facts.look, 1, only=some)
        assert sorted(part) == sorted(task for task in whole if task.key.pid in some)


def test_what_feeds_the_gpus_is_a_part_of_all() -> None:
    stranger = Task(900, "rsync", 1, read=5e6, blocked=0.9)
    frame = play((Machine(**{**vars(STARVED), "tasks": (*STARVED.tasks, stranger)}), 12))[-1]
    facts = gather(frame.snapshot, frame.history)
    assert {task.key.pid for task in facts.related} == {50, *range(100, 108)}
    assert sorted(facts.related) == sorted(task for task in facts.tasks if task.key.pid != 900)


def test_the_monitor_and_its_helpers_are_left_out() -> None:
    helper = Task(70, "python", OWN_PID, cmdline=("python", "-m", "iotop_ai.collectors.smart_helper"))
    tool, recorded = Task(71, "smartctl", 70), Task(72, "python", OWN_PID, cmdline=("python", "train.py"))
    table = play((Machine(tasks=(helper, tool, recorded)), 1))[0].snapshot.processes.value
    assert table is not None
    assert monitor_pids(table, OWN_PID) == {OWN_PID, 70, 71}
    assert family(table).below((72, 12345)) == {72}
    assert family(None).below((1,)) == frozenset()


def test_a_watched_job_on_seen_gpus_needs_no_look_at_everybody() -> None:
    snapshot, history = histories(Training(processes=60, gpus=2), 15)[-1]
    facts = gather(snapshot, history)
    assert facts.judged
    assert len(facts.related) < len(facts.tasks)
