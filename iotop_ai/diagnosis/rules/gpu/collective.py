"""Rules about GPUs of one job that wait for each other: all of them in a collective, or all for one late GPU.

A GPU that waits in a collective spins: it is busy all the time, but draws little power.
"""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.gpu_groups import (
    GpuGroup,
    OneGpu,
    gpu_groups,
    group_args,
    group_claim,
    known_evidence,
    max_if_all_known,
    metric,
    ratio,
)
from iotop_ai.diagnosis.facts.window import claim_level, mean
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.gpu.sharing import COMPUTE
from iotop_ai.model.job.records import Rank
from iotop_ai.model.process.records import ProcessKey

COMM_BASE = 0.8
COMM_BY_TENSOR = 0.9
COMM_UNCLEAR = 0.65
IMBALANCE_BASE = 0.7
IMBALANCE_BY_POWER = 0.85
"""The confidence of comm_wait and of imbalance, by the signals that agree."""
_MOST_LATE_SHARE = 0.5
"""At most this part of the GPUs can be late, because the majority sets the norm."""
_SHARED_PART = 0.9
"""If the loaders of the other ranks are blocked, or compute, for at least this part of the late rank's share of time,
all ranks wait for the same disk or cores.
"""
_NO_PARENT = (0, 1)
"""Parent pids that do not show that processes belong together: 0 (no parent) and 1 (init)."""


class _Comm(NamedTuple):
    """The signs that all GPUs of a job spin.

    power: the highest power of a GPU divided by its limit. tensor, sm: the mean activity of the tensor cores and of the
    SMs; None if unknown. stopped: whether no batch arrives. level: the level of the claim.
    link, link_busy: the busiest network link and the used share of its speed; if no speeds are known, the link with the
    most traffic; "" and None if neither is known. link_bytes: the bytes per second in the link's busier direction.
    before: the highest power divided by the limit while these processes computed; None if unknown, or if it is not
    clearly higher than now.
    """

    power: float
    tensor: float | None
    sm: float | None
    stopped: bool
    link: str
    link_busy: float | None
    link_bytes: float | None
    level: float
    before: float | None


def _network(group: GpuGroup) -> tuple[str, float | None, float | None]:
    """The busiest network link over the window, the used share of its speed, and its bytes per second, as in _Comm."""
    busy: dict[str, list[float]] = {}
    bytes_per_s: dict[str, list[float]] = {}
    for sample in group.window.samples:
        for name, rates in (sample.network.value or {}).items():
            if rates.busy_ratio is not None:
                busy.setdefault(name, []).append(rates.busy_ratio)
            if rates.rx_bytes_per_s is not None and rates.tx_bytes_per_s is not None:
                bytes_per_s.setdefault(name, []).append(max(rates.rx_bytes_per_s, rates.tx_bytes_per_s))
    shares = {name: sum(values) / len(values) for name, values in busy.items()}
    rates_of = {name: sum(values) / len(values) for name, values in bytes_per_s.items()}
    candidates = shares or {name: value for name, value in rates_of.items() if value > 0}
    name = max(candidates, key=lambda n: (candidates[n], n), default="")
    return name, shares.get(name), rates_of.get(name)


def _batch_calls(facts: Facts, group: GpuGroup) -> float | None:
    """Write calls of the job's loaders per second; None when unknown or without loaders.

    A loader writes to its queue for every batch, so the write calls of all loaders show how many batches arrive.
    """
    job = group.job
    processes = facts.snapshot.processes.value
    if job is None or not job.workers or processes is None or any(key in processes.denied for key in job.job.workers):
        return None
    totals = []
    for sample in group.window.samples:
        if sample.processes.value is not None and sample.processes.renewed and sample.processes.seconds:
            rates = sample.processes.value.rates
            totals.append(sum(rates[key].write_calls_per_s or 0.0 for key in job.job.workers if key in rates))
    return mean(totals)


def _loaders_rest(group: GpuGroup, limits: Thresholds) -> bool:
    """Whether the loaders are idle; False when unknown."""
    return group.job is not None and (group.job.worker_idle or 0.0) >= limits.workers_rest


def _used_by_unrelated_programs(facts: Facts, group: GpuGroup) -> bool:
    """Whether unrelated programs use the GPUs; if the processes are hidden, whether there are several jobs.

    Ranks of an unrecognised job have the same name or the same parent. Init does not count as a common parent.
    """
    if group.job is not None:
        return False
    pids = {p.pid for gpu in group.gpus for p in gpu.state.processes or () if p.kind == COMPUTE and p.found}
    table = facts.snapshot.processes.value
    if not pids or table is None:
        return len(facts.jobs) > 1
    keys = [key for pid in pids if (key := facts.process_tree.keys.get(pid)) is not None]
    names = {table.info[key].name for key in keys if key in table.info}
    parents = {table.stat[key].ppid for key in keys}
    return len(names) > 1 and (len(parents) > 1 or not parents.isdisjoint(_NO_PARENT))


def _comm_signs(facts: Facts, group: GpuGroup) -> _Comm | None:
    """The signs that all GPUs of the group spin; None if they do not spin, or when unknown."""
    limits = facts.limits
    if (
        len(group.gpus) < 2
        or not group.settled
        or not group.window.samples
        or _used_by_unrelated_programs(facts, group)
    ):
        return None
    if any(gpu.busy is None or gpu.busy < limits.gpu_bound for gpu in group.gpus):
        return None
    # The highest power is compared: a GPU that draws much more than the others computes while they wait for it.
    power = max_if_all_known(gpu.power_ratio for gpu in group.gpus)
    sm = mean(gpu.mean("sm_ratio") for gpu in group.gpus)
    if power is None or (sm is not None and sm >= limits.sm_idle):
        return None
    tensor = mean(gpu.mean("tensor_ratio") for gpu in group.gpus)
    calls, rests = _batch_calls(facts, group), _loaders_rest(group, limits)
    stopped = rests and calls is not None and calls < limits.batch_writes
    quiet = tensor is not None and tensor < limits.tensor_none
    sure = stopped or quiet
    most = limits.spin_power_sure if sure else limits.spin_power
    level = claim_level(power, most, most * limits.spin_leave, limits.leave_level)
    peaks = [memory.peak for g in group.gpus if (memory := facts.carry.gpus.get(g.state.uuid)) is not None]
    before = mean(peaks) if len(peaks) == len(group.gpus) else None
    fallen = 0.0
    if before is not None and before >= limits.power_share:
        fallen = claim_level(power / before, limits.spin_fallen, limits.spin_fallen_leave, limits.leave_level)
    link, link_busy, link_bytes = _network(group)
    spins = quiet or fallen >= limits.leave_level or (link_busy or 0.0) >= limits.network_full
    if not rests and calls is not None and calls >= limits.batch_writes and not spins:
        return None  # Batches arrive, so the job computes a little at a time.
    before = before if fallen >= 1 else None
    # The level is at most 1: a power far below the limit does not make the finding surer.
    return _Comm(power, tensor, sm, stopped, link, link_busy, link_bytes, min(1.0, max(level, fallen)), before)


def gpus_wait_for_each_other(facts: Facts) -> tuple[Claim, ...]:
    """All GPUs of a job are always busy and draw little power.

    Claim: comm_wait: they spin in a collective. The ranks wait for a late rank (on another machine, or hung), or for
        the network between them.
    Evidence: utilisation, power, tensor and SM activity (GPM) of each GPU; NVLink and network traffic; the loaders'
        write calls, which count the batches.
    Threshold: over 20 s at least 2 GPUs, each >= 90 % busy and below 25 % of its power limit. 40 % of the limit is
        enough where the tensor cores rest (< 2 %), or where the loaders rest >= 80 % and hand no batch over. Power
        below 40 % of the highest power of the same processes counts too (until > 60 %). GPUs with SM activity >= 50 %
        do not count, nor does low power alone while busy loaders hand batches over. A network link >= 80 % full is
        named as the cause. An H100 that spins draws about 14 %.
    Blind spot: tiny kernels look the same if there is no GPM, the job has no loaders and it was never seen computing:
        then at most 65 % sure. GPUs of several jobs whose processes are hidden are not judged.
    """
    return tuple(
        group_claim(group, _comm_finding(facts, group, comm), comm.level)
        for group in gpu_groups(facts, facts.limits.comm_window_s)
        if (comm := _comm_signs(facts, group)) is not None and comm.level >= facts.limits.leave_level
    )


def _comm_finding(facts: Facts, group: GpuGroup, comm: _Comm) -> Finding:
    limits = facts.limits
    quiet = comm.tensor is not None and comm.tensor < limits.tensor_none
    crowded = comm.link_busy is not None and comm.link_busy >= limits.network_full
    nvlink = [gpu.mean("nvlink_rx_bytes_per_s") for gpu in group.gpus]
    details = [gpu.detail for gpu in group.gpus if gpu.detail is not None]
    down = sum((d.nvlinks or 0) - (d.nvlinks_active or 0) for d in details if d.nvlinks_active)
    sure = quiet or comm.stopped or crowded or comm.before is not None
    lost = 1.0 if comm.stopped else None if comm.before is None else max(0.0, 1 - comm.power / comm.before)
    args: Args = (
        *group_args(facts, group, group.gpus),
        ("busy", mean(gpu.busy for gpu in group.gpus)),
        ("watts", mean(gpu.watts for gpu in group.gpus)),
        ("limit", mean(gpu.mean("power_limit_watts") for gpu in group.gpus)),
        ("power", comm.power),
        ("tensor", comm.tensor),
        ("stopped", float(comm.stopped)),
        ("sure", float(sure)),
        ("before", comm.before),
        ("link", comm.link),
        ("link_busy", comm.link_busy),
        ("link_bytes_per_s", comm.link_bytes),
        ("crowded", float(crowded)),
        ("nvlink", mean(nvlink)),
        ("nvlinks_down", float(down)),
        ("pid", None if group.job is None else float(group.job.job.ranks[0].key.pid)),
        ("lost", lost),
    )
    power_limit = limits.spin_power_sure if comm.stopped or quiet else limits.spin_power
    evidence = [
        Evidence("gpus.busy_ratio", mean(gpu.busy for gpu in group.gpus), "ratio", limits.gpu_bound),
        Evidence("gpus.power_ratio", comm.power, "ratio", power_limit),
    ]
    if comm.before is not None:
        share = comm.power / comm.before
        evidence.append(Evidence("gpus.power_of_most_ratio", share, "ratio", limits.spin_fallen))
    if comm.tensor is not None:
        evidence.append(Evidence("gpus.tensor_ratio", comm.tensor, "ratio", limits.tensor_none))
    if comm.sm is not None:
        evidence.append(Evidence("gpus.sm_ratio", comm.sm, "ratio", limits.sm_idle))
    if mean(nvlink) is not None:
        evidence.append(Evidence("gpus.nvlink_rx_bytes_per_s", mean(nvlink), "B/s"))
    if comm.link:
        evidence.append(Evidence(f"network.{comm.link}.busy_ratio", comm.link_busy, "ratio", limits.network_full))
        evidence.append(Evidence(f"network.{comm.link}.bytes_per_s", comm.link_bytes, "B/s"))
    if group.job is not None and group.job.worker_idle is not None:
        name = f"jobs.{group.job.subject}.worker_idle_ratio"
        evidence.append(Evidence(name, group.job.worker_idle, "ratio", limits.workers_rest))
    base = COMM_BY_TENSOR if quiet else COMM_BASE if sure else COMM_UNCLEAR
    template = "wider_network" if crowded else "ask_peers"
    return Finding(
        "comm_wait",
        Severity.CRITICAL if comm.stopped else Severity.WARNING,
        confidence(base, 2 + sure),
        group.subject,
        args,
        known_evidence(evidence),
        advice=(Advice(template, args),),
        lost_ratio=lost,
    )


class _Late(NamedTuple):
    """One GPU that differs from the others.

    how: "spins" if the others spin, "less" if this GPU has less to do, "" if unknown. others_wait: whether the others
    wait for this GPU. lost: the share of time that the others lose.
    """

    gpu: OneGpu
    others: tuple[OneGpu, ...]
    level: float
    how: str
    others_wait: bool
    lost: float | None


def _late_gpu(group: GpuGroup, limits: Thresholds) -> _Late | None:
    """The GPU that differs most from its peers; its level is low if all are alike.

    None without a job or for a young job, if all are alike but not all are busy, or if too little is known.
    """
    known = [gpu for gpu in group.gpus if gpu.busy is not None]
    if len(known) < 2 or len(known) < len(group.gpus) or not group.settled:
        return None
    if group.job is None:
        # GPUs of unrelated programs may differ.
        return None
    by_busy = sorted(known, key=lambda gpu: (gpu.busy or 0.0, gpu.state.number))
    late, others = by_busy[0], tuple(by_busy[1:])
    most = max(gpu.busy or 0.0 for gpu in others)
    level = claim_level(most - (late.busy or 0.0), limits.spread, limits.spread_leave, limits.leave_level)
    if level >= limits.leave_level:
        return _less_busy(known, late, others, most, level, limits)
    if min(gpu.busy or 0.0 for gpu in known) < limits.gpu_bound or any(not gpu.watts for gpu in known):
        return None
    late = max(known, key=lambda gpu: (gpu.watts or 0.0, -gpu.state.number))
    others = tuple(gpu for gpu in known if gpu is not late)
    # The highest power of the others is compared: if several GPUs draw much, several compute.
    share = ratio(max(gpu.watts or 0.0 for gpu in others), late.watts)
    level = claim_level(share, limits.peer_power, limits.peer_power_leave, limits.leave_level)
    return _Late(late, others, level, "spins", True, None if share is None else max(0.0, 1 - share))


def _less_busy(
    known: list[OneGpu], late: OneGpu, others: tuple[OneGpu, ...], most: float, level: float, limits: Thresholds
) -> _Late:
    """A GPU that is less busy than the others: either they spin while they wait for it, or it has less to compute."""
    watts, peer_watts = late.watts, mean(gpu.watts for gpu in others)
    peer_busy = mean(gpu.busy for gpu in others) or 0.0
    how = ""
    if watts is not None and peer_watts is not None:
        # Power is proportional to computing: peers that are busier but do not draw more only spin.
        how = "spins" if peer_watts * (late.busy or 0.0) < limits.peer_power * watts * peer_busy else "less"
    late_count = sum(most - (gpu.busy or 0.0) >= limits.spread for gpu in known)
    others_wait = how != "less" and most >= limits.gpu_bound and late_count <= max(1, _MOST_LATE_SHARE * len(known))
    return _Late(late, others, level, how, others_wait, max(0.0, 1 - (late.busy or 0.0)) if others_wait else None)


def one_gpu_is_late(facts: Facts) -> tuple[Claim, ...]:
    """One GPU of a job differs from the others, which wait for it.

    Claim: imbalance: every step lasts as long as the step of that GPU's rank.
    Evidence: utilisation and power of the job's GPUs; loaders and clock of that rank against the others'. A GPU that a
        rank has not used for 60 s, while it used another one, does not count.
    Threshold: over 60 s one GPU is >= 25 points less utilised than the busiest (until < 15), which is >= 90 % busy. Or
        all are equally busy while the others draw < 60 % of the late GPU's power (until > 75 %): they spin in a
        collective. Where the others idle as well, or compute all the time, the finding is shown beside the verdict. It
        is not claimed where the loaders of the other ranks are blocked, or compute, for at least 90 % of the late
        rank's share of time, and neither its clock nor its power differs: all ranks then wait for the same disk or
        cores, and one of them is always the last.
    Blind spot: ranks on other machines; GPUs without a known job. Stages of a pipeline are unequal by design.
    """
    claims = []
    for group in gpu_groups(facts, facts.limits.long_window_s):
        late = _late_gpu(group, facts.limits)
        if late is None or late.level < facts.limits.leave_level:
            continue
        cause = _cause_of(facts, group, late)
        if not cause.shared:
            claims.append(group_claim(group, _imbalance_finding(facts, group, late, cause), late.level))
    return tuple(claims)


def _rank_of(group: GpuGroup, gpu: OneGpu) -> Rank | None:
    """The rank of the job that uses this GPU; None when unknown."""
    ranks = group.job.job.ranks if group.job is not None else ()
    return next((rank for rank in ranks if gpu.state.uuid in rank.gpus), None)


def _loaders(group: GpuGroup, workers: Iterable[ProcessKey]) -> tuple[float | None, float | None]:
    """(share of time blocked, share computing or waiting for a core) of these loaders; None when unknown."""
    workers = tuple(workers)
    rates = [
        task
        for sample in group.window.samples
        if sample.jobs.value is not None
        for key in workers
        if (task := sample.jobs.value.tasks.get(key)) is not None
    ]
    cpu_shares = (None if t.cpu_ratio is None else t.cpu_ratio + (t.cpu_wait_ratio or 0.0) for t in rates)
    return mean(task.disk_ratio for task in rates), mean(cpu_shares)


def _busy_threshold(busy: float | None, limits: Thresholds) -> float | None:
    """The lowest utilisation at which the other GPUs are clearly busier than this GPU."""
    return None if busy is None else min(1.0, busy + limits.spread)


class _LateCause(NamedTuple):
    """Why the rank of a GPU is late.

    rank: None when unknown. blocked, computes: shares of time of the rank's loaders; None when unknown. why: "blocked"
    or "computes" for what its loaders do, "clock" for a lower clock, "longer" for longer steps, "" when unknown. share:
    the share of time for which its loaders do that; None for other causes. mhz, peer_mhz: the clock of the GPU, and the
    mean clock of the others. shared: whether the loaders of the other ranks do the same for nearly as much of the time,
    and nothing else makes this rank late.
    """

    rank: Rank | None
    blocked: float | None
    computes: float | None
    why: str
    share: float | None
    mhz: float | None
    peer_mhz: float | None
    shared: bool = False


def _cause_of(facts: Facts, group: GpuGroup, late: _Late) -> _LateCause:
    limits, gpu = facts.limits, late.gpu
    rank = _rank_of(group, gpu)
    blocked, computes = _loaders(group, () if rank is None else rank.workers)
    ranks = () if group.job is None else group.job.job.ranks
    others = _loaders(group, (key for other in ranks if other is not rank for key in other.workers))
    mhz, peer_mhz = gpu.mean("sm_mhz"), mean(other.mean("sm_mhz") for other in late.others)
    shares = (("blocked", blocked, limits.blocked, others[0]), ("computes", computes, limits.worker_busy, others[1]))
    shared = False
    for why, share, least, their_share in shares:
        if share is not None and share >= least:
            if their_share is None or their_share < max(least, _SHARED_PART * share):
                return _LateCause(rank, blocked, computes, why, share, mhz, peer_mhz)
            shared = True
    why = ""
    if (ratio(mhz, peer_mhz) or 1.0) < limits.clock_low:
        why = "clock"
    elif late.how == "spins" and (gpu.busy or 0.0) >= limits.gpu_bound:
        why = "longer"
    return _LateCause(rank, blocked, computes, why, None, mhz, peer_mhz, shared and not why)


def _imbalance_finding(facts: Facts, group: GpuGroup, late: _Late, cause: _LateCause) -> Finding:
    limits, gpu, rank, why = facts.limits, late.gpu, cause.rank, cause.why
    peer_watts = mean(other.watts for other in late.others)
    # Peers that draw less power than ``spin_watts`` only spin; the limit grows with their utilisation.
    spin_watts = limits.peer_power * (gpu.watts or 0.0)
    if why != "longer" and gpu.busy:
        spin_watts *= (mean(other.busy for other in late.others) or 0.0) / gpu.busy
    busy, peers = gpu.busy, mean(other.busy for other in late.others)
    args: Args = (
        *group_args(facts, group, (gpu,)),
        ("late", f"GPU {gpu.state.number}"),
        ("maker", "" if gpu.state.is_nvidia else gpu.state.uuid.partition("-")[0]),
        ("pid", None if rank is None else float(rank.key.pid)),
        ("busy", busy),
        ("peers", peers),
        ("watts", gpu.watts),
        ("peer_watts", peer_watts),
        ("others", float(len(late.others))),
        ("how", late.how),
        ("why", why),
        ("share", cause.share),
        ("mhz", cause.mhz),
        ("peer_mhz", cause.peer_mhz),
        ("lost", late.lost),
    )
    evidence = (
        Evidence(metric(gpu, "busy_ratio"), busy, "ratio"),
        Evidence("gpus.others.busy_ratio", peers, "ratio", None if why == "longer" else _busy_threshold(busy, limits)),
        Evidence(metric(gpu, "power_watts"), gpu.watts, "W"),
        Evidence("gpus.others.power_watts", peer_watts, "W", spin_watts if late.how == "spins" else None),
        Evidence(metric(gpu, "loaders_blocked_ratio"), cause.blocked, "ratio", limits.blocked),
        Evidence(metric(gpu, "loaders_cpu_ratio"), cause.computes, "ratio", limits.worker_busy),
    )
    return Finding(
        "imbalance",
        Severity.WARNING if late.others_wait else Severity.INFO,
        confidence(IMBALANCE_BY_POWER if late.how == "spins" else IMBALANCE_BASE, 3),
        group.subject,
        args,
        known_evidence(evidence),
        advice=(Advice("help_late", args),),
        lost_ratio=late.lost,
    )
