"""Finds the other programs that use a job's device or cores."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gather import Facts
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.process import TaskFacts
from iotop_ai.diagnosis.facts.window import share
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.job.batch_ids import job_ids
from iotop_ai.model.job.programs import is_python, script_name
from iotop_ai.model.preflight.storage import CHILD

RESYNC, PROCESS, CHECK, UNSEEN = "resync", "process", "check", "unseen"
_BOUND = 1.3
"""A group that moves more than this multiple of the traffic of all other programs on the device is left out, because it
then uses other devices too. So is a group that uses more than this multiple of all cores in use."""
_BUSY = 0.8
"""A device counts as busy at or above this busy ratio."""
_LEAST_PART = 0.1
"""A process counts in ``Neighbour.pids`` if it uses at least this part of what the largest process uses."""


class Neighbour(NamedTuple):
    """Another program, container or RAID check that uses the job's device or cores."""

    kind: str
    """RESYNC for an md array, PROCESS, CHECK for a storage check of this program, or UNSEEN for the processes of
    another user or container with unreadable I/O."""
    name: str
    """The name of the process or the check, or for an array "resync of md0"; "" for UNSEEN."""
    pid: int
    """The pid of one of the processes; 0 for an array and for UNSEEN."""
    process_count: int
    """The number of processes in ``pids``; 0 for UNSEEN, and 1 for an array or a storage check."""
    where: str
    """The systemd unit, batch job or container of the process; "" when unknown."""
    theirs: float
    """What all other programs use: bytes per second, or cores."""
    own: float
    """What the job uses, in the unit of ``theirs``."""
    pids: tuple[int, ...] = ()
    """The pids of the processes of that name and user, without those that use far less than the largest; () unless
    ``kind`` is PROCESS."""
    group: float = 0.0
    """The part of ``theirs`` that the processes of that name and user use; 0 unless ``kind`` is PROCESS."""

    @property
    def share(self) -> float:
        """The other programs' part of the traffic or of the CPU time, 0..1."""
        return self.theirs / (self.theirs + self.own)


def disk_neighbour(
    facts: Facts, job: JobFacts, device: DeviceFacts | None, *, idle_queue: bool = False
) -> Neighbour | None:
    """The other program that keeps the job's device busy; None if there is none, or when unknown.

    Apart from an array that checks or rebuilds itself, there is none if the job has most of the device's traffic, or if
    the device is not under pressure.

    idle_queue: whether the job's readers are blocked while few of their requests are in the device's queue.
    """
    if device is None or job.read_bytes_per_s is None:
        return None
    inside, helpers = _inside(facts, job)
    own = job.read_bytes_per_s + (job.write_bytes_per_s or 0.0) + sum(map(_bytes_per_s, helpers))
    is_active = facts.is_active("noisy_neighbour", job.subject)
    # The thresholds are lower while the finding is active.
    ease = facts.limits.leave_level if is_active else 1.0
    sync = _resync(facts, job, device, own)
    if sync is not None and sync.share >= ease * facts.limits.other_share:
        return sync
    total = _bytes_per_s(device)
    others = total - own
    if others <= 0 or others < ease * facts.limits.other_share * total or own * ease >= facts.limits.own_share * total:
        return None
    under_pressure = (
        share(device.above_normal) >= facts.limits.leave_share or (device.busy_ratio or 0.0) >= _BUSY or idle_queue
    )
    if not under_pressure:
        return None
    strangers = (task for task in facts.tasks if task.key.pid not in inside)
    needed = ease * facts.limits.other_share * total
    neighbour = _storage_check(facts, needed, _BOUND * others)
    if neighbour is None:
        neighbour = _largest_group(facts, ((t, _bytes_per_s(t)) for t in strangers), needed, _BOUND * others)
    if neighbour is not None:
        return neighbour._replace(theirs=others, own=own)
    table = facts.snapshot.processes.value
    hidden = table is None or bool(table.denied) or not table.complete or bool(facts.snapshot.host.container)
    if not hidden or others - _queued_before(facts, device) < needed:
        return None
    return Neighbour(UNSEEN, "", 0, 0, "", others, own)


def _queued_before(facts: Facts, device: DeviceFacts) -> float:
    """The upper limit of the device's bytes per second that were requested before the window began.

    The kernel counts a request for its process when it is queued, and for the device when it is done. Requests that
    are queued when the window begins are therefore only in the device's bytes. That queue may be twice as long as the
    mean queue, which the device serves in one await.
    """
    await_s = (device.read_await_ms or 0.0) / 1000
    return _bytes_per_s(device) * min(1.0, 2 * await_s / facts.window.seconds) if facts.window.seconds else 0.0


def _inside(facts: Facts, job: JobFacts) -> tuple[frozenset[int], list[TaskFacts]]:
    """The pids of the job's members and of all processes below them, and the tasks of those processes below.

    A process below a member, such as a decoder that a trainer starts, works for the job. In most jobs, all of them are
    members; then ``facts.tasks``, which covers every process, is not needed.
    """
    members = frozenset(key.pid for key in job.job.members)
    started = facts.process_tree.with_descendants(members) - members
    return members | started, [task for task in facts.tasks if task.key.pid in started] if started else []


def _bytes_per_s(task_or_device: TaskFacts | DeviceFacts) -> float:
    return (task_or_device.read_bytes_per_s or 0.0) + (task_or_device.write_bytes_per_s or 0.0)


def _storage_check(facts: Facts, needed: float, most: float) -> Neighbour | None:
    """The storage check of this program that moves ``needed`` to ``most`` bytes per second; None if there is none.

    It is searched for in the process table, because ``facts.tasks`` leaves out a check that the monitor itself started.
    A check starts several reading processes, one after the other. When such a process ends, the kernel adds its I/O to
    the check's I/O. The rate is therefore the mean since the check began.
    """
    table = facts.snapshot.processes.value
    if table is None:
        return None
    for key, info in table.info.items():
        if CHILD not in info.cmdline:
            continue
        parts = (table.io.get(facts.process_tree.keys[pid]) for pid in facts.process_tree.with_descendants((key.pid,)))
        moved = sum(io.read_bytes + io.write_bytes for io in parts if io is not None)
        age_s = key.age_s(facts.snapshot.at_ns, facts.snapshot.suspended_ns or 0, table.clk_tck)
        if needed <= moved / max(facts.window.seconds, age_s) <= most:
            return Neighbour(CHECK, "iotop-ai check", key.pid, 1, "", 0.0, 0.0)
    return None


def _resync(facts: Facts, job: JobFacts, device: DeviceFacts, own: float) -> Neighbour | None:
    """An md array below the job's files that is checking or rebuilding itself; None if there is none."""
    infos = facts.snapshot.disks.value or {}
    arrays = [device.info, *(infos[name] for name in (*device.info.slaves, *device.info.holders) if name in infos)]
    array = next((info for info in arrays if info.kind == "md" and info.md_sync), None)
    if array is None:
        return None
    members = {infos[name].parent or name for name in array.slaves if name in infos}
    disks = [d for d in facts.devices if d.name in members]
    # Every mirror counts the job's writes, but the job reads from one mirror only.
    written = sum(min(job.write_bytes_per_s or 0.0, d.write_bytes_per_s or 0.0) for d in disks)
    theirs = sum(map(_bytes_per_s, disks)) - (job.read_bytes_per_s or 0.0) - written
    return Neighbour(RESYNC, f"{array.md_sync} of {array.name}", 0, 1, "", theirs, own) if theirs > 0 else None


class CoreUse(NamedTuple):
    """The use of the machine's cores; every figure is in cores."""

    cores: int
    used: float
    own: float
    """The cores that the job uses."""

    @property
    def others(self) -> float:
        """The cores that other programs use."""
        return self.used - self.own


def core_use(facts: Facts, job: JobFacts) -> CoreUse | None:
    """The use of the machine's cores; None when unknown."""
    cpu = facts.snapshot.cpu.value
    if cpu is None or job.cpu_ratio is None or facts.cpu_busy_ratio is None:
        return None
    cores = len(cpu.cores) or cpu.allowed
    _, helpers = _inside(facts, job)
    own = job.cpu_ratio + sum(task.cpu_ratio or 0.0 for task in helpers)
    return CoreUse(cores, facts.cpu_busy_ratio * cores, own)


def core_neighbour(facts: Facts, job: JobFacts) -> Neighbour | None:
    """The other program that keeps the cores busy while the job's workers wait for a core; None if there is none.

    An exhausted CPU quota looks the same to the workers, but it is not a neighbour. None also for a job that cannot use
    every core: the other programs may run on the other cores.
    """
    waits, runs, limits = job.worker_cpu_wait, job.worker_cpu, facts.limits
    ease = limits.leave_level if facts.is_active("noisy_neighbour", job.subject) else 1.0
    use = core_use(facts, job)
    if waits is None or runs is None or not job.workers or use is None:
        return None
    quota, allowed = job.place.cpu_cores, job.place.allowed_cores
    if quota is not None and use.own >= quota * limits.worker_busy:
        return None
    if allowed is not None and allowed < use.cores:
        return None
    # Workers that compete only with each other wait about as long as they run, so they must wait ``crowded`` times as
    # long as they run. If there is a core for each worker, it is enough that the wait explains half of the lost time.
    wait_explains_loss = (
        job.workers <= use.cores and job.stall is not None and waits >= job.stall / 2 * (waits + runs) * ease
    )
    if waits < limits.cores_short * ease or (waits < limits.crowded * runs * ease and not wait_explains_loss):
        return None
    used, others = use.used, use.others
    if others <= 0 or others < ease * limits.own_share * used:
        return None
    inside, _ = _inside(facts, job)
    strangers = (task for task in facts.tasks if task.key.pid not in inside)
    neighbour = _largest_group(
        facts, ((t, t.cpu_ratio or 0.0) for t in strangers), ease * limits.other_share * used, _BOUND * used
    )
    return None if neighbour is None else neighbour._replace(theirs=others, own=use.own)


def _largest_group(
    facts: Facts, tasks: Iterable[tuple[TaskFacts, float]], needed: float, most: float
) -> Neighbour | None:
    """The largest group of processes of one name and user whose use is from ``needed`` to ``most``; or None."""
    groups: dict[tuple[str, int], list[tuple[float, int]]] = {}
    for task, use in tasks:
        if use > 0:
            groups.setdefault((task.name, task.uid), []).append((use, task.key.pid))
    fitting = {key: rows for key, rows in groups.items() if needed <= sum(row[0] for row in rows) <= most}
    if not fitting:
        return None
    key = max(fitting, key=lambda k: (sum(row[0] for row in fitting[k]), k))
    rows = fitting[key]
    used, pid = sum(row[0] for row in rows), max(rows)[1]
    table = facts.snapshot.processes.value
    process_key = facts.process_tree.keys.get(pid)
    info = None if table is None or process_key is None else table.info.get(process_key)
    where = "" if info is None else job_ids(info.cgroup).label
    # An interpreter is named by its script.
    name = key[0] if info is None or not is_python(info) else script_name(info)
    pids = tuple(sorted(row[1] for row in rows if row[0] >= _LEAST_PART * max(rows)[0]))
    return Neighbour(PROCESS, name, pid, len(pids), where, used, 0.0, pids, used)
