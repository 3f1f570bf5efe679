"""Reads the rank of this process in distributed training from the environment variables that launchers set."""

from __future__ import annotations

from typing import Mapping

_NAMES = {
    "rank": ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    "local_rank": ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
    "world_size": ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
}
"""The variables of torchrun, accelerate and Lightning; of Open MPI; of Intel MPI and MPICH; and of Slurm."""


def ranks(environment: Mapping[str, str]) -> dict[str, int | None]:
    """Return the rank, the local rank and the world size. A value is None if no launcher has set it."""
    return {name: _first_int(environment, variables) for name, variables in _NAMES.items()}


def _first_int(environment: Mapping[str, str], variables: tuple[str, ...]) -> int | None:
    for variable in variables:
        text = environment.get(variable, "")
        if text.isdecimal():
            return int(text)
    return None
