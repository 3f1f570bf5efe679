"""The job of the verdict on the path: its hops, its data and the waits of its workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.present.job.current import current_job, job_waits
from iotop_ai.present.job.data_path import path_rows
from iotop_ai.present.screen.view import View
from tests.diagnosis.build import JOB_ALONE, JOB_STARVED, MB, STARVED, Disk, last
from tests.diagnosis.job_scenes import DATA_SCENES, STATE_SCENES, TIME_SCENES

SCENES = {**DATA_SCENES, **STATE_SCENES, **TIME_SCENES}


def text(frame: Frame, row: int, width: int = 80) -> str:
    return path_rows(frame, View(), width, 3)[row].text.rstrip()


def test_the_path_leads_from_the_job_to_the_device() -> None:
    assert text(last(JOB_ALONE), 1) == " alice train.py › 8 workers › /data ext4 › sda"
    labelled = replace(JOB_ALONE, job=replace(JOB_ALONE.job, label="slurm 48213"))
    assert text(last(labelled), 1).startswith(" slurm 48213 alice train.py › 8 workers › ")


def test_the_path_leads_to_the_files_of_the_job_while_other_disks_are_busy() -> None:
    other = Disk("sdz", mount="/other", read_bytes_per_s=900 * MB, await_ms=90.0, busy=1.0)
    machine = replace(SCENES["cpu_prep"], disks=(*JOB_ALONE.disks, other))
    assert text(last(machine), 1) == " alice train.py › 8 workers › /data ext4 › sda"
    frame = last(machine)
    assert "sdz" in path_rows(frame, View(device="sdz"), 80, 3)[1].text
    assert text(last(SCENES["network_fs"]), 1) == " alice train.py › 8 workers › /nfs nfs4 › srv:/in21k"
    unseen = replace(JOB_ALONE, job=replace(JOB_ALONE.job, mounts=()))
    assert text(last(unseen), 1) == " alice train.py › 8 workers › no open data file seen"
    hidden = replace(unseen, tasks=tuple(replace(task, denied=True) for task in unseen.tasks))
    assert text(last(hidden), 1) == " alice train.py › 8 workers › open files of another user (sudo)"


def test_the_wait_line_lists_the_states_of_the_workers_in_a_fixed_order() -> None:
    assert text(last(JOB_ALONE), 2) == (
        " workers  BLOCKED ━━━━━━━━━━━━━━━━━━━─  97 %  run   1  cpu-wait   0  idle   2 %"
    )
    busy = replace(JOB_ALONE, tasks=tuple(replace(task, blocked=1.0, cpu=0.02) for task in JOB_ALONE.tasks))
    shares = [int(word) for word in text(last(busy), 2).split() if word.isdigit()]
    assert sum(shares) <= 100, "a sampled and an exact share add up to more than the whole"
    assert text(last(SCENES["cpu_prep"]), 2).startswith(" workers  blocked ")
    assert text(last(SCENES["single_thread"]), 2).startswith(" trainer  blocked ")


def test_the_waits_of_workers_that_have_ended_are_not_shown() -> None:
    frame = last(JOB_ALONE)
    job, processes = current_job(frame), frame.snapshot.processes
    listed = processes.value
    assert job is not None
    assert listed is not None
    assert text(frame, 2).startswith(" workers  BLOCKED ")

    def without(keys: tuple[ProcessKey, ...]) -> Frame:
        info = {key: one for key, one in listed.info.items() if key not in keys}
        stat = {key: one for key, one in listed.stat.items() if key not in keys}
        table = listed._replace(info=info, stat=stat)
        return frame._replace(snapshot=frame.snapshot._replace(processes=processes._replace(value=table)))

    assert text(without(job.workers[:1]), 2).startswith(" workers  BLOCKED ")
    assert text(without(job.workers), 2).startswith(" waits")


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_the_wait_line_stays_within_its_width(width: int) -> None:
    assert len(text(last(JOB_ALONE), 2, width)) <= width


def test_without_a_job_the_lines_are_about_processes() -> None:
    frame = last(STARVED)
    assert current_job(frame) is None
    assert job_waits(frame, 80) is None
    assert text(frame, 2).startswith(" waits")


def test_the_job_that_the_verdict_is_about_is_shown() -> None:
    shown = current_job(last(JOB_STARVED))
    assert shown is not None
    assert shown.name == "train.py"
