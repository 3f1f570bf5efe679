"""Adds the steps of a training log to the Story of a run, as steps per second over the run's time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from iotop_ai.export.report.series import Grid, Track, curve_of
from iotop_ai.export.report.story import Steps, Story
from iotop_ai.model.errors import InputError
from iotop_ai.present.text.units import clock
from iotop_ai.sources.imports.step_log import StepLog, StepPoint

_SECOND = 1_000_000_000
_PAUSE_FACTOR = 20
"""A span with an evaluation or a restart is a pause if it is more than this many times as long as the usual span."""


class _TimedStep(NamedTuple):
    """A logged step and its wall time. after_evaluation: as in StepPoint."""

    step: int
    wall_ns: int
    after_evaluation: bool


class _Span(NamedTuple):
    """The time between two logged steps. has_other_work: whether an evaluation or a restart falls into it."""

    begin_ns: int
    end_ns: int
    steps: int
    has_other_work: bool


def with_steps(story: Story, log: StepLog) -> Story:
    """The Story with the log's steps. Raises InputError if the log's times do not overlap the run."""
    bar = _main_bar(log.points)
    points = bar or _main_series([point for point in log.points if point.wall_ns is not None] or log.points)
    timed_steps = _steps_with_times(story, _with_evaluations(log.points, points))
    step_count = _total_steps([point.step for point in points])
    elapsed = [point.elapsed_s or 0.0 for point in bar]
    earlier_bars_s = [a for a, b in pairwise(elapsed) if b < a]
    if earlier_bars_s:  # the log has a progress bar for each epoch
        note = "the log does not show when each of its progress bars began; the mean is over the time that they count"
        seconds = sum(earlier_bars_s) + elapsed[-1]
        return story._replace(log=Steps(log.kind, step_count, step_count / seconds if seconds else None, None, note))
    if not timed_steps:
        note = "the log has no times" + ("" if log.per_s is None else "; its own mean is shown")
        return story._replace(log=Steps(log.kind, step_count, log.per_s, None, note))
    begin_ns, end_ns = timed_steps[0].wall_ns, timed_steps[-1].wall_ns
    if end_ns < story.begin_ns or begin_ns > story.end_ns:
        times = f"{clock(begin_ns, pattern='%F %T')} to {clock(end_ns, pattern='%F %T')}"
        raise InputError(f"the log's steps are from {times}, outside of the recording; is the log of another run?")
    steps, spans = _spans(timed_steps)
    usual_ns = sorted(span.end_ns - span.begin_ns for span in spans)[len(spans) // 2] if spans else 0
    # If most spans contain evaluations, these belong to the usual time between two log lines and are not pauses.
    has_pauses = 2 * sum(span.has_other_work for span in spans) < len(spans)
    grid = _grid(story, usual_ns)
    track = Track(grid.series())
    steps_within = 0.0
    for first_ns, last_ns, new_steps, has_other_work in spans:
        if last_ns <= story.begin_ns or first_ns >= story.end_ns:
            continue
        if has_pauses and has_other_work and last_ns - first_ns > _PAUSE_FACTOR * usual_ns:
            continue
        seconds = (last_ns - first_ns) / _SECOND
        per_s = new_steps / seconds
        cut_ns = min(last_ns, story.end_ns)
        interval = grid.interval(cut_ns, (cut_ns - max(first_ns, story.begin_ns)) / _SECOND)
        if interval is not None:
            track.add(interval, per_s)
            steps_within += per_s * interval.seconds
    stat = track.stat
    curve = None if stat is None or track.series is None else curve_of(grid, track.series)
    if stat is not None:
        steps = round(steps_within)
    return story._replace(log=Steps(log.kind, steps, None if stat is None else stat.mean, curve))


def _main_bar(points: Sequence[StepPoint]) -> list[StepPoint]:
    """The points of the most frequent progress bar, from one rank. Bars with another total show evaluations.

    [] without a progress bar, or if the log has wall times.
    """
    bars = [point for point in points if point.elapsed_s is not None]
    if not bars or any(point.wall_ns is not None for point in points):
        return []
    total = _main_total(points)
    return _main_series([point for point in bars if point.total == total])


def _main_total(points: Iterable[StepPoint]) -> str:
    """The total of the most frequent progress bar, as in StepPoint; "" without a progress bar."""
    totals = Counter(point.total for point in points if point.elapsed_s is not None)
    return max(totals, key=lambda total: totals[total], default="")


def _main_series(points: Sequence[StepPoint]) -> list[StepPoint]:
    """The points of the counter of steps that is logged most often; counters of training take precedence."""
    counts = Counter(point.series for point in points)
    main = max(counts, key=lambda series: (series.is_training, counts[series]))
    return [point for point in points if point.series == main]


def _with_evaluations(all_points: Sequence[StepPoint], points: Iterable[StepPoint]) -> list[StepPoint]:
    """The points; ``after_evaluation`` is whether the log shows an evaluation since the previous point.

    all_points: the points of the whole log. A progress bar other than the most frequent one shows an evaluation, too.
    """
    selected, total, after_evaluation = set(points), _main_total(all_points), False
    out: list[StepPoint] = []
    for point in all_points:
        after_evaluation = after_evaluation or point.after_evaluation
        if point in selected:
            out.append(point._replace(after_evaluation=after_evaluation))
            after_evaluation = False
        elif point.elapsed_s is not None and point.total != total:
            after_evaluation = True
    return out


def _steps_with_times(story: Story, points: Sequence[StepPoint]) -> list[_TimedStep]:
    """The steps of the points that have a time. The times of a progress bar start when the job starts."""
    timed_steps = [
        _TimedStep(point.step, point.wall_ns, point.after_evaluation) for point in points if point.wall_ns is not None
    ]
    if timed_steps:
        return sorted(timed_steps, key=lambda timed: timed.wall_ns)
    bars = [point for point in points if point.elapsed_s is not None]
    if not bars:
        return []
    job = story.main_job
    begin_ns = story.begin_ns if job is None else job.begin_ns
    if job is not None and begin_ns <= story.begin_ns and job.process_began_ns is not None:
        begin_ns = min(begin_ns, job.process_began_ns)  # the job started before the part of the recording that is read
    return [
        _TimedStep(point.step, begin_ns + round((point.elapsed_s or 0.0) * _SECOND), point.after_evaluation)
        for point in bars
    ]


def _spans(timed_steps: Sequence[_TimedStep]) -> tuple[int, list[_Span]]:
    """The number of steps after the first logged time, and the spans between logged times.

    Steps that are logged at the same time are added to the next span.
    """
    new_step_counts = _new_steps([timed.step for timed in timed_steps])
    spans, at_ns, pending_steps, has_other_work = [], timed_steps[0].wall_ns, 0, False
    for (before, after), new_steps in zip(pairwise(timed_steps), new_step_counts, strict=True):
        has_other_work = has_other_work or after.after_evaluation or after.step < before.step
        if after.step == before.step:
            continue
        pending_steps += new_steps
        if after.wall_ns > at_ns:
            if pending_steps:
                spans.append(_Span(at_ns, after.wall_ns, pending_steps, has_other_work))
            at_ns, pending_steps, has_other_work = after.wall_ns, 0, False
    return sum(new_step_counts), spans


def _grid(story: Story, usual_ns: int) -> Grid:
    """The grid of the steps per second. usual_ns: the usual time between two logged steps.

    The grid has a point for each usual time that fits into the run, but at most one for each interval of the recording.
    More points would repeat the same value, and a comparison would take them for readings.
    """
    run_ns = max(1, story.end_ns - story.begin_ns)
    most_points = run_ns // usual_ns if usual_ns else run_ns
    step_ns = math.ceil(run_ns / max(1, most_points))
    return Grid(story.begin_ns, story.end_ns, max(story.interval_s, step_ns / _SECOND))


def _new_steps(steps: Sequence[int]) -> list[int]:
    """The number of steps between each logged count and the next.

    If a count falls to about 0, the counter began again, as at each epoch, and all its steps are new. If it falls less
    far, training resumed from a checkpoint, and no step is new.
    """
    strides = sorted(b - a for a, b in pairwise(steps) if b > a)
    usual = strides[len(strides) // 2] if strides else 0
    return [b - a if b >= a else b if b <= 2 * usual else 0 for a, b in pairwise(steps)]


def _total_steps(steps: Sequence[int]) -> int:
    """The number of steps that the logged counts show."""
    return steps[0] + sum(_new_steps(steps))
