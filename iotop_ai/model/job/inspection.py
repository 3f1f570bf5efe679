"""What one inspection of a process finds: the libraries that it maps, and the ids in its environment.

Sources of the variables: torch/distributed/run.py (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK,
TORCHELASTIC_RUN_ID, which is "none" without --rdzv-id), ompi/runtime and PMIx (OMPI_COMM_WORLD_RANK and _SIZE,
PMIX_NAMESPACE), src/pm/hydra (PMI_RANK, PMI_SIZE), Slurm's sbatch(1) and srun(1) (SLURM_JOB_ID,
SLURM_PROCID, SLURM_NTASKS), horovod/runner/gloo_run.py (HOROVOD_RANK, HOROVOD_SIZE), Ray's
src/ray/raylet/worker_pool.cc (RAY_JOB_ID), jupyter_server's sessionmanager.py (JPY_SESSION_NAME).
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean_bytes

LIBRARIES = (
    (b"libtorch_python", "torch"),
    (b"libtorch_cuda", "torch"),
    (b"libtorch_cpu", "torch"),
    (b"libtensorflow", "tensorflow"),
    (b"_pywrap_tensorflow", "tensorflow"),
    (b"libjax_common", "jax"),
    (b"xla_extension", "jax"),
    (b"-packages/jaxlib/", "jax"),
    (b"libmxnet", "mxnet"),
    (b"libpaddle", "paddle"),
    (b"libmindspore", "mindspore"),
    (b"libxgboost", "xgboost"),
    (b"lib_lightgbm", "lightgbm"),
    (b"/_catboost", "catboost"),
    (b"/libcuml", "cuml"),
    (b"-packages/sklearn/", "sklearn"),
)
"""(text in /proc/PID/maps, name) of the machine-learning runtimes that a program may have loaded."""
OFTEN_IDLE = frozenset({"xgboost", "lightgbm", "catboost", "cuml", "sklearn"})
"""Runtimes that programs also load without training, so they are evidence only if the process works."""
MODULES = (
    (b"/ray/_raylet.so", "ray"),
    (b"libmujoco.so", "simulator"),
    (b"-packages/vizdoom", "simulator"),
    (b"-packages/ale_py/", "simulator"),
    (b"-packages/Box2D/", "simulator"),
    (b"-packages/pybullet", "simulator"),
    (b"-packages/procgen/", "simulator"),
    (b"-packages/nle/", "simulator"),
    (b"-packages/isaacgym/", "simulator"),
    (b"-packages/tokenizers/", "tokenizers"),
    (b"libarrow.so", "arrow"),
    (b"/xxhash/_xxhash", "xxhash"),
    (b"libdali.so", "dali"),
    (b"/lmdb/cpython", "lmdb"),
    (b"liblmdb.so", "lmdb"),
    (b"/h5py/h5d", "hdf5"),
)
"""(text, name) as above, of libraries that show the purpose of a process. Hugging Face datasets maps both arrow and
xxhash."""
READERS = ("dali", "lmdb", "hdf5")
"""The names of ``MODULES`` that show how a process reads its data."""
_TEXT = pattern(r"[\w.:@/+-]{1,128}")
_RANKS = (
    (b"RANK", b"WORLD_SIZE"),
    (b"OMPI_COMM_WORLD_RANK", b"OMPI_COMM_WORLD_SIZE"),
    (b"PMI_RANK", b"PMI_SIZE"),
    (b"HOROVOD_RANK", b"HOROVOD_SIZE"),
    (b"LOCAL_RANK", b"WORLD_SIZE"),
    (b"SLURM_PROCID", b"SLURM_NTASKS"),
)
"""Pairs of variables: the number of a rank, and how many ranks there are. The first pair with valid values counts."""
_VARIABLES = frozenset(
    (
        *(name for pair in _RANKS for name in pair),
        *(b"MASTER_ADDR", b"MASTER_PORT", b"SLURM_JOB_ID", b"PMIX_NAMESPACE", b"RAY_JOB_ID", b"JPY_SESSION_NAME"),
        b"TORCHELASTIC_RUN_ID",
    )
)
_LOOPBACK = pattern(r"(?i)localhost[.:]|ip6-|127\.|0\.0\.0\.0:|::1?:")
_NO_RUN_ID = "none"
_NIL_RAY_JOB = "ffffffff"
"""The job id of a worker that Ray started before any job needed one."""


class RankIds(NamedTuple):
    """The ids in the environment of a process; "" or None for an id that it lacks.

    slurm: the Slurm job id
    mpi: the name that PMIx gives the job
    master: the "address:port" of a group with more than one rank
    rank, size: the number of this rank, and how many ranks there are
    ray: the id of the Ray job
    notebook: the file name of the notebook
    local: whether ``rank`` is only the number among the ranks of this machine
    run: the id that the user gave torchrun
    """

    slurm: str = ""
    mpi: str = ""
    master: str = ""
    rank: int | None = None
    size: int | None = None
    ray: str = ""
    notebook: str = ""
    local: bool = False
    run: str = ""

    @property
    def group(self) -> str:
        """The name that the ranks of a group on several machines share: "RUN@address:port", "address:port" or "".

        "" also for a loopback address, because then all ranks are on this machine. The name includes the address even
        with a run id, because many scripts copy the same run id from the manual.
        """
        if not self.master or _LOOPBACK.match(self.master):
            return ""
        return (_text(f"{self.run}@{self.master}") or self.master) if self.run else self.master


NO_IDS = RankIds()


class Inspection(NamedTuple):
    """The result of one inspection of a process.

    libraries: the names of ``LIBRARIES`` that it maps
    opens_gpu: whether it has the device file of a GPU open
    pin_tid: the id of its thread named pt_data_pin; 0 without one
    modules: the names of ``MODULES`` that it maps
    ids: the ids in its environment
    hidden: the parts that this user cannot read: libraries, environment, open files
    """

    libraries: tuple[str, ...] = ()
    opens_gpu: bool = False
    pin_tid: int = 0
    modules: tuple[str, ...] = ()
    ids: RankIds = NO_IDS
    hidden: tuple[str, ...] = ()


NOTHING_SEEN = Inspection()


def names_in(maps: bytes, texts: tuple[tuple[bytes, str], ...]) -> tuple[str, ...]:
    """The name of each pair (text, name) in ``texts`` whose text is in /proc/PID/maps; each name once."""
    return tuple(dict.fromkeys(name for text, name in texts if text in maps))


def rank_ids(environ: bytes) -> RankIds:
    """The ids in the text of /proc/PID/environ, which may be truncated.

    The text is the environment at the start of the program, without variables that were set later.
    """
    variables = {}
    for part in environ.split(b"\0"):
        name, equals, value = part.partition(b"=")
        if equals and name in _VARIABLES:
            variables[name] = clean_bytes(value, 256)
    if not variables:
        return NO_IDS
    rank, size, local = _rank(variables)
    address, port = variables.get(b"MASTER_ADDR", ""), variables.get(b"MASTER_PORT", "")
    ray = _text(variables.get(b"RAY_JOB_ID", ""))
    notebook = _text(variables.get(b"JPY_SESSION_NAME", "").rsplit("/", 1)[-1])
    return RankIds(
        slurm if (slurm := variables.get(b"SLURM_JOB_ID", "")).isdigit() else "",
        _text(variables.get(b"PMIX_NAMESPACE", "")),
        _text(f"{address}:{port}") if address and port and (size or 0) > 1 else "",
        rank,
        size,
        "" if ray == _NIL_RAY_JOB else ray,
        notebook if notebook.endswith(".ipynb") else "",
        local,
        run if (run := _text(variables.get(b"TORCHELASTIC_RUN_ID", ""))) != _NO_RUN_ID else "",
    )


def _rank(variables: Mapping[bytes, str]) -> tuple[int | None, int | None, bool]:
    """The values of ``rank``, ``size`` and ``local`` in RankIds."""
    for rank, size in _RANKS:
        number, whole = variables.get(rank, ""), variables.get(size, "")
        if number.isdecimal() and whole.isdecimal() and int(number) < int(whole):
            return int(number), int(whole), rank == b"LOCAL_RANK"
    return None, None, False


def _text(value: str) -> str:
    return value if _TEXT.fullmatch(value) else ""
