"""The rule about GPUs that are slowed by heat or power."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, confidence
from iotop_ai.diagnosis.facts.gpu_groups import (
    GpuGroup,
    OneGpu,
    gpu_groups,
    group_args,
    group_claim,
    known_evidence,
    metric,
)
from iotop_ai.diagnosis.facts.window import claim_level
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.gpu.state import THERMAL_REASONS

THROTTLE_BASE = 0.95
THROTTLE_BY_MASK = 0.75
CAPPED_BASE = 0.75
HOT_BASE = 0.75
"""The confidence by the driver's counters, by its mask of reasons, at a lowered power limit, and by temperature."""
_REASONS = (
    ("hw_thermal", "hw_thermal_ratio"),
    ("sw_thermal", "sw_thermal_ratio"),
    ("power_brake", "power_brake_ratio"),
)
"""For each of the driver's counters: (the reason, the rate with its share of time)."""


def _throttling(gpu: OneGpu, limits: Thresholds) -> tuple[float, str, float | None]:
    """How much the GPU is throttled: (level of the claim, reason, share of time with a lowered clock).

    Without the driver's counters, the mask of reasons is used; the reason is then "". The share is None when unknown.
    """
    shares = [(share, why) for why, field in _REASONS if (share := gpu.mean(field)) is not None]
    if shares:
        share, why = max(shares)
        return claim_level(share, limits.throttled, limits.throttled_leave, limits.leave_level), why, share
    slowed_share = gpu.mean("slowed")
    level = claim_level(slowed_share, limits.throttled_mask, limits.throttled_mask_leave, limits.leave_level)
    return level, "", slowed_share


def _cap_level(gpu: OneGpu, limits: Thresholds) -> float:
    """The claim's level for a GPU at a lowered power limit: 1 at the threshold, 0 if its limit is not lowered."""
    default = None if gpu.detail is None else gpu.detail.default_limit_mw
    if default is None or gpu.state.power_limit_mw is None or gpu.state.power_limit_mw > limits.limit_lowered * default:
        return 0.0
    return claim_level(gpu.mean("power_cap_ratio"), limits.capped, limits.capped_leave, limits.leave_level)


def _hot_threshold(gpu: OneGpu, limits: Thresholds) -> float | None:
    """The lowest temperature at which a GPU counts as hot; None when unknown."""
    slowdown = None if gpu.detail is None else gpu.detail.slowdown_celsius
    own = None if slowdown is None else slowdown - limits.hot_margin
    if gpu.state.temperature_sensor is not None:
        # The classic limit applies to the usual sensor. A junction may be far hotter without harm.
        return own
    return limits.gpu_hot_celsius if own is None else min(limits.gpu_hot_celsius, own)


def _hot_level(gpu: OneGpu, limits: Thresholds) -> float:
    """The claim's level for a GPU near its slowdown temperature: 1 at the temperature that counts as hot."""
    hot = _hot_threshold(gpu, limits)
    if hot is None:
        return 0.0
    return claim_level(gpu.mean("temperature_celsius"), hot, hot - limits.hot_margin, limits.leave_level)


def _may_be_heat(gpu: OneGpu, limits: Thresholds) -> bool:
    """Whether heat may be the cause if the mask of reasons reports a lowered clock.

    The mask's bit for a hardware slowdown stands for heat or for the power supply, so on a cool GPU it does not count
    as heat. The bits for heat count even then, because they also cover the memory, whose temperature may be unknown.
    """
    known = gpu.mean("temperature_celsius") is not None and _hot_threshold(gpu, limits) is not None
    cool = known and _hot_level(gpu, limits) < limits.leave_level
    return not cool or bool((gpu.state.clock_reasons or 0) & THERMAL_REASONS)


def _lowered_gpu_numbers(worst: OneGpu, affected: list[OneGpu], limits: Thresholds) -> str:
    """The numbers ("0,1,3") of the GPUs with a lowered power limit and with the worst GPU's default limit."""
    own = None if worst.detail is None else worst.detail.default_limit_mw
    alike = [gpu for gpu in affected if gpu.detail is not None and gpu.detail.default_limit_mw == own]
    return ",".join(str(number) for number in sorted(gpu.state.number for gpu in alike if _cap_level(gpu, limits)))


def gpu_is_throttled(facts: Facts) -> tuple[Claim, ...]:
    """A busy GPU runs below its normal clock, because of heat or power.

    Claim: gpu_throttle: the GPU slows itself down, and with it every rank that waits for it.
    Evidence: the driver's counters of the time in which it lowers the clock (thermal slowdown, power brake), else its
        mask of reasons; clock, temperature and power against their limits.
    Threshold: over 30 s the clock is lowered >= 5 % of the time (until < 1 %), or without counters in >= 30 % of the
        readings (until < 10 %), while the GPU is >= 50 % busy. At full load a GPU normally reaches the board's own
        power limit. So >= 30 % of the time at a limit counts only where the limit is <= 90 % of the board's own. A GPU
        at 85 C, or within 3 C of the temperature at which it slows down, is shown beside the verdict.
    Blind spot: a GPU that warms up slowly; a card that reports neither counters nor reasons.
    """
    limits, out = facts.limits, []
    for group in gpu_groups(facts, limits.gpu_window_s):
        slowed, hot_gpus = [], []
        for gpu in group.gpus:
            if (gpu.busy or 0.0) < limits.gpu_working:
                continue
            level, why, share = _throttling(gpu, limits)
            capped = _cap_level(gpu, limits)
            if capped > level:
                level, why, share = capped, "power_cap", gpu.mean("power_cap_ratio")
            if level >= limits.leave_level:
                slowed.append((level, share or 0.0, gpu, why))
            if (hot := _hot_level(gpu, limits)) >= limits.leave_level:
                hot_gpus.append((hot, gpu))
        if not group.settled:
            continue
        if hot_gpus and not slowed:
            finding = _hot_finding(facts, group, [gpu for _, gpu in hot_gpus])
            out.append(group_claim(group, finding, max(hot for hot, _ in hot_gpus)))
        if not slowed:
            continue
        level, share, worst, why = max(slowed, key=lambda row: (row[0], row[1], -row[2].state.number))
        affected = [gpu for _, _, gpu, _ in slowed]
        out.append(group_claim(group, _throttle_finding(facts, group, affected, worst, why, share), level))
    return tuple(out)


def _hot_finding(facts: Facts, group: GpuGroup, affected: list[OneGpu]) -> Finding:
    """A finding about GPUs that may slow down soon."""
    worst = max(affected, key=lambda gpu: (gpu.mean("temperature_celsius") or 0.0, -gpu.state.number))
    celsius, detail = worst.mean("temperature_celsius"), worst.detail
    slowdown = None if detail is None or detail.slowdown_celsius is None else float(detail.slowdown_celsius)
    args: Args = (
        *group_args(facts, group, affected),
        ("worst", f"GPU {worst.state.number}"),
        ("why", "hot"),
        ("celsius", celsius),
        ("slowdown", slowdown),
        ("mhz", worst.mean("sm_mhz")),
        ("mhz_max", None if worst.state.sm_max_mhz is None else float(worst.state.sm_max_mhz)),
    )
    evidence = (
        Evidence(metric(worst, "temperature_celsius"), celsius, "celsius", _hot_threshold(worst, facts.limits)),
        Evidence(metric(worst, "busy_ratio"), worst.busy, "ratio", facts.limits.gpu_working),
    )
    advice = (Advice("cool_gpu", args),)
    return Finding(
        "gpu_throttle", Severity.INFO, HOT_BASE, group.subject, args, known_evidence(evidence), advice=advice
    )


def _throttle_finding(
    facts: Facts, group: GpuGroup, affected: list[OneGpu], worst: OneGpu, why: str, share: float
) -> Finding:
    limits, state, detail = facts.limits, worst.state, worst.detail
    clock = worst.clock_ratio
    # No GPU runs at its highest clock all the time, so only a larger difference counts as lost time.
    lost = None if clock is None else max(0.0, 1 - clock / limits.clock_low)
    base = CAPPED_BASE if why == "power_cap" else THROTTLE_BASE if why else THROTTLE_BY_MASK
    celsius = worst.mean("temperature_celsius")
    args: Args = (
        *group_args(facts, group, affected),
        ("worst", f"GPU {state.number}"),
        ("why", why),
        ("share", share),
        ("mhz", worst.mean("sm_mhz")),
        ("mhz_max", None if state.sm_max_mhz is None else float(state.sm_max_mhz)),
        ("celsius", celsius),
        ("memory_celsius", None if state.memory_celsius is None else float(state.memory_celsius)),
        ("slowdown", None if detail is None or detail.slowdown_celsius is None else float(detail.slowdown_celsius)),
        ("watts", worst.watts),
        ("limit", worst.mean("power_limit_watts")),
        ("default", None if detail is None or detail.default_limit_mw is None else detail.default_limit_mw / 1000),
        ("lost", lost),
    )
    if why == "power_cap" and state.is_nvidia:
        args += (("numbers", _lowered_gpu_numbers(worst, affected, limits)),)
    field = dict(_REASONS).get(why, "power_cap_ratio" if why == "power_cap" else "slowed_ratio")
    limit = limits.capped if why == "power_cap" else limits.throttled if why else limits.throttled_mask
    slowdown = None if detail is None else detail.slowdown_celsius
    # Power below the limit does not exclude heat as the cause, so the limit is shown for a power cap only.
    shown_limit_watts = worst.mean("power_limit_watts") if why == "power_cap" else None
    evidence = (
        Evidence(metric(worst, field), share, "ratio", limit),
        Evidence(metric(worst, "sm_clock_ratio"), clock, "ratio", limits.clock_low),
        Evidence(metric(worst, "temperature_celsius"), celsius, "celsius", slowdown or limits.gpu_hot_celsius),
        Evidence(metric(worst, "power_watts"), worst.watts, "W", shown_limit_watts),
        Evidence(metric(worst, "busy_ratio"), worst.busy, "ratio", limits.gpu_working),
    )
    template = {"power_cap": "raise_power", "power_brake": "check_power"}.get(why, "cool_gpu")
    if not why and not _may_be_heat(worst, limits):
        template = "check_power"
    families = 3 if why or clock is not None else 2
    return Finding(
        "gpu_throttle",
        Severity.WARNING,
        confidence(base, families),
        group.subject,
        args,
        known_evidence(evidence),
        advice=(Advice(template, args),),
        lost_ratio=lost,
    )
