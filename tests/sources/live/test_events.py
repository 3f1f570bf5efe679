"""The events that follow from a comparison of two Snapshots."""

from __future__ import annotations

import pytest

from iotop_ai.model.job.exits import how_it_ended
from iotop_ai.model.job.records import Job, JobTable, Rank
from iotop_ai.model.process.records import ProcessKey, ProcessTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.sources.live.events import DescendantTracker, derive_events
from tests.store.scenario import Machine


def pair() -> tuple[Snapshot, Snapshot]:
    """Two Snapshots between which nothing happened."""
    machine = Machine(11)
    first = machine.snapshot()
    while first.memory.value is None:
        first = machine.snapshot()
    memory = first.memory.value._replace(oom_kills=3, drop_pagecache=1, drop_slab=1)
    first = first._replace(memory=first.memory._replace(value=memory), events=())
    table = first.processes.value
    assert table is not None
    table = table._replace(gone=(), exits={})
    first = first._replace(processes=first.processes._replace(value=table))
    return first, first._replace(seq=first.seq + 1, at_ns=first.at_ns + 10**9, wall_ns=first.wall_ns + 10**9)


def ended(after: Snapshot, key: ProcessKey, code: int) -> Snapshot:
    table = after.processes.value
    assert table is not None
    rest = {k: v for k, v in table.stat.items() if k != key}
    table = table._replace(stat=rest, gone=(key,), exits={key: code})
    return after._replace(processes=after.processes._replace(value=table))


def events_of(before: Snapshot | None, after: Snapshot, *watched: ProcessKey) -> list[tuple[str, str]]:
    events = derive_events(before, after, frozenset(watched))
    assert all(event.at_ns == after.at_ns and event.wall_ns == after.wall_ns for event in events)
    return [(event.kind, event.text) for event in events]


def test_without_a_change_there_is_no_event() -> None:
    before, after = pair()
    assert events_of(before, after) == []
    assert events_of(None, after) == []


def test_an_oom_kill_names_the_killed_process() -> None:
    before, after = pair()
    assert after.memory.value is not None
    key = next(iter(before.processes.value.stat))  # type: ignore[union-attr]
    name = before.processes.value.info[key].name  # type: ignore[union-attr]
    after = after._replace(memory=after.memory._replace(value=after.memory.value._replace(oom_kills=4)))
    assert events_of(before, after) == [("oom_kill", "the kernel killed 1 process for memory")]
    assert events_of(before, ended(after, key, -9)) == [("oom_kill", f"the kernel killed 1 process for memory: {name}")]


def test_dropped_caches_are_an_event() -> None:
    before, after = pair()
    assert after.memory.value is not None
    dropped = after.memory.value._replace(drop_pagecache=2)
    assert events_of(before, after._replace(memory=after.memory._replace(value=dropped))) == [
        ("drop_caches", "a user dropped the page cache")
    ]
    unknown = after.memory.value._replace(drop_pagecache=None, oom_kills=None)
    assert events_of(before, after._replace(memory=after.memory._replace(value=unknown))) == []


def test_only_failed_ends_of_watched_processes_are_reported() -> None:
    before, after = pair()
    key = next(iter(before.processes.value.stat))  # type: ignore[union-attr]
    name = before.processes.value.info[key].name  # type: ignore[union-attr]
    assert events_of(before, ended(after, key, -11)) == []
    assert events_of(before, ended(after, key, 0), key) == []
    assert events_of(before, ended(after, key, -11), key) == [("process_ended", f"{name} (pid {key.pid}): SIGSEGV")]
    assert events_of(before, ended(after, key, 3), key) == [("process_ended", f"{name} (pid {key.pid}): exit 3")]


def with_job(snapshot: Snapshot, job: Job) -> Snapshot:
    table = JobTable({job.key: job})
    return snapshot._replace(jobs=Reading(table, Status.OK, at_ns=snapshot.at_ns))


def test_every_end_in_a_job_is_reported_with_its_known_facts() -> None:
    before, after = pair()
    trainer, first, second = sorted(before.processes.value.stat)[:3]  # type: ignore[union-attr]
    names = {key: before.processes.value.info[key].name for key in (first, second)}  # type: ignore[union-attr]
    before = with_job(before, Job(trainer, "train.py", "alice", 1000, (Rank(trainer, (first, second)),)))
    table = after.processes.value
    assert table is not None
    left = {k: v for k, v in table.stat.items() if k not in (trainer, first, second)}
    finished = table._replace(stat=left, gone=(first, second, trainer), exits={first: 0, trainer: -9})
    after = after._replace(processes=after.processes._replace(value=finished))
    ends = derive_events(before, after, child_codes={second.pid: 3})
    assert [(e.kind, e.role, e.pid, e.code, e.job_pid) for e in ends] == [
        ("process_ended", "trainer", trainer.pid, -9, trainer.pid),
        ("process_ended", "worker", first.pid, 0, trainer.pid),
        ("process_ended", "worker", second.pid, 3, trainer.pid),
    ]
    assert ends[0].text == f"trainer train.py (pid {trainer.pid}): SIGKILL"
    assert ends[1].text == f"worker {names[first]} (pid {first.pid}) of train.py: exit 0"
    # The end of a process that is also watched is reported only once. An exit code may be unknown.
    assert len(derive_events(before, after, frozenset({trainer}))) == 3
    unknown = derive_events(before, after)[2]
    assert (unknown.code, unknown.text) == (None, f"worker {names[second]} (pid {second.pid}) of train.py: end unknown")


@pytest.mark.parametrize(
    ("code", "killed", "reported"), [(0, False, False), (1, False, False), (-15, False, False), (-9, False, False),
                                 (-9, True, True), (1, True, False), (-11, False, True), (-7, False, True)]
)  # fmt: skip
def test_only_faults_are_reported_for_a_weakly_detected_job(code: int, killed: bool, reported: bool) -> None:
    before, after = pair()
    top, worker = sorted(before.processes.value.stat)[:2]  # type: ignore[union-attr]
    job = Job(top, "prepare.py", "alice", 1000, (Rank(top, (worker,)),), evidence=("children",))
    assert job.weak
    assert after.memory.value is not None
    memory = after.memory.value._replace(oom_kills=3 + killed)
    after = ended(after._replace(memory=after.memory._replace(value=memory)), worker, code)
    events = [(event.role, event.code) for event in derive_events(with_job(before, job), after) if event.role]
    assert events == ([("worker", code)] if reported else [])
    later = ended(pair()[1], worker, code)
    events = derive_events(with_job(before, job), later, killed_before=lambda pid: killed and pid == worker.pid)
    assert [(event.role, event.code) for event in events if event.role] == ([("worker", code)] if reported else [])


def test_the_end_of_a_zombie_is_reported_once() -> None:
    before, after = pair()
    trainer = min(before.processes.value.stat)  # type: ignore[union-attr]
    before = with_job(before, Job(trainer, "train.py", "alice", 1000, (Rank(trainer),)))
    table = after.processes.value
    assert table is not None
    after = with_job(after, next(iter(before.jobs.value.jobs.values())))  # type: ignore[union-attr]

    def with_zombie(threads: int) -> Snapshot:
        stat = {**table.stat, trainer: table.stat[trainer]._replace(state="Z", threads=threads)}
        return after._replace(processes=after.processes._replace(value=table._replace(stat=stat, exits={trainer: 1})))

    assert derive_events(before, with_zombie(4)) == [], (
        "the end of only the main thread was reported as the process's end"
    )
    zombie = with_zombie(1)
    assert [(e.role, e.code) for e in derive_events(with_zombie(4), zombie)] == [("trainer", 1)]
    assert [(e.role, e.code) for e in derive_events(before, zombie)] == [("trainer", 1)]
    assert derive_events(zombie, ended(zombie, trainer, 1)) == []


def test_ends_of_processes_are_described_in_words() -> None:
    assert [how_it_ended(c) for c in (0, 1, -9, -200)] == ["exit 0", "exit 1", "SIGKILL", "signal 200"]
    assert how_it_ended(None) == "end unknown"


def test_descendants_are_added_and_kept_after_their_parent_exits() -> None:
    def table(**ppids: int) -> ProcessTable:
        whole = pair()[0].processes.value
        assert whole is not None
        stat = next(iter(whole.stat.values()))
        rows = {ProcessKey(int(n[1:]), int(n[1:])): stat._replace(ppid=ppid) for n, ppid in ppids.items()}
        return whole._replace(stat=rows)

    tracker = DescendantTracker(10)
    tracker.update(table(p1=0, p10=1, p11=10, p5=1))
    assert {k.pid for k in tracker.members} == {11}
    tracker.update(table(p1=0, p10=1, p11=10, p12=11, p5=1, p13=5))
    assert {k.pid for k in tracker.members} == {11, 12}
    tracker.update(table(p1=0, p10=1, p12=1, p14=12))
    assert {k.pid for k in tracker.members} == {12, 14}
    tracker.update(table(p1=0, p10=1, p12=1, p14=12, p2=3, p3=99, p99=14))  # the PIDs wrapped around
    assert {k.pid for k in tracker.members} == {12, 14, 99, 3, 2}
