"""Determines the kind of a process by its names: Python program, launcher, process of Ray, or multiprocessing helper;
and the option that sets its number of loader workers.

Sources for the names of launchers: ompi/tools/mpirun (Open MPI 5 runs PRRTE's prterun), orte/tools/orterun (in Open MPI
4 mpirun is a link to orterun, whose daemon is orted), src/pm/hydra (MPICH, Intel MPI: mpiexec.hydra starts
hydra_pmi_proxy, which starts the ranks), slurm's src/slurmd/slurmstepd (its title is "slurmstepd: [48213.0]"),
deepspeed/launcher/runner.py (it runs ``-m deepspeed.launcher.launch``), torch/distributed/elastic. The titles of Ray's
workers are "ray::IDLE", "ray::task" and "ray::Actor.method" (python/ray/_raylet.pyx). Sources for Python's helpers:
multiprocessing/{spawn,forkserver,resource_tracker}.py, the same files of ``multiprocess`` (used by Hugging Face
datasets), joblib/externals/loky/backend/popen_loky_posix.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.process.records import ProcessInfo

LAUNCHERS = (
    "torchrun",
    "deepspeed",
    "accelerate",
    "accelerate-launch",
    "horovodrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "deepspeed.launcher.launch",
    "accelerate.commands.launch",
    "horovod.runner.launch",
)
"""Programs and modules that only launch training."""
GENERAL_LAUNCHERS = {
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "orted", "prterun", "prte", "prted"), "mpi"),
    **dict.fromkeys(("mpiexec.hydra", "hydra_pmi_proxy", "hydra_bstrap_proxy", "hydra_bstrap_pr"), "mpi"),
    **dict.fromkeys(("mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich", "mpirun_rsh"), "mpi"),
    **dict.fromkeys(("srun", "slurmstepd"), "slurm"),
    "raylet": "ray",
    **dict.fromkeys(("papermill", "jupyter-nbconvert", "jupyter-execute"), "notebook"),
}
"""Programs that launch programs of any kind, by process name or file name; the value is the kind of evidence."""
REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "conmon", "containerd-shim")
"""Programs that adopt the children of ended processes. They do not train, even if they adopt a loader."""
LOADER_NAMES = ("pt_data_worker", "pt_multiprocess")
"""The beginnings of the names (comm) of DataLoader workers. The second is pt_multiprocess_data_worker (PyTorch main),
which the kernel truncates."""
SPAWNED = "--multiprocessing-fork"
"""The argument of a process that multiprocessing started with the method "spawn"."""
_NAME = pattern(r"[\w.+-]{1,64}")
_MODULE = pattern(r"[\w.]{1,64}")
_FILE = pattern(r"\.py[cwz]?(?!\w)")
_LAUNCHER_COMM = "pt_elastic"
_PYTHONS = ("python", "pypy", "ipython")
_DIGITS, _LETTERS = "0123456789.", "abcdefghijklmnopqrstuvwxyz"
_TRACKERS = (
    "multiprocessing.resource_tracker",
    "multiprocess.resource_tracker",
    "loky.backend.resource_tracker",
    "_inductor.compile_worker",
    "_inductor/compile_worker/",
    "multiprocessing.semaphore_tracker",
)
_FORK_SERVERS = ("multiprocessing.forkserver", "multiprocess.forkserver")
_LOKY = "joblib.externals.loky.backend.popen_loky"
_NOTEBOOKS = (
    "ipykernel_launcher",
    "ipykernel",
    "colab_kernel_launcher",
    "db_ipykernel_launcher",
    "spyder_kernels.console",
)
"""The modules that run the cells of notebooks in Jupyter, Colab, Databricks (as a script) and Spyder."""
_BUILD_MODULES = ("pip", "build", "setuptools", "wheel")
_BUILD_SCRIPTS = ("pip", "setup.py", "_in_process.py")
_BUILD_TEXTS = ("<pip-setuptools-caller>", "setuptools.build_meta", "pyproject_hooks")
"""Texts in the command lines of programs that build a package (pip/_internal/utils/setuptools_build.py,
pyproject_hooks). Such a program may import PyTorch to compile an extension of it.
"""
_RAY = "ray::"
_RAY_OWN = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray::JobSupervisor", "ray::_ray_internal")
"""Beginnings of the titles of Ray's own services."""
_RAY_SPILLS = ("SpillWorker", "RestoreWorker", "DeleteWorker")
"""Ends of the titles of workers that move Ray's objects to and from a disk."""
_RAY_FILES = ("/ray/dashboard/", "/ray/_private/", "/ray/autoscaler/", "/ray/util/client/")
_SERVERS = ("gunicorn", "uvicorn", "hypercorn", "celery", "daphne", "pytest", "http.server", *_NOTEBOOKS)
"""Modules whose children answer requests, run tasks of a queue, or run tests."""


_WORKERS_OPTION = pattern(
    r"(?:--?|\+{0,2})(?:[\w-]+\.)*"
    r"(?:(?:num[_-]|n[_-]?)?(?:train[_-])?(?:data[_-]?)?(?:loader[_-])?(?:num[_-])?workers|j)"
)
"""The names under which training scripts take the number of workers: --num-workers, --dataloader_num_workers,
--workers, -j (the ImageNet example of PyTorch), data.num_workers (Hydra)."""


def is_python(info: ProcessInfo) -> bool:
    """Whether the process is a Python interpreter, judged by the names of its program and of the process."""
    return names_python(_program(info)) or names_python(info.name) or info.name.startswith("pt_")


def _program(info: ProcessInfo) -> str:
    return info.cmdline[0].rsplit("/", 1)[-1] if info.cmdline else ""


def names_python(name: str) -> bool:
    """Whether the name is like python3.11, pypy3 or ipython."""
    for stem in _PYTHONS:
        if name.startswith(stem):
            return not name[len(stem) :].lstrip(_DIGITS).strip(_LETTERS)
    return False


def is_launcher(info: ProcessInfo) -> bool:
    """Whether the program starts training processes, as torchrun, MPI, Slurm, Ray and papermill do."""
    return bool(launcher_kind(info))


def launcher_kind(info: ProcessInfo) -> str:
    """The kind of a launcher: "launcher" (of training only), "mpi", "slurm", "ray" or "notebook"; "" for others."""
    if info.name == _LAUNCHER_COMM:
        return "launcher"
    program = _program(info)
    if names_python(program):
        script, module = _script_and_module(info)
        program = script or module
    if program in LAUNCHERS:
        return "launcher"
    return GENERAL_LAUNCHERS.get(info.name) or GENERAL_LAUNCHERS.get(program, "")


def _script_and_module(info: ProcessInfo) -> tuple[str, str]:
    """The file name of the script that Python runs, and the module after -m; "" without one. Source: python(1)."""
    words = iter(info.cmdline[1:])
    for word in words:
        if not word.startswith("-"):
            return word.rsplit("/", 1)[-1], ""
        if word.startswith(("--", "-W", "-X")):
            if word in ("-W", "-X"):
                next(words, "")
            continue
        options, has_module, module = word.partition("m")
        if word == "-" or "c" in options:  # the program is standard input or an argument
            return "", ""
        if has_module:  # the module may be attached, as in -mtrain
            return "", module or next(words, "")
    return "", ""


def is_candidate(info: ProcessInfo) -> bool:
    """Whether the process may belong to a job, judged only by its names."""
    return not info.kernel and (is_python(info) or is_launcher(info) or ray_title(info).startswith(_RAY))


def is_ray(info: ProcessInfo) -> bool:
    """Whether the process runs Ray's tasks or an actor, or waits for them; False for the services of Ray."""
    title = ray_title(info)
    return title.startswith(_RAY) and not title.startswith(_RAY_OWN) and not title.endswith(_RAY_SPILLS)


def ray_title(info: ProcessInfo) -> str:
    """The title of a Ray process, such as "ray::Actor.method", or the name of any other process.

    Without a command line, only the first 15 characters of a title are known.
    """
    return info.cmdline[0] if info.cmdline and info.cmdline[0].startswith(_RAY) else info.name


def is_part_of_ray(info: ProcessInfo) -> bool:
    """Whether Ray started the process or the process starts Ray: ``ray start``, dashboard, monitor, or any worker."""
    words = info.cmdline[:4]
    if any(word.rsplit("/", 1)[-1] == "ray" for word in words[:3]) or ray_title(info).startswith(_RAY):
        return True
    return any(part in word for word in words for part in _RAY_FILES)


class Traits(NamedTuple):
    """The kinds of a candidate process, judged by its names.

    kind: the result of ``launcher_kind``
    tracker: whether the process only cleans up or compiles for another process, or builds a package
    fork_server: whether it is a fork server or was forked by one; both have the same command line
    spawned: whether multiprocessing or joblib started it as a worker, with a separate command line
    ray: the result of ``is_ray``
    loader: whether it is a worker of PyTorch's DataLoader
    """

    kind: str
    tracker: bool
    fork_server: bool
    spawned: bool
    ray: bool
    loader: bool


COMPILERS = frozenset(
    ("cc1", "cc1plus", "gcc", "g++", "clang", "as", "ld", "lld", "nvcc", "cicc", "ptxas", "cudafe++", "ninja")
)
"""Programs that a job starts while it compiles its kernels."""


@lru_cache(maxsize=4096)
def traits(info: ProcessInfo) -> Traits:
    """The traits of a candidate process; cached, because each search for jobs needs them again."""
    line = "\0".join(info.cmdline)
    return Traits(
        launcher_kind(info),
        any(word in line for word in _TRACKERS) or _builds_package(info, line),
        any(word in line for word in _FORK_SERVERS),
        SPAWNED in info.cmdline or _LOKY in line,
        is_ray(info),
        info.name.startswith(LOADER_NAMES),
    )


def _builds_package(info: ProcessInfo, line: str) -> bool:
    """Whether the process installs or builds a package, as pip does. line: its command line as one text."""
    if not is_python(info):
        return False
    script, module = _script_and_module(info)
    return (
        script.rstrip(_DIGITS) in _BUILD_SCRIPTS
        or module in _BUILD_MODULES
        or any(text in line for text in _BUILD_TEXTS)
    )


def is_notebook(info: ProcessInfo) -> bool:
    """Whether the process is the kernel of a notebook, run as a module or as a script."""
    return any(part.rsplit("/", 1)[-1].removesuffix(".py") in _NOTEBOOKS for part in info.cmdline[:6])


def is_reaper(info: ProcessInfo) -> bool:
    """Whether the process is an init program or a similar one."""
    return info.name.startswith(REAPERS)


def is_script(info: ProcessInfo) -> bool:
    """Whether the process runs a script or a module that is not a known server. Its children may then prepare data."""
    if names_file(info):
        return True
    name = script_name(info)
    return name != info.name and not name.startswith(_SERVERS)


def script_name(info: ProcessInfo) -> str:
    """The name by which users know the program: "train.py", the module after -m, or else the name of the process.

    No other argument is used, because arguments may contain secrets and a job's name is written into recordings.
    """
    endings = (".py", ".ipynb") if launcher_kind(info) == "notebook" else (".py",)
    for part in info.cmdline[1:]:
        name = part.rsplit("/", 1)[-1]
        if name.endswith(endings) and _NAME.fullmatch(name):
            return name
    module = _script_and_module(info)[1] if is_python(info) else ""
    return module if _MODULE.fullmatch(module) else info.name


def names_file(info: ProcessInfo) -> bool:
    """Whether a part of the command line names a Python file; the folder .pyenv does not count."""
    return any(_FILE.search(part) is not None for part in info.cmdline)


def workers_option(cmdline: Sequence[str], workers: int) -> str:
    """The option of a command line that sets the number of workers, such as "--num-workers"; "" without one.

    workers: the number of workers that the process has. An option with another number sets something else, or is not
    obeyed, so it does not count.
    """
    for word, following in zip_longest(cmdline, cmdline[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        found = value if equals else following if name.startswith("-") else ""
        if found == str(workers) and _WORKERS_OPTION.fullmatch(name):
            return name
    return ""
