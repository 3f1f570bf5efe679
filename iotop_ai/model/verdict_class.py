"""The classes of the verdict: for each its state, when its findings become active and end, and its possible advice.

A class consists of its entry here, the rule that claims it (diagnosis/rules/) and its words (present/). Tests fail if
one of them is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from iotop_ai.lazy.namedtuple import NamedTuple


class State(StrEnum):
    """The words of the banner, which are readable without colour."""

    STARVED = "STARVED"
    BLOCKED = "BLOCKED"
    SLOWED = "SLOWED"
    FAILING = "FAILING"
    """A disk, or the path to it, is failing."""
    WASTED = "WASTED"
    """A GPU is present, or reserved by a process, and is not used."""
    STARTING = "STARTING"
    OK = "OK"
    CALM = "CALM"
    """Nothing is slow, and no training job is working; or a job gets its data, but is not known to be healthy yet."""
    BUSY = "BUSY"
    """No training job runs, and a disk, the CPUs or memory are at their limit."""
    UNSURE = "UNSURE"


LOSING = (State.STARVED, State.BLOCKED, State.SLOWED, State.FAILING)
"""States in which time is lost, or data is about to be lost."""
LOUD = (*LOSING, State.WASTED, State.BUSY)
"""States that need attention; the devices that their findings name are shown in the state's colour."""
INSTEAD_OF_UNSURE = (State.CALM, State.BUSY)
"""States of class ``unknown`` while nothing is wrong or no training job runs: UNSURE would be a false alarm then."""


class ClassSpec(NamedTuple):
    """One class of the verdict."""

    class_id: str
    state: State
    """The word that the banner shows."""
    advice: tuple[str, ...] = ()
    """The template ids of the advice that a finding of this class may contain; () if the class needs none."""
    rival: bool = False
    """Whether it is a cause of a job's wait for data. Such a class replaces another cause of the same job only after
    its own condition has lasted for some time."""
    confirm_s: float = 0.0
    """For how many seconds beyond the window the condition must have been true before the finding becomes active. If
    less time beyond the window has been observed, the condition must have been true for all of that time."""
    leave: float | None = None
    """The finding ends when its main signal falls below this share of the threshold; None for
    Thresholds.leave_level."""
    keep_s: float | None = None
    """For how many seconds the finding stays after its condition was last true; None for Thresholds.keep_s."""
    covers: tuple[str, ...] = ()
    """The classes that are not shown while this class is active."""
    wastes: bool = False
    """Whether it wastes GPU time although its state is not one of LOSING."""
    lasting: bool = False
    """Whether it stays for as long as the hardware reports it. A user can acknowledge such a finding."""
    freezes_baseline: bool = False
    """Whether no read latency is learned while it is active, because a lasting stall would otherwise become normal."""
    names_disk: bool = False
    """Whether its subject is the kernel name of a disk, which the panel of disks highlights."""
    spins: bool = False
    """Whether it is about GPUs that look busy although they make little progress."""


# Template ids of advice that several classes share.
_THREADS = ("parallel_calls", "more_threads", "faster_simulation", "ray_tasks", "more_processes")
_READERS = ("compare_ranks", "more_readers", "more_reads_at_once", *_THREADS)
_WORKERS = (
    "compare_ranks",
    "more_workers",
    "worker_options",
    "one_worker",
    "cheaper_transforms",
    "raise_quota",
    *_THREADS,
)

_BY_PRECEDENCE = (
    ClassSpec(
        class_id="job_died",
        state=State.BLOCKED,
        advice=(
            *("larger_shm", "less_memory", "who_killed", "who_stopped", "outlive_session", "fault_handler"),
            "read_log",
        ),
        keep_s=600.0,
    ),
    ClassSpec(class_id="hung", state=State.BLOCKED, advice=("dump_stacks", "continue_job", "ask_owner")),
    ClassSpec(
        class_id="gpu_fault",
        state=State.BLOCKED,
        advice=(
            *("reset_gpu", "replace_gpu", "debug_kernel", "read_gpu_log", "drain_gpu", "reboot_node"),
            *("check_gpu_power", "look_xid_up"),
        ),
        lasting=True,
    ),
    ClassSpec(class_id="fs_full", state=State.BLOCKED, advice=("make_room",)),
    ClassSpec(class_id="shm_full", state=State.BLOCKED, advice=("larger_shm",)),
    ClassSpec(class_id="mem_pressure", state=State.SLOWED, advice=("less_memory",)),
    ClassSpec(class_id="starting", state=State.STARTING, advice=("wait",)),
    ClassSpec(class_id="compiling", state=State.STARTING, advice=("keep_compiled",)),
    ClassSpec(class_id="serving", state=State.CALM, advice=("more_requests",)),
    ClassSpec(class_id="no_gpu", state=State.WASTED, advice=("use_gpu", "look_into"), wastes=True),
    ClassSpec(
        class_id="gpu_throttle", state=State.SLOWED, advice=("cool_gpu", "raise_power", "check_power"), spins=True
    ),
    ClassSpec(class_id="pcie", state=State.SLOWED, advice=("reseat", "send_less"), spins=True),
    ClassSpec(class_id="comm_wait", state=State.BLOCKED, advice=("ask_peers", "wider_network"), spins=True),
    ClassSpec(
        class_id="checkpoint_write", state=State.BLOCKED, advice=("save_async",), keep_s=15.0, freezes_baseline=True
    ),
    ClassSpec(class_id="imbalance", state=State.SLOWED, advice=("help_late",), spins=True),
    ClassSpec(class_id="worker_respawn", state=State.STARVED, advice=("keep_workers",), rival=True, keep_s=60.0),
    ClassSpec(class_id="network_fs", state=State.STARVED, advice=("nfs_options", "stage_local", *_READERS), rival=True),
    ClassSpec(
        class_id="io_limit",
        state=State.STARVED,
        advice=("compare_ranks", "raise_limit"),
        rival=True,
        confirm_s=5.0,
        freezes_baseline=True,
        names_disk=True,
    ),
    ClassSpec(
        class_id="cache_thrash",
        state=State.STARVED,
        advice=("compare_ranks", "more_cache"),
        rival=True,
        freezes_baseline=True,
    ),
    ClassSpec(
        class_id="noisy_neighbour",
        state=State.STARVED,
        advice=(
            "slow_resync",
            "run_as_root",
            "ask_for_share",
            "calm_neighbour",
            "wait_for_check",
            "calm_cpu",
            "ask_owner",
        ),
        rival=True,
        freezes_baseline=True,
        names_disk=True,
    ),
    ClassSpec(
        class_id="small_random",
        state=State.STARVED,
        advice=("pack_files", *_READERS),
        rival=True,
        freezes_baseline=True,
        names_disk=True,
    ),
    ClassSpec(
        class_id="storage_read",
        state=State.STARVED,
        advice=(
            *("copy_data", "keep_in_memory", "pack_files", "needed_rate", "drawn_rate", "more_in_flight"),
            "faster_storage",
            *_READERS,
        ),
        rival=True,
        freezes_baseline=True,
        names_disk=True,
    ),
    ClassSpec(
        class_id="loader_serial",
        state=State.STARVED,
        advice=_READERS,
        rival=True,
        freezes_baseline=True,
        names_disk=True,
    ),
    ClassSpec(class_id="cpu_prep", state=State.STARVED, advice=_WORKERS, rival=True),
    ClassSpec(
        class_id="object_stream",
        state=State.STARVED,
        advice=("more_connections", *_READERS),
        rival=True,
        confirm_s=5.0,
    ),
    ClassSpec(
        class_id="single_thread", state=State.STARVED, advice=(*_WORKERS, "fewer_syncs"), rival=True, confirm_s=5.0
    ),
    ClassSpec(class_id="host_bound", state=State.SLOWED, advice=("fewer_syncs", "compile_model"), confirm_s=5.0),
    ClassSpec(
        class_id="gpu_memory", state=State.SLOWED, advice=("end_sharer", "ask_owner", "less_gpu_memory"), spins=True
    ),
    ClassSpec(
        class_id="gpu_bound",
        state=State.OK,
        advice=("larger_kernels", "gpu_limits"),
        leave=0.8 / 0.9,  # the finding begins at a utilisation of 90 %, and ends below 80 %
        covers=("healthy",),
    ),
    ClassSpec(class_id="healthy", state=State.OK),
    ClassSpec(
        class_id="failing_disk",
        state=State.FAILING,
        advice=("replace_disk", "check_cable", "cool_disk", "reach_device", "resume_device"),
        lasting=True,
        freezes_baseline=True,
        names_disk=True,
    ),
    ClassSpec(class_id="idle", state=State.CALM, advice=("run_as_root", "start_job"), keep_s=0.0),
    ClassSpec(class_id="unknown", state=State.UNSURE, advice=("run_as_root", "psi_on", "look_into")),
)

CLASS_SPECS: Mapping[str, ClassSpec] = {spec.class_id: spec for spec in _BY_PRECEDENCE}
"""The classes by id, in the order of precedence: the first active class determines the state. Two exceptions: a full
filesystem ranks after the causes of lost time if all jobs are known to read from other filesystems, and a finding that
costs no time now (``is_aside`` in diagnosis/engine.py) ranks after all others.
"""
PRECEDENCE = tuple(CLASS_SPECS)
RIVALS = frozenset(spec.class_id for spec in _BY_PRECEDENCE if spec.rival)
