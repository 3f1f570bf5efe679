"""The JSON object of ``iotop-ai diagnose``: the class that lost most time, all findings, and the time line."""

from __future__ import annotations

import json
from typing import Any

from iotop_ai.diagnosis.verdict.totals import Key, VerdictTotalsBuilder
from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import NOT_RECORDED
from iotop_ai.model.verdict_class import State
from iotop_ai.present.verdict.headline import finding_object

KEYS = ("verdict", "state", "confidence", "severity", "data_stall_ratio", "findings", "timeline", "not_recorded")
Object = dict[str, Any]


class Diagnosis(VerdictTotalsBuilder):
    """The totals as sorted findings and as an object. missing: (wall_ns, the part that a recording lacks before it)."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: list[tuple[int, str]] = []

    def add(self, frame: Frame) -> None:
        """Count an interval, and the recording's note of a missing part before it."""
        super().add(frame)
        self.missing += [(event.wall_ns, event.text) for event in frame.snapshot.events if event.kind == NOT_RECORDED]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """By time lost as the verdict, then by time lost, then by time; () when nothing was judged."""

        def order(key: Key) -> tuple[int, int, int, int, Key]:
            share = self.shares[key]
            return (-share.led_ns, -share.lost_ns, -share.first_ns, -share.stood_ns, key)

        return tuple(self.shares[key].finding for key in sorted(self.shares, key=order))

    @property
    def primary(self) -> Finding | None:
        """The finding that lost most time; if none did, the longest verdict. None: too short."""
        found = self.findings
        return found[0] if found else None

    @property
    def data_stall_ratio(self) -> float | None:
        """The mean share of time without data, 0..1; None when never known."""
        return round(self.stall_ns / self.known_ns, 4) if self.known_ns else None

    def as_object(self) -> Object:
        """The object with exactly KEYS. Nothing judged: class unknown."""
        first = self.primary
        return {
            "verdict": "unknown" if first is None else first.class_id,
            "state": (State.UNSURE if first is None else first.state).value,
            "confidence": 0.0 if first is None else round(first.confidence, 3),
            "severity": (Severity.INFO if first is None else first.severity).value,
            "data_stall_ratio": self.data_stall_ratio,
            "findings": [finding_object(finding) for finding in self.findings],
            "timeline": [
                {
                    "time": rfc3339(one.wall_ns),
                    "verdict": one.class_id,
                    "state": one.state.value,
                    "seconds": round(one.seconds, 3),
                }
                for one in self.stretches
            ],
            "not_recorded": [{"time": rfc3339(wall_ns), "text": text} for wall_ns, text in self.missing],
        }


def render_diagnosis_json(diagnosis: Diagnosis) -> str:
    """The object as indented ASCII text without a final newline."""
    return json.dumps(diagnosis.as_object(), indent=2, allow_nan=False)
