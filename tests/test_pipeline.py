"""The pipeline, which makes a Frame of each Snapshot and the one before it."""

from __future__ import annotations

import pytest

from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S
from iotop_ai.model.keyframe import SPACING_S
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.pipeline import closing_frame, frames, unjudged_frame
from iotop_ai.present.screen.layout import screen_rows
from iotop_ai.present.screen.view import View
from tests.present.scenes import starved_snapshots
from tests.store.scenario import SECOND, Machine, session


def test_the_history_is_a_minute_with_the_newest_sample_last() -> None:
    for frame in frames(session(11, 120)):
        assert frame.history[-1] is frame.sample
        ages = [(frame.sample.at_ns - s.at_ns) / 1e9 for s in frame.history]
        assert ages == sorted(ages, reverse=True)
        assert all(age < HISTORY_S for age in ages[:-HISTORY_LEAST])


def test_with_long_intervals_the_history_has_enough_samples_for_a_rule() -> None:
    machine = Machine(12)

    def slow() -> object:
        machine.now += 300 * SECOND
        return machine.snapshot()._replace(interval_s=300.0)

    made = list(frames(slow() for _ in range(9)))
    assert [len(f.history) for f in made] == [1, 2, 3, 4, *[HISTORY_LEAST] * 5]
    assert not made[-1].sample.gap


def test_nothing_is_compared_across_a_reboot() -> None:
    first, second = Machine(13, "boot-1"), Machine(13, "boot-2")
    made = list(frames([*(first.snapshot() for _ in range(20)), *(second.snapshot() for _ in range(20))]))
    alone = Machine(13, "boot-2")
    assert made[20:] == list(frames(alone.snapshot() for _ in range(20)))
    assert made[20].sample.seconds is None
    assert made[20].carry.started_ns == made[20].snapshot.at_ns


def test_continuing_from_a_frame_equals_an_uninterrupted_run() -> None:
    snapshots = list(session(14, 80))
    whole = list(frames(snapshots))
    at = whole[49]
    rest = frames(snapshots[50:], before=at.snapshot, last=at.sample, history=at.history, carry=at.carry)
    assert list(rest) == whole[50:]


def _as_at_start_up(snapshot: Snapshot) -> Snapshot:
    late = {name: Reading(None, Status.PENDING, "not yet", "", snapshot.at_ns) for name in ("gpu", "gpu_slow", "smart")}
    return snapshot._replace(**late)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 48)])
def test_the_first_picture_is_the_same_without_the_rules(size: tuple[int, int]) -> None:
    for snapshot in map(_as_at_start_up, (starved_snapshots(1)[0], next(iter(session(16, 1))))):
        without_rules, with_rules = unjudged_frame(snapshot), next(frames([snapshot]))
        assert screen_rows(*size, without_rules, View()) == screen_rows(*size, with_rules, View())
        assert without_rules.verdict._replace(findings=()) == with_rules.verdict._replace(findings=(), job_pid=None)
        assert without_rules.verdict.measuring


def test_the_closing_frame_has_the_last_events_and_no_new_reading() -> None:
    newest = list(frames(session(15, 40)))[-1]
    before = newest.snapshot
    events = (Event(before.at_ns + 7, before.wall_ns + 7, "mark", "late"),)
    now = before.at_ns + SECOND // 5
    last = closing_frame(newest, events, now, before.wall_ns + SECOND // 5)
    assert (last.snapshot.seq, last.snapshot.at_ns, last.snapshot.events) == (before.seq + 1, now, events)
    assert last.snapshot.block is before.block
    assert last.snapshot.processes is before.processes
    for name in ("block", "processes", "cpu", "memory", "pressure"):
        rates = getattr(last.sample, name)
        assert not rates.renewed
        assert rates.value == getattr(newest.sample, name).value
    assert last.sample.own.cpu_ratio is None
    assert last.sample.own.collect_s is None
    assert last.history == (*newest.history, last.sample)[-len(last.history) :]


def test_the_closing_frame_comes_a_minimum_time_after_the_last_one() -> None:
    newest = list(frames(session(16, 5)))[-1]
    before = newest.snapshot
    last = closing_frame(newest, (), before.at_ns + 1, before.wall_ns + 1)
    assert last.snapshot.at_ns - before.at_ns == SPACING_S * 1e9
    assert last.snapshot.wall_ns - before.wall_ns == SPACING_S * 1e9
