"""The health of disks as JSON: each disk's attributes, its judgements with their rules, and its history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from iotop_ai.model.health.growth import wear_left_days
from iotop_ai.model.health.smart import HealthPoint, SmartState
from iotop_ai.model.reading import Reading, Status

Object = dict[str, Any]


def state_object(state: SmartState | None) -> Object:
    """The fields of a state except the device node, and ``wear_left_days``; {} if the state is None.

    Records become objects, and times RFC 3339.
    """
    if state is None:
        return {}
    out: Object = state._asdict()
    del out["device"]
    for name in ("attributes", "judgements", "self_test_log", "error_log"):
        out[name] = [entry._asdict() for entry in out[name]]
    out["reasons"] = list(state.reasons)
    out["messages"] = list(state.messages)
    for name in ("earlier", "recent"):
        out[name] = None if out[name] is None else point_object(out[name])
    out["past"] = [point_object(point) for point in state.past]
    out["read"] = utc_text(out.pop("read_wall_s"))
    out["wear_left_days"] = wear_left_days(state)
    return out


def point_object(point: Any) -> Object:
    """A point of the history, with its time as the first key."""
    figures: Object = point._asdict()
    return {"time": utc_text(figures.pop("wall_s")), **figures}


def utc_text(wall_s: int | None) -> str | None:
    """A Unix time as text in UTC, such as "2026-11-21T08:46:02Z"; None for None."""
    return None if wall_s is None else f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def render_health_json(wall_ns: int, disks: Mapping[str, Reading[SmartState]], exit_code: int) -> str:
    """The disks as one JSON object with ``time``, ``exit_code`` and ``disks``.

    Each disk has ``name``, ``status``, ``reason``, ``remedy`` and ``severity``, then the fields of ``state_object``. A
    severity of null means that there is nothing to judge; status "ok" only means that the disk answered.
    """
    entries = []
    for name, reading in disks.items():
        state = state_object(reading.value)
        severity = (
            None if reading.value is None or reading.status not in (Status.OK, Status.ASLEEP) else state["severity"]
        )
        head = {"name": name, "status": reading.status.value, "reason": reading.reason, "remedy": reading.remedy}
        entries.append({**head, **state, "severity": None if severity == "unknown" else severity})
    return json.dumps(
        {"time": utc_text(wall_ns // 1_000_000_000), "exit_code": exit_code, "disks": entries},
        indent=2,
        allow_nan=False,
    )


def render_history_json(histories: Sequence[tuple[str, str, str, Sequence[HealthPoint]]]) -> str:
    """The history as JSON. histories: (name, serial, model, points) of each disk, with the oldest point first."""
    entries = [
        {"name": name, "serial": serial, "model": model, "points": [point_object(point) for point in points]}
        for name, serial, model, points in histories
    ]
    return json.dumps({"disks": entries}, indent=2, allow_nan=False)
