"""Checks of the container, the limits and the terminal, based on the facts of the host.

Sources of the thresholds: https://docs.pytorch.org/docs/stable/multiprocessing.html (a file descriptor for each shared
tensor, /dev/shm), https://docs.docker.com/reference/cli/docker/container/run/ (--shm-size is 64 MB by default),
https://github.com/openucx/ucx/pull/8085 (UCX does not use InfiniBand with less than 512 MB of locked memory).
"""

from __future__ import annotations

from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.host import INFINITE, HostFacts
from iotop_ai.present.text.units import GIB, MIB, amount, plural

SHM_FAIL_BYTES = 128 * MIB
"""With less free space than this, the check fails. A container has 64 MB by default. A batch of 64 images of 3x224x224
floats takes 37 MB, and each worker holds two batches.
"""
SHM_WARN_BYTES = GIB
FILES_FAIL, FILES_WARN, FILES_WANTED = 256, 1024, 65536
"""A limit of at most FILES_FAIL open files fails the check, and one of at most FILES_WARN gives a warning. The remedy
raises the limit to FILES_WANTED.
"""
PROCESSES_WARN = 2048
LOCKED_FAIL_BYTES = 512 * MIB
"""With RDMA, a lower limit fails the check, because UCX does not use InfiniBand then. The kernel's default is 8 MB."""
MEMORY_FAIL_BYTES, MEMORY_WARN_BYTES = GIB, 4 * GIB
"""With less memory than this left below the cgroup's limit, the check fails or gives a warning."""
OK, WARN, FAIL, UNKNOWN = State


def judge_host(facts: HostFacts, container: str) -> list[Check]:
    """Return the checks of container, limits and terminal. container: the kind of container; "" outside of one."""
    return [*_container(facts, container), *_limits(facts), _terminal(facts)]


def _container(facts: HostFacts, container: str) -> list[Check]:
    out = []
    if container or facts.own_pid_namespace:
        kind = container or "a PID namespace of its own"
        hidden = facts.own_pid_namespace
        pids = "processes of the host are not visible" if hidden else "processes of the host are visible"
        remedy = "start the container with --pid=host" if hidden else ""
        out.append(Check("container", "container", WARN if hidden else OK, f"{kind}: {pids}", remedy))
    out += [_shm(facts, container), _cpu(facts), _memory(facts)]
    if facts.cgroup:
        text = "v1 beside v2 (hybrid)" if facts.cgroup == "hybrid" else facts.cgroup
        out.append(Check("container", "cgroup", OK, f"cgroup {text}"))
    return out


def larger_shm(container: str) -> str:
    """Return the remedy that makes /dev/shm larger. An LXC container mounts it itself, so it can also remount it."""
    if container in ("", "lxc"):
        return "mount -o remount,size=50% /dev/shm"
    return "docker run --shm-size=8g, or --ipc=host"


def _shm(facts: HostFacts, container: str) -> Check:
    size = facts.shm_bytes
    if facts.shm_error:
        return Check("container", "shared memory", FAIL, f"/dev/shm: {facts.shm_error}: workers cannot pass batches",
                     "mount -t tmpfs -o size=50% tmpfs /dev/shm")  # fmt: skip
    if size is None:
        return Check("container", "shared memory", OK, "/dev/shm has no limit")
    free = "" if facts.shm_free_bytes is None else f", {amount(facts.shm_free_bytes)} free"
    text = f"/dev/shm has {amount(size)}{free}"
    usable_bytes = size if facts.shm_free_bytes is None else facts.shm_free_bytes
    state = FAIL if usable_bytes < SHM_FAIL_BYTES else WARN if usable_bytes < SHM_WARN_BYTES else OK
    if state is OK:
        return Check("container", "shared memory", OK, text)
    remedy = larger_shm(container) if size < SHM_WARN_BYTES else "ls -lhS /dev/shm | head"
    return Check("container", "shared memory", state, f"{text}: DataLoader workers end with a bus error", remedy)


def _cpu(facts: HostFacts) -> Check:
    cores, quota, machine = facts.cores, facts.quota_cores, facts.machine_cores
    if cores is None:
        return Check("container", "cores", UNKNOWN, "the number of cores is unknown")
    usable_cores = min(float(cores), quota) if quota is not None else float(cores)
    text = plural(cores, "core") + (f" of {machine}" if machine and machine != cores else "")
    if quota is not None and quota < cores:
        text += f", a quota of {quota:g}"
    if usable_cores < 2:
        remedy = "" if machine and machine < 2 else "raise the cgroup's cpu.max or widen the affinity"
        return Check("container", "cores", WARN, f"{text}: a trainer and its workers share it", remedy)
    return Check("container", "cores", OK, text)


def _memory(facts: HostFacts) -> Check:
    limit, room = facts.memory_limit_bytes, facts.memory_room_bytes
    if limit is None or room is None:
        return Check("container", "memory limit", OK, "no cgroup limit")
    text = f"{amount(limit)} for this cgroup, {amount(room)} left"
    if room < MEMORY_WARN_BYTES:
        state = FAIL if room < MEMORY_FAIL_BYTES else WARN
        why = ": a trainer that exceeds it is killed" if state is FAIL else ": the limit also applies to the page cache"
        return Check("container", "memory limit", state, text + why, "raise memory.max of the cgroup, docker run -m")
    return Check("container", "memory limit", OK, text)


def _limits(facts: HostFacts) -> list[Check]:
    out = []
    soft, hard = facts.limits.get("nofile", (INFINITE, INFINITE))
    if soft != INFINITE:
        state = FAIL if soft <= FILES_FAIL else WARN if soft <= FILES_WARN else OK
        text = f"{soft} open files"
        if state is not OK:
            text += ': each tensor from a worker may take one ("received 0 items of ancdata", "Too many open files")'
        out.append(Check("limits", "open files", state, text, "" if state is OK else _more_files(soft, hard)))
    for name, key, why in (
        ("file size", "fsize", "a larger checkpoint ends the trainer (SIGXFSZ)"),
        ("address space", "as", "CUDA reserves more than that, and fails"),
        ("data size", "data", "a larger allocation fails"),
    ):
        soft, _ = facts.limits.get(key, (INFINITE, INFINITE))
        if soft != INFINITE:
            out.append(Check("limits", name, FAIL, f"limited to {amount(soft)}: {why}", _ulimit(key)))
    soft, _ = facts.limits.get("nproc", (INFINITE, INFINITE))
    if soft != INFINITE:
        state = WARN if soft < PROCESSES_WARN else OK
        why = ": workers times threads exceed it (pthread_create fails)" if state is WARN else ""
        out.append(Check("limits", "processes", state, f"{soft} processes and threads of this user{why}",
                         "ulimit -u unlimited" if why else ""))  # fmt: skip
    soft, _ = facts.limits.get("memlock", (INFINITE, INFINITE))
    if facts.rdma and soft != INFINITE and soft < LOCKED_FAIL_BYTES:
        text = f"{amount(soft)} of locked memory: RDMA (InfiniBand) needs {amount(LOCKED_FAIL_BYTES)} for its buffers"
        out.append(Check("limits", "locked memory", FAIL, text, "ulimit -l unlimited, docker run --ulimit memlock=-1"))
    return out


def _more_files(soft: int, hard: int) -> str:
    """Return the remedy for too few open files. The hard limit is the most that a user can set without root."""
    if hard == INFINITE or hard > soft:
        return f"ulimit -n {FILES_WANTED if hard == INFINITE else min(hard, FILES_WANTED)}"
    return f"docker run --ulimit nofile={FILES_WANTED}, or as root: prlimit --nofile={FILES_WANTED} --pid $$"


def _ulimit(key: str) -> str:
    return f"ulimit -{ {'fsize': 'f', 'as': 'v', 'data': 'd'}[key] } unlimited"


def _terminal(facts: HostFacts) -> Check:
    terminal = facts.terminal
    if not terminal.tty:
        return Check("terminal", "terminal", OK, "standard output is not a terminal")
    size = f"{terminal.term}, {terminal.columns}x{terminal.rows}, {terminal.encoding}"
    if terminal.term in ("", "dumb", "unknown"):
        return Check("terminal", "terminal", FAIL, f"TERM is {terminal.term or 'not set'}: the screen cannot be drawn",
                     "export TERM=xterm-256color")  # fmt: skip
    if not terminal.encoding.startswith("utf"):
        return Check("terminal", "terminal", WARN, f"{size}: graphs are drawn in ASCII", "export LANG=C.UTF-8")
    if terminal.term == "screen" and "TMUX" in facts.variables:
        remedy = "tmux set -g default-terminal tmux-256color"
        return Check("terminal", "terminal", WARN, f"{size}: tmux offers 8 colours", remedy)
    if terminal.columns < 80 or terminal.rows < 24:
        return Check("terminal", "terminal", WARN, f"{size}: the screen needs 80x24 to show everything", "")
    return Check("terminal", "terminal", OK, size)
