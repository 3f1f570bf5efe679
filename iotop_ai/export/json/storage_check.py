"""A storage check as the JSON object of ``iotop-ai check --json``, described in docs/check.md."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from iotop_ai.export.json.health import moment
from iotop_ai.model.preflight.dataset import Forecast
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
        "time": moment(report.wall_s),
        "exit_code": report.exit_code,
        "place": place,
        "target": None if report.target is None else report.target._asdict(),
        "engine": report.engine or None,
        "hung_s": report.hung_s or None,
        "failed": report.failed or None,
        "results": [result_object(one) for one in report.results],
        "of_nominal_ratio": report.of_nominal,
        "thresholds": [_threshold_object(one) for one in report.thresholds],
        "earlier_checks": report.earlier,
        "slower": [{**change._asdict(), "then_s": moment(change.then_s)} for change in report.changes],
        "dataset": _dataset_object(report),
        "demand": None if report.demand is None else report.demand._asdict(),
        "forecast": _forecast_object(report.forecast),
        "findings": findings_text(report),
    }


def _dataset_object(report: Report) -> Object | None:
    found, decoding = report.dataset, report.decoding
    if found is None:
        return None
    more = {
        "resident_ratio": found.resident_ratio,
        "room_bytes": report.room_bytes,
        "fits": found.fits(report.room_bytes),
    }
    return {**found._asdict(), **more, "decoding": {**decoding._asdict(), "file_s": decoding.file_s}}


def _forecast_object(found: Forecast | None) -> Object | None:
    """The forecast as a JSON object; None without a forecast. samples_per_s is null if nothing limits the loader."""
    if found is None:
        return None
    given = found.samples_per_s if isfinite(found.samples_per_s) else None
    return {**found._asdict(), "samples_per_s": given}


def result_object(one: Measured) -> Object:
    """One measurement as a JSON object."""
    latency = None if one.latency is None else one.latency._asdict()
    return {**one._asdict(), "bytes_per_s": one.bytes_per_s, "ops_per_s": one.ops_per_s, "latency": latency}


def _threshold_object(one: Threshold) -> Object:
    return {"flag": one.flag, "limit": one.limit, "value": one.value, "met": one.met}


def render_storage_check_json(report: Report) -> str:
    """The check as indented JSON, without a final newline."""
    return json.dumps(storage_check_object(report), indent=2, allow_nan=False)
