"""What a stretch of time was like, as the JSON object of ``iotop-ai diagnose``: the class that lost most, and when."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from iotop_ai.export.snapshot_json import rfc3339
from iotop_ai.model.finding import Finding, Severity, State
from iotop_ai.model.frame import Frame
from iotop_ai.present.finding import finding_object

KEYS = ("verdict", "state", "confidence", "severity", "data_stall_ratio", "findings", "timeline")
LOSING = (State.STARVED, State.BLOCKED, State.SLOWED)
_STALLED = (State.STARVED, State.BLOCKED)

Object = dict[str, Any]
Key = tuple[str, str]


class Stretch(NamedTuple):
    """A verdict that stood for a while. wall_ns: when it began."""

    wall_ns: int
    class_id: str
    state: State
    seconds: float


class Diagnosis:
    """Grown Frame by Frame; holds one finding a class and subject, and the changes of the verdict.

    While no rule has seen its window nothing is counted.
    """

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self.measuring_s = 0.0
        self.needed_s = 0.0
        self._findings: dict[Key, Finding] = {}
        self._seconds: dict[Key, float] = {}
        self._first: dict[Key, float] = {}
        self._led: dict[Key, float] = {}
        self._lost: dict[Key, float] = {}
        self._stall = self._stall_s = 0.0
        self._at_ns: int | None = None
        self._boot = ""

    def add(self, frame: Frame) -> None:
        """Count an interval; a gap, and what came before the first pair, counts for nothing."""
        seconds = 0.0 if frame.sample.gap else frame.sample.seconds or 0.0
        verdict = frame.verdict
        if verdict.measuring:
            self.measuring_s += seconds
            self.needed_s = verdict.needed_s
            if verdict.primary.class_id == "unknown":
                return
        for rank, finding in enumerate(verdict.findings):
            key = (finding.class_id, finding.subject)
            known = self._findings.get(key)
            if known is None or finding.confidence >= known.confidence:
                self._findings[key] = finding
            self._seconds[key] = self._seconds.get(key, 0.0) + seconds
            lost = (finding.lost_ratio or 0.0) * seconds if finding.state in LOSING else 0.0
            self._lost[key] = self._lost.get(key, 0.0) + lost
            if not rank:
                self._first[key] = self._first.get(key, 0.0) + seconds
                self._led[key] = self._led.get(key, 0.0) + lost
        stall = stall_ratio(verdict.primary)
        if stall is not None and seconds:
            self._stall += stall * seconds
            self._stall_s += seconds
        self._stand(frame, seconds)

    def _stand(self, frame: Frame, seconds: float) -> None:
        first = frame.verdict.primary
        last = self.stretches[-1] if self.stretches else None
        if last is not None and last.class_id == first.class_id:
            self.stretches[-1] = last._replace(seconds=last.seconds + seconds)
        else:
            began_ns = frame.snapshot.wall_ns - int(seconds * 1e9)
            self.stretches.append(Stretch(began_ns, first.class_id, first.state, seconds))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """By time lost while it was the verdict, then by time lost, then by time; () when nothing was judged."""

        def order(key: Key) -> tuple[float, float, float, float, Key]:
            led, first = self._led.get(key, 0.0), self._first.get(key, 0.0)
            return (-led, -self._lost[key], -first, -self._seconds[key], key)

        return tuple(self._findings[key] for key in sorted(self._findings, key=order))

    @property
    def primary(self) -> Finding | None:
        """The finding that lost most time; where none lost any, the one that stood first longest. None: too short."""
        found = self.findings
        return found[0] if found else None

    @property
    def data_stall_ratio(self) -> float | None:
        """The mean share of time without data, 0..1; None when it was never known."""
        return round(self._stall / self._stall_s, 4) if self._stall_s else None

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
        }


def stall_ratio(finding: Finding) -> float | None:
    """The share of time without data as far as a finding tells; None where it does not."""
    stall = dict(finding.args).get("stall")
    if isinstance(stall, float | int):
        return float(stall)
    return finding.lost_ratio if finding.state in _STALLED else None


def render_diagnosis_json(diagnosis: Diagnosis) -> str:
    """The object as indented ASCII text without a line end."""
    return json.dumps(diagnosis.as_object(), indent=2, allow_nan=False)
