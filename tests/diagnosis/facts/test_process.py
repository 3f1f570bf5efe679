"""What processes did over a window, computed only for the processes that a rule needs."""

from __future__ import annotations

import pytest

from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.diagnosis.facts.process import Tasks, group_tasks
from iotop_ai.diagnosis.facts.process_tree import MonitorPids, ProcessTrees
from iotop_ai.diagnosis.facts.window import Window
from iotop_ai.model.process.change_tracking import TrackedDictBuilder
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.pipeline import frames
from tests.bench.fold import Crowd, Training, histories
from tests.diagnosis.build import OWN_PID, STARVED, Machine, Task, play
from tests.store.scenario import session


def test_a_part_of_the_processes_gives_the_same_facts_as_all_of_them() -> None:
    for frame in list(frames(session(21, 60)))[2:]:
        facts = gather(frame.snapshot, frame.history)
        table = frame.snapshot.processes.value
        whole = Tasks(table, facts.window, 1).all()
        some = frozenset(task.key.pid for task in whole[::2]) | {999_999}
        part = Tasks(table, facts.window, 1, only=some).all()
        assert sorted(part) == sorted(task for task in whole if task.key.pid in some)


def test_the_processes_that_feed_the_gpus_are_found_among_all() -> None:
    stranger = Task(900, "rsync", 1, read=5e6, blocked=0.9)
    frame = play((Machine(**{**vars(STARVED), "tasks": (*STARVED.tasks, stranger)}), 12))[-1]
    facts = gather(frame.snapshot, frame.history)
    assert {task.key.pid for task in facts.gpu_task_facts} == {50, *range(100, 108)}
    assert sorted(facts.gpu_task_facts) == sorted(task for task in facts.tasks if task.key.pid != 900)


def test_the_monitor_and_its_helpers_are_left_out() -> None:
    helper = Task(70, "python", OWN_PID, cmdline=("python", "-m", "iotop_ai.collectors.health.helper"))
    tool, recorded = Task(71, "smartctl", 70), Task(72, "python", OWN_PID, cmdline=("python", "train.py"))
    table = play((Machine(tasks=(helper, tool, recorded)), 1))[0].snapshot.processes.value
    assert table is not None
    assert MonitorPids().of(table, OWN_PID) == {OWN_PID, 70, 71}
    assert ProcessTrees().of(table).with_descendants((72, 12345)) == {72}
    assert ProcessTrees().of(None).with_descendants((1,)) == frozenset()


def test_with_a_known_job_on_known_gpus_not_all_processes_are_read() -> None:
    snapshot, history = histories(Training(processes=60, gpus=2), 15)[-1]
    facts = gather(snapshot, history)
    assert facts.job_time_is_explained
    assert len(facts.gpu_task_facts) < len(facts.tasks)


def by_hand(table: ProcessTable, window: Window, key: ProcessKey) -> tuple[float, float | None, float | None]:
    """The blocked share, the CPU and the bytes read of a process, computed sample by sample."""
    known = [s for s in window.samples if s.processes.value is not None]
    rates = [s.processes.value.rates.get(key) for s in known if s.processes.value is not None]
    delay = sum(r.io_delay_ratio or 0.0 for r in rates if r is not None) / len(known)
    seen_blocked = sum(key in s.waits for s in known) / len(known)
    cpus = [0.0 if r is None else r.cpu_ratio for r in rates if r is None or r.cpu_ratio is not None]
    ios = [
        0.0 if r is None else r.read_bytes_per_s
        for r in rates
        if r is None or None not in (r.read_bytes_per_s, r.write_bytes_per_s)
    ]
    cpu = sum(v or 0.0 for v in cpus) / len(cpus) if cpus else None
    read = sum(v or 0.0 for v in ios) / len(ios) if ios and key not in table.denied else None
    return (min(1.0, delay) if delay >= 0.05 else seen_blocked, cpu, read)


def test_groups_from_columns_equal_groups_of_single_processes() -> None:
    snapshot, history = histories(Crowd(120), 15)[-1]
    table, window = snapshot.processes.value, gather(snapshot, history).window
    groups = Tasks(table, window, 1).blocked_groups(0.2)
    assert groups == group_tasks(Tasks(table, window, 1).blocked(0.2), table)
    assert len(groups) > 10
    assert Tasks(table, window, 1).loaders() == ()


@pytest.mark.parametrize("seed", range(4))
def test_columns_give_the_same_facts_as_single_processes(seed: int) -> None:
    """In these sessions processes start and end, and some figures are unknown."""
    seen = 0
    for frame in list(frames(session(40 + seed, 60)))[2:]:
        table, window = frame.snapshot.processes.value, gather(frame.snapshot, frame.history).window
        assert table is not None
        tasks = Tasks(table, window, 1)
        for task in tasks.all():
            blocked, cpu, read = by_hand(table, window, task.key)
            assert task.blocked_ratio == pytest.approx(blocked)
            assert task.cpu_ratio == (None if cpu is None else pytest.approx(cpu))
            assert task.read_bytes_per_s == (None if read is None else pytest.approx(read))
            seen += 1
        fresh = Tasks(table, window, 1)
        assert fresh.blocked(0.3) == tuple(task for task in tasks.all() if task.blocked_ratio >= 0.3)
        assert fresh.busy(0.1) == tuple(task for task in tasks.all() if (task.cpu_ratio or 0.0) >= 0.1)
        assert fresh.blocked_groups(0.3) == group_tasks(tasks.blocked(0.3), table)
        known = [task for task in tasks.all() if task.cpu_ratio is not None]
        assert fresh.busiest() == max(known, key=lambda task: task.cpu_ratio or 0.0, default=None)
    assert seen > 100


def test_helpers_are_found_in_each_of_several_consecutive_tables() -> None:
    """Each of several consecutive tables gives the same helpers as if it were the first table."""
    ledger: TrackedDictBuilder[ProcessKey, ProcessStat] = TrackedDictBuilder()
    info: dict[ProcessKey, ProcessInfo] = {}
    pids_of = MonitorPids().of
    empty = play((Machine(), 1))[0].snapshot.processes.value
    assert empty is not None

    def start(pid: int, ppid: int, *cmdline: str) -> None:
        key = ProcessKey(pid, 1)
        ledger.put(key, stat._replace(ppid=ppid))
        info[key] = ProcessInfo(cmdline[0], cmdline, "root", 0)

    def check(*pids: int) -> None:
        followed = empty._replace(stat=ledger.now, info=dict(info))
        ledger.mark_published()
        assert pids_of(followed, OWN_PID) == {OWN_PID, *pids}
        assert pids_of(followed._replace(stat=dict(followed.stat)), OWN_PID) == {OWN_PID, *pids}
        assert pids_of(followed, OWN_PID) == {OWN_PID, *pids}

    helper = ("python", "-m", "iotop_ai.collectors.health.helper")
    stat = ProcessStat("S", 1, 0, 0, 0, 0, 0, 1, 1, 0)
    start(OWN_PID, 1, "iotop-ai")
    start(72, OWN_PID, "python", "train.py")
    check()
    start(70, OWN_PID, *helper)
    check(70)
    start(80, 1, "bash")
    check(70)
    start(71, 70, "smartctl")
    check(70, 71)
    ledger.put(ProcessKey(72, 1), stat._replace(ppid=OWN_PID, utime_ticks=9))
    check(70, 71)
    ledger.drop(ProcessKey(71, 1))
    check(70)
    # An exec turns the command into a helper; later the child of the other helper gets another parent.
    info[ProcessKey(72, 1)] = ProcessInfo("python", helper, "root", 0)
    check(70, 72)
    start(71, 70, "smartctl")
    check(70, 71, 72)
    ledger.put(ProcessKey(71, 1), stat._replace(ppid=1))
    check(70, 72)
    ledger.drop(ProcessKey(70, 1))
    check(72)
