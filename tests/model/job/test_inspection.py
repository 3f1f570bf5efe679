"""The ids in an environment, as launchers set them, and the libraries of a process."""

from __future__ import annotations

import pytest

from iotop_ai.model.job.inspection import LIBRARIES, MODULES, NO_IDS, RankIds, names_in, rank_ids


def environ(**values: str) -> bytes:
    names = {"HOME": "/home/alice", "API_KEY": "secret", **values}
    return b"\0".join(f"{name}={value}".encode() for name, value in names.items()) + b"\0"


TORCHRUN = {
    "LOCAL_RANK": "1", "RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "node-1", "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "PMIX_NAMESPACE": "691601409", "PMIX_RANK": "1",
}  # fmt: skip
HYDRA = {"HYDI_CONTROL_FD": "7", "PMI_FD": "8", "PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}
SRUN = {"SLURM_JOB_ID": "48213", "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}
LIGHTNING = {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "40123"}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, NO_IDS),
        (TORCHRUN, RankIds(master="node-1:29500", rank=5, size=8)),
        (OPEN_MPI, RankIds(mpi="691601409", rank=1, size=2)),
        (HYDRA, RankIds(rank=1, size=2)),
        (SRUN, RankIds(slurm="48213", rank=3, size=4)),
        (LIGHTNING, RankIds(master="127.0.0.1:40123", rank=1, size=2, local=True)),
        ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "run7"}, RankIds(master="node-1:29500", rank=5, size=8, run="run7")),
        ({"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}, RankIds(rank=0, size=2)),
        ({"RAY_JOB_ID": "01000000"}, RankIds(ray="01000000")),
        ({"RAY_JOB_ID": "ffffffff"}, NO_IDS),
        ({"JPY_SESSION_NAME": "/home/alice/work/bert.ipynb"}, RankIds(notebook="bert.ipynb")),
        ({"JPY_SESSION_NAME": "/home/alice/a b"}, NO_IDS),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}, NO_IDS),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "RANK": "0", "WORLD_SIZE": "1"}, RankIds(rank=0, size=1)),
        ({"RANK": "9", "WORLD_SIZE": "2"}, NO_IDS),
        ({"RANK": "x", "WORLD_SIZE": "2", "SLURM_JOB_ID": "7;rm"}, NO_IDS),
        ({"MASTER_ADDR": "\x1b[31m", "MASTER_PORT": "1", "RANK": "0", "WORLD_SIZE": "2"}, RankIds(rank=0, size=2)),
    ],
)
def test_the_ids_in_an_environment_are_read(variables: dict[str, str], found: RankIds) -> None:
    assert rank_ids(environ(**variables)) == found


@pytest.mark.parametrize(
    ("ids", "group"),
    [
        (NO_IDS, ""),
        (RankIds(master="node-1:29500"), "node-1:29500"),
        (RankIds(master="node-1:29500", run="100"), "100@node-1:29500"),
        (RankIds(master="node-1:29500", run="x" * 120), "node-1:29500"),
        (RankIds(run="100"), ""),  # a single rank gives no address
        (RankIds(master="localhost-7:29500"), "localhost-7:29500"),
        (RankIds(master="fe80::1:29500"), "fe80::1:29500"),
        *((RankIds(master=f"{own}:29500", run="100"), "") for own in ("127.0.1.1", "localhost", "LocalHost", "::1")),
        (RankIds(master="localhost.localdomain:29500"), ""),
    ],
)
def test_the_group_of_a_rank_names_its_run_and_its_master(ids: RankIds, group: str) -> None:
    assert ids.group == group


def test_an_environment_that_is_cut_off_loses_only_its_end() -> None:
    whole = environ(**OPEN_MPI)
    assert rank_ids(whole[: whole.index(b"PMIX_NAMESPACE")]) == RankIds(rank=1, size=2)
    assert rank_ids(b"\0\0=\0RANK\0") == NO_IDS


def test_the_libraries_of_a_process_are_found() -> None:
    line = b"7f00-7f01 r-xp 0 00:00 1 /v/lib/python3.11/site-packages/"
    for path, library, module in (
        (b"torch/lib/libtorch_cpu.so", "torch", ""),
        (b"jaxlib/_jax.so", "jax", ""),
        (b"xgboost/lib/libxgboost.so", "xgboost", ""),
        (b"lightgbm/lib/lib_lightgbm.so", "lightgbm", ""),
        (b"sklearn/__check_build/_check_build.cpython-311-x86_64-linux-gnu.so", "sklearn", ""),
        (b"ray/_raylet.so", "", "ray"),
        (b"mujoco/libmujoco.so.4.0.0", "", "simulator"),
        (b"pyarrow/libarrow.so.2600", "", "arrow"),
        (b"xxhash/_xxhash.cpython-311-x86_64-linux-gnu.so", "", "xxhash"),
        (b"nvidia/dali/libdali.so", "", "dali"),
        (b"lmdb/cpython.cpython-311-x86_64-linux-gnu.so", "", "lmdb"),
        (b"h5py/h5d.cpython-311-x86_64-linux-gnu.so", "", "hdf5"),
        (b"numpy/core/_multiarray_umath.so", "", ""),
    ):
        assert names_in(line + path, LIBRARIES) == ((library,) if library else ())
        assert names_in(line + path, MODULES) == ((module,) if module else ())
    assert names_in(b"/home/sklearn/nle/a.so", LIBRARIES + MODULES) == ()
