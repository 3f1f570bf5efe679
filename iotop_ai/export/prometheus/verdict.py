"""Metrics of the verdict and its findings."""

from __future__ import annotations

from iotop_ai.export.prometheus.families import GAUGE, Family, Labels, family
from iotop_ai.model.finding import Finding
from iotop_ai.model.frame import Frame
from iotop_ai.model.verdict_class import State

MOST_FINDINGS = 32
FINDING = "iotop_finding"


def verdict_families(frame: Frame) -> list[Family]:
    """The state of the verdict, and each active finding.

    The class ``unknown`` is left out, because it means that no cause was found.
    """
    verdict = frame.verdict
    active = [finding for finding in verdict.findings if finding.class_id != "unknown"][:MOST_FINDINGS]
    return [
        family(
            *("iotop_verdict_state", GAUGE, "1 for the state of the verdict, 0 for the others."),
            [((("state", state.value),), int(state == verdict.state)) for state in State],
        ),
        family(
            *("iotop_verdict_measuring", GAUGE, "1 until the first rule has a full window."),
            [((), int(verdict.measuring))],
        ),
        family(
            *(FINDING, GAUGE, "1 while the finding is active."),
            [
                (
                    (
                        *_labels(finding),
                        ("severity", finding.severity.value),
                        ("primary", "yes" if finding is verdict.primary else "no"),
                    ),
                    1,
                )
                for finding in active
            ],
        ),
        family(
            *(f"{FINDING}_confidence_ratio", GAUGE, "How sure the rule is."),
            [(_labels(finding), finding.confidence) for finding in active],
            "ratio",
        ),
        family(
            *(f"{FINDING}_lost_ratio", GAUGE, "Share of time that is lost for this reason."),
            [(_labels(finding), finding.lost_ratio) for finding in active],
            "ratio",
        ),
        family(
            *(f"{FINDING}_lost_gpu_seconds", GAUGE, "GPU time that the finding's job has lost so far."),
            [
                (_labels(finding), None if finding.gpu_hours_lost is None else finding.gpu_hours_lost * 3600)
                for finding in active
            ],
            "seconds",
        ),
    ]


def _labels(finding: Finding) -> Labels:
    return (("class", finding.class_id), ("subject", finding.subject), ("state", finding.state.value))
