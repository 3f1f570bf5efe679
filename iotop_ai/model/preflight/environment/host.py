"""The environment of a process on this machine: limits, namespaces, memory, terminal, variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

INFINITE = -1
"""An unlimited resource, as RLIM_INFINITY."""


class Terminal(NamedTuple):
    """The terminal of standard output.

    term: $TERM. encoding: that of standard output. tty: whether that is a terminal. columns, rows: 0 without one.
    """

    term: str = ""
    encoding: str = ""
    tty: bool = False
    columns: int = 0
    rows: int = 0


class HostFacts(NamedTuple):
    """None, "": unknown or not there.

    cores: cores that this process's affinity allows. machine_cores: all cores. quota_cores: its cgroup's quota. limits:
    soft and hard limit by name ("nofile"), INFINITE for none. cgroup: "v2", "v1" or "hybrid". own_pids: whether the PID
    namespace is a container's. shm_bytes: size of /dev/shm; shm_error: why that is unknown. nvidia_cards: NVIDIA GPUs
    on the PCI bus. uvm: whether /dev/nvidia-uvm exists. rdma: ports. variables: those that change a training. jupyter:
    whether a notebook started this process. links: name and state ("up", "down", "unknown") of the network interfaces.
    """

    cores: int | None = None
    machine_cores: int | None = None
    quota_cores: float | None = None
    memory_limit_bytes: int | None = None
    memory_room_bytes: int | None = None
    limits: Mapping[str, tuple[int, int]] = {}
    cgroup: str = ""
    own_pids: bool = False
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    shm_error: str = ""
    nvidia_cards: int = 0
    uvm: bool = False
    rdma: int = 0
    governors: tuple[str, ...] = ()
    frequency_driver: str = ""
    energy_preferences: tuple[str, ...] = ()
    clock_source: str = ""
    terminal: Terminal = Terminal()
    variables: Mapping[str, str] = {}
    drop_caches: str = ""
    """"root", "sudo" or "" for no right to drop the page cache, with the reason and the remedy."""
    drop_caches_reason: str = ""
    drop_caches_remedy: str = ""
    jupyter: bool = False
    links: tuple[tuple[str, str], ...] | None = None
