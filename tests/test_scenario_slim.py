"""A reduced recording is about one job, even if the machine had two."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iotop_ai.model.job.records import JobTable
from iotop_ai.model.job.steps import StepCounts
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from tests.job_times import slow_disk
from tests.scenarios.keep import snapshots, write
from tests.scenarios.slim import Slim

STARTER = ProcessKey(40000, 399000)
"""The main process of another job: the program that started the trainer."""
STARTING = 12
"""The number of Snapshots in which the trainer still counts as a loader of STARTER."""


def _trainer() -> ProcessKey:
    table = slow_disk()[-1].snapshot.jobs.value
    assert table is not None
    (key,) = table.jobs
    return key


def _two_jobs() -> list[Snapshot]:
    """The trainer's run beside STARTER's job, which only computes. At first, the trainer counts as its loader."""
    trainer, out = _trainer(), []
    for number, frame in enumerate(slow_disk()):
        snapshot = frame.snapshot
        table, processes = snapshot.jobs.value, snapshot.processes.value
        assert table is not None
        assert processes is not None
        if not all(trainer in part for part in (table.jobs, table.places, table.times, table.tasks, table.sweeps)):
            continue
        job, (rank,) = table.jobs[trainer], table.jobs[trainer].ranks
        is_loader = number < STARTING
        other = job._replace(
            key=STARTER,
            name="starter.py",
            ranks=(rank._replace(key=STARTER, workers=(trainer,) if is_loader else (), gpus=()),),
        )
        times = {STARTER: TimeCounts(compute=1000 * number)}
        sweeps = {STARTER: table.sweeps[trainer]}
        if not is_loader:
            times, sweeps = {**times, trainer: table.times[trainer]}, {**sweeps, trainer: table.sweeps[trainer]}
        both = JobTable(
            {STARTER: other} if is_loader else {STARTER: other, trainer: job},
            sweeps,
            {**table.tasks, STARTER: table.tasks[trainer]},
            {**table.places, STARTER: table.places[trainer]},
            table.own_cpu_ns,
            times,
        )
        stat = {
            **processes.stat,
            STARTER: processes.stat[trainer],
            trainer: processes.stat[trainer]._replace(ppid=STARTER.pid),
        }
        info = {**processes.info, STARTER: processes.info[trainer]._replace(name="starter")}
        steps = {key: StepCounts(snapshot.at_ns, number, number, 0) for key in (STARTER, trainer)}
        out.append(
            snapshot._replace(
                jobs=snapshot.jobs._replace(value=both),
                processes=snapshot.processes._replace(value=processes._replace(stat=stat, info=info)),
                steps=Reading(steps, at_ns=snapshot.at_ns),
            )
        )
    return out


def test_the_verdict_and_the_time_are_those_of_one_job(tmp_path: Path) -> None:
    key = _trainer()
    path = tmp_path / "slim.iotop.jsonl.gz"
    write(Slim(_two_jobs(), key.pid).all(), path)
    seen = set[ProcessKey]()
    for frame in frames(snapshots(path)):
        table = frame.snapshot.jobs.value
        assert table is not None
        for part in (table.jobs, table.times, table.sweeps, table.tasks, table.places):
            assert part.keys() <= {key}
        seen |= table.jobs.keys()
        assert frame.snapshot.steps.value is not None
        assert set(frame.snapshot.steps.value) == {key}
        assert frame.verdict.job_pid in (None, key.pid)
    assert seen == {key}


def test_the_pid_of_a_program_without_a_job_selects_the_job_that_it_started(tmp_path: Path) -> None:
    wrapper = ProcessKey(39999, 398000)
    wrapped = []
    for snapshot in _two_jobs():
        processes = snapshot.processes.value
        assert processes is not None
        stat = {
            **processes.stat,
            wrapper: processes.stat[STARTER]._replace(ppid=1),
            _trainer(): processes.stat[_trainer()]._replace(ppid=wrapper.pid),
        }
        wrapped.append(snapshot._replace(processes=snapshot.processes._replace(value=processes._replace(stat=stat))))
    found = list(Slim(wrapped, wrapper.pid).all())[-1].jobs.value
    assert found is not None
    assert found.jobs.keys() == found.times.keys() == {_trainer()}


def test_without_a_selected_trainer_every_job_is_kept() -> None:
    found = list(Slim(_two_jobs()).all())[-1].jobs.value
    assert found is not None
    assert found.jobs.keys() == found.times.keys() == {_trainer(), STARTER}


def test_a_pid_outside_of_both_jobs_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("pid 7 belongs to none of 2 jobs")):
        Slim(_two_jobs(), 7)
