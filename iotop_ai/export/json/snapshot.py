"""One Frame as the JSON object of ``iotop-ai snapshot --json``.

Devices use iostat's keys and units (kB is 1024 B; ratios are percentages). All other names are snake_case and end in
their unit, with base units and ratios 0..1. null is unknown; [] means that none was found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from iotop_ai.diagnosis.memory.hung_devices import hung_s
from iotop_ai.export.field_names import iostat_object, merged, rates_object, rounded
from iotop_ai.export.json.health import state_object
from iotop_ai.export.json.job import job_objects
from iotop_ai.export.json.machine import system_object
from iotop_ai.export.selection import command_words, device_info, device_rates, process_rows
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.finding import Finding
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.verdict.headline import finding_object

KEYS = (
    *("time", "host", "interval_s", "devices", "gpus", "smart", "processes", "jobs", "system", "findings"),
    "measuring",
)
_SMART_KINDS = ("disk",)
_AS_RATES = ("utilization_percent", "memory_activity_percent", "power_mw", "power_limit_mw", "processes")
"""Fields of a GPU's state that are left out: the GPU's rates have them in base units, and its processes are added with
their names."""

Object = dict[str, Any]


def reportable_findings(frame: Frame) -> tuple[Finding, ...]:
    """The Frame's findings, without "unknown" while no rule has a full window."""
    verdict = frame.verdict
    return tuple(f for f in verdict.findings if f.class_id != "unknown" or not verdict.measuring)


def render_snapshot_json(
    frame: Frame, devices: Sequence[str] = (), cmdline: str = "names", indent: int | None = 2
) -> str:
    """The ``snapshot_object`` as ASCII JSON, without a final newline. indent: None writes it in one line."""
    return json.dumps(snapshot_object(frame, devices, cmdline), indent=indent, allow_nan=False)


def snapshot_object(frame: Frame, devices: Sequence[str] = (), cmdline: str = "names") -> Object:
    """The Frame as an object with exactly KEYS.

    devices: only these kernel names; () for all whole devices. cmdline: one of CMDLINE_LEVELS.
    """
    snapshot = frame.snapshot
    seconds = frame.sample.block.seconds or frame.sample.seconds
    return {
        "time": rfc3339(snapshot.wall_ns),
        "host": snapshot.host.name,
        "interval_s": None if seconds is None else round(seconds, 6),
        "devices": device_objects(frame, devices),
        "gpus": gpu_objects(frame),
        "smart": smart_objects(frame, devices),
        "processes": process_objects(frame, cmdline),
        "jobs": job_objects(frame),
        "system": system_object(frame, cmdline),
        "findings": [finding_object(finding) for finding in reportable_findings(frame)],
        "measuring": frame.verdict.measuring,
    }


def rfc3339(wall_ns: int) -> str:
    """A time in UTC with milliseconds, such as "2026-11-21T08:46:02.117Z"."""
    at = datetime.fromtimestamp(wall_ns // 1_000_000 / 1000, tz=UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def reading_object(reading: Reading[Any]) -> Object:
    """A Reading's status, reason and remedy."""
    return {"status": reading.status.value, "reason": reading.reason, "remedy": reading.remedy}


def device_objects(frame: Frame, devices: Sequence[str] = ()) -> list[Object] | None:
    """One object per device with ``name``, iostat's figures and its identity. None if the counters are unreadable."""
    if frame.snapshot.block.value is None:
        return None
    return [
        merged(
            {"name": key.name},
            iostat_object(rates),
            _identity(device_info(frame.snapshot, key.name)),
            {"diskseq": key.diskseq, "hung_s": rounded(hung_s(frame.carry.hung, key.name, frame.snapshot.at_ns))},
        )
        for key, rates in device_rates(frame, devices)
    ]


def _identity(info: BlockInfo | None) -> Object:
    if info is None:
        return dict.fromkeys(field for field in BlockInfo._fields if field != "name")
    out: Object = {name: value for name, value in info._asdict().items() if name != "name"}
    out["mounts"] = [mount._asdict() for mount in info.mounts]
    return out


def gpu_objects(frame: Frame) -> list[Object] | None:
    """One object per GPU; [] without a GPU driver, None if unreadable (``system.readings`` has the reason).

    A GPU that does not answer has its uuid, status, reason and remedy, but no figures.
    """
    table = frame.snapshot.gpu.value
    if table is None:
        return [] if frame.snapshot.gpu.status is Status.ABSENT else None
    rates = frame.sample.gpu.value or {}
    out = []
    for uuid, reading in table.items():
        state = reading.value
        gpu_rates = rates.get(uuid)
        out.append(
            merged(
                {"uuid": uuid},
                reading_object(reading),
                rates_object(gpu_rates) if gpu_rates is not None else {},
                # The exact integers of the state override the rates' figures of the same name.
                _gpu_state(state, frame) if state is not None else {},
            )
        )
    return out


def _gpu_state(state: GpuState, frame: Frame) -> Object:
    out: Object = {
        name: value for name, value in state._asdict().items() if name not in _AS_RATES and not name.startswith("gpm_")
    }
    out["instances"] = None if state.instances is None else [instance._asdict() for instance in state.instances]
    out["earlier"] = [earlier._asdict() for earlier in state.earlier]
    detail = (frame.snapshot.gpu_slow.value or {}).get(state.uuid)
    out["detail"] = None if detail is None or detail.value is None else detail.value._asdict()
    names = _process_names(frame)
    out["processes"] = (
        None
        if state.processes is None
        else [
            # A process that is not found may be in another pid namespace; here, another process may have its pid.
            merged(process._asdict(), {"name": names.get(process.pid) if process.found else None})
            for process in state.processes
        ]
    )
    return out


def _process_names(frame: Frame) -> Mapping[int, str]:
    table = frame.snapshot.processes.value
    return {} if table is None else {key.pid: info.name for key, info in table.info.items()}


def smart_objects(frame: Frame, devices: Sequence[str] = ()) -> list[Object]:
    """One object per disk that may have SMART: its status and, if it answered, all its attributes.

    A disk is pending until its first answer. If smartctl is missing, not permitted or off, every disk has that status.
    """
    smart = frame.snapshot.smart
    disks = frame.snapshot.disks.value or {}
    answers: Mapping[str, Reading[SmartState]] = smart.value or {}
    names = [name for name, info in disks.items() if info.kind in _SMART_KINDS and not info.slaves]
    names += [name for name in answers if name not in disks]
    out = []
    for name in names:
        if devices and name not in devices:
            continue
        reading: Reading[Any] = answers.get(name, smart._replace(value=None))
        if name not in answers and smart.value is not None:
            reading = Reading(None, Status.PENDING, "not queried yet")
        out.append(merged({"name": name}, reading_object(reading), state_object(reading.value)))
    return out


def process_objects(frame: Frame, cmdline: str = "names") -> list[Object] | None:
    """The processes of ``process_rows``, one object each; None when unknown."""
    table = frame.snapshot.processes.value
    if table is None:
        return None
    out = []
    for key, rates in process_rows(frame):
        info, stat = table.info[key], table.stat.get(key)
        out.append(
            merged(
                {
                    "pid": key.pid,
                    "name": info.name,
                    "user": info.user,
                    "command": command_words(info, cmdline),
                    "kernel": info.kernel,
                    "permitted": key not in table.denied,
                    "state": None if stat is None else stat.state,
                    "wchan": table.wchan.get(key),
                    "threads": None if stat is None else stat.threads,
                    "rss_bytes": None if stat is None else stat.rss_pages * table.page_bytes,
                },
                rates_object(rates),
                {
                    "incl_children": rates.incl_children,
                    "main_thread_only": rates.main_thread_only,
                    "threads_looked": rates.threads_looked,
                },
            )
        )
    return out
