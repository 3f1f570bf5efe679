"""Joins the steps of a training log to a run by time: steps a second on the run's own points in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from iotop_ai.export.report.series import Grid, Track, curve_of
from iotop_ai.export.report.story import Steps, Story
from iotop_ai.model.errors import InputError
from iotop_ai.present.text.units import clock
from iotop_ai.sources.imports.step_log import StepLog, StepPoint

_SECOND = 1_000_000_000
_PAUSE_FACTOR = 20
"""A pause between two logged steps that is so many times longer than usual is an evaluation or a restart."""


def with_steps(story: Story, log: StepLog) -> Story:
    """The Story with the log's steps. Raises InputError where the log's times do not meet the run."""
    bar = _main_bar(log.points)
    points = bar or log.points
    timed = _timed(story, points)
    counted = _count([point.step for point in points])
    elapsed = [point.elapsed_s or 0.0 for point in bar]
    restarts = [a for a, b in pairwise(elapsed) if b < a]
    if restarts:  # a bar of each epoch
        note = "the log has several progress bars and not when each began; the mean is of their own time"
        seconds = sum(restarts) + elapsed[-1]
        return story._replace(log=Steps(log.kind, counted, counted / seconds if seconds else None, None, note))
    if not timed:
        note = "the log has no times" + ("" if log.per_s is None else "; its own mean is shown")
        return story._replace(log=Steps(log.kind, counted, log.per_s, None, note))
    begin_ns, end_ns = timed[0][1], timed[-1][1]
    if end_ns < story.begin_ns or begin_ns > story.end_ns:
        times = f"{clock(begin_ns, pattern='%F %T')} to {clock(end_ns, pattern='%F %T')}"
        raise InputError(f"the log's steps are from {times}, outside of the recording; is it of another run?")
    grid = Grid(story.begin_ns, story.end_ns, story.interval_s)
    track = Track(grid.series())
    steps, spans = _spans(timed)
    usual_ns = sorted(b - a for a, b, _ in spans)[len(spans) // 2] if spans else 0
    within = 0.0
    for first_ns, last_ns, grown in spans:
        if last_ns <= story.begin_ns or first_ns >= story.end_ns or last_ns - first_ns > _PAUSE_FACTOR * usual_ns:
            continue
        seconds = (last_ns - first_ns) / _SECOND
        per_s = grown / seconds
        cut_ns = min(last_ns, story.end_ns)
        at = grid.interval(cut_ns, (cut_ns - max(first_ns, story.begin_ns)) / _SECOND)
        if at is not None:
            track.add(at, per_s)
            within += per_s * at.seconds
    stat = track.stat
    curve = None if stat is None or track.series is None else curve_of(grid, track.series)
    return story._replace(log=Steps(log.kind, round(within) or steps, None if stat is None else stat.mean, curve))


def _main_bar(points: Sequence[StepPoint]) -> list[StepPoint]:
    """The points of the progress bar with the most, as others are of evaluations; [] where the log has other times."""
    bars = [point for point in points if point.elapsed_s is not None]
    if not bars or any(point.wall_ns is not None for point in points):
        return []
    total, _ = Counter(point.total for point in bars).most_common(1)[0]
    return [point for point in bars if point.total == total]


def _timed(story: Story, points: Sequence[StepPoint]) -> list[tuple[int, int]]:
    """(step, wall ns) of the points with a time; those of a progress bar are counted from the job's begin."""
    found = [(point.step, point.wall_ns) for point in points if point.wall_ns is not None]
    if found:
        return sorted(found, key=lambda one: one[1]) if _mixed(found) else found
    bars = [(point.step, point.elapsed_s) for point in points if point.elapsed_s is not None]
    if not bars:
        return []
    begin_ns = story.begin_ns if story.main_job is None else story.main_job.begin_ns
    return [(step, begin_ns + round(elapsed_s * _SECOND)) for step, elapsed_s in bars]


def _mixed(found: Sequence[tuple[int, int]]) -> bool:
    return any(b[1] < a[1] for a, b in pairwise(found))


def _spans(timed: Sequence[tuple[int, int]]) -> tuple[int, list[tuple[int, int, int]]]:
    """(all steps, [(from, to, steps in between)]). A count that begins anew, as each epoch's, goes on from 0."""
    total, spans = 0, []
    step, at_ns = timed[0]
    for next_step, next_ns in timed[1:]:
        if next_step == step:
            continue
        grown = next_step - step if next_step > step else next_step
        total += grown
        if next_ns > at_ns and grown > 0:
            spans.append((at_ns, next_ns, grown))
        step, at_ns = next_step, next_ns
    return total, spans


def _count(steps: Sequence[int]) -> int:
    """How many steps a log's counts show."""
    total = steps[0]
    for a, b in pairwise(steps):
        total += b - a if b >= a else b
    return total
