"""The banner of a job that other work on the machine slows down, and of a job that died."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import cells
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.banner import banner_rows
from tests.diagnosis.build import MB, TRAINER_OLD, Machine, Task, play, snapshot_of
from tests.diagnosis.host_scenes import (
    CROWDED,
    GONE,
    HOST_SCENES,
    MEASURING,
    OOM,
    SHARED,
    SLOW,
    SLOWED_LOADERS,
    ended,
    epochs,
)


def lines(frame: Frame) -> tuple[str, str, str]:
    parts = (headline.headline, headline.because, headline.advice)
    return tuple(headline.text_of(part(frame.verdict)) for part in parts)  # type: ignore[return-value]


WORDS = {
    "noisy_neighbour": (
        "train.py waits for data 80 % of the time",
        "fio x3 takes 65 % of sda: 57 MB/s, the job 30 MB/s; r_await 87 ms (typical ≤ 1.3); 8 workers blocked 97 %",
        "ionice -c3 -p 700 701 702 (fio), or give it a disk other than sda",
    ),
    "noisy_neighbour cores": (
        "train.py waits for data 80 % of the time",
        "stress x4 uses 3.9 cores; the workers run 20 %, wait 75 %",
        "renice -n 19 -p 800 801 802 803 (stress), or keep it off these cores (taskset, cpuset)",
    ),
    "serving": (
        "train.py waits for requests",
        "it listens on 1 port, 1 open connection; its main thread sleeps 97 %",
        "nothing to do: it works when clients ask",
    ),
    "job_died": (
        "train.py died: SIGKILL",
        "killed from outside: the kernel counted no out-of-memory kill; the dead process had pid 50",
        "find what killed it: the scheduler's log (memory limit, time limit), dmesg",
    ),
}


@pytest.mark.parametrize("name", WORDS)
def test_each_scene_is_described(name: str) -> None:
    assert lines(play((HOST_SCENES[name], 15))[-1]) == WORDS[name]


def test_a_narrow_banner_shows_why_a_job_died_and_when() -> None:
    rows = [line.text for line in banner_rows(play((HOST_SCENES["job_died"], 90))[-1], View(utc_offset_s=0), 76, 4)]
    assert rows[1].rstrip() == "▌because  killed from outside: the kernel counted no out-of-memory kill"
    assert rows[2].startswith("▌since    00:00:10, BLOCKED for 79 s")


@pytest.mark.parametrize(
    ("scheduler", "count", "cure"),
    [
        ("none", 3, "stop fio x3, limit it (io.max), or give it a disk other than sda"),
        ("none", 1, "stop fio (pid 700), limit it (io.max), or give it a disk other than sda"),
        ("bfq", 1, "ionice -c3 -p 700 (fio), or give it a disk other than sda"),
        ("bfq", 5, "ionice -c3 -p 704 (fio, and the same for all 5), or give it a disk other than sda"),
    ],
)
def test_ionice_is_advised_for_all_processes_where_the_scheduler_obeys_it(
    scheduler: str, count: int, cure: str
) -> None:
    fio = tuple(Task(700 + i, "fio", 1, read=60 * MB / count, blocked=0.9) for i in range(count))
    disk = replace(SLOW, scheduler=scheduler)
    shared = replace(SHARED, tasks=(TRAINER_OLD, *SLOWED_LOADERS, *fio), disks=(disk,))
    assert lines(play((shared, 15))[-1])[2] == cure


@pytest.mark.parametrize(
    ("threads", "cure"),
    [
        ({801: 4}, "renice -n 19 -p $(ps -Lo lwp= -p 800,801,802,803) (stress), or keep it off these cores"),
        ({}, "renice -n 19 -p 800 801 802 803 (stress), or keep it off these cores"),
    ],
)
def test_a_command_is_for_all_threads_of_a_program(
    threads: dict[int, int], cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_threads(machine: Machine, second: int) -> Snapshot:
        snapshot = snapshot_of(machine, second)
        table = snapshot.processes.value
        assert table is not None
        stat = {key: one._replace(threads=threads.get(key.pid, 1)) for key, one in table.stat.items()}
        return snapshot._replace(processes=snapshot.processes._replace(value=table._replace(stat=stat)))

    monkeypatch.setattr("tests.diagnosis.build.snapshot_of", with_threads)
    assert lines(play((CROWDED, 15))[-1])[2] == f"{cure} (taskset, cpuset)"


def test_a_storage_check_is_described() -> None:
    assert lines(play((MEASURING, 15))[-1])[1:] == (
        "iotop-ai check (pid 700) takes 65 % of sda: 57 MB/s, the job 30 MB/s; r_await 87 ms (typical ≤ 1.3); "
        "8 workers blocked 97 %",
        "wait until iotop-ai check ends: it measures sda",
    )


def test_workers_that_restart_each_epoch_are_described() -> None:
    headline, because, advice = lines(play(*epochs(20, 4, 4))[-1])
    assert headline.startswith("train.py waits for data 1")
    assert because.startswith("all workers are restarted every 20")
    assert advice.startswith("use DataLoader(persistent_workers=True): it saves ~3")


def test_a_worker_that_ran_out_of_shared_memory_is_described() -> None:
    dead = ended("worker", -7, "pt_data_worker", 101)
    frame = play((GONE, 12), (replace(GONE, events=(dead,)), 1))[-1]
    headline, because, advice = lines(frame)
    assert headline == "a worker of train.py died: SIGBUS"
    assert because == (
        "it accessed memory without backing: /dev/shm filled up, or a mapped file shrank; the dead process had pid 101"
    )
    assert "/dev/shm" in advice
    killed = play((GONE, 12), (replace(GONE, events=(OOM, ended("trainer", -9))), 1))[-1]
    assert lines(killed)[1] == "killed by the kernel: out of memory; the dead process had pid 50"


@pytest.mark.parametrize("name", HOST_SCENES)
@pytest.mark.parametrize("width", [20, 40, 69, 150])
def test_every_line_fits_its_width(name: str, width: int) -> None:
    frame = play((HOST_SCENES[name], 15))[-1]
    for part in (headline.headline, headline.because, headline.advice):
        assert sum(cells(span.text) for span in fit(part(frame.verdict), width)) <= width


def test_a_program_is_not_blamed_for_what_others_read() -> None:
    """Ending fio would leave a third of the other traffic."""
    machine = HOST_SCENES["noisy_neighbour"]
    fio = [task for task in machine.tasks if task.name == "fio"]
    whole = sum(task.read for task in fio)
    tasks = tuple(task for task in machine.tasks if task.name != "fio")
    others = tuple(replace(task, name=f"backup{task.pid}", pid=task.pid + 50, read=0.1 * whole) for task in fio)
    shared = (*tasks, *(replace(task, read=0.7 * whole / len(fio)) for task in fio), *others)
    _, because, _ = lines(play((replace(machine, tasks=shared), 15))[-1])
    assert because.startswith("fio x3 and others take 65 % of sda: 57 MB/s (fio 40 MB/s), the job 30 MB/s; ")
