"""The sentences at the beginning of a report."""

from __future__ import annotations

import math

from iotop_ai.export.report.money import Price, gpu_time
from iotop_ai.export.report.story import FindingStory, JobStory, Story
from iotop_ai.model.verdict_class import State
from iotop_ai.present.job.time_words import parts_of
from iotop_ai.present.text import units
from iotop_ai.present.text.units import clock, duration, percent
from iotop_ai.present.verdict.class_names import class_name
from iotop_ai.present.verdict.headline import sureness
from iotop_ai.present.verdict.plain_text import active_time_text

NOT_COUNTED = "where its time went was not recorded"
_MOST_VERDICTS = 4
"""The most verdicts that are listed."""


def title(story: Story) -> str:
    """The report's title: host, start and length of the run."""
    return f"{story.machine.host.name}, {clock(story.begin_ns, pattern='%Y-%m-%d %H:%M:%S')} for {length(story)}"


def length(story: Story) -> str:
    """How long the run took, and how much of it was recorded if that is less."""
    whole = (story.end_ns - story.begin_ns) / 1e9
    text = duration(whole)
    return text if story.watched_s > 0.98 * whole - 2 else f"{text} ({duration(story.watched_s)} of it recorded)"


def state_word(story: Story) -> str:
    """The word of the verdict's state; UNSURE if the run was too short to judge."""
    return State.UNSURE.value if story.primary is None else story.primary.finding.state.value


def headline(story: Story) -> str:
    """The verdict of the whole run as a sentence."""
    return "the run was too short to judge" if story.primary is None else story.primary.sentence


def verdict_name(story: Story) -> str:
    """The verdict of the whole run in a few words, such as "STARVED (slow disk)"."""
    primary = story.primary
    return state_word(story) if primary is None else named_state(primary.finding.class_id, primary.finding.state)


def named_state(class_id: str, state: State) -> str:
    """A state with the name of its class, such as "STARVED (slow disk)"."""
    return f"{state.value} ({class_name(class_id, state)})"


def verdicts_over_time(story: Story) -> str:
    """The verdicts and how long each lasted: "OK (data is ready) 40 s -> STARVED (slow disk) 29 s".

    If there are more than _MOST_VERDICTS periods, each verdict is listed once with its whole time: the longest first,
    separated by commas, at most _MOST_VERDICTS. "" if nothing was judged.
    """
    spans = [(named_state(span.class_id, span.state), span.seconds) for span in story.timeline]
    separator = " -> "
    if len(spans) > _MOST_VERDICTS:
        sums: dict[str, float] = {}
        for name, seconds in spans:
            sums[name] = sums.get(name, 0.0) + seconds
        spans, separator = sorted(sums.items(), key=lambda item: -item[1])[:_MOST_VERDICTS], ", "
    return separator.join(f"{name} {duration(seconds)}" for name, seconds in spans)


def finding_lines(story: FindingStory) -> list[tuple[str, str]]:
    """The lines about a finding, as (label, text)."""
    lasted = f"{active_time_text(story.active_s, story.primary_s)}; confidence {sureness(story.finding.confidence)}"
    lines = (("because", story.because), ("not", story.not_this), ("do", story.advice), ("lasted", lasted))
    return [(label, text) for label, text in lines if text]


def job_sentence(job: JobStory) -> str:
    """Where a job's time went, such as "train.py: data disk 67 %, compute 29 %, unexplained 4 %".

    A share below 1 % is left out.
    """
    if not job.has_time:
        return f"{job.name}: {NOT_COUNTED}"
    parts = [f"{part.short_name} {part.figure} %" for part in parts_of(job.counts) if part.figure != "<1"]
    return f"{job.name}: {', '.join(parts)}"


def gpu_sentence(story: Story, price: Price | None) -> str:
    """The cost, such as "67 % of 12.4 GPU-hours lost: 8.3 GPU-hours, $20.75 of $31.00".

    "" if no job has a GPU and a known time.
    """
    hours = gpu_time(story.jobs)
    if hours is None:
        return ""
    cost = "" if price is None else f", {price.text(hours.lost)} of {price.text(hours.used)}"
    lost = f"{percent(hours.lost_ratio)} % of {units.gpu_time(hours.used)} lost: {units.gpu_time(hours.lost)}{cost}"
    unexplained = hours.unexplained / hours.used if hours.used else 0.0
    return lost + (f"; {percent(unexplained)} % is unexplained" if unexplained >= 0.005 else "")


def step_rate(per_s: float | None) -> str:
    """Steps per second as a figure, with three digits below 1: "12.4", "0.0500" for steps of 20 s, "0.000278"."""
    if per_s is None or not 0 < per_s < 0.9995:
        return units.figure(per_s)
    return f"{per_s:.{2 - math.floor(math.log10(per_s))}f}"


def step_count(number: int) -> str:
    """A number of steps: "1 step", "12,345 steps"."""
    return f"{number:,} step{'' if number == 1 else 's'}"


def step_sentence(story: Story) -> str:
    """The steps of the run, such as "539 steps, 12.0/s (printed lines)"; "" without steps."""
    steps = story.steps
    if steps is None:
        return ""
    rate = "" if steps.per_s is None else f", {step_rate(steps.per_s)}/s"
    return f"{step_count(steps.steps)}{rate} ({steps.source}{'; ' + steps.note if steps.note else ''})"
