"""Jobs by the program that started them, in the trees, command lines and variables of MPI, Slurm, Ray, Jupyter etc."""

from __future__ import annotations

import pytest

from iotop_ai.model.job.detection import Work
from iotop_ai.model.job.inspection import Inspection, RankIds
from iotop_ai.model.job.programs import is_candidate, launcher_kind, script_name
from iotop_ai.model.process.records import ProcessInfo, ProcessKey
from tests.model.job.build import SPAWN, TORCH, TRAIN, Machine, pids

PROXY = (
    *("/usr/bin/hydra_pmi_proxy", "--control-port", "node:42607", "--rmk", "user", "--launcher", "ssh", "--demux"),
    *("poll", "--pgid", "0", "--retries", "10", "--usize", "-2", "--proxy-id", "0"),
)
ORTED = ("orted", "-mca", "ess", "env", "-mca", "ess_base_jobid", "691601408", "-mca", "ess_base_vpid", "1")
STEP = "/system.slice/slurmstepd.scope/job_48213/step_0/user/task_0"
RAYLET = ("/v/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet", "--raylet_socket_name=/tmp/ray/s/raylet")
GCS = ("/v/lib/python3.11/site-packages/ray/core/src/ray/gcs/gcs_server", "--log_dir=/tmp/ray/s/logs")
LOG_MONITOR = ("/v/bin/python", "-u", "/v/lib/python3.11/site-packages/ray/_private/log_monitor.py", "--logs-dir=/t")
KERNEL = ("/v/bin/python", "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "/tmp/tmpdponoxw6.json")
RAY = Inspection(modules=("ray",))


def ids(**values: object) -> Inspection:
    return Inspection(("torch",), ids=RankIds(**values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "cmdline", "kind"),
    [
        ("mpirun", ("mpirun", "-np", "2", "python", "train.py"), "mpi"),
        ("mpirun.openmpi", ("mpirun.openmpi", "-np", "2", "python", "train.py"), "mpi"),
        ("prterun", ("/opt/ompi/bin/prterun", "-np", "2", "python", "train.py"), "mpi"),
        ("orted", ORTED, "mpi"),
        ("mpiexec.hydra", ("mpiexec.hydra", "-n", "2", "python", "train.py"), "mpi"),
        ("hydra_pmi_proxy", PROXY, "mpi"),
        ("mpirun", ("/bin/sh", "/opt/intel/oneapi/mpi/latest/bin/mpirun", "-n", "2", "python", "t.py"), "mpi"),
        ("srun", ("srun", "-n", "8", "python", "train.py"), "slurm"),
        ("slurmstepd", ("slurmstepd: [48213.0]",), "slurm"),
        ("raylet", RAYLET, "ray"),
        ("papermill", ("/v/bin/python", "/v/bin/papermill", "-k", "k", "in.ipynb", "out.ipynb"), "notebook"),
        ("python", ("python", "-u", "-m", "deepspeed.launcher.launch", "--world_info=e30=", "t.py"), "launcher"),
        ("accelerate", ("/v/bin/python", "/v/bin/accelerate", "launch", "train.py"), "launcher"),
        ("horovodrun", ("/v/bin/python", "/v/bin/horovodrun", "-np", "2", "python", "t.py"), "launcher"),
        ("pt_elastic", ("/v/bin/python", "-u", "/v/bin/torchrun", "t.py"), "launcher"),
        ("python", ("python", "-um", "torch.distributed.run", "t.py"), "launcher"),
        ("python", ("python", "-mtorch.distributed.run", "t.py"), "launcher"),
        ("python", ("python", "-umtorch.distributed.run", "t.py"), "launcher"),
        ("python", ("python", "-X", "dev", "-W", "ignore", "-m", "torch.distributed.run", "t.py"), "launcher"),
        ("jupyter-nbconve", ("/v/bin/python", "/v/bin/jupyter-nbconvert", "--execute", "in.ipynb"), "notebook"),
        ("python", KERNEL, ""),
        ("python", ("python", "train.py", "mpirun"), ""),
        ("python", ("python", "train.py", "--strategy", "deepspeed"), ""),
        ("python", ("python", "train.py", "--launcher", "accelerate"), ""),
        ("python", ("python", "train.py", "/data/deepspeed"), ""),
        ("python", ("python", "-m", "train", "deepspeed"), ""),
        ("python", ("python", "-c", "import x", "torchrun"), ""),
        ("python", ("python", "-cimport x", "torchrun"), ""),
        ("python", ("python", "-", "torchrun"), ""),
        ("python", ("python", "-Ximporttime", "train.py", "accelerate"), ""),
    ],
)
def test_launchers_are_known_by_their_names(name: str, cmdline: tuple[str, ...], kind: str) -> None:
    info = ProcessInfo(name, cmdline, "alice", 1000)
    assert launcher_kind(info) == kind
    assert is_candidate(info)


def test_a_script_is_found_beside_an_argument_that_names_a_launcher() -> None:
    m = Machine()
    trainer = m.add(10, "python", 1, ("python", "train.py", "--strategy", "deepspeed"))
    m.add(11, "pt_data_worker", 10, ("python", "train.py", "--strategy", "deepspeed"))
    (job,) = m.jobs({trainer: TORCH})
    assert (job.key, job.evidence, pids(job.workers)) == (trainer, ("library", "loader"), [11])


def test_ranks_of_open_mpi_are_one_job_in_the_order_of_their_numbers() -> None:
    m = Machine()
    m.add(9, "mpirun", 1, ("mpirun", "-np", "2", "python", "train.py"))
    one, two = m.add(10, "python", 9), m.add(11, "python", 9)
    inspections = {one: ids(mpi="691601409", rank=1, size=2), two: ids(mpi="691601409", rank=0, size=2)}
    (job,) = m.jobs(inspections)
    assert (job.key.pid, job.name, pids(job.helpers)) == (9, "train.py", [9])
    assert pids(rank.key for rank in job.ranks) == [11, 10]
    assert job.evidence == ("library", "mpi")
    assert not job.weak


def test_ranks_below_hydras_proxy_belong_to_mpiexec() -> None:
    m = Machine()
    m.add(8, "mpiexec.hydra", 1, ("mpiexec.hydra", "-np", "2", "python", "train.py"))
    m.add(9, "hydra_pmi_proxy", 8, PROXY)
    inspections = {m.add(pid, "python", 9): ids(rank=pid - 10, size=2) for pid in (10, 11)}
    (job,) = m.jobs(inspections)
    assert (job.key.pid, pids(r.key for r in job.ranks), sorted(pids(job.helpers))) == (8, [10, 11], [8, 9])


def test_two_daemons_of_one_mpi_job_are_joined_by_its_name() -> None:
    """A rank file may start two orted on one machine, whose ranks have only PMIX_NAMESPACE in common."""
    m = Machine()
    inspections = {}
    for daemon in (20, 30):
        m.add(daemon, "orted", 1, ORTED)
        inspections[m.add(daemon + 1, "python", daemon)] = ids(mpi="prterun-node-77@1", rank=daemon // 10 - 2, size=2)
    (job,) = m.jobs(inspections)
    assert pids(r.key for r in job.ranks) == [21, 31]
    other = {
        key: inspection._replace(ids=inspection.ids._replace(mpi=f"prterun-node-{key.pid}@1"))
        for key, inspection in inspections.items()
    }
    assert len(m.jobs(other)) == 2


def test_a_program_that_mpirun_started_is_a_job_once_it_works() -> None:
    m = Machine()
    m.add(9, "mpirun", 1, ("mpirun", "-np", "2", "python", "prepare.py"))
    ranks = frozenset(m.add(pid, "python", 9, ("python", "prepare.py")) for pid in (10, 11))
    below = m.add(12, "python", 10, ("python", "-c", "import x"))
    m.add(13, "python", 1, ("python", "other.py"))
    assert m.jobs() == []
    (job,) = m.jobs(work=Work(working=ranks | {below}))
    assert (pids(r.key for r in job.ranks), job.evidence, job.weak) == ([10, 11], ("mpi",), True)
    assert m.jobs(work=Work(working=frozenset({ProcessKey(13, 13)}))) == []


def test_steps_of_a_slurm_job_are_one_job_without_the_processes_of_slurm() -> None:
    m = Machine()
    m.add(5, "slurmstepd", 1, ("slurmstepd: [48213.batch]",), uid=0)
    m.add(6, "bash", 5, ("/bin/bash", "/var/spool/slurmd/job48213/slurm_script"))
    m.add(7, "srun", 6, ("srun", "python", "train.py"))
    m.add(8, "slurmstepd", 1, ("slurmstepd: [48213.0]",), uid=0)
    inspections = {m.add(pid, "python", 8, cgroup=STEP): ids(slurm="48213", rank=pid - 10, size=2) for pid in (10, 11)}
    (job,) = m.jobs(inspections)
    assert (job.key.pid, job.label, job.helpers) == (10, "slurm 48213.0", ())
    assert job.evidence == ("library", "slurm")


def test_in_a_container_the_environment_names_the_slurm_job() -> None:
    """Pyxis and Apptainer create a cgroup namespace, in which the path is "/"."""
    m = Machine()
    inspections = {m.add(pid, "python", 1, cgroup="/"): ids(slurm="7", rank=pid - 10, size=2) for pid in (10, 11)}
    (job,) = m.jobs(inspections)
    assert (job.label, pids(r.key for r in job.ranks)) == ("slurm 7", [10, 11])


def test_ranks_started_by_hand_are_joined_by_their_master() -> None:
    m = Machine()
    inspections = {m.add(pid, "python", 1): ids(master="10.0.0.1:29500", rank=pid - 10, size=2) for pid in (10, 11)}
    (job,) = m.jobs(inspections)
    assert pids(r.key for r in job.ranks) == [10, 11]
    assert ([rank.number for rank in job.ranks], job.group) == ([0, 1], "10.0.0.1:29500")
    same = {key: inspection._replace(ids=inspection.ids._replace(rank=0)) for key, inspection in inspections.items()}
    assert len(m.jobs(same)) == 2  # these are two programs with the default port, each of which is rank 0


def in_containers(master: str, *sizes: int, each: int = 0) -> list[list[int]]:
    """The pids of the ranks of each job that is found among programs with the same master.

    sizes: the number of ranks of each program. each: 1 if each rank has its own container, 0 if a program has one.
    """
    m, inspections = Machine(), {}
    for program, size in enumerate(sizes, 1):
        for rank in range(size):
            cgroup = f"/system.slice/docker-{program * 10 + rank * each:012x}{'0' * 52}.scope"
            key = m.add(program * 100 + rank, "python", 1, ("python", f"train{program}.py"), cgroup)
            inspections[key] = ids(master=master, rank=rank, size=size)
    return sorted(pids(rank.key for rank in job.ranks) for job in m.jobs(inspections))


def test_programs_in_two_containers_are_two_jobs_although_their_master_is_the_same() -> None:
    """Both have the default port, and a rank number of the larger program may be free in the smaller one."""
    two, four = [100, 101], [200, 201, 202, 203]
    assert in_containers("127.0.0.1:29500", 2, 4) == [two, four]
    assert in_containers("10.0.0.1:29500", 2, 4) == [two, four]
    assert in_containers("127.0.0.1:29500", 2, 2) == [two, [200, 201]]


def test_ranks_in_containers_of_their_own_are_joined_by_their_master() -> None:
    assert in_containers("10.0.0.1:29500", 4, each=1) == [[100, 101, 102, 103]]


def test_further_ranks_of_lightning_are_not_workers_of_the_first() -> None:
    """Lightning starts its own command line again with LOCAL_RANK set, while its first process has no such variable."""
    m = Machine()
    first, second = m.add(10, "python", 1), m.add(11, "python", 10)
    inspections = {first: TORCH, second: ids(master="127.0.0.1:40123", rank=1, size=2, local=True)}
    (job,) = m.jobs(inspections)
    assert [(r.key.pid, r.workers) for r in job.ranks] == [(10, ()), (11, ())]
    assert [rank.number for rank in job.ranks] == [0, 1]
    forked = {first: ids(rank=0, size=2), second: ids(rank=0, size=2)}
    (job,) = m.jobs(forked)
    assert [(r.key.pid, pids(r.workers)) for r in job.ranks] == [(10, [11])]


def test_a_launcher_is_evidence_if_its_program_works() -> None:
    """The torchrun of another user, on a machine without a GPU: the libraries of its processes cannot be read."""
    m = Machine()
    hidden = Inspection(hidden=("libraries", "environment", "open files"))
    m.add(9, "pt_elastic", 1, ("python", "/usr/bin/torchrun", "--nproc_per_node", "2", "train.py"))
    ranks = frozenset(m.add(pid, "python", 9) for pid in (10, 11))
    (job,) = m.jobs(dict.fromkeys(ranks, hidden), work=Work(working=ranks))
    assert (len(job.ranks), job.evidence, job.weak, job.hidden) == (2, ("launcher",), False, hidden.hidden)


class Ray(Machine):
    """A program that has called ray.init(), with the processes that Ray 2.60 starts."""

    def __init__(self) -> None:
        super().__init__()
        self.program = self.add(10, "python", 1, ("python", "train.py"))
        self.add(11, "gcs_server", 10, GCS)
        self.add(12, "python", 10, LOG_MONITOR)
        self.add(13, "raylet", 10, RAYLET)
        self.add(14, "ray::DashboardA", 13, ("ray::DashboardAgent", "", ""))
        self.add(15, "ray::RuntimeEnv", 13, ("ray::RuntimeEnvAgent", "", ""))
        self.inspections = {self.program: RAY, ProcessKey(12, 12): RAY}


def test_rays_actors_belong_to_the_program_and_the_actor_on_the_gpu_trains() -> None:
    m = Ray()
    m.add(20, "ray::RayTrainWo", 13, ("ray::RayTrainWorker.go", "", ""))
    m.add(21, "ray::ReadParque", 13, ("ray::ReadParquet->SplitBlocks(5)", ""))
    m.add(22, "ray::IDLE", 13, ("ray::IDLE", "", ""))
    m.add(23, "pt_data_worker", 20, ("ray::RayTrainWorker.go", "", ""))
    m.add(24, "ray::IDLE_Spill", 13, ("ray::IDLE_SpillWorker", ""))
    (job,) = m.jobs(m.inspections, {20: ("GPU-0",)})
    assert (job.key, job.name, job.evidence) == (m.program, "train.py", ("gpu", "loader", "ray"))
    (rank,) = job.ranks
    assert (rank.key.pid, rank.gpus) == (20, ("GPU-0",))
    assert sorted(pids(rank.workers)) == [21, 22, 23]
    assert {10, 12, 13, 14, 24} <= set(pids(job.helpers))


def test_without_a_gpu_rays_trainer_is_known_by_its_title() -> None:
    m = Ray()
    m.add(20, "ray::RayTrainWo", 13, ("ray::RayTrainWorker.go", "", ""))
    m.add(21, "ray::RayTrainWo", 13, ("ray::RayTrainWorker.go", "", ""))
    m.add(22, "ray::Map(f)", 13, ("ray::Map(f)", ""))
    m.add(23, "ray::Map(f)", 13, ("ray::Map(f)", ""))
    (job,) = m.jobs(m.inspections)
    assert [(r.key.pid, pids(r.workers), r.worker_kind) for r in job.ranks] == [(20, [22], "ray"), (21, [23], "ray")]


def test_tasks_of_ray_are_loaders_of_a_program_that_trains_itself() -> None:
    m = Ray()
    task = m.add(20, "ray::Map(f)", 13, ("ray::Map(f)", ""))
    assert m.jobs(m.inspections) == []  # no task has done anything yet
    (job,) = m.jobs(m.inspections, work=Work(frozenset({task})))
    assert [(r.key.pid, pids(r.workers)) for r in job.ranks] == [(10, [20])]
    assert (job.evidence, job.weak) == (("ray",), True)
    (job,) = m.jobs(
        {**m.inspections, m.program: Inspection(("torch",), modules=("ray",))}, work=Work(frozenset({task}))
    )
    assert (job.evidence, job.weak) == (("library", "ray"), False)


def test_workers_of_a_ray_start_cluster_belong_to_the_programs_that_use_it() -> None:
    m = Machine()
    m.add(5, "ray", 1, ("/v/bin/python", "/v/bin/ray", "start", "--head", "--block"))
    m.add(6, "raylet", 5, RAYLET)
    worker = m.add(7, "ray::RayTrainWo", 6, ("ray::RayTrainWorker.go",))
    program = m.add(10, "python", 1, ("python", "tune.py"))
    (job,) = m.jobs({program: RAY, worker: TORCH})
    assert (job.key, job.name, pids(r.key for r in job.ranks)) == (program, "tune.py", [7])
    assert 6 not in pids(job.members)
    second = m.add(11, "python", 1, ("python", "other.py"))
    inspections = {program: RAY, second: RAY, worker: Inspection(("torch",), ids=RankIds(ray="02000000"))}
    other = m.add(8, "ray::RayTrainWo", 6, ("ray::RayTrainWorker.go",))
    inspections[other] = Inspection(("torch",), ids=RankIds(ray="01000000"))
    found = {job.key.pid: pids(r.key for r in job.ranks) for job in m.jobs(inspections)}
    assert found == {10: [8], 11: [7]}
    # The lowest byte comes first, so that 255 comes before 256.
    inspections[worker], inspections[other] = (
        Inspection(("torch",), ids=RankIds(ray=ray)) for ray in ("00010000", "ff000000")
    )
    assert {job.key.pid: pids(r.key for r in job.ranks) for job in m.jobs(inspections)} == found


def test_each_notebook_is_a_separate_job() -> None:
    m = Machine()
    pod = "/kubepods/burstable/pod12345678-1234-1234-1234-123456789abc/" + "0" * 64
    m.add(5, "jupyter-lab", 1, ("/v/bin/python", "/v/bin/jupyter-lab"), pod)
    inspections = {m.add(pid, "python", 5, KERNEL, pod): TORCH for pid in (10, 11)}
    inspections[ProcessKey(10, 10)] = Inspection(("torch",), ids=RankIds(notebook="bert.ipynb"))
    found = m.jobs(inspections)
    assert [(job.key.pid, job.name) for job in found] == [(10, "bert.ipynb"), (11, "ipykernel_launcher")]
    assert all(job.notebook for job in found)


@pytest.mark.parametrize(
    "program",
    [
        ("-m", "ipykernel"),
        ("-m", "colab_kernel_launcher"),
        ("-Xfrozen_modules=off", "-m", "spyder_kernels.console"),
        ("/databricks/python_shell/scripts/db_ipykernel_launcher.py",),
        ("/v/lib/python3.11/site-packages/ipykernel_launcher.py",),
    ],
)
def test_a_kernel_of_any_vendor_is_a_notebook(program: tuple[str, ...]) -> None:
    m = Machine()
    cmdline = ("/v/bin/python", *program, "-f", "/tmp/k.json")
    key = m.add(10, "python", 1, cmdline)
    children = frozenset(m.add(pid, "python", 10, cmdline) for pid in (11, 12))
    assert m.jobs(work=Work(children, children)) == [], "a notebook's busy children are not evidence"
    (job,) = m.jobs({key: TORCH})
    assert job.notebook


def test_a_job_of_papermill_is_named_by_its_notebook() -> None:
    m = Machine()
    m.add(9, "papermill", 1, ("/v/bin/python", "/v/bin/papermill", "-k", "k", "in.ipynb", "out.ipynb", "-p", "a", "b"))
    kernel = m.add(10, "python", 9, KERNEL)
    (job,) = m.jobs({kernel: TORCH})
    assert (job.key.pid, job.name, job.evidence) == (9, "in.ipynb", ("library", "notebook"))
    assert not job.notebook, "its cells are not run by a person"
    info = m.info[ProcessKey(9, 9)]
    assert script_name(info._replace(cmdline=("python", "papermill", "-p", "secret"))) == "papermill"


def test_spawned_children_of_a_launched_rank_are_its_workers() -> None:
    m = Machine()
    m.add(9, "mpirun", 1, ("mpirun", "-np", "1", *TRAIN))
    rank = m.add(10, "python", 9)
    m.add(11, "python", 10, SPAWN)
    (job,) = m.jobs({rank: TORCH})
    assert [(r.key.pid, pids(r.workers)) for r in job.ranks] == [(10, [11])]
