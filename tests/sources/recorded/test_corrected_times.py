"""A wall clock that was set back: the index of a file and a stream without an index give the same corrected times.

The times before a clock was first set are corrected only in a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import Frame
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import CLOCK_SET_BACK, Event, Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.sources.recorded.corrected_times import AS_RECORDED, corrected_times_of, with_corrected_times
from iotop_ai.sources.recorded.source import ReplaySource
from iotop_ai.store.write.compress import compress
from tests.job_times import slow_disk
from tests.store.scenario import Machine
from tests.tui.recorded import record

SECOND = 10**9
HOUR = 3600 * SECOND


def stepped(live: Sequence[Frame], steps: dict[int, int]) -> list[Snapshot]:
    """The Snapshots of a clock that is set. steps: the change in ns, by the index of the first Snapshot after it."""
    shift_ns, out = 0, []
    for i, frame in enumerate(live):
        shift_ns += steps.get(i, 0)
        events = tuple(event._replace(wall_ns=event.wall_ns + shift_ns) for event in frame.snapshot.events)
        out.append(frame.snapshot._replace(wall_ns=frame.snapshot.wall_ns + shift_ns, events=events))
    return out


def snapshots_of(items: Iterable[Snapshot | Keyframe]) -> list[Snapshot]:
    return [item.snapshot if isinstance(item, Keyframe) else item for item in items]


def stepped_frames(live: Sequence[Frame], steps: dict[int, int]) -> list[Frame]:
    """The Frames, with the Snapshots that ``stepped`` gives. The other parts keep their times: no test reads them."""
    return [frame._replace(snapshot=snapshot) for frame, snapshot in zip(live, stepped(live, steps), strict=True)]


def shown(path: Path | str) -> list[Snapshot]:
    return snapshots_of(ReplaySource(str(path), allow_root=True, correct_times=True))


def steps_of(snapshots: Sequence[Snapshot]) -> list[tuple[int, Event]]:
    return [(i, event) for i, one in enumerate(snapshots) for event in one.events if event.kind == CLOCK_SET_BACK]


def test_a_clock_that_only_rises_changes_nothing(tmp_path: Path) -> None:
    live = stepped_frames(slow_disk(), {7: -SECOND // 2, 20: HOUR})
    path = record(tmp_path / "run.iotop.jsonl", live, keyframe_every=5)
    source = ReplaySource(str(path), allow_root=True, correct_times=True)
    assert corrected_times_of(source.parts) == AS_RECORDED
    assert snapshots_of(source) == [frame.snapshot for frame in live]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("more", [{}, {28: -HOUR}])
def test_the_times_before_the_clock_was_first_set_are_computed(
    tmp_path: Path, packed: bool, more: dict[int, int]
) -> None:
    live = slow_disk()
    since_1970 = live[0].snapshot.wall_ns - 5 * SECOND
    path = record(
        tmp_path / "run.iotop.jsonl", stepped_frames(live, {0: -since_1970, 12: since_1970} | more), keyframe_every=5
    )
    read = shown(compress(path) if packed else path)
    walls = [frame.snapshot.wall_ns for frame in live]
    assert [one.wall_ns for one in read] == pytest.approx(walls, abs=SECOND // 100)
    assert [event.wall_ns for one in read[:12] for event in one.events] == pytest.approx(
        [event.wall_ns for frame in live[:12] for event in frame.snapshot.events], abs=SECOND // 100
    )
    assert [i for i, _ in steps_of(read)] == [*more]
    source = ReplaySource(str(tmp_path / ("run.iotop.jsonl" + ".gz" * packed)), allow_root=True, correct_times=True)
    assert source.span() == pytest.approx((walls[0], walls[-1]), abs=SECOND // 100)
    source.start_at(walls[8])
    assert [frame.snapshot.seq for frame in frames(source)] == [frame.snapshot.seq for frame in live[8:]]


def test_a_damaged_block_is_reported_with_its_file_and_keeps_no_file_open(tmp_path: Path) -> None:
    packed = Path(compress(str(record(tmp_path / "run.iotop.jsonl", slow_disk(), keyframe_every=5))))
    packed.write_bytes(packed.read_bytes()[:-8] + bytes(8))  # the checksum of the last block
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InputError, match=rf"{packed.name}: .*damaged"):
        ReplaySource(str(packed), allow_root=True, correct_times=True)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("steps", [{12: -HOUR}, {15: -HOUR}, {12: -HOUR, 30: HOUR}, {3: -5 * SECOND, 41: -HOUR}])
def test_after_a_step_times_continue_with_the_monotonic_clock(
    tmp_path: Path, steps: dict[int, int], packed: bool
) -> None:
    live = slow_disk()
    path = record(tmp_path / "run.iotop.jsonl", stepped_frames(live, steps), keyframe_every=5)
    read = shown(compress(path) if packed else path)
    for one, frame in zip(read, live, strict=True):
        assert one.wall_ns == pytest.approx(frame.snapshot.wall_ns, abs=SECOND // 100)
        assert [event.text for event in one.events if event.kind != CLOCK_SET_BACK] == [
            event.text for event in frame.snapshot.events
        ]
    back = {i: -by for i, by in steps.items() if by < 0}
    assert {i: event.text.split(";")[0] for i, event in steps_of(read)} == {
        i: f"the clock was set back by {by // SECOND} s" for i, by in back.items()
    }
    # A stream has no index, so its times are corrected one by one.
    streamed = snapshots_of(with_corrected_times(stepped(live, steps)))
    assert [one.wall_ns for one in streamed] == pytest.approx([one.wall_ns for one in read], abs=SECOND // 100)
    assert [i for i, _ in steps_of(streamed)] == [*back]


@pytest.mark.parametrize("steps", [{12: HOUR, 14: -HOUR}, {12: 5 * SECOND, 13: -5 * SECOND, 31: HOUR, 33: -2 * HOUR}])
def test_a_clock_set_ahead_and_soon_back_makes_no_time_fall(tmp_path: Path, steps: dict[int, int]) -> None:
    live = stepped_frames(slow_disk(), steps)
    path = record(tmp_path / "run.iotop.jsonl", live, keyframe_every=60)
    read = shown(path)
    walls = [one.wall_ns for one in read]
    assert walls == sorted(walls)
    assert [i for i, _ in steps_of(read)] == [i for i, by in steps.items() if by < 0]
    # Read one by one, as in a stream, the times are the same.
    streamed = snapshots_of(with_corrected_times(frame.snapshot for frame in live))
    assert walls == [one.wall_ns for one in streamed]
    source = ReplaySource(str(path), allow_root=True, correct_times=True)
    source.start_at(walls[20])
    assert [frame.snapshot.wall_ns for frame in frames(source)] == walls[20:]


def test_a_later_boot_begins_where_the_previous_one_ended(tmp_path: Path) -> None:
    before, after = Machine(3, "boot-1"), Machine(4, "boot-2")
    after.wall = before.wall - HOUR
    live = list(frames([*(before.snapshot() for _ in range(23)), *(after.snapshot() for _ in range(23))]))
    path = record(tmp_path / "run.iotop.jsonl", live, keyframe_every=5)
    read = shown(path)
    walls = [one.wall_ns for one in read]
    assert walls[:23] == [frame.snapshot.wall_ns for frame in live[:23]]
    assert walls[23] == walls[22]
    assert walls[45] - walls[23] == live[45].snapshot.at_ns - live[23].snapshot.at_ns
    assert [i for i, _ in steps_of(read)] == [23]
    streamed = snapshots_of(with_corrected_times(frame.snapshot for frame in live))
    assert [one.wall_ns for one in streamed] == walls
    source = ReplaySource(str(path), allow_root=True, correct_times=True)
    assert source.span() == (walls[0], walls[-1])
    source.start_at(walls[30])
    assert [frame.snapshot.wall_ns for frame in frames(source)] == walls[30:]
