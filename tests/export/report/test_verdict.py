"""The verdict of a report agrees with the other figures of the run, in every form of the report."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable

import pytest

from iotop_ai.export.html.report import render_report_html
from iotop_ai.export.json.diagnosis import Diagnosis
from iotop_ai.export.report.builder import StoryBuilder
from iotop_ai.export.report.json import render_report_json
from iotop_ai.export.report.markdown import render_report_markdown
from iotop_ai.export.report.story import Story
from iotop_ai.export.report.text import render_report_text
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.pipeline import frames
from tests.job_times import slow_disk, with_counts


def story_of(shown: Iterable[Frame]) -> Story:
    builder = StoryBuilder(None, None)
    for frame in shown:
        builder.add(frame)
    return builder.story("run", {})


def calming_down() -> tuple[Frame, ...]:
    """A run that waits for data 90 % of the time for 30 s, and then 11 %, which each rule's last window shows."""
    waits_ms = (min(n, 30) * 900 + max(0, n - 30) * 110 for n in range(len(slow_disk())))
    counts = (TimeCounts(compute=n * 1000 - wait_ms, data_disk=wait_ms) for n, wait_ms in enumerate(waits_ms))
    return tuple(frames(map(with_counts, (frame.snapshot for frame in slow_disk()), counts)))


def test_the_sentence_has_the_loss_of_the_whole_run() -> None:
    story = story_of(calming_down())
    assert story.primary is not None
    assert story.primary.finding.lost_ratio == pytest.approx(story.primary.lost_s / story.primary.active_s, abs=1e-6)
    sentence = "the GPU waits for data 69 % of the time"
    assert story.primary.sentence == sentence
    assert f"STARVED   {sentence}\n" in render_report_text(story, 100)
    assert f"**STARVED**: {sentence}\n" in render_report_markdown(story)
    assert sentence in html.unescape(render_report_html(story))
    (finding,) = json.loads(render_report_json(story))["findings"]
    assert (finding["sentence"], finding["lost_ratio"]) == (sentence, story.primary.finding.lost_ratio)
    assert finding["lost_ratio"] == pytest.approx(finding["lost_s"] / finding["stood_s"], abs=1e-4)


def test_diagnose_has_the_figures_of_the_report() -> None:
    diagnosis = Diagnosis()
    for frame in calming_down():
        diagnosis.add(frame)
    (finding,) = diagnosis.as_object()["findings"]
    assert finding["lost_ratio"] == pytest.approx(0.69, abs=0.005)
    assert calming_down()[-1].verdict.primary.lost_ratio == pytest.approx(0.11), "the verdict of one look is unchanged"
