"""Rules about GPUs that are slowed by their link or limited by their memory."""

from __future__ import annotations

from operator import itemgetter

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.gpu_groups import (
    GpuGroup,
    OneGpu,
    gpu_groups,
    group_args,
    group_claim,
    known_evidence,
    metric,
    ratio,
)
from iotop_ai.diagnosis.facts.job_gpus import pids_of
from iotop_ai.diagnosis.facts.window import claim_level, mean
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.gpu.activity import link_bytes_per_s
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.sharing import COMPUTE, processes_of_others
from iotop_ai.model.gpu.state import GpuRates

LINK_BASE = 0.85
LINK_UNKNOWN = 0.6
MEMORY_BASE = 0.9
"""The confidence of pcie (LINK_UNKNOWN: the upper limit if the link's rate is unknown) and of gpu_memory."""
_LINK = itemgetter(*map(GpuRates._fields.index, ("pcie_generation", "pcie_width")))
"""A getter for a GPU's PCIe generation and PCIe width."""


class _Link:
    """The faults of one GPU's PCIe link.

    level: the level of the worst fault. costs_time: whether the fault costs time. why: "full", "narrow", "slow" or
    "replays". rate: the bytes per second in the busier direction. possible: the bytes per second that the link can
    carry in one direction. Both are None when unknown. most_generation, most_width: the limits of the link.
    """

    def __init__(self, facts: Facts, gpu: OneGpu) -> None:
        limits = facts.limits
        self.gpu = gpu
        self.most_generation, self.most_width = _link_limits(gpu)
        narrow, slow, best = _link_shortfall(gpu, self.most_generation or 0, self.most_width or 0, limits)
        self.replays = gpu.mean("pcie_replays_per_s")
        self.received, self.sent = _link_rates(gpu, limits)
        known = [rate for rate in (self.received, self.sent) if rate is not None]
        self.rate = max(known, default=None)
        # An idle link lowers its generation to save power, so the best generation in the window carried the bytes.
        self.possible = link_bytes_per_s(*best, limits.link_bytes_per_s)
        self.full_ratio = ratio(self.rate, self.possible)
        at_leave = limits.leave_level
        levels = (
            narrow / limits.enter_share,
            slow / limits.enter_share,
            (self.replays or 0.0) / limits.replays_per_s,
            claim_level(self.full_ratio, limits.link_full, limits.link_full_leave, at_leave),
        )
        self.level = max(levels)
        self.degraded = max(levels[:2]) >= at_leave
        self.is_full = levels[3] >= at_leave
        # A link that was just idle may have a lower generation in one reading, so the shares of readings decide.
        fault = "narrow" if levels[0] >= at_leave else "slow" if levels[1] >= at_leave else "replays"
        self.why = "full" if self.is_full else fault
        self.costs_time = (
            self.is_full
            or (self.degraded and (self.full_ratio or 0.0) >= limits.link_felt)
            or (self.replays or 0.0) >= limits.replays_felt
        )


def _link_limits(gpu: OneGpu) -> tuple[int | None, int | None]:
    """The highest generation and the most lanes that board and slot can do; None if those of the board are unknown.

    The limits in the state of an AMD or Intel GPU are those of the board alone.
    """
    state, detail = gpu.state, gpu.detail or GpuDetail(gpu.state.uuid)
    return (
        _limit(state.pcie_max_generation, detail.slot_max_generation),
        _limit(state.pcie_max_width, detail.slot_max_width),
    )


def _limit(of_board: int | None, of_slot: int | None) -> int | None:
    return of_board if of_board is None or of_slot is None else min(of_board, of_slot)


def _link_shortfall(
    gpu: OneGpu, most_generation: int, most_width: int, limits: Thresholds
) -> tuple[float, float, tuple[int, int]]:
    """The shares of the readings under load in which the link is below what the board and the slot can do.

    Returns the share with fewer lanes, the share with a lower generation, and the best (generation, width) of all
    readings.
    """
    links = _known_links(gpu)
    best = max(links, default=(0, 0))
    if links <= {(most_generation, most_width)}:
        return 0.0, 0.0, best
    known = [rates for rates in gpu.rates if _LINK(rates) in links]
    computing = [_LINK(rates) for rates in known if _computes(rates, limits)]
    loaded = [_LINK(rates) for rates in known if _is_loaded(rates, limits)]
    narrow = sum([width < most_width for _, width in loaded]) / len(loaded) if loaded else 0.0
    slow = sum([generation < most_generation for generation, _ in computing]) / len(computing) if computing else 0.0
    return narrow, slow, best


def _known_links(gpu: OneGpu) -> set[tuple[int, int]]:
    """Each (generation, width) of the readings."""
    return {link for link in set(map(_LINK, gpu.rates)) if None not in link}


def _link_rates(gpu: OneGpu, limits: Thresholds) -> tuple[float | None, float | None]:
    """The mean rates over the link: (received, sent).

    The rates are read less often than the generation. A link that just lowered its generation to save power still shows
    the rates of the higher one; such readings, whose rates the link cannot carry, are left out.
    """
    plausible = [rates for rates in gpu.rates if (_link_use(rates, limits) or 0.0) <= limits.link_most]
    received = mean(rates.pcie_rx_bytes_per_s for rates in plausible)
    return received, mean(rates.pcie_tx_bytes_per_s for rates in plausible)


def _computes(rates: GpuRates, limits: Thresholds) -> bool:
    return (rates.busy_ratio or 0.0) >= limits.gpu_loaded


def _is_loaded(rates: GpuRates, limits: Thresholds) -> bool:
    """Whether the GPU computes, or its link carries so much that it uses all its lanes."""
    return _computes(rates, limits) or limits.link_felt <= (_link_use(rates, limits) or 0.0) <= limits.link_most


def _link_use(rates: GpuRates, limits: Thresholds) -> float | None:
    """The larger rate over the link as a share of what it can carry one way; None if its width or generation is
    unknown.
    """
    possible = link_bytes_per_s(rates.pcie_generation, rates.pcie_width, limits.link_bytes_per_s)
    return ratio(max(rates.pcie_rx_bytes_per_s or 0.0, rates.pcie_tx_bytes_per_s or 0.0), possible)


def gpu_link_is_full_or_degraded(facts: Facts) -> tuple[Claim, ...]:
    """A GPU's PCIe link is full, or slower than it should be.

    Claim: pcie: data reaches the GPU more slowly than it could.
    Evidence: bytes over the link against what its generation and width can carry; generation and width under load
        against what board and slot can do; retransmitted packets.
    Threshold: over 30 s the link carries >= 80 % of its practical rate (until < 65 %; x16 carries about 12, 25, 50 GB/s
        in generations 3, 4, 5); its generation is below the maximum in >= 70 % of the readings with the GPU >= 20 %
        busy, or its width in >= 70 % of these and of those with the link at >= 50 % of its rate; or it retransmits >= 1
        packet a second. A degraded link that carries < 50 % of its rate and retransmits < 1,000 packets a second is
        shown beside the verdict.
    Blind spot: a slot with fewer lanes by design counts as full width. A virtual machine may report a link that does
        not exist.
    """
    limits, out = facts.limits, []
    for group in gpu_groups(facts, limits.gpu_window_s):
        links = [link for gpu in group.gpus if (link := _Link(facts, gpu)).level >= limits.leave_level]
        if not links or not group.settled:
            continue
        worst = max(links, key=lambda link: (link.costs_time, link.level, -link.gpu.state.number))
        out.append(group_claim(group, _link_finding(facts, group, links, worst), worst.level))
    return tuple(out)


def _link_finding(facts: Facts, group: GpuGroup, links: list[_Link], worst: _Link) -> Finding:
    limits, gpu = facts.limits, worst.gpu
    affected = [link.gpu for link in links if link.costs_time == worst.costs_time]
    # A link whose rate is unknown may be the cause, unless waits for data explain the loss.
    unknown = worst.degraded and worst.rate is None and (group.job is None or (group.job.stall or 0.0) < limits.gate)
    # An idle link has a lower generation, so only readings under load are compared.
    loaded = (rates for rates in reversed(gpu.rates) if _is_loaded(rates, limits))
    last = next((rates for rates in loaded if rates.pcie_generation is not None), gpu.rates[-1])
    args: Args = (
        *group_args(facts, group, affected),
        ("worst", f"GPU {gpu.state.number}"),
        ("why", worst.why),
        ("degraded", float(worst.degraded)),
        ("generation", None if last.pcie_generation is None else float(last.pcie_generation)),
        ("width", None if last.pcie_width is None else float(last.pcie_width)),
        ("generation_max", None if worst.most_generation is None else float(worst.most_generation)),
        ("width_max", None if worst.most_width is None else float(worst.most_width)),
        ("rate", worst.rate),
        ("possible", worst.possible),
        ("received", float((worst.received or 0.0) >= (worst.sent or 0.0))),
        ("replays", worst.replays),
        ("felt", float(worst.costs_time)),
    )
    evidence = [Evidence(metric(gpu, "pcie_full_ratio"), worst.full_ratio, "ratio", limits.link_full)]
    evidence.append(Evidence(metric(gpu, "pcie_rx_bytes_per_s"), worst.received, "B/s", worst.possible))
    evidence.append(Evidence(metric(gpu, "pcie_tx_bytes_per_s"), worst.sent, "B/s", worst.possible))
    for field, most in (("pcie_width", worst.most_width), ("pcie_generation", worst.most_generation)):
        value = getattr(last, field)
        evidence.append(Evidence(metric(gpu, field), value, "count", most))
    evidence.append(Evidence(metric(gpu, "pcie_replays_per_s"), worst.replays, "1/s", limits.replays_per_s))
    advice: tuple[Advice, ...] = ()
    if worst.degraded or not worst.is_full:
        advice += (Advice("reseat", args),)
    if worst.is_full:
        advice += (Advice("send_less", args),)
    return Finding(
        "pcie",
        Severity.WARNING if worst.costs_time or unknown else Severity.INFO,
        confidence(LINK_BASE, 3, LINK_UNKNOWN if unknown else 1.0),
        group.subject,
        args,
        known_evidence(evidence),
        advice=advice,
    )


def gpu_memory_is_full(facts: Facts) -> tuple[Claim, ...]:
    """A GPU's memory is nearly full.

    Claim: gpu_memory: the next allocation may fail.
    Evidence: memory in use, its growth over 30 s, and the number of programs that share it.
    Threshold: >= 95 % used (until < 92 %), and at this growth full within 10 minutes, or shared with a program outside
        the job. Memory that is full but does not grow is shown beside the verdict: PyTorch keeps what it has freed.
    Blind spot: the memory that the allocator holds in reserve, and its fragmentation.
    """
    limits, out = facts.limits, []
    for group in gpu_groups(facts, limits.gpu_window_s):
        nearly_full = []
        for gpu in group.gpus:
            used, total = gpu.mean("memory_used_bytes"), gpu.mean("memory_total_bytes")
            if gpu.rates and gpu.rates[-1].memory_used_bytes is not None:
                used = gpu.rates[-1].memory_used_bytes
            level = claim_level(ratio(used, total), limits.gpu_memory, limits.gpu_memory_leave, limits.leave_level)
            if level >= limits.leave_level and used is not None and total:
                full_in_s = _seconds_left(group, gpu, used, total)
                nearly_full.append((gpu, level, used, total, full_in_s))
        if not nearly_full or not group.settled:
            continue
        # The GPU that will be full soonest comes first; if none grows, the one with the largest part in use.
        nearly_full.sort(key=lambda row: (row[4] if row[4] is not None else 1e9, -row[2] / row[3], row[0].state.number))
        gpu, level, used, total, full_in_s = nearly_full[0]
        finding = _memory_finding(facts, group, [row[0] for row in nearly_full], gpu, used, total, full_in_s)
        out.append(group_claim(group, finding, level))
    return tuple(out)


def _seconds_left(group: GpuGroup, gpu: OneGpu, used: float, total: float) -> float | None:
    """Seconds until the memory is full at the growth of the window; None if it does not grow steadily.

    Growth is steady only if both halves of the window grew, because an allocator grows in steps and then rests.
    """
    known = [rates.memory_used_bytes for rates in gpu.rates if rates.memory_used_bytes is not None]
    # The GPU may be read less often than once per Sample.
    seconds = sum(sample.gpu.seconds or 0.0 for sample in group.window.samples)
    if len(known) < 4 or not seconds:
        return None
    middle = len(known) // 2
    first_half, second_half = known[middle] - known[0], known[-1] - known[middle]
    if min(first_half, second_half) <= 0:
        return None
    pace = (known[-1] - known[0]) / (seconds * (len(known) - 1) / len(known))
    return max(0.0, total - used) / pace


def _memory_finding(
    facts: Facts,
    group: GpuGroup,
    affected: list[OneGpu],
    gpu: OneGpu,
    used: float,
    total: float,
    full_in_s: float | None,
) -> Finding:
    limits = facts.limits
    count = sum(process.kind == COMPUTE for process in gpu.state.processes or ())
    others = []
    if group.job is not None:
        listed = [process.pid for process in gpu.state.processes or () if process.found]
        others = processes_of_others(gpu.state, pids_of(facts.snapshot, group.job.job, listed))
    soon = full_in_s is not None and full_in_s <= limits.gpu_memory_end_s
    args: Args = (
        *group_args(facts, group, affected),
        ("worst", f"GPU {gpu.state.number}"),
        ("used", used),
        ("total", total),
        ("ratio", used / total),
        ("end_s", full_in_s),
        ("soon", float(soon)),
        ("sharers", float(len(others))),
        ("other_pid", float(others[0].pid) if others and others[0].found else None),
        ("other_bytes", None if not others or others[0].memory_bytes is None else float(others[0].memory_bytes)),
    )
    evidence = (
        Evidence(metric(gpu, "memory_used_ratio"), used / total, "ratio", limits.gpu_memory),
        Evidence(metric(gpu, "memory_full_in_s"), full_in_s, "s", limits.gpu_memory_end_s),
        Evidence(metric(gpu, "processes"), float(count), "count"),
    )
    severity = Severity.CRITICAL if soon else Severity.WARNING if others else Severity.INFO
    advice = (Advice("end_sharer", args),) if others else ()
    return Finding(
        "gpu_memory",
        severity,
        confidence(MEMORY_BASE, 3),
        group.subject,
        args,
        known_evidence(evidence),
        advice=(*advice, Advice("less_gpu_memory", args)),
    )
