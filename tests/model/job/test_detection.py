"""Detection of training jobs in the process trees of PyTorch's three start methods, launchers and other programs."""

from __future__ import annotations

import pytest

from iotop_ai.model.job.detection import Work
from iotop_ai.model.job.inspection import Inspection, RankIds
from iotop_ai.model.job.programs import is_candidate, is_launcher, is_python, script_name
from iotop_ai.model.process.records import ProcessInfo
from tests.model.job.build import SERVER, SPAWN, TORCH, TRACKER, Machine, pids

SLURM = "/system.slice/slurmstepd.scope/job_48213/step_0/user/task_0"
POD = "/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice"


def test_forked_loaders_belong_to_their_trainer() -> None:
    m = Machine()
    m.add(10, "python", 1)
    m.add(11, "pt_data_worker", 10)
    m.add(12, "pt_data_worker", 10)
    (job,) = m.jobs()
    assert (job.key.pid, job.name, job.user, job.framework) == (10, "train.py", "alice", "torch")
    assert (pids(job.workers), job.helpers, job.evidence, job.weak) == ([11, 12], (), ("loader",), False)


@pytest.mark.parametrize("reaper", ["systemd", "tini"])
def test_a_loader_whose_trainer_ended_does_not_make_init_a_trainer(reaper: str) -> None:
    m = Machine()
    m.add(1, reaper, 0, ("/sbin/" + reaper,))
    m.add(11, "pt_data_worker", 1)
    m.add(20, "python", 1)
    m.add(21, "pt_data_worker", 20)
    (job,) = m.jobs()
    assert (job.key.pid, pids(job.workers)) == (20, [21])


def test_in_a_container_the_trainer_may_be_the_first_process() -> None:
    m = Machine()
    m.add(1, "python", 0)
    m.add(11, "pt_data_worker", 1)
    (job,) = m.jobs()
    assert (job.key.pid, pids(job.workers)) == (1, [11])


def test_spawned_loaders_are_found_and_their_tracker_is_left_out() -> None:
    m = Machine()
    main = m.add(10, "python", 1)
    tracker = m.add(11, "python", 10, TRACKER)
    m.add(12, "pt_data_worker", 10, SPAWN)
    (job,) = m.jobs({main: TORCH})
    assert (pids(job.workers), job.helpers) == ([12], (tracker,))
    assert job.evidence == ("library", "loader")


def test_loaders_of_a_fork_server_need_not_be_the_trainers_children() -> None:
    m = Machine()
    m.add(10, "python", 1)
    server = m.add(11, "python", 10, SERVER)
    m.add(12, "pt_data_worker", 11, SERVER)
    m.add(13, "pt_data_worker", 11, SERVER)
    (job,) = m.jobs()
    assert (job.ranks[0].key.pid, pids(job.workers), job.helpers) == (10, [12, 13], (server,))


def test_loaders_may_have_the_name_of_their_trainer() -> None:
    m = Machine()
    main = m.add(10, "python", 1)
    m.add(11, "python", 10)
    m.add(12, "python", 10, SPAWN)
    (job,) = m.jobs({main: TORCH})
    assert pids(job.workers) == [11, 12]


def test_ranks_of_one_launcher_are_one_job() -> None:
    m = Machine()
    m.add(9, "pt_elastic", 1, ("python", "/usr/bin/torchrun", "--nproc_per_node", "2", "train.py"))
    m.add(10, "python", 9)
    m.add(20, "python", 9)
    m.add(11, "pt_data_worker", 10)
    m.add(21, "pt_data_worker", 20)
    (job,) = m.jobs(on_gpu={10: ("GPU-0",), 20: ("GPU-1",)})
    assert [(r.key.pid, pids(r.workers), r.gpus) for r in job.ranks] == [
        (10, [11], ("GPU-0",)),
        (20, [21], ("GPU-1",)),
    ]
    assert (job.key.pid, pids(job.helpers), job.gpus) == (9, [9], {"GPU-0", "GPU-1"})
    assert job.evidence == ("gpu", "loader", "launcher")


def test_spawned_ranks_are_not_loaders_of_their_launcher() -> None:
    m = Machine()
    parent = m.add(10, "python", 1)
    m.add(11, "python", 10, SPAWN)
    m.add(12, "python", 10, SPAWN)
    m.add(13, "pt_data_worker", 11, SPAWN)
    m.add(14, "pt_data_worker", 12, SPAWN)
    (job,) = m.jobs({parent: TORCH})
    assert [(r.key.pid, pids(r.workers)) for r in job.ranks] == [(11, [13]), (12, [14])]
    assert (job.name, job.key) == ("train.py", parent)
    assert parent in job.members


def test_spawned_ranks_in_a_container_are_known_by_the_gpus_that_they_open() -> None:
    m = Machine()
    parent = m.add(10, "python", 1)
    ranks = frozenset(m.add(pid, "python", 10, SPAWN) for pid in (11, 12))
    m.add(13, "pt_data_worker", 11, SPAWN)
    on_device = Inspection(("torch",), opens_gpu=True)
    work = Work(busy=ranks, working=ranks)
    for of_parent in (on_device, TORCH):
        (job,) = m.jobs({parent: of_parent, **dict.fromkeys(ranks, on_device)}, work=work)
        assert [(r.key.pid, pids(r.workers)) for r in job.ranks] == [(11, [13]), (12, [])]
    assert (job.key, job.name) == (parent, "train.py")
    (job,) = m.jobs({parent: TORCH, **dict.fromkeys(ranks, TORCH)}, work=work)
    assert (10, [12]) in [(r.key.pid, pids(r.workers)) for r in job.ranks], "a worker without a GPU was a rank"


def test_a_notebook_that_opens_a_gpu_trains_although_tensorboard_below_it_loads_its_framework() -> None:
    m = Machine()
    kernel = m.add(10, "python", 1, ("/v/bin/python", "-m", "ipykernel_launcher", "-f", "/tmp/k.json"))
    board = m.add(20, "tensorboard", 10, ("/v/bin/python", "/v/bin/tensorboard", "--logdir", "runs"))
    tensorflow = Inspection(("tensorflow",))
    for opens_gpu, first in ((True, kernel), (False, board)):
        (job,) = m.jobs({kernel: tensorflow._replace(opens_gpu=opens_gpu), board: tensorflow})
        assert (job.ranks[0].key, job.notebook) == (first, opens_gpu)


def test_forked_ranks_are_known_by_the_gpus_that_their_parent_does_not_open() -> None:
    m = Machine()
    kernel = m.add(10, "python", 1, ("python", "-m", "ipykernel_launcher", "-f", "/tmp/k.json"))
    children = [m.add(pid, "python", 10, m.info[kernel].cmdline) for pid in (11, 12)]
    loader = m.add(13, "python", 11, m.info[kernel].cmdline)
    on_device = Inspection(("torch",), opens_gpu=True)
    found = dict.fromkeys((*children, loader), on_device)
    (job,) = m.jobs({kernel: TORCH, **found})
    assert [(r.key.pid, pids(r.workers)) for r in job.ranks] == [(11, [13]), (12, [])]
    assert (job.key, job.notebook) == (kernel, True)
    on_gpu = {kernel.pid: ("GPU-0",)}
    for job in (*m.jobs({kernel: on_device, **found}), *m.jobs({kernel: TORCH, **found}, on_gpu)):
        assert [(r.key.pid, pids(r.workers)) for r in job.ranks] == [(10, [11, 12, 13])], "loaders inherit the device"


def test_a_spawned_loader_that_opens_a_gpu_is_still_a_loader() -> None:
    m = Machine()
    main, loader = m.add(10, "python", 1), m.add(11, "pt_data_worker", 10, SPAWN)
    (job,) = m.jobs({main: TORCH, loader: Inspection(("torch",), opens_gpu=True)})
    assert [(r.key, r.workers) for r in job.ranks] == [(main, (loader,))]


def test_the_launcher_of_the_ranks_is_the_top_of_the_job() -> None:
    m = Machine()
    m.add(10, "python", 1)
    m.add(11, "python", 10, SPAWN)
    m.add(12, "python", 10, SPAWN)
    (job,) = m.jobs(on_gpu={11: ("GPU-0",), 12: ("GPU-1",)})
    assert (job.key.pid, job.name, pids(r.key for r in job.ranks)) == (10, "train.py", [11, 12])


def test_two_trees_of_one_slurm_job_are_one_job() -> None:
    m = Machine()
    for pid, step in ((10, "step_0"), (20, "step_1")):
        m.add(pid, "python", 1, cgroup=f"/system.slice/slurmstepd.scope/job_48213/{step}/user/task_0")
        m.add(pid + 1, "pt_data_worker", pid, cgroup=f"/system.slice/slurmstepd.scope/job_48213/{step}/user/task_0")
    (job,) = m.jobs()
    assert (job.label, pids(r.key for r in job.ranks)) == ("slurm 48213.0", [10, 20])


def of_two_users(first: tuple[str, RankIds], second: tuple[str, RankIds]) -> list[tuple[int, list[int]]]:
    """(uid, pids of the ranks) of each job of two users' programs, each given as (cgroup, ids)."""
    m, inspections = Machine(), {}
    for uid, (cgroup, ids) in enumerate((first, second), 1000):
        inspections[m.add(uid, "python", 1, cgroup=cgroup, uid=uid)] = Inspection(("torch",), ids=ids)
    return sorted((job.uid, pids(rank.key for rank in job.ranks)) for job in m.jobs(inspections))


@pytest.mark.parametrize("cgroup", [SLURM, POD])
def test_a_process_does_not_join_another_users_job_by_its_cgroup(cgroup: str) -> None:
    """A user may create cgroups of any name below a delegated one."""
    below = f"/user.slice/user-1001.slice/user@1001.service{cgroup}"
    assert of_two_users((cgroup, RankIds()), (below, RankIds(rank=0))) == [(1000, [1000]), (1001, [1001])]


def test_a_process_does_not_join_another_users_job_by_its_environment() -> None:
    taken = RankIds(slurm="48213", rank=0, mpi="7", master="10.0.0.1:29500", size=2)
    owned = taken._replace(rank=1)
    assert of_two_users((SLURM, owned), ("/user.slice", taken)) == [(1000, [1000]), (1001, [1001])]


def test_a_process_does_not_join_another_users_job_by_the_title_of_a_ray_worker() -> None:
    m = Machine()
    program = m.add(10, "python", 1)
    m.add(11, "ray::RayTrainWo", 1, ("ray::RayTrainWorker.go",))
    m.add(20, "ray::RayTrainWo", 1, ("ray::RayTrainWorker.go",), uid=1001)
    (job,) = m.jobs({program: Inspection(("torch",), modules=("ray",))})
    assert (job.uid, pids(rank.key for rank in job.ranks)) == (1000, [11])


def test_programs_of_two_users_below_one_training_process_are_two_jobs() -> None:
    m = Machine()
    agent = m.add(9, "python", 1, ("python", "agent.py"), uid=0)
    ranks = [m.add(pid, "python", 9, uid=pid) for pid in (1000, 1001)]
    jobs = m.jobs(dict.fromkeys((agent, *ranks), TORCH))
    assert sorted((job.uid, pids(rank.key for rank in job.ranks)) for job in jobs) == [(1000, [1000]), (1001, [1001])]


def test_two_jobs_of_one_user_stay_apart() -> None:
    m = Machine()
    m.add(5, "bash", 1, ("bash",))
    for pid in (10, 20):
        m.add(pid, "python", 5)
        m.add(pid + 1, "pt_data_worker", pid)
    assert [job.key.pid for job in m.jobs()] == [10, 20]


def test_any_program_on_a_gpu_is_a_job() -> None:
    m = Machine()
    m.add(10, "caffe", 1, ("/opt/caffe", "train"))
    (job,) = m.jobs(on_gpu={10: ("GPU-0",)})
    assert (job.name, job.ranks[0].gpus, job.evidence) == ("caffe", ("GPU-0",), ("gpu",))


def test_busy_children_without_another_sign_are_weak_evidence() -> None:
    m = Machine()
    m.add(10, "python", 1)
    child = m.add(11, "python", 10)
    assert m.jobs() == []
    (job,) = m.jobs(work=Work(frozenset({child})))
    assert job.weak


@pytest.mark.parametrize("python", ["python", "/home/alice/.pyenv/versions/3.11.9/bin/python3.11"])
def test_busy_children_of_a_server_are_not_evidence(python: str) -> None:
    m = Machine()
    m.add(10, "gunicorn", 1, (python, "/usr/bin/gunicorn", "app:app"))
    worker = m.add(11, "gunicorn", 10, (python, "/usr/bin/gunicorn", "app:app"))
    assert m.jobs(work=Work(frozenset({worker}))) == []


def test_a_python_program_without_a_sign_of_training_is_not_a_job() -> None:
    """A compiler, a fork server, a tracker or work is not such a sign."""
    m = Machine()
    top = m.add(10, "python", 1, ("python", "/src/tool.py", "build"))
    m.add(11, "cc1plus", 10, ("cc1plus", "a.cc"))
    m.add(12, "python", 10, ("python", "-c", "import x; x.run()"))
    m.add(13, "python", 10, TRACKER)
    m.add(14, "python", 10, SERVER)
    assert m.jobs({top: Inspection()}) == []
    assert m.jobs({top: Inspection()}, work=Work(frozenset(m.info))) == []
    assert [job.key for job in m.jobs({top: TORCH})] == [top]


@pytest.mark.parametrize(
    "cmdline",
    [
        ("python", "-m", "pip", "install", "torch-sparse"),
        ("/opt/venv/bin/python3.11", "/opt/venv/bin/pip", "install", "."),
        ("/usr/bin/python3.11", "/usr/bin/pip3.11", "install", "."),
        ("python", "-u", "-c", "exec(compile(''' # This is <pip-setuptools-caller> -- a caller that pip uses"),
        ("python", "/opt/pip/_vendor/pyproject_hooks/_in_process/_in_process.py", "build_wheel", "/tmp/tmp1"),
        ("python", "setup.py", "bdist_wheel"),
    ],
)
def test_a_program_that_builds_a_package_with_torch_is_not_a_job(cmdline: tuple[str, ...]) -> None:
    m = Machine()
    builder = m.add(10, "python", 1, cmdline)
    assert m.jobs({builder: TORCH}, work=Work(frozenset({builder}), frozenset({builder}))) == []


@pytest.mark.parametrize("name", ["bash", "cc1plus", "kworker/0:1"])
def test_other_programs_are_ignored(name: str) -> None:
    assert not is_candidate(ProcessInfo(name, (name,), "root", 0))
    assert not is_candidate(ProcessInfo("python", (), "root", 0, kernel=True))


def test_jobs_are_named_by_their_script() -> None:
    def info(*cmdline: str) -> ProcessInfo:
        return ProcessInfo("python", cmdline, "alice", 1000)

    assert script_name(info("/usr/bin/python3.11", "-u", "/a/b/train.py", "x.py")) == "train.py"
    assert script_name(info("python", "-m", "pkg.train", "--lr", "1")) == "pkg.train"
    assert script_name(info("python", "-muvicorn", "app:x")) == "uvicorn"
    assert script_name(info("python")) == "python"
    assert script_name(info("python", "train", "-m", "secret")) == "python"
    assert script_name(info("python", "-m", "a b")) == "python"
    assert script_name(ProcessInfo("orted", ("orted", "-mca", "ess", "env"), "a", 1)) == "orted"
    assert is_python(info("/opt/conda/bin/python3.12", "x"))
    assert is_python(ProcessInfo("pt_main_thread", ("train",), "a", 1))
    assert is_launcher(info("python", "-m", "torch.distributed.run", "train.py"))
    assert is_launcher(info("/usr/bin/deepspeed", "train.py"))
    assert not is_launcher(info("python", "train.py"))


def test_a_loop_in_the_tree_does_not_hang_the_search() -> None:
    m = Machine()
    m.add(10, "python", 11)
    m.add(11, "pt_data_worker", 10)
    assert len(m.jobs()) == 1


@pytest.mark.parametrize(
    ("libraries", "of_trainer", "of_worker", "readers"),
    [
        (("torch",), (), ("lmdb",), ("lmdb",)),
        (("torch",), ("dali",), (), ("dali",)),
        (("torch",), ("arrow", "xxhash"), (), ("datasets",)),
        (("torch",), ("arrow",), ("hdf5",), ("hdf5",)),
        (("tensorflow",), ("hdf5",), (), ()),
    ],
)
def test_the_libraries_that_read_the_data_are_known(
    libraries: tuple[str, ...], of_trainer: tuple[str, ...], of_worker: tuple[str, ...], readers: tuple[str, ...]
) -> None:
    """A worker may load one that the trainer has not loaded; TensorFlow loads h5py for its own files."""
    m = Machine()
    trainer = m.add(10, "python", 1, ("python", "train.py"))
    worker = m.add(11, "pt_data_worker", 10)
    found = {trainer: Inspection(libraries, modules=of_trainer), worker: Inspection(libraries, modules=of_worker)}
    (job,) = m.jobs(found)
    assert job.readers == readers
