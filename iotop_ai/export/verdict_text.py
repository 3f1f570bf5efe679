"""The verdict as lines of plain text, each opened by its word, so that grep finds it."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.present import finding


def verdict_lines(frame: Frame) -> list[str]:
    """``verdict STATE headline``, then ``because``, ``and`` (a second finding) and ``do`` where there are any."""
    verdict = frame.verdict
    ends = [finding.text_of(part(verdict, frame)) for part in (finding.loss, finding.right_end)]
    first = "; ".join(text for text in (finding.text_of(finding.headline(verdict, frame)), *ends) if text)
    lines = [f"verdict {verdict.state.value} {first}"]
    for word, part in (("because", finding.because), ("and", finding.second), ("do", finding.advice)):
        if text := finding.text_of(part(verdict, frame)):
            lines.append(f"{word} {text}")
    return lines
