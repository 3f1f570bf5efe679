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
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.verdict_totals import JobTime
from iotop_ai.pipeline import frames
from iotop_ai.present.verdict.headline import text_of
from tests.export.report.stories import slow_story
from tests.job_times import job_key, slow_disk, with_counts


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


def test_the_main_job_is_the_selected_or_recorded_one_else_that_of_the_verdict() -> None:
    story = slow_story()
    (judged,) = story.jobs
    larger = judged._replace(pid=2, gpus=8)
    of_command = judged._replace(pid=3, gpus=0, is_recorded_command=True)
    assert story._replace(jobs=(larger, judged)).main_job == judged
    assert story._replace(jobs=(larger, of_command, judged)).main_job == of_command
    assert story._replace(jobs=(larger, of_command, judged), selected_pid=2).main_job == larger
    assert story._replace(jobs=(judged, larger), findings=()).main_job == larger


def test_a_sentence_names_its_job_if_the_run_has_several() -> None:
    args = (("job", "train.py"), ("job_pid", 7.0), ("gpus", 8.0), ("gpus_all", 8.0), ("lost", 0.4))
    waits = Finding("storage_read", Severity.WARNING, 0.9, "7", args)
    key = job_key(slow_disk()[-1])
    for other, sentence in (
        (None, "8 of 8 GPUs wait for data 40 % of the time"),
        ("eval.py", "train.py: 8 of 8 GPUs wait for data 40 % of the time"),
        ("train.py", "train.py 7: 8 of 8 GPUs wait for data 40 % of the time"),
    ):
        diagnosis = Diagnosis()
        for pid, name in ((7, "train.py"), (8, other)):
            if name is not None:
                of_pid = key._replace(pid=pid)
                diagnosis.jobs[of_pid] = JobTime(of_pid, name, TimeCounts())
        assert text_of(diagnosis.headline(waits)) == sentence
    saves = waits._replace(class_id="checkpoint_write")
    assert text_of(diagnosis.headline(saves)) == "train.py 7 waits for its checkpoint 40 % of the time"
    of_machine = Finding("mem_pressure", Severity.WARNING, 0.9, args=(("pressure", 0.4),))
    assert text_of(diagnosis.headline(of_machine)) == "programs wait for memory 40 % of the time"
