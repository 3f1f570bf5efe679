"""The rule about a device that has requests in flight and completes none of them."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.facts.block import base_of, serves_serially
from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts
from iotop_ai.diagnosis.facts.mounts import fullest_mount_on
from iotop_ai.diagnosis.memory.hung_devices import hung_s
from iotop_ai.diagnosis.memory.read_latency_baseline import JUDGED_KINDS
from iotop_ai.diagnosis.thresholds import Thresholds
from iotop_ai.model.block.counters import BlockInfo, BlockKey
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity

WITH_WAIT, WITHOUT_WAIT = 0.96, 0.8
"""The confidence with a process in state D, and without one."""
_START_INTERVALS = 1.5
"""If requests in flight got stuck within this many intervals after the monitor started, the rule also requires a
process in state D, because the kernel may have miscounted earlier."""


def disk_does_not_answer(facts: Facts) -> tuple[Claim, ...]:
    """A device has requests in flight and completes none.

    Claim: failing_disk: the device, its server or the path to it hangs.
    Evidence: requests in flight, and the time since the device last completed one; processes in state D.
    Threshold: 10 s; 30 s for a rotating disk, which may take 15 s to spin up. With a process in state D, the finding is
        critical after 30 s, when the kernel's drivers give up on a request (nvme_core.io_timeout, sd's timeout). If
        several devices of a stack hang, the rule names the lowest.
    Blind spot: some kernels miscount requests in flight: a count that has been stuck since the monitor started needs a
        process in state D. A throttled cgroup holds its requests before they are in flight.
    """
    if not facts.carry.hung or facts.snapshot.block.value is None:
        return ()
    limits, now, infos = facts.limits, facts.snapshot.at_ns, facts.snapshot.disks.value or {}
    ages = {name: hung_s(facts.carry.hung, name, now) for name in facts.carry.hung}
    silent = {name for name, age in ages.items() if age >= _least_s(name, infos, limits)}
    startup_ns = _START_INTERVALS * max(1.0, facts.snapshot.interval_s) * 1e9
    process_waits = bool(facts.history and facts.history[-1].waits)
    out = []
    for key, counters in facts.snapshot.block.value.items():
        info = infos.get(key.name)
        if key.name not in silent or info is None or info.kind not in JUDGED_KINDS or _below(info, infos) & silent:
            continue
        since = facts.carry.hung[key.name]
        if not process_waits and since - (facts.carry.started_ns or 0) < startup_ns:
            continue
        out.append(_claim(facts, key, info, ages[key.name], counters.in_flight, process_waits))
    return tuple(out)


def _least_s(name: str, infos: Mapping[str, BlockInfo], limits: Thresholds) -> float:
    """The seconds without an answer after which a device counts as hung; for a rotating disk, more than its spin-up."""
    info = infos.get(name)
    return limits.hung_bad_s if info is not None and serves_serially(base_of(info, infos)) else limits.hung_s


def _below(info: BlockInfo, infos: Mapping[str, BlockInfo]) -> set[str]:
    """The names of all devices below a device."""
    below: set[str] = set()
    todo = [*info.slaves, *([info.parent] if info.parent else [])]
    while todo:
        name = todo.pop()
        if name not in below:
            below.add(name)
            lower = infos.get(name)
            todo += [] if lower is None else [*lower.slaves, *([lower.parent] if lower.parent else [])]
    return below


def _claim(
    facts: Facts, key: BlockKey, info: BlockInfo, age: float, in_flight: int | None, process_waits: bool
) -> Claim:
    limits, name = facts.limits, key.name
    args: Args = (
        ("device", name),
        ("mount", fullest_mount_on(name, facts.snapshot)),
        ("hung_s", age),
        ("in_flight", None if in_flight is None else float(in_flight)),
        ("model", info.model),
    )
    evidence = (
        Evidence(f"disks.{name}.hung_s", age, "s", _least_s(name, facts.snapshot.disks.value or {}, limits)),
        Evidence(f"disks.{name}.in_flight", None if in_flight is None else float(in_flight), "count", 1.0),
    )
    advice = (
        Advice("resume_device" if info.kind == "dm" else "reach_device", (("device", name), ("label", info.label))),
    )
    severity = Severity.CRITICAL if process_waits and age >= limits.hung_bad_s else Severity.WARNING
    certainty = WITH_WAIT if process_waits else WITHOUT_WAIT
    return Claim(
        Finding("failing_disk", severity, certainty, name, args, evidence, advice=advice), 1.0, 1, 1, at_once=True
    )
