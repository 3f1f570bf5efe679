"""The acknowledgement of lasting findings: an acknowledged finding is hidden until it gets worse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.fold_state import ActiveFinding
from iotop_ai.model.reading import Status
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.model.verdict_class import CLASS_SPECS

ACK, UNDONE = "ack", "ack_undone"
"""The kinds of events that acknowledge a finding or undo the acknowledgement. An event's text is the finding's
identity; in ACK, a space and the acknowledged value follow."""
DEATH = "job_died"
"""The class of a job that died. Its finding stays for minutes, so that a user can acknowledge it."""
_SOURCES = ("smart.", "gpus.", "kernel.")
"""The prefixes of the metrics whose figures are compared with the acknowledged values."""
_GROWTH = "_growth"
"""The suffix of a figure that shows how fast a count grows. Such a figure rises and falls, but its count only grows."""
_CODES = ("xid", "recovery", "answers")
"""Figures that are codes and not counts; any value that differs from the acknowledged one is worse."""
_KEEPS_RISING = ("crc_errors", "warning_temperature_minutes")
"""Counts that keep rising while a known cause (cable, cooling) lasts; only a clear further rise is worse."""
_RESTARTING = ("errors", "log_errors", "ecc_uncorrected")
"""Counts that begin again at 0 with the monitor or the GPU's driver. A count below the acknowledged value has begun
again, so all of it is new."""
_CABLE_IN_LOG = "is:interface-CRC"
"""The figure that marks CRC errors in the kernel's log. Their count, too, keeps rising while the cable is bad."""
_COMES_AND_GOES = frozenset(
    {_CABLE_IN_LOG, "is:crc-grows", "is:media-grows", "is:throttles", "is:hot", "is:nvme-temperature"}
)
"""Figures of findings that end and begin again with the load while their cause lasts: heat, a bad cable, slowness."""
_FROM_DETAILS = frozenset({"ecc_uncorrected", "rows_failed", "sram_exceeded", "recovery"})
"""Figures of a GPU that come from its details (``Snapshot.gpu_slow``), which are read less often."""
ENDED = ""
"""The value of an acknowledgement that is over, so that it hides nothing. The screen removes it from the file."""
CLEARLY_TIMES, CLEARLY_MORE = 2.0, 10.0
"""A count in _KEEPS_RISING, or its growth, is worse if it is at least CLEARLY_TIMES the acknowledged value, and at
least CLEARLY_MORE above that value."""
_SEVERITIES = tuple(severity.value for severity in Severity)


def identity(finding: Finding, snapshot: Snapshot) -> str:
    """The identity of a finding, independent of the device's current name: "failing_disk:SERIAL", "gpu_fault:UUID",
    "job_died:PID:SECONDS".

    It is "" for a finding that clears by itself, such as one about a device that does not answer. A disk without a
    serial number is identified by its name.
    """
    if finding.class_id == DEATH and finding.since_ns is not None:
        # The kernel reuses pids, so the identity has the time of the death.
        return f"{DEATH}:{finding.subject}:{finding.since_ns // 10**9}"
    if not CLASS_SPECS[finding.class_id].lasting or any(name == "hung_s" for name, _ in finding.args):
        return ""
    table = snapshot.smart.value or {}
    reading = table.get(finding.subject)
    state = None if reading is None else reading.value
    serial = "" if state is None else state.serial
    if state is not None and serial:
        others = {(r.value.model, r.value.wwn) for r in table.values() if r.value and r.value.serial == serial}
        # Two disks behind USB bridges may have the same serial number. The paths to one disk agree in all three values.
        if len(others) > 1:
            serial = " ".join((serial, state.model, state.wwn))
    return f"{finding.class_id}:{'_'.join((serial or finding.subject).split())}"


def first_to_acknowledge(findings: Iterable[Finding], snapshot: Snapshot) -> tuple[Finding, str] | None:
    """The first finding that can be acknowledged, with its identity; None if there is none."""
    pairs = ((f, identity(f, snapshot)) for f in findings)
    return next((pair for pair in pairs if pair[1]), None)


def value_of(finding: Finding) -> str:
    """The finding's severity, figures and rules, such as "critical critical=1 is:pending-grows=1 reallocated=312"."""
    figures = _figures(finding)
    return " ".join([finding.severity.value, *(f"{name}={value:g}" for name, value in sorted(figures.items()))])


def _figures(finding: Finding) -> dict[str, float]:
    """The figures that are compared, by name without the device, and a 1 for each health rule or kind of error.

    A growth is included only for a count in _KEEPS_RISING: it shows how fast the count rises.
    """
    out = {
        e.metric.rpartition(".")[2]: e.value
        for e in finding.evidence
        if e.value is not None and e.metric.startswith(_SOURCES) and _is_compared(e.metric.rpartition(".")[2])
    }
    rules = dict(finding.args).get("rules")
    return out | {f"is:{rule}": 1.0 for rule in str(rules or "").split()}


def _is_compared(name: str) -> bool:
    return not name.endswith(_GROWTH) or name.removesuffix(_GROWTH) in _KEEPS_RISING


def is_worse(finding: Finding, value: str) -> bool:
    """Whether the finding is worse now than when it was acknowledged at ``value``."""
    severity = (value.split() or [""])[0]
    if severity not in _SEVERITIES or _SEVERITIES.index(finding.severity.value) > _SEVERITIES.index(severity):
        return True
    acknowledged = _acknowledged_figures(value)
    if acknowledged is None:
        return True
    now = _figures(finding)
    keeps_rising = (*_KEEPS_RISING, *(("errors",) if _CABLE_IN_LOG in now else ()))
    for name, figure in now.items():
        if name not in acknowledged:
            # A value that an earlier version stored has no growth.
            if not name.endswith(_GROWTH):
                return True
        # The acknowledged value has six digits; a large count must not seem worse because of rounding.
        elif _figure_is_worse(
            name, float(f"{figure:g}"), acknowledged[name], name.removesuffix(_GROWTH) in keeps_rising
        ):
            return True
    return False


def _acknowledged_figures(value: str) -> dict[str, float] | None:
    """The figures of an acknowledged value, by name; None if the value is malformed, such as one that was cut."""
    pairs = (pair.partition("=") for pair in value.split()[1:])
    try:
        return {name: float(figure) for name, _, figure in pairs}
    except ValueError:
        return None


def _figure_is_worse(name: str, now: float, then: float, keeps_rising: bool) -> bool:
    """Whether a figure is worse now than the acknowledged value ``then``."""
    if name in _RESTARTING and now < then:
        then = 0.0
    if keeps_rising:
        return now >= max(CLEARLY_TIMES * then, then + CLEARLY_MORE)
    return now != then if name in _CODES else now > then


def apply_ack_events(acked: Mapping[str, str], events: Iterable[Event]) -> Mapping[str, str]:
    """The acknowledged values after these events; the same mapping if no event concerns them."""
    out = None
    for event in events:
        if event.kind in (ACK, UNDONE):
            name, _, value = event.text.partition(" ")
            out = dict(acked if out is None else out)
            if event.kind == ACK:
                out[name] = value
            else:
                out.pop(name, None)
    return acked if out is None else out


def open_findings(findings: Iterable[Finding], acked: Mapping[str, str], snapshot: Snapshot) -> list[Finding]:
    """The findings that are not acknowledged, or have become worse since their acknowledgement."""
    if not acked:
        return list(findings)
    return [f for f in findings if not _is_acknowledged(f, acked, snapshot)]


def _is_acknowledged(finding: Finding, acked: Mapping[str, str], snapshot: Snapshot) -> bool:
    name = identity(finding, snapshot)
    value = acked.get(name) if name else None
    return value is not None and not is_worse(finding, value)


def end_acknowledged(
    acked: Mapping[str, str],
    before: Mapping[tuple[str, str], ActiveFinding],
    held: Mapping[tuple[str, str], ActiveFinding],
    snapshot: Snapshot,
) -> Mapping[str, str]:
    """The acknowledged values, with ENDED for each acknowledgement that is over; the same mapping if none is.

    An acknowledgement is over if its finding has ended while the device answers, so that a fault that comes back counts
    as new. It is also over if a count of the finding has begun again at 0 and the finding is worse.

    before: the active findings of the previous decision. held: those of this decision.
    """
    if not acked:
        return acked
    now = {identity(active.finding, snapshot): active.finding for active in held.values()}
    ended = {identity(active.finding, snapshot): key[1] for key, active in before.items() if key not in held}
    over = [
        name
        for name, value in acked.items()
        if value != ENDED
        and (_has_begun_again(now[name], value) if name in now else _has_ended(name, value, ended.get(name), snapshot))
    ]
    return {**acked, **dict.fromkeys(over, ENDED)} if over else acked


def _has_begun_again(finding: Finding, value: str) -> bool:
    """Whether a count of the finding has begun again at 0, and the finding is worse than when it was acknowledged."""
    now, acknowledged = _figures(finding), _acknowledged_figures(value) or {}
    lower = any(name in _RESTARTING and name in now and now[name] < then for name, then in acknowledged.items())
    return lower and is_worse(finding, value)


def _has_ended(name: str, value: str, subject: str | None, snapshot: Snapshot) -> bool:
    """Whether an acknowledged finding that is not active has ended; False unless its device answers.

    subject: the finding's subject if the finding was active at the previous decision; otherwise None. A disk's own
    report may be minutes old, so only the end of an active finding shows that the disk is well again. A GPU answers at
    every tick.
    """
    figures = set(_acknowledged_figures(value) or ())
    in_log = bool(figures & {"errors", "log_errors"})
    if figures & _COMES_AND_GOES or (in_log and snapshot.kernel.value is None):
        return False
    if subject is not None and name.startswith("failing_disk:"):
        report = (snapshot.smart.value or {}).get(subject)
        in_report = any(not figure.startswith("is:") and figure != "errors" for figure in figures)
        if in_report and (report is None or report.value is None or report.status is not Status.OK):
            return False
        return subject in (snapshot.disks.value or {})
    gpus, details = snapshot.gpu.value or {}, snapshot.gpu_slow.value or {}
    uuid = next((uuid for uuid in gpus if name == f"gpu_fault:{'_'.join(uuid.split())}"), None)
    if uuid is None or gpus[uuid].value is None:
        return False
    return not figures & _FROM_DETAILS or (uuid in details and details[uuid].value is not None)
