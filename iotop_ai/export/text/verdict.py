"""The verdict as lines of plain text; each line starts with a fixed word, so that grep finds it."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.present.verdict import headline


def verdict_lines(frame: Frame) -> list[str]:
    """``verdict STATE headline``, then ``because``, ``and`` (a second finding) and ``do``, if there are such lines."""
    verdict = frame.verdict
    clauses = [headline.text_of(part(verdict)) for part in (headline.loss, headline.confidence)]
    sentence = "; ".join(text for text in (headline.text_of(headline.headline(verdict)), *clauses) if text)
    lines = [f"verdict {verdict.state.value} {sentence}"]
    for word, part in (("because", headline.because), ("and", headline.second), ("do", headline.advice)):
        if text := headline.text_of(part(verdict)):
            lines.append(f"{word} {text}")
    return lines
