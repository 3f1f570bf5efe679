"""Rules about a slow disk whose health counters get worse, and about I/O errors in the kernel's log."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.facts.gather import Args, Claim, Facts, claim
from iotop_ai.diagnosis.facts.mounts import fullest_mount_on
from iotop_ai.diagnosis.facts.window import either
from iotop_ai.model.block.counters import NETWORK_DISKS, BlockInfo, nvme_head
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.health.growth import growth
from iotop_ai.model.health.smart import SmartState

CONFIDENCE = 0.8
ERROR_CONFIDENCE = 0.85
MEDIUM_ERRORS = frozenset({"critical medium", "protection"})
"""Errors that point to the medium or its data. Any other error may come from the cable, the controller or a reset."""
CURES: tuple[tuple[str, str, str], ...] = (
    ("media-grows", "media_errors", "replace_disk"),
    ("throttles", "warning_temperature_minutes", "cool_disk"),
    ("crc-grows", "crc_errors", "check_cable"),
)
"""For each health rule that can explain slowness: (rule, the figure that grows, the cure)."""


def slow_disk_gets_worse(facts: Facts) -> tuple[Claim, ...]:
    """A disk is slow while its own health counters get worse.

    Claim: failing_disk: the disk, its cable or its cooling makes it slow.
    Evidence: await; growth of CRC errors, media errors or the minutes above the disk's temperature limit.
    Threshold: await >= 3 times normal, or for a rotating disk %util >= 80 and await >= 20 ms; growth as in
        docs/health.md (crc-grows, media-grows, throttles), read every few minutes.
    Blind spot: growth is unknown until there are two readings. The rule misses a bad cable if the disk does not count
        the lost commands.
    """
    out = []
    table = facts.snapshot.smart.value or {}
    for device in facts.devices:
        reading = table.get(device.name)
        state = None if reading is None else reading.value
        entry = None if state is None else _cure_entry(state)
        if state is None or entry is None:
            continue
        rule, figure, template = entry
        reason = next(judgement.text for judgement in state.judgements if judgement.rule == rule)
        args: Args = (
            ("device", device.name),
            ("mount", fullest_mount_on(device.name, facts.snapshot)),
            ("reasons", reason),
            ("await_ms", device.await_ms),
            ("normal_ms", device.normal_ms),
            ("rules", rule),
        )
        count: int | None = getattr(state, figure)
        more = growth(state, figure)
        evidence = (
            Evidence(f"disks.{device.name}.await_ms", device.await_ms, "ms"),
            Evidence(
                f"smart.{device.name}.{figure}_growth", None if more is None else float(more.amount), "count", 0.0
            ),
            Evidence(f"smart.{device.name}.{figure}", None if count is None else float(count), "count"),
        )
        advice = (Advice(template, (("device", device.name),)),)
        finding = Finding("failing_disk", Severity.WARNING, CONFIDENCE, device.name, args, evidence, advice=advice)
        out.append(claim(facts, finding, either(device.slow, device.saturated)))
    return tuple(out)


def disk_gives_errors(facts: Facts) -> tuple[Claim, ...]:
    """The kernel reports failed requests of a disk.

    Claim: failing_disk: the disk, its cable or its controller failed a request.
    Evidence: lines of the kernel's log since the monitor started about failed requests of the disk.
    Threshold: one error in the last 10 minutes, reported at once. The kernel logs an error only after its last retry.
    Blind spot: the kernel rate-limits its log. Without permission to read the log, errors are unknown.
    """
    log, infos = facts.snapshot.kernel.value, facts.snapshot.disks.value or {}
    out = []
    for logged_name, errors in (log.errors if log is not None else {}).items():
        name = _disk_of(logged_name, infos)
        info = infos.get(name)
        recent = 0 <= facts.snapshot.at_ns - errors.at_ns < facts.limits.error_memory_s * 1e9
        # A loop device's errors come from its file, and the kernel reports a partition's errors for its disk too.
        if info is None or info.kind != "disk" or not recent:
            continue
        is_medium_error = errors.what in MEDIUM_ERRORS
        args: Args = (
            ("device", name),
            ("mount", fullest_mount_on(name, facts.snapshot)),
            ("reasons", f"{errors.lines} {errors.what} error{'' if errors.lines == 1 else 's'} in the kernel's log"),
            ("io_errors", float(errors.lines)),
            ("model", info.model),
            ("rules", errors.what.replace(" ", "-")),
        )
        evidence = (Evidence(f"kernel.{name}.errors", float(errors.lines), "count", 1.0),)
        cure = "replace_disk" if is_medium_error else "check_cable"
        if name.startswith(NETWORK_DISKS):
            cure = "reach_device"
        advice = (Advice(cure, (("device", name),)),)
        severity = Severity.CRITICAL if is_medium_error else Severity.WARNING
        finding = Finding("failing_disk", severity, ERROR_CONFIDENCE, name, args, evidence, advice=advice)
        out.append(Claim(finding, 1.0, 1, 1, at_once=True))
    return tuple(out)


def _disk_of(name: str, infos: Mapping[str, BlockInfo]) -> str:
    """The disk "nvme0n1" for its path "nvme0c0n1"; the first disk of a controller ("nvme0"); else the name itself.

    If the controllers of any disk are recorded, only they decide, because nvme0 need not be the controller of nvme0n1.
    Otherwise the number in the name decides.
    """
    name = nvme_head(name) or name
    if name in infos or not name.startswith("nvme"):
        return name
    recorded = [info for info in infos.values() if info.kind == "disk" and info.controllers is not None]
    if recorded:
        return min((info.name for info in recorded if name in (info.controllers or ())), default=name)
    return min((disk for disk in infos if disk.startswith(f"{name}n") and infos[disk].kind == "disk"), default=name)


def _cure_entry(state: SmartState) -> tuple[str, str, str] | None:
    """The first entry of CURES with a rule that applies to the disk; None if there is none."""
    rules = {judgement.rule for judgement in state.judgements}
    return next((cure for cure in CURES if cure[0] in rules), None)
