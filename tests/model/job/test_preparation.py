"""Jobs without a GPU and without steps: boosting, scikit-learn, preparation of data; and the kinds of workers."""

from __future__ import annotations

import pytest

from iotop_ai.model.job.detection import Work
from iotop_ai.model.job.inspection import Inspection
from iotop_ai.model.process.records import ProcessKey
from tests.model.job.build import SERVER, SPAWN, TORCH, Machine, pids

PREP = ("python", "/home/alice/prep.py")
LOKY = (
    *("/v/bin/python", "-m", "joblib.externals.loky.backend.popen_loky_posix", "--process-name", "LokyProcess-1"),
    *("--pipe", "14", "--semaphore", "/loky-1-abc"),
)
LOKY_TRACKER = (
    "/v/bin/python",
    "-c",
    "from joblib.externals.loky.backend.resource_tracker import main; main(3, False)",
)
SPAWNED_BY_DATASETS = ("python", "-c", "from multiprocess.spawn import spawn_main; spawn_main(5)", SPAWN[-1])
DATASETS = Inspection(modules=("arrow", "xxhash"))


def test_a_boosting_program_is_a_job_while_it_works() -> None:
    m = Machine()
    key = m.add(10, "python", 1, ("python", "boost.py"))
    inspected = {key: Inspection(("xgboost", "sklearn"))}
    assert m.jobs(inspected) == []  # many programs load the library and never train
    (job,) = m.jobs(inspected, work=Work(working=frozenset({key})))
    assert (job.framework, job.evidence, job.weak) == ("xgboost", ("library",), False)


def test_sklearn_with_workers_of_joblib_is_a_job() -> None:
    m = Machine()
    key = m.add(10, "python", 1, ("python", "grid_search.py"))
    m.add(11, "python", 10, LOKY_TRACKER)
    workers = frozenset(m.add(pid, "python", 10, LOKY) for pid in (12, 13))
    (job,) = m.jobs({key: Inspection(("sklearn",))}, work=Work(workers, workers))
    assert (pids(job.workers), job.ranks[0].worker_kind, pids(job.helpers)) == ([12, 13], "pool", [11])
    assert job.evidence == ("library", "children")


@pytest.mark.parametrize("cmdline", [PREP, SPAWNED_BY_DATASETS])
def test_workers_of_datasets_make_a_preparation_job(cmdline: tuple[str, ...]) -> None:
    m = Machine()
    key = m.add(10, "python", 1, PREP)
    workers = frozenset(m.add(pid, "python", 10, cmdline) for pid in (11, 12))
    inspections = dict.fromkeys(workers, DATASETS) if cmdline == PREP else {}
    (job,) = m.jobs({key: DATASETS, **inspections}, work=Work(workers))
    assert (job.ranks[0].worker_kind, job.evidence, job.weak) == ("prep", ("children",), True)


def test_a_module_whose_workers_work_is_a_preparation_job_but_a_server_is_not() -> None:
    for name, found in (("corpus.tokenise", 1), ("uvicorn", 0), ("http.server", 0)):
        m = Machine()
        m.add(10, "python", 1, ("python", "-m", name, "--workers", "2"))
        workers = frozenset(m.add(pid, "python", 10, SPAWN) for pid in (11, 12))
        assert len(m.jobs(work=Work(workers, workers))) == found
        assert m.jobs(work=Work(workers, frozenset({ProcessKey(11, 11)}))) == []


def test_workers_of_a_simulator_are_not_loaders() -> None:
    m = Machine()
    key = m.add(10, "python", 1)
    workers = [m.add(pid, "python", 10, SERVER) for pid in (12, 13)]
    m.add(11, "python", 10, SERVER)
    m.stat = {k: s._replace(ppid=11) if k in workers else s for k, s in m.stat.items()}
    (job,) = m.jobs({key: TORCH, **dict.fromkeys(workers, Inspection(modules=("simulator",)))})
    assert (pids(job.workers), job.ranks[0].worker_kind) == ([12, 13], "env")


def test_children_that_answer_at_a_socket_are_environments() -> None:
    m = Machine()
    key = m.add(10, "python", 1)
    children = [m.add(pid, "python", 10) for pid in (11, 12, 13)]
    torch = dict.fromkeys([key, *children], TORCH)
    (job,) = m.jobs(torch, work=Work(two_way=frozenset(children[:2])))
    assert job.ranks[0].worker_kind == "env"
    (job,) = m.jobs(torch, work=Work(two_way=frozenset(children[:1])))
    assert job.ranks[0].worker_kind == ""  # these may be loaders of a PyTorch that did not name them


def test_named_loaders_are_loaders_whatever_libraries_they_have() -> None:
    m = Machine()
    m.add(10, "python", 1)
    worker = m.add(11, "pt_data_worker", 10)
    (job,) = m.jobs({worker: Inspection(("torch",), modules=("simulator", "arrow", "xxhash"))})
    assert job.ranks[0].worker_kind == "loader"
    m.add(20, "python", 1)
    alone = m.jobs({ProcessKey(20, 20): TORCH, worker: TORCH})[-1]
    assert (alone.key.pid, alone.ranks[0].worker_kind) == (20, "")
