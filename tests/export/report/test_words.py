"""The sentences at the beginning of a report."""

from __future__ import annotations

import pytest

from iotop_ai.export.html.report import render_report_html
from iotop_ai.export.report.series import Curve
from iotop_ai.export.report.story import Steps, Story
from iotop_ai.export.report.words import step_sentence
from tests.export.report.stories import slow_story


def with_steps(steps: int, per_s: float) -> Story:
    story = slow_story()
    curve = Curve(story.begin_ns, 1.0, (per_s,) * 40, (1.0,) * 40)
    return story._replace(log=Steps("its own report", steps, per_s, curve))


@pytest.mark.parametrize(
    ("steps", "per_s", "sentence"),
    [
        (12_345, 12.34, "12,345 steps, 12.3/s (its own report)"),
        (3, 1 / 30, "3 steps, 0.0333/s (its own report)"),
        (1, 1 / 30, "1 step, 0.0333/s (its own report)"),
    ],
)
def test_the_steps_have_a_rate_that_tells_slow_trainings_apart(steps: int, per_s: float, sentence: str) -> None:
    assert step_sentence(with_steps(steps, per_s)) == sentence


def test_the_page_shows_slow_steps() -> None:
    page = render_report_html(with_steps(1, 1 / 30))
    assert "<b>0.0333</b><span>steps/s, 1 step</span>" in page
    assert "/s\t0.0333,0.0333" in page, "the figures under the pointer"
