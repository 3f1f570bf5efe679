"""A storage check as the JSON object of ``iotop-ai check --json``, described in docs/check.md."""

from __future__ import annotations

import json
from typing import Any

from iotop_ai.export.json.health import utc_text
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import Measured, Threshold
from iotop_ai.present.preflight.storage import findings_text

Object = dict[str, Any]


def storage_check_object(report: Report) -> Object:
    """The check as a JSON object: bytes, seconds, ratios from 0 to 1; null when unknown."""
    place = report.place._asdict()
    place["nominal"] = None if report.place.nominal is None else report.place.nominal._asdict()
    place["limits"] = [limit._asdict() for limit in report.place.limits]
    place["disks"] = list(report.place.disks)
    return {
        "time": utc_text(report.wall_s),
        "exit_code": report.exit_code,
        "place": place,
        "target": None if report.target is None else report.target._asdict(),
        "engine": report.engine or None,
        "hung_s": report.hung_s or None,
        "failed": report.failed or None,
        "results": [result_object(result) for result in report.results],
        "of_nominal_ratio": report.of_nominal,
        "thresholds": [_threshold_object(threshold) for threshold in report.thresholds],
        "earlier_checks": report.earlier,
        "slower": [
            {"name": change.name, "then": change.then, "now": change.now, "then_time": utc_text(change.then_s)}
            for change in report.changes
        ],
        "dataset": _dataset_object(report),
        "demand": None if report.demand is None else report.demand._asdict(),
        "forecast": None if report.forecast is None else report.forecast._asdict(),
        "findings": findings_text(report),
    }


def _dataset_object(report: Report) -> Object | None:
    dataset, decoding = report.dataset, report.decoding
    if dataset is None:
        return None
    derived = {
        "resident_ratio": dataset.resident_ratio,
        "room_bytes": report.room_bytes,
        "fits": dataset.fits(report.room_bytes),
    }
    return {**dataset._asdict(), **derived, "decoding": {**decoding._asdict(), "file_s": decoding.file_s}}


def result_object(result: Measured) -> Object:
    """One measurement as a JSON object."""
    latency = None if result.latency is None else result.latency._asdict()
    return {**result._asdict(), "bytes_per_s": result.bytes_per_s, "ops_per_s": result.ops_per_s, "latency": latency}


def _threshold_object(threshold: Threshold) -> Object:
    return {"flag": threshold.flag, "limit": threshold.limit, "value": threshold.value, "met": threshold.met}


def render_storage_check_json(report: Report) -> str:
    """The check as indented JSON, without a final newline."""
    return json.dumps(storage_check_object(report), indent=2, allow_nan=False)
