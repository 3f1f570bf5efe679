"""Reads the environment of this process: limits, namespaces, memory, terminal, variables, and facts of the machine."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress

from iotop_ai.actions.kernel_switch import DROP_CACHES, Permission, permission_to
from iotop_ai.collectors.gpu.topology import DEVICES
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.job.cgroup_limits import cpu_quota
from iotop_ai.collectors.job.cgroup_paths import parse_cgroups, tightest_memory_limit, unified_folder
from iotop_ai.collectors.machine.cpu_clocks import CPUS
from iotop_ai.model.clean import clean
from iotop_ai.model.preflight.environment.host import HostFacts, Terminal
from iotop_ai.model.preflight.environment.python import release
from iotop_ai.store.format.secrets import variable_redacted

SHM = "/dev/shm"
LINKS = "sys/class/net"
COMPAT = "usr/local/cuda/compat"
"""The folder of the package cuda-compat: libraries of a newer driver that run on an older kernel driver. In NGC images,
they are in the subfolder lib.real."""
JUPYTER = ("JPY_PARENT_PID", "JPY_SESSION_NAME")
"""The variables that a notebook's kernel and server set for the processes that they start."""
FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The initial PID namespace (PROC_PID_INIT_INO). A container usually has a different namespace."""
LIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "memlock": resource.RLIMIT_MEMLOCK,
    "fsize": resource.RLIMIT_FSIZE,
    "as": resource.RLIMIT_AS,
    "data": resource.RLIMIT_DATA,
    "stack": resource.RLIMIT_STACK,
    "core": resource.RLIMIT_CORE,
}
VARIABLES = (
    "CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_MODULE_LOADING",
    "PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_JIT", "TORCHDYNAMO_DISABLE",
    "TORCH_COMPILE_DISABLE", "TORCH_DISTRIBUTED_DEBUG", "TORCH_USE_CUDA_DSA", "TORCH_CUDNN_V8_API_DISABLED",
    "NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_SOCKET_IFNAME",
    "NCCL_DEBUG_SUBSYS", "GLOO_SOCKET_IFNAME",
    "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "XLA_PYTHON_CLIENT_ALLOCATOR", "TF_CPP_VMODULE",
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_PROC_BIND",
    "KMP_AFFINITY", "GOMP_CPU_AFFINITY", "MKL_SERVICE_FORCE_INTEL", "KMP_DUPLICATE_LIB_OK",
    "PYTHONPATH", "PYTHONHOME", "PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONPROFILEIMPORTTIME",
    "PYTHONUNBUFFERED", "PYTHONNOUSERSITE", "LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_CHECK_", "MALLOC_PERTURB_",
    "HF_HUB_OFFLINE", "HF_DATASETS_IN_MEMORY_MAX_SIZE", "TOKENIZERS_PARALLELISM", "LANG", "LC_ALL",
    "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "TMUX", "TMPDIR",
)  # fmt: skip
"""The variables that are shown and compared. Of the other variables, only TERM is shown (``read_terminal``)."""


def read_host_facts(root: Root, *, check_permission: bool = True) -> HostFacts:
    """Return the facts about the host, as this process sees it.

    check_permission: whether to find out if the user can drop caches. That check may run sudo, without a prompt.
    """
    try:
        groups = parse_cgroups(root.read("proc/self/cgroup"))
    except OSError:
        groups = {}
    unified = unified_folder(root)
    memory = tightest_memory_limit(root, groups, unified)
    shm, free, why = read_shm(root)
    permission = permission_to(DROP_CACHES, root) if check_permission else Permission("")
    scaled_cpus = [name for name in root.names(CPUS) if root.exists(f"{CPUS}/{name}/cpufreq/scaling_governor")]
    return HostFacts(
        cores=len(os.sched_getaffinity(0)),
        machine_cores=os.cpu_count(),
        quota_cores=cpu_quota(root, groups, unified)[0],
        memory_limit_bytes=None if memory is None else memory.limit_bytes,
        memory_room_bytes=None if memory is None else memory.room_bytes,
        limits={name: resource.getrlimit(number) for name, number in LIMITS.items()},
        cgroup=cgroup_version(root, groups),
        own_pid_namespace=root.link("proc/self/ns/pid") not in ("", FIRST_PID_NAMESPACE),
        shm_bytes=shm,
        shm_free_bytes=free,
        shm_error=why,
        nvidia_cards=count_nvidia_cards(root),
        uvm=root.exists("dev/nvidia-uvm"),
        rdma=len(root.names("sys/class/infiniband")),
        governors=_distinct_contents(root, scaled_cpus, "scaling_governor"),
        frequency_driver=next(iter(_distinct_contents(root, scaled_cpus, "scaling_driver")), ""),
        energy_preferences=_distinct_contents(root, scaled_cpus, "energy_performance_preference"),
        clock_source=root.text_or("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        terminal=read_terminal(os.environ),
        variables={name: clean(variable_redacted(name, os.environ[name])) for name in VARIABLES if name in os.environ},
        drop_caches=permission.how,
        drop_caches_reason=permission.reason,
        drop_caches_remedy=permission.remedy,
        jupyter=any(name in os.environ for name in JUPYTER),
        links=read_links(root),
    )


def read_links(root: Root) -> tuple[tuple[str, str], ...] | None:
    """Return the name and state of each network interface; None if they cannot be seen."""
    names = [name for name in root.names(LINKS) if root.exists(f"{LINKS}/{name}/operstate")]
    return tuple((clean(name), root.text_or(f"{LINKS}/{name}/operstate")) for name in sorted(names)) or None


def read_shm(root: Root) -> tuple[int | None, int | None, str]:
    """Return the size of /dev/shm and its free space, in bytes, and the reason if they cannot be read.

    The first two are None if they cannot be read, or if the filesystem reports no size.
    """
    path = root.reachable_path(SHM)
    try:
        stats = call_with_timeout(HOME_TIMEOUT_S, path, lambda: os.statvfs(path))
    except OSError as error:
        return None, None, clean(error.strerror or str(error))
    if not stats.f_blocks:
        return None, None, ""
    return stats.f_blocks * stats.f_frsize, stats.f_bavail * stats.f_frsize, ""


def cgroup_version(root: Root, groups: Mapping[str, str]) -> str:
    """Return "v2", "v1" (for memory or I/O), "hybrid" (v1 for memory or I/O, beside v2), or "" for neither."""
    if root.exists("sys/fs/cgroup/cgroup.controllers"):
        return "v2"
    if "memory" in groups or "blkio" in groups:
        return "hybrid" if "" in groups else "v1"
    return ""


def count_nvidia_cards(root: Root) -> int:
    """Return the number of NVIDIA's display and 3D controllers on the PCI bus (class 0x03)."""
    return sum(
        root.text_or(f"{DEVICES}/{name}/vendor") == "0x10de"
        and root.text_or(f"{DEVICES}/{name}/class").startswith("0x03")
        for name in root.names(DEVICES)
    )


def read_compat_driver(root: Root) -> str:
    """Return the version of the driver libraries in COMPAT; "" without them.

    Source: https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html (the package cuda-compat, whose
    libcuda.so.VERSION names the version).
    """

    def names() -> list[str]:
        top = root.names(COMPAT)
        folders = [name for name in top if name.startswith("lib") and ".so" not in name]
        return [*top, *(name for folder in folders for name in root.names(f"{COMPAT}/{folder}"))]

    try:
        found = call_with_timeout(HOME_TIMEOUT_S, root.join(COMPAT), names)
    except OSError:
        return ""
    versions = [match[1] for name in found if (match := re.fullmatch(r"libcuda\.so\.(\d+\.[\d.]+)", name))]
    return max(versions, key=release, default="")


def read_terminal(environ: Mapping[str, str]) -> Terminal:
    """Return the facts about the terminal at standard output."""
    out = sys.stdout
    tty = out is not None and out.isatty()
    columns = rows = 0
    if tty:
        with suppress(OSError):  # the standard output that the live screen sets up has no descriptor
            columns, rows = os.get_terminal_size(out.fileno())
    return Terminal(
        clean(environ.get("TERM", ""), 64), (getattr(out, "encoding", "") or "").lower(), tty, columns, rows
    )


def _distinct_contents(root: Root, cpus: list[str], name: str) -> tuple[str, ...]:
    """Return the distinct contents of the cpufreq file ``name`` of these CPUs, sorted; missing files are skipped."""
    return tuple(sorted({text for cpu in cpus if (text := root.text_or(f"{CPUS}/{cpu}/cpufreq/{name}"))}))
