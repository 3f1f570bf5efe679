"""The display name of each verdict class. JSON, conditions and the page of reasons show the class's id instead."""

from __future__ import annotations

from iotop_ai.model.verdict_class import State

CLASS_NAMES = {
    "job_died": "process died",
    "hung": "hung",
    "gpu_fault": "GPU fault",
    "fs_full": "filesystem full",
    "shm_full": "/dev/shm full",
    "mem_pressure": "memory",
    "starting": "starting",
    "compiling": "compiling",
    "serving": "serving",
    "no_gpu": "GPU not used",
    "gpu_throttle": "GPU held back",
    "pcie": "PCIe link",
    "comm_wait": "another rank",
    "checkpoint_write": "checkpoint",
    "imbalance": "uneven ranks",
    "worker_respawn": "workers restart",
    "network_fs": "network storage",
    "io_limit": "I/O limit",
    "cache_thrash": "page cache too small",
    "noisy_neighbour": "neighbour",
    "small_random": "small reads",
    "storage_read": "slow disk",
    "loader_serial": "one read at a time",
    "cpu_prep": "loader computes",
    "object_stream": "object storage",
    "single_thread": "one thread",
    "host_bound": "main thread too slow",
    "gpu_memory": "GPU memory",
    "gpu_bound": "GPU-bound",
    "healthy": "data is ready",
    "idle": "idle",
    "failing_disk": "failing disk",
    "unknown": "cause not seen",
}

_UNKNOWN_NAMES = {State.BUSY: "something is at its limit", State.CALM: "nothing is slow"}
"""The display names of the class "unknown", by state."""


def class_name(class_id: str, state: State) -> str:
    """The display name of a finding's class; that of "unknown" depends on the state, which may be BUSY or CALM."""
    if class_id == "unknown" and state in _UNKNOWN_NAMES:
        return _UNKNOWN_NAMES[state]
    return CLASS_NAMES.get(class_id, class_id)
