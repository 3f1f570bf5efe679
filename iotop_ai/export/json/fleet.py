"""A fleet as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Sequence

from iotop_ai.export.json.diagnosis import Object
from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.model.fleet.records import Fleet, FleetAlert, FleetFinding, FleetJob, FleetMachine, JobPart
from iotop_ai.model.job.time_shares import SHARES

_SEVERITIES = ("ok", "warning", "critical")


def render_fleet_json(fleet: Fleet, machines: Sequence[FleetMachine]) -> str:
    """The fleet as one line of JSON. machines: the machines to list, in this order."""
    return json.dumps(fleet_object(fleet, machines), allow_nan=False)


def fleet_object(fleet: Fleet, machines: Sequence[FleetMachine]) -> Object:
    """The fleet as a JSON object: ratios from 0 to 1, null when unknown."""
    return {
        "time": rfc3339(int(fleet.at_s * 1e9)),
        "window_s": fleet.window_s,
        "machines": [_machine(machine) for machine in machines],
        "jobs": [_job(job) for job in fleet.jobs],
        "alerts": _alerts(fleet.alerts, fleet.unanswered),
        "not_answered": list(fleet.unanswered),
    }


def _machine(machine: FleetMachine) -> Object:
    disk, health = machine.disk, machine.health
    return {
        "machine": machine.name,
        "instance": machine.instance,
        "sources": list(machine.sources),
        "trouble": True if machine.troubled else None if machine.unanswered else False,
        "silent": machine.silent,
        "age_s": machine.age_s,
        "state": machine.state or None,
        "findings": None if "findings" in machine.unanswered else [_finding(finding) for finding in machine.findings],
        "gpu_hours_lost": machine.lost_gpu_h,
        "lost_ratio": machine.lost_ratio,
        "time": _time(machine.seconds),
        # A machine whose collectors report that it has no GPU has 0, not an unknown number.
        "gpus": 0 if machine.no_gpu and not machine.gpus else machine.gpus,
        "gpu_busy_ratio": machine.gpu_busy,
        "disk": None
        if disk is None
        else {"device": disk.name, "busy_ratio": disk.busy_ratio, "await_ms": disk.await_ms},
        "health": None if health is None else {"device": health.device, "severity": _SEVERITIES[health.severity]},
        "alerts": _alerts(machine.alerts, machine.unanswered),
    }


def _finding(finding: FleetFinding) -> Object:
    return {
        "class": finding.class_id,
        "state": finding.state,
        "subject": finding.subject,
        "severity": finding.severity or None,
        "primary": finding.primary,
        "lost_ratio": finding.lost_ratio,
    }


def _alerts(alerts: Sequence[FleetAlert], unanswered: Sequence[str]) -> list[Object] | None:
    """The alerts; None when unknown."""
    if "alerts" in unanswered:
        return None
    return [{"name": alert.name, "severity": alert.severity or None} for alert in alerts]


def _time(seconds: Sequence[float] | None) -> Object | None:
    """The shares of time by name, which add up to 1; None if unknown or if no time was counted."""
    whole = sum(seconds or ())
    return dict(zip(SHARES, (value / whole for value in seconds), strict=True)) if seconds and whole else None


def _job(job: FleetJob) -> Object:
    straggler = job.straggler
    return {
        "job": job.name,
        "script": job.script,
        "machines": [_part(part) for part in job.parts],
        "gpus": job.gpus,
        "ranks": job.ranks,
        "gpu_hours_lost": job.lost_gpu_h,
        "time": _time(job.seconds),
        "straggler": None
        if straggler is None
        else {
            "machine": straggler.machine,
            "rank_numbers": straggler.ranks or None,
            "cause": straggler.cause,
            "ratio": straggler.ratio,
            "others_ratio": straggler.others,
            "waited_ratio": straggler.waited,
            "finding": None if straggler.finding is None else _finding(straggler.finding),
        },
    }


def _part(part: JobPart) -> Object:
    return {
        "machine": part.machine,
        "pid": int(part.pid) if part.pid.isascii() and part.pid.isdecimal() else None,
        "gpus": part.gpus,
        "ranks": part.ranks,
        "rank_numbers": part.numbers or None,
        "gpu_hours_lost": part.lost_gpu_h,
        "time": _time(part.seconds),
    }
