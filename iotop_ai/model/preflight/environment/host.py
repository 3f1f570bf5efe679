"""The environment of a process on this machine: limits, namespaces, memory, terminal, variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

INFINITE = -1
"""The value of RLIM_INFINITY, which stands for an unlimited resource."""


class Terminal(NamedTuple):
    """The terminal of standard output.

    term: the value of $TERM
    encoding: the encoding of standard output
    tty: whether standard output is a terminal
    columns, rows: the size of the terminal; 0 without one
    """

    term: str = ""
    encoding: str = ""
    tty: bool = False
    columns: int = 0
    rows: int = 0


class HostFacts(NamedTuple):
    """Facts about the machine and this process; None or "" for what is unknown or missing.

    cores: the number of cores that the affinity of this process allows
    machine_cores: the number of all cores
    quota_cores: the CPU quota of its cgroup, in cores
    memory_limit_bytes: the memory limit that leaves the least room, of its cgroup or a cgroup above it
    memory_room_bytes: the memory left below that limit, counting reclaimable cache as free
    limits: the soft and the hard limit of each resource by name ("nofile"), INFINITE if unlimited
    cgroup: "v2", "v1" or "hybrid"
    own_pid_namespace: whether this process is in a PID namespace other than the initial one, as in a container
    shm_bytes: the size of /dev/shm
    shm_error: why shm_bytes is unknown
    nvidia_cards: the number of NVIDIA GPUs on the PCI bus
    uvm: whether /dev/nvidia-uvm exists
    compat_driver: the version of CUDA's own driver libraries, which run on an older driver ("forward compatibility")
    rdma: the number of RDMA devices
    variables: the environment variables that affect training
    jupyter: whether a notebook started this process
    links: the name and state ("up", "down", "unknown") of each network interface
    """

    cores: int | None = None
    machine_cores: int | None = None
    quota_cores: float | None = None
    memory_limit_bytes: int | None = None
    memory_room_bytes: int | None = None
    limits: Mapping[str, tuple[int, int]] = {}
    cgroup: str = ""
    own_pid_namespace: bool = False
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    shm_error: str = ""
    nvidia_cards: int = 0
    uvm: bool = False
    compat_driver: str = ""
    rdma: int = 0
    governors: tuple[str, ...] = ()
    frequency_driver: str = ""
    energy_preferences: tuple[str, ...] = ()
    clock_source: str = ""
    terminal: Terminal = Terminal()
    variables: Mapping[str, str] = {}
    drop_caches: str = ""
    """How this user can drop the page cache: "root" or "sudo"; "" if not at all, with the reason and the remedy below.
    """
    drop_caches_reason: str = ""
    drop_caches_remedy: str = ""
    jupyter: bool = False
    links: tuple[tuple[str, str], ...] | None = None
