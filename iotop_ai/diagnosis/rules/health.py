"""Rules that join a disk's health with what it does now."""

from __future__ import annotations

from iotop_ai.diagnosis.facts import Args, Claim, Facts, claim
from iotop_ai.diagnosis.mounts import mount_on
from iotop_ai.diagnosis.window import either
from iotop_ai.model.finding import Advice, Evidence, Finding, Severity
from iotop_ai.model.smart import SmartState
from iotop_ai.model.smart_growth import growth

CONFIDENCE = 0.8
CURES: tuple[tuple[str, str, str], ...] = (
    ("media-grows", "media_errors", "replace_disk"),
    ("throttles", "warning_temperature_minutes", "cool_disk"),
    ("crc-grows", "crc_errors", "check_cable"),
)
"""A health rule that explains slowness, the figure that grows, the cure."""


def slow_disk_gets_worse(facts: Facts) -> tuple[Claim, ...]:
    """A disk answers slowly while its own counts of trouble grow.

    Claim: failing_disk: the disk, its cable or its cooling is why it is slow.
    Evidence: await of the device; growth of CRC errors, media errors or minutes above its temperature limit.
    Threshold: await >= 3 times normal, or a rotating disk's %util >= 80 and await >= 20 ms; growth as in
        docs/health.md (crc-grows, media-grows, throttles), read from the disk's own report every few minutes.
    Blind spot: growth is known from the second reading on; a cable that drops commands without counting shows nothing.
    """
    out = []
    table = facts.snapshot.smart.value or {}
    for device in facts.devices:
        reading = table.get(device.name)
        state = None if reading is None else reading.value
        cure = None if state is None else _cure(state)
        if state is None or cure is None:
            continue
        rule, figure, template = cure
        reason = next(one.text for one in state.judgements if one.rule == rule)
        args: Args = (
            ("device", device.name),
            ("mount", mount_on(device.name, facts.snapshot.disks.value or {})),
            ("reasons", reason),
            ("await_ms", device.await_ms),
            ("normal_ms", device.normal_ms),
        )
        more = growth(state, figure)
        evidence = (
            Evidence(f"disks.{device.name}.await_ms", device.await_ms, "ms"),
            Evidence(f"smart.{device.name}.{figure}_growth", None if more is None else float(more.by), "count", 0.0),
        )
        advice = (Advice(template, (("device", device.name),)),)
        finding = Finding("failing_disk", Severity.WARNING, CONFIDENCE, device.name, args, evidence, advice=advice)
        out.append(claim(facts, finding, either(device.slow, device.saturated)))
    return tuple(out)


def _cure(state: SmartState) -> tuple[str, str, str] | None:
    said = {one.rule for one in state.judgements}
    return next((cure for cure in CURES if cure[0] in said), None)
