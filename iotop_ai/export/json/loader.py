"""The JSON object of ``iotop-ai loader --json``, described in docs/loader.md, about the sweep of a data loader.

A sweep runs the loader in several configurations, one after another.
"""

from __future__ import annotations

import json
from typing import Any

from iotop_ai.export.json.health import utc_text
from iotop_ai.model.preflight.loader.report import Report
from iotop_ai.model.preflight.loader.run import Run
from iotop_ai.present.preflight.loader import arguments_text, findings_text

Object = dict[str, Any]


def loader_object(report: Report) -> Object:
    """The sweep as a JSON object: bytes, seconds, ratios from 0 to 1; null when unknown."""
    choice = report.choice
    return {
        "time": utc_text(report.wall_s),
        "exit_code": report.exit_code,
        "target": report.target,
        "python": report.python,
        "cold": report.cold or None,
        "cores": report.cores,
        "machine_cores": report.machine_cores,
        "room_bytes": report.room_bytes,
        "shm_bytes": report.shm_bytes,
        "runs": [_run(run) for run in report.runs],
        "recommended": None
        if choice is None
        else {
            **choice.run.configuration._asdict(),
            "samples_per_s": choice.run.samples_per_s,
            "of_best_ratio": choice.run.samples_per_s / choice.best.samples_per_s,
            "bound": choice.bound or None,
            "rising": choice.rising,
            "patch": arguments_text(choice.run),
        },
        "findings": findings_text(report),
    }


def _run(run: Run) -> Object:
    steady, built = run.steady, run.built
    return {
        **run.configuration._asdict(),
        "kind": built.kind if built else None,
        "start": (built.start if built else run.configuration.start) or None,
        "applied": list(built.applied) if built else None,
        "stages": list(built.stages) if built and built.stages else None,
        "epoch_bytes": built.epoch_bytes if built else None,
        "samples_per_s": run.samples_per_s if steady else None,
        **dict.fromkeys(("batches", "samples", "seconds", "first_batch_s")),
        **(steady._asdict() if steady else {}),
        **run.used._asdict(),
        "failure": None if run.failure is None else run.failure._asdict(),
    }


def render_loader_json(report: Report) -> str:
    """The sweep as indented JSON, without a final newline."""
    return json.dumps(loader_object(report), indent=2, allow_nan=False)
