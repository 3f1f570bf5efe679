"""How the rates of processes become the rates of a group, and sums since a base."""

from __future__ import annotations

import pytest

from iotop_ai.model.job.records import Job, JobTable, Rank
from iotop_ai.model.process.records import UNKNOWN_PROCESS_RATES, ProcessKey, ProcessRates
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.process import groups
from iotop_ai.present.screen.view import View
from tests.present.make import MIB, Machine, Proc, frame, snapshots

PER_S = tuple(name for name in ProcessRates._fields if name.endswith("_per_s"))


@pytest.mark.parametrize("name", PER_S)
def test_a_rate_since_the_base_is_rescaled_from_the_interval_of_its_file(name: str) -> None:
    own_s = {"io_s": 6.0} if name in ProcessRates._fields[:7] else {"stat_s": 6.0}
    rates = UNKNOWN_PROCESS_RATES._replace(**{name: 10.0}, **own_s)
    assert getattr(groups._rates_over(rates, 12.0), name) == 5.0


def test_each_figure_of_a_group_is_a_sum_or_has_a_separate_rule() -> None:
    missing = set(ProcessRates._fields) ^ {*PER_S, *groups._COMBINE}
    assert not missing, f"{missing}: _COMBINE of present/process/groups.py lacks a rule for them, or they do not exist"


def labels(*procs: Proc, trainers: tuple[int, ...] = (), sort: str = "io") -> list[tuple[str, int]]:
    """The (label, first pid) of each group, sorted by label. Each pid of ``trainers`` is that of a job's trainer."""
    one = frame(snapshots(lambda i: Machine(procs=procs), 4))
    table = one.snapshot.processes.value
    assert table is not None
    keys = {key.pid: key for key in table.info}

    def job(key: ProcessKey) -> Job:
        workers = tuple(keys[p.pid] for p in procs if p.ppid == key.pid)
        return Job(key, "train.py", "alice", 1000, (Rank(key, workers),))

    jobs = JobTable({keys[pid]: job(keys[pid]) for pid in trainers})
    one = one._replace(snapshot=one.snapshot._replace(jobs=Reading(jobs, Status.OK)))
    return sorted((g.label, g.keys[0].pid) for g in groups.groups(one, View(utc_offset_s=0, sort=sort)))


@pytest.mark.parametrize(
    ("name", "cmdline", "label"),
    [
        ("python", ("python", "-u", "/a/train.py", "--lr", "3"), "python train.py"),
        ("python3.12", ("/usr/bin/python3", "-m", "my.train"), "python3.12 my.train"),
        ("python", ("python", "-c", "from multiprocessing.spawn import spawn_main"), "python"),
        ("pt_data_worker", ("python", "train.py"), "pt_data_worker"),
        ("torchrun", ("/usr/bin/python", "/usr/bin/torchrun", "train.py"), "torchrun"),
        ("bash", ("bash",), "bash"), ("cat", ("cat", "x.py"), "cat"),
    ],
)  # fmt: skip
def test_an_interpreter_is_named_with_its_script(name: str, cmdline: tuple[str, ...], label: str) -> None:
    assert labels(Proc(1, name, read=MIB, cmdline=cmdline)) == [(label, 1)]


@pytest.mark.parametrize("read", [0, MIB])
def test_scripts_of_one_interpreter_are_different_groups(read: int) -> None:
    scripts = [Proc(n, "python", read=read, cmdline=("python", f"/x/{s}.py")) for n, s in enumerate(("a", "b", "b"), 1)]
    assert labels(*scripts) == [("python a.py", 1), ("python b.py x2", 2)]


@pytest.mark.parametrize("read", [0, MIB])
def test_a_member_of_a_job_is_in_no_group_with_a_process_outside_the_job(read: int) -> None:
    workers = [Proc(10 + n, "pt_data_worker", read=read, ppid=1 + n // 2) for n in range(6)]
    found = labels(Proc(1, "train"), Proc(2, "train"), *workers, trainers=(1, 2))
    assert found == [("pt_data_worker x2", pid) for pid in (10, 12, 14)] + [("train", 1), ("train", 2)]


def test_the_process_with_most_of_the_work_comes_first_in_its_group() -> None:
    pair = (Proc(1, "fio", read=MIB, cpu=0.9), Proc(2, "fio", read=8 * MIB, cpu=0.1))
    assert labels(*pair) == [("fio x2", 2)]
    assert labels(*pair, sort="cpu") == [("fio x2", 1)]
    assert labels(*(Proc(n, "fio", read=MIB + n) for n in range(1, 5))) == [("fio x4", 1)]
