"""Cures with their figures, as (template id, arguments). The sentences are in present/verdict/cures.py."""

from __future__ import annotations

import math

from iotop_ai.diagnosis.facts.block import DeviceFacts, base_of, latency_is_typical
from iotop_ai.diagnosis.facts.gather import Args, Facts
from iotop_ai.diagnosis.facts.job import JobFacts
from iotop_ai.diagnosis.facts.neighbours import core_use
from iotop_ai.diagnosis.facts.process import Group
from iotop_ai.diagnosis.memory.read_latency_baseline import baseline_ms
from iotop_ai.diagnosis.verdict.copy_target import copy_advice
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Advice

_MOST_LOST = 0.95
"""Above this share of lost time, too little was delivered to estimate the rate that the GPUs need."""
_ONE_READ_EACH = 0.25
"""If the device's queue differs from the number of blocked readers by at most this part of that number, each reader
waits for one read."""


def storage_advice(
    facts: Facts, device: DeviceFacts, lost: float, group: Group | None, job: JobFacts | None = None
) -> tuple[Advice, ...]:
    """The cures for a slow disk, the best first.

    lost: the share of time lost. group: the processes that wait for the disk; None if unknown. job: the job whose
    loaders the disk blocks; None if unknown.
    """
    out = []
    copy = facts.lazy.compute_once(f"copy {device.name}", lambda: copy_advice(facts, device))
    if copy is not None:
        out.append(copy)
    size = device.read_size_bytes
    if size is not None and size < facts.limits.small_read_bytes:
        out.append(Advice("pack_files", (("read_size_bytes", size),)))
    rate, slow = device.read_bytes_per_s, (device.inflation or 0.0) >= facts.limits.inflation_slow
    if rate and job is not None and _readers_limit_rate(facts, device, job):
        drawn: Args = (("device", device.name), ("rate", rate), ("readers", job.blocked_tasks))
        drawn += (("workers", float(job.workers)), ("await_ms", device.compared_await_ms))
        out.append(_more_in_flight(facts, device, job, drawn) if slow else Advice("drawn_rate", drawn))
    elif rate and facts.gpu.used and lost < _MOST_LOST:
        out.append(Advice("needed_rate", (("device", device.name), ("rate", rate), ("needed", rate / (1 - lost)))))
    if not device.serves_serially and not slow:
        out.append(Advice("more_reads_at_once", (("queue", float(group.alike_count) if group else None),)))
    if not out:
        out.append(Advice("faster_storage", (("device", device.name), ("rate", rate))))
    return tuple(out)


def _readers_limit_rate(facts: Facts, device: DeviceFacts, job: JobFacts) -> bool:
    """Whether a few blocked readers with one read each may limit the read rate, rather than the device.

    A device whose kind has a typical latency counts as the limit. Any other device counts as the limit only if it is
    known to answer far more slowly than it used to.
    """
    blocked, queue, limits = job.blocked_tasks, device.queue_size, facts.limits
    if not blocked or queue is None or abs(queue - blocked) > _ONE_READ_EACH * blocked or device.serves_serially:
        return False
    if latency_is_typical(base_of(device.info, facts.snapshot.disks.value or {})):
        return False
    before = baseline_ms(facts.carry.learned, device.info, device.read_size_bytes, limits)
    return before is None or (device.compared_await_ms or 0.0) < limits.inflation_slow * before


def _more_in_flight(facts: Facts, device: DeviceFacts, job: JobFacts, drawn: Args) -> Advice:
    """The advice to have more reads in flight, with more workers only if cores are idle for them.

    drawn: the device, and what its readers draw from it.
    """
    ranks = max(1, len(job.job.ranks))
    now = round(job.workers / ranks)
    others = {kind for kind, _ in OTHER_WORKERS}
    room = math.floor(((job_idle_cores(facts, job) or 0.0) + 1 - _IDLE_CORE) / ranks)
    then = min(_MOST_FOR_IO, now * 2, now + room)
    if then <= now or any(rank.worker_kind in others for rank in job.job.ranks):
        then = 0
    numbers = (("now", float(now)), ("then", float(then) or None), ("ranks", float(ranks)))
    return Advice("more_in_flight", (*drawn, ("source", facts.data_mount(device)), *numbers))


_IDLE_CORE = 0.95
"""At least this many idle cores count as a core for another worker, because the sentence rounds the figure to 1."""


class Cores(NamedTuple):
    """The cores that loaders can use.

    cores, idle: of the logical cores. physical: the cores without the second threads of a core, if these are fewer;
    else the same as ``cores``. most: the workers per rank that 80 % of ``physical`` allow. None when unknown.
    """

    cores: float | None
    idle: float | None
    physical: float | None
    most: int | None
    ranks: int
    workers_wait: bool
    """Whether workers wait for a core."""
    others: float | None = None
    """The part of the used cores that other programs use; None when unknown."""
    per: str = "rank"
    """What ``ranks`` counts: "rank", or "GPU" where no job is recognised."""


def _more_workers(now: int, cores: Cores) -> Advice | None:
    """The advice to use more workers; None if the cores are unknown, or if no core is free for one more.

    now: the number of workers per rank.
    """
    idle, most = cores.idle or 0.0, cores.most
    if most is None or cores.workers_wait or idle < _IDLE_CORE:
        return None
    room = math.floor((idle + 1 - _IDLE_CORE) / cores.ranks)
    then = min(most, now + room) if most > now else now + room
    if then <= now:
        return None
    numbers = (("now", float(now)), ("then", float(then)), ("cores", cores.physical), ("ranks", float(cores.ranks)))
    physical = () if cores.physical == cores.cores else (("physical", 1.0),)
    return Advice(
        "more_workers", (*numbers, *physical, ("per", cores.per), *(() if then == most else (("idle", idle),)))
    )


def _cheaper_transforms(facts: Facts, cores: Cores) -> Advice:
    """The advice to use cheaper transforms, with the figures that show why more workers do not help.

    Its argument ``gpu`` says whether the machine has a GPU that could decode.
    """
    numbers = (("cores", cores.cores), ("idle", cores.idle), ("ranks", float(cores.ranks)), ("others", cores.others))
    return Advice(
        "cheaper_transforms", (*numbers, ("gpu", float(facts.gpu.total > 0)), ("short", float(cores.workers_wait)))
    )


def _workers_for(facts: Facts, cores: float | None, ranks: int) -> tuple[float | None, int | None]:
    """The fields ``physical`` and ``most`` of ``Cores``. Two workers on the two threads of a core share that core."""
    if cores is None:
        return None, None
    physical = cores if facts.physical_cores is None else min(cores, float(facts.physical_cores))
    return physical, max(1, math.floor(physical * facts.limits.core_share / ranks))


def worker_advice(facts: Facts, workers: int) -> tuple[Advice, ...]:
    """The advice to use more workers if cores are idle, else cheaper transforms. workers: how many there are now."""
    ranks, cores = max(1, facts.gpu.used), None if facts.allowed_cores is None else float(facts.allowed_cores)
    usable = Cores(cores, facts.idle_cores, *_workers_for(facts, cores, ranks), ranks, False, per="GPU")
    now = max(0, round(workers / ranks))
    more = _more_workers(now, usable)
    if more is None:
        return (_cheaper_transforms(facts, usable),)
    return (more,) if now else (more, Advice("worker_options"))


_MOST_FOR_IO = 16
"""To have more reads in flight, up to this many loaders per rank are proposed: blocked loaders cost little CPU."""


def job_cores(facts: Facts, job: JobFacts) -> float | None:
    """The number of logical cores that the job can use, by its CPU set, quota and machine; None when unknown."""
    cpu, place = facts.snapshot.cpu.value, job.place
    online = len(cpu.cores) or None if cpu is not None else None
    # The monitor may be bound to fewer cores than the job.
    allowed = facts.allowed_cores if place.allowed_cores is None else place.allowed_cores
    known = [float(cores) for cores in (allowed, online, place.cpu_cores) if cores is not None]
    return min(known) if known else None


def job_idle_cores(facts: Facts, job: JobFacts) -> float | None:
    """The number of idle cores that the job's CPU set and quota allow it to use; None when unknown."""
    idle, used, quota = _idle_in_cpu_set(facts, job), _used_cores(job), job.place.cpu_cores
    return idle if idle is None or used is None or quota is None else min(idle, max(0.0, quota - used))


def _idle_in_cpu_set(facts: Facts, job: JobFacts) -> float | None:
    """The number of idle cores that the job's CPU set allows it to use; None when unknown."""
    numbers, used, allowed = _online_numbers(facts, job), _used_cores(job), job.place.allowed_cores
    idle = facts.idle_cores if numbers is None else facts.idle_among(numbers)
    return idle if idle is None or used is None or allowed is None else min(idle, max(0.0, allowed - used))


def _online_numbers(facts: Facts, job: JobFacts) -> tuple[int, ...] | None:
    """The numbers of the online cores in the job's CPU set; None when unknown.

    They are unknown, too, in a container that gives the cores other numbers than the kernel.
    """
    cpu, allowed = facts.snapshot.cpu.value, job.place.allowed_numbers
    if cpu is None or allowed is None:
        return None
    online, numbers = cpu.cores.keys(), set(allowed)
    # A CPU set may list cores that are offline.
    return tuple(sorted(online & numbers)) if numbers <= online or online <= numbers else None


def _used_cores(job: JobFacts) -> float | None:
    """The number of cores that the job uses; None when unknown."""
    return None if job.cpu_ratio is None else max(job.cpu_ratio, (job.worker_cpu or 0.0) * job.workers)


def _others_share(facts: Facts, job: JobFacts) -> float | None:
    """The part of the used cores that other programs use; None when unknown or if the job cannot use every core."""
    use, own = core_use(facts, job), _used_cores(job)
    if use is None or own is None or use.used <= 0:
        return None
    if any(cores is not None and cores < use.cores for cores in (job.place.allowed_cores, job.place.cpu_cores)):
        return None
    return max(0.0, 1 - own / use.used)


OTHER_WORKERS = (
    ("env", "faster_simulation"),
    ("ray", "ray_tasks"),
    ("prep", "more_processes"),
    ("pool", "more_processes"),
)
"""For each kind of worker that num_workers does not control: (kind, cure)."""


def job_worker_advice(facts: Facts, job: JobFacts, *, io: bool = False) -> tuple[Advice, ...]:
    """The advice to use more loaders per rank if that helps, else cheaper transforms.

    Threads, and workers that num_workers does not control (OTHER_WORKERS), have other cures.
    io: whether the loaders are blocked and do not compute, so that more loaders than cores make sense.
    """
    ranks = max(1, len(job.job.ranks))
    now = round(job.workers / ranks)
    cores = job_cores(facts, job)
    numbers = (("now", float(now)), ("cores", cores), ("ranks", float(ranks)))
    kinds = {rank.worker_kind for rank in job.job.ranks}
    template = next((cure for kind, cure in OTHER_WORKERS if kind in kinds), "")
    if template:
        return (Advice(template, numbers),)
    if not now and job.loads_off_main_thread:
        return (Advice("parallel_calls" if job.job.framework == "tensorflow" else "more_threads", numbers),)
    if io:
        then = max(2, min(_MOST_FOR_IO, now * 2))
        if then > now:
            return (Advice("more_readers", (*numbers, ("then", float(then)))),)
        return (Advice("more_reads_at_once", (("queue", None),)),)
    late_wait = job.late.cpu_wait if job.late is not None and job.late.workers else None
    workers_wait = max(job.worker_cpu_wait or 0.0, late_wait or 0.0) >= facts.limits.cores_short
    most = _workers_for(facts, cores, ranks)
    usable = Cores(cores, job_idle_cores(facts, job), *most, ranks, workers_wait, _others_share(facts, job))
    more = _more_workers(now, usable)
    if more is not None:
        return (more,) if now else (more, Advice("worker_options"))
    quota = job.place.cpu_cores
    idle = _idle_in_cpu_set(facts, job)
    quota_binds = quota is not None and (idle or 0.0) >= _IDLE_CORE > (usable.idle or 0.0)
    quota_advice = (Advice("raise_quota", (("quota", quota), ("idle", idle))),) if quota_binds else ()
    if not now:
        return (*quota_advice, Advice("one_worker", numbers), _cheaper_transforms(facts, usable))
    return (*quota_advice, _cheaper_transforms(facts, usable))
