"""A Story as JSON, described in docs/report.md."""

from __future__ import annotations

import json
from typing import Any

from iotop_ai.export.field_names import rates_object, rounded
from iotop_ai.export.json.condition import outcome_object
from iotop_ai.export.json.health import state_object
from iotop_ai.export.json.job import seconds_object
from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.export.report.money import Price, gpu_time
from iotop_ai.export.report.series import Curve, Stat, downsampled
from iotop_ai.export.report.story import (
    DeviceStory,
    FindingStory,
    GpuStory,
    JobStory,
    LinkStory,
    Machine,
    ProcessStory,
    Steps,
    Story,
)
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.model.job.time_shares import shares_of
from iotop_ai.present.verdict.headline import finding_object

SHAPE = 1
"""The version of the object. It increases when a field changes its meaning or is removed, but not for a new field."""
POINTS = 600
"""The most points of a curve."""
MOST_PROCESSES = 600
Object = dict[str, Any]


def render_report_json(story: Story, price: Price | None = None, outcomes: tuple[ConditionResult, ...] = ()) -> str:
    """The Story as indented ASCII JSON, without a final newline."""
    return json.dumps(report_object(story, price, outcomes), indent=1, allow_nan=False)


def report_object(story: Story, price: Price | None = None, outcomes: tuple[ConditionResult, ...] = ()) -> Object:
    """The Story as a JSON object: base units, ratios from 0 to 1, null when unknown."""
    hours = gpu_time(story.jobs)
    main = story.main_job
    return {
        "shape": SHAPE,
        "file": story.file,
        "begin": rfc3339(story.begin_ns),
        "end": rfc3339(story.end_ns),
        "watched_s": round(story.watched_s, 3),
        "interval_s": story.interval_s,
        "every_reading": story.spacing_s is None,
        "reading_s": story.interval_s if story.spacing_s is None else round(story.spacing_s, 3),
        "machine": _machine(story.machine),
        "verdict": None if story.primary is None else story.primary.finding.class_id,
        "state": "UNSURE" if story.primary is None else story.primary.finding.state.value,
        "data_stall_ratio": story.data_stall_ratio,
        "gpu_hours": None if hours is None else rounded(hours.used),
        "gpu_hours_lost": None if hours is None else rounded(hours.lost),
        "price": None if price is None else {"of_gpu_hour": price.value, "currency": price.before + price.after},
        "cost_lost": None if price is None or hours is None else round(price.value * hours.lost, 4),
        "main_job": None if main is None else main.pid,
        "findings": [_finding(finding) for finding in story.findings],
        "timeline": timeline_object(story),
        "jobs": [_job(job) for job in story.jobs],
        "devices": [_device(device) for device in story.devices],
        "gpus": [_gpu(gpu) for gpu in story.gpus],
        "links": [_link(link) for link in story.links],
        "processes": [_process(program) for program in story.processes[:MOST_PROCESSES]],
        "smart": [
            {
                "disk": disk.name,
                "status": disk.reading.status.value,
                "reason": disk.reading.reason,
                "removed": disk.removed,
                "state": None if disk.reading.value is None else state_object(disk.reading.value),
            }
            for disk in story.health
        ],
        "events": [{"time": rfc3339(event.wall_ns), "kind": event.kind, "text": event.text} for event in story.events],
        "more_events": story.more_events,
        "gaps": [{"begin": rfc3339(gap.begin_ns), "end": rfc3339(gap.end_ns), "text": gap.text} for gap in story.gaps],
        "curves": _curves(story.totals),
        "steps": None if story.steps is None else _steps(story.steps),
        "fail_if": [outcome_object(outcome) for outcome in outcomes],
    }


def timeline_object(story: Story) -> list[Object]:
    """The verdicts of a run in order of time."""
    return [
        {
            "time": rfc3339(span.wall_ns),
            "verdict": span.class_id,
            "state": span.state.value,
            "seconds": round(span.seconds, 3),
        }
        for span in story.timeline
    ]


def _machine(machine: Machine) -> Object:
    return {
        "host": machine.host.name,
        "kernel": machine.host.kernel,
        "container": machine.host.container,
        "cores": machine.cores,
        "memory_bytes": machine.memory_bytes,
        "gpus": list(machine.gpus),
        "disks": machine.disks,
        "not_seen": list(machine.missing),
        "recorded_by": machine.tool,
        "origin": machine.origin,
    }


def _link(link: LinkStory) -> Object:
    return {
        "name": link.name,
        "kind": link.kind,
        "bits_per_s": link.bits_per_s,
        "rx_bytes_per_s": _stat(link.received),
        "tx_bytes_per_s": _stat(link.sent),
    }


def _stat(stat: Stat | None) -> Object | None:
    if stat is None:
        return None
    return {
        "mean": rounded(stat.mean),
        "cv": rounded(stat.cv),
        "peak": rounded(stat.peak),
        "peak_time": rfc3339(stat.peak_ns),
    }


def _curve(curve: Curve) -> Object:
    shorter = downsampled(curve, POINTS)
    return {
        "begin": rfc3339(shorter.begin_ns),
        "step_s": shorter.step_s,
        "values": [None if value is None else float(f"{value:.4g}") for value in shorter.values],
    }


def _curves(curves: dict[str, Curve]) -> Object:
    return {name: _curve(curve) for name, curve in curves.items()}


def _finding(story: FindingStory) -> Object:
    return {
        **finding_object(story.finding),
        "subject": story.finding.subject,
        "sentence": story.sentence,
        "because": story.because,
        "not": story.not_this,
        "do": story.advice,
        "stood_s": round(story.active_s, 3),
        "verdict_s": round(story.primary_s, 3),
        "lost_s": round(story.lost_s, 3),
    }


def _job(job: JobStory) -> Object:
    shares = shares_of(job.counts)
    hours = None if shares is None else job.gpu_hours(job.counts.whole_ms)
    lost = None if shares is None else job.gpu_hours(job.counts.lost_ms)
    return {
        "pid": job.pid,
        "name": job.name,
        "user": job.user or None,
        "label": job.label,
        "framework": job.framework,
        "ranks": job.ranks,
        "workers": job.workers,
        "gpus": job.gpus,
        "of_recorded_command": job.is_recorded_command,
        "mount": job.mount or None,
        "filesystem": job.fstype or None,
        "disk": job.disk or None,
        "begin": rfc3339(job.begin_ns),
        "end": rfc3339(job.end_ns),
        "data_stall_ratio": None if shares is None else rounded(shares.data),
        "goodput_ratio": None if shares is None else rounded(shares.goodput),
        "time": None if shares is None else rates_object(shares),
        "time_s": None if shares is None else seconds_object(job.counts),
        "gpu_hours": rounded(hours),
        "gpu_hours_lost": rounded(lost),
        "curves": _curves(job.shares),
    }


def _process(program: ProcessStory) -> Object:
    return {
        **program._asdict(),
        "read_bytes": _bytes(program.read_bytes),
        "written_bytes": _bytes(program.written_bytes),
        "cpu_s": _seconds(program.cpu_s),
        "blocked_s": _seconds(program.blocked_s),
    }


def _bytes(value: float | None) -> int | None:
    return None if value is None else round(value)


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _device(device: DeviceStory) -> Object:
    info = device.info
    return {
        "name": device.name,
        "kind": None if info is None else info.kind,
        "detail": None if info is None else info.detail,
        "model": None if info is None else info.model,
        "mounted": [] if info is None else [mount.path for mount in info.mounts],
        "read_bytes": _bytes(device.read_bytes),
        "written_bytes": _bytes(device.written_bytes),
        "read_bytes_per_s": _stat(device.read),
        "write_bytes_per_s": _stat(device.write),
        "reads_per_s": _stat(device.reads),
        "writes_per_s": _stat(device.writes),
        "read_await_ms": _stat(device.read_await_ms),
        "write_await_ms": _stat(device.write_await_ms),
        "busy_ratio": _stat(device.busy),
        "queue_size": _stat(device.queue),
        "full_s": _seconds(device.full_s),
        "curves": _curves(device.curves),
    }


def _gpu(gpu: GpuStory) -> Object:
    return {
        "number": gpu.number,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "status": gpu.status,
        "busy_ratio": _stat(gpu.busy),
        "sm_ratio": _stat(gpu.sm),
        "memory_used_bytes": _stat(gpu.memory_bytes),
        "memory_total_bytes": gpu.memory_total_bytes,
        "temperature_celsius": _stat(gpu.celsius),
        "power_watts": _stat(gpu.watts),
        "sm_mhz": _stat(gpu.sm_mhz),
        "idle_s": _seconds(gpu.idle_s),
        "throttled_s": _seconds(gpu.throttled_s),
        "energy_j": rounded(gpu.energy_j),
        "curves": _curves(gpu.curves),
    }


def _steps(steps: Steps) -> Object:
    return {
        "source": steps.source,
        "steps": steps.steps,
        "per_s": rounded(steps.per_s),
        "note": steps.note,
        "curve": None if steps.curve is None else _curve(steps.curve),
    }
