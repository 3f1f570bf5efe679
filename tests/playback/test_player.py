"""At every position a cursor shows the same Frame as the live screen, whichever way it got there."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Rated
from iotop_ai.pipeline import frames
from iotop_ai.playback.player import Cancelled, FrameCursor
from iotop_ai.playback.timeline_reader import TimelineReader
from iotop_ai.store.format.codec import verdict_key
from iotop_ai.store.last_hour import Ring
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.compress import compress
from iotop_ai.store.write.recorder import Rotation
from iotop_ai.store.write.sink import FileSink, Sink
from tests.scenarios.keep import VERDICTS, snapshots
from tests.store.scenario import Machine, clock_set_back, lived
from tests.tui.recorded import record, recorder_of, written

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
pytestmark = pytest.mark.xdist_group("played recordings")  # the tests share their Frames, so one worker runs them all
SLOW_SETBACKS = [(1, 1), (90, 1), (150, 1), (1, 90), (60, 90), (60, 4000), (90, 4000), (150, 4000)]
QUICK_SETBACKS = [(60, 1), (90, 90), (150, 90), (1, 4000)]


def walk(cursor: FrameCursor) -> list[Frame]:
    """All Frames from the first on."""
    out = [cursor.seek(0)]
    while (after := cursor.forward()) is not None:
        out.append(after)
    return out


def walk_back(cursor: FrameCursor) -> list[Frame]:
    """All Frames from the last one back, returned oldest first."""
    out = [cursor.seek(cursor.end_wall_ns())]
    while (before := cursor.back()) is not None:
        out.append(before)
    return out[::-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_both_directions_through_a_file_give_the_live_frames(tmp_path: Path, seed: int) -> None:
    live = lived(seed, 130)
    path = record(tmp_path / "a", live)
    assert walk(FrameCursor([FileRecording(path)])) == live
    assert walk_back(FrameCursor([FileRecording(path)])) == live


@pytest.mark.parametrize("packed", [False, True])
def test_seeking_and_stepping_in_any_order_give_the_live_frames(tmp_path: Path, packed: bool) -> None:
    live = lived(0, 150)
    path = record(tmp_path / "a.iotop.jsonl", live)
    cursor = FrameCursor([FileRecording(compress(path) if packed else path)])
    pick = random.Random(1)
    at = 0
    cursor.seek(0)
    for _ in range(20):
        if pick.random() < 0.4:
            at = pick.randrange(len(live))
            # Between two Snapshots, the earlier one is shown.
            assert cursor.seek(live[at].snapshot.wall_ns + 1) == live[at]
        elif pick.random() < 0.5:
            at = min(len(live) - 1, at + 1)
            assert (cursor.forward() or cursor.frame) == live[at]
        else:
            at = max(0, at - 1)
            assert (cursor.back() or cursor.frame) == live[at]
        assert cursor.frame == live[at]


def test_a_time_outside_of_the_recording_leads_to_its_nearest_end(tmp_path: Path) -> None:
    live = lived(1, 20)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    assert cursor.seek(0) == live[0]
    assert cursor.back() is None
    assert cursor.seek(2**62) == live[-1]
    assert cursor.forward() is None
    assert cursor.frame == live[-1]


def test_sessions_of_one_file_follow_each_other(tmp_path: Path) -> None:
    first = lived(1, 70)
    machine = Machine(2)
    machine.wall = first[-1].snapshot.wall_ns + 10**12
    second = list(frames(machine.snapshot() for _ in range(30)))
    path = record(tmp_path / "a", first)
    recorder = recorder_of(FileSink(path, append=True))
    for frame in second:
        recorder.put(frame)
    assert recorder.close()
    assert walk(FrameCursor([FileRecording(path)])) == first + second
    assert walk_back(FrameCursor([FileRecording(path)])) == first + second


@pytest.mark.parametrize(("at", "seconds"), [(40, 3600), (90, 5), (119, 3600)])
def test_the_frame_before_a_new_one_is_found_if_the_clock_was_set_back(tmp_path: Path, at: int, seconds: int) -> None:
    live = clock_set_back(120, at, seconds)
    path = record(tmp_path / "a", live)
    for number in (119, 118, 90):
        assert FrameCursor([FileRecording(path)]).seek_before(live[number].snapshot.at_ns) == live[number - 1]
    assert FrameCursor([FileRecording(path)]).seek_before(0) == live[0]


@pytest.mark.parametrize(
    ("at", "seconds"), [*QUICK_SETBACKS, *(pytest.param(*step, marks=pytest.mark.slow) for step in SLOW_SETBACKS)]
)
def test_stepping_reaches_every_frame_if_the_clock_was_set_back(tmp_path: Path, at: int, seconds: int) -> None:
    live = clock_set_back(max(at + 40, 90), at, seconds)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    cursor.seek(live[0].snapshot.wall_ns if seconds < at else 0)
    while cursor.forward() is not None:
        pass
    assert cursor.frame == live[-1]
    back = [cursor.frame]
    while (before := cursor.back()) is not None:
        back.append(before)
    assert back[::-1] == live
    there: list[Frame | None] = [cursor.frame]
    while len(there) < at + 5:
        there.append(cursor.forward())
    assert there == live[: at + 5]


def test_stepping_reaches_every_frame_of_a_second_boot_with_an_earlier_clock(tmp_path: Path) -> None:
    machine = Machine(2, "boot-2")
    machine.wall -= 3600 * 10**9
    live = [*lived(1, 70), *frames(machine.snapshot() for _ in range(30))]
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    while cursor.forward() is not None or cursor.frame is None:
        if cursor.frame is None:
            cursor.seek(live[0].snapshot.wall_ns)
    assert cursor.frame == live[-1]
    back = [cursor.frame]
    while (before := cursor.back()) is not None:
        back.append(before)
    assert back[::-1] == live


def rotated(folder: Path, live: list[Frame], at: int) -> list[FileRecording]:
    """Record the Frames to two files; the second begins with the Frame ``at`` and has a pre-roll."""
    record(folder / "1", live[:at])
    ring = Ring()
    for frame in live[:at]:
        ring.put(frame)
    preroll = ring.preroll("full", live[at].snapshot.at_ns)
    ring.close()
    record(folder / "2", live[at:], preroll=preroll)
    return [FileRecording(str(folder / name)) for name in ("1", "2")]


def test_a_chain_of_rotated_files_is_played_as_one_recording(tmp_path: Path) -> None:
    live = lived(0, 100)
    chain = rotated(tmp_path, live, 80)
    assert chain[1].blocks[0].pre
    assert walk(FrameCursor(chain)) == live
    assert walk_back(FrameCursor(chain)) == live
    (tmp_path / "all").write_bytes(b"".join((tmp_path / part).read_bytes() for part in ("1", "2")))
    joined = FrameCursor([FileRecording(str(tmp_path / "all"))])
    assert walk(joined) == live, "the parts of a chain were joined with cat"
    assert walk_back(joined) == live


def test_playing_on_into_a_rotated_file_reaches_every_frame_of_a_boot_within_it(tmp_path: Path) -> None:
    before = lived(0, 90)
    machine = Machine(2, "boot-2")
    machine.now, machine.wall = before[80].snapshot.at_ns - 20 * 10**9, before[-1].snapshot.wall_ns
    live = [*before, *frames(machine.snapshot() for _ in range(40))]
    assert live[90].snapshot.at_ns < live[80].snapshot.at_ns < live[-1].snapshot.at_ns
    chain = rotated(tmp_path, live, 80)
    assert chain[1].blocks[0].pre
    assert walk(FrameCursor(chain)) == live
    assert walk_back(FrameCursor(chain)) == live


def rotated_by_size(folder: Path, live: list[Frame]) -> list[FileRecording]:
    """Let the recorder begin a new file after every 60 kB."""
    paths = [str(folder / "0")]

    def rotate(full: Sink) -> Sink:
        full.close()
        paths.append(str(folder / str(len(paths))))
        return FileSink(paths[-1])

    record(folder / "0", live, rotation=Rotation(60_000), rotate=rotate)
    assert len(paths) > 1
    return [FileRecording(path) for path in paths]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seek_in_a_rotated_recording_with_gaps_gives_the_frame_of_a_replay(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    kept = snapshots(VERDICTS / "cache_thrash.iotop.jsonl.gz")
    for _ in range(3):
        begin = pick.randrange(5, len(kept) - 5)
        del kept[begin : begin + pick.choice([1, 5, 20])]
    live = list(frames(kept))
    cursor = FrameCursor(rotated_by_size(tmp_path, live))
    for _ in range(15):
        at = pick.randrange(len(live))
        assert cursor.seek(live[at].snapshot.wall_ns) == live[at]
    reader = TimelineReader(cursor.parts, cursor.begin_wall_ns)
    while reader.step():
        pass
    changed = [live[0]] + [b for a, b in pairwise(live) if verdict_key(a.verdict) != verdict_key(b.verdict)]
    assert len(changed) > 2
    cursor.seek(0)
    for here, there in pairwise(changed):
        wall_ns = reader.next_change(here.snapshot.wall_ns, 1)
        assert wall_ns is not None
        assert cursor.seek(wall_ns) == there


@pytest.mark.parametrize(
    ("steps", "gaps"),
    [
        ([1] * 60 + [10] * 60, []),
        ([1] * 60 + [37] + [10] * 60, [37]),
        ([1] * 60 + [60] + [1] * 60, [60]),
        ([1] * 60 + [60, 1, 60] + [1] * 60, [60, 60]),
        ([1] * 60 + [10] * 30 + [60] + [10] * 30, [60]),
    ],
)
def test_a_longer_interval_is_distinguished_from_a_gap(tmp_path: Path, steps: list[int], gaps: list[int]) -> None:
    machine, live = Machine(5), []
    begin_ns, begin_wall_ns = machine.now, machine.wall
    for seconds in accumulate(steps, initial=0):
        times = {"at_ns": begin_ns + seconds * 10**9, "wall_ns": begin_wall_ns + seconds * 10**9}
        machine.now = times["at_ns"]
        live.append(machine.snapshot()._replace(**times, events=()))
    cursor = FrameCursor([FileRecording(record(tmp_path / "run", list(frames(live))))])
    reader = TimelineReader(cursor.parts, cursor.begin_wall_ns)
    while reader.step():
        pass
    found = reader.timeline(cursor.end_wall_ns()).gaps
    assert [(end - begin) // 10**9 for begin, end in found] == gaps


def test_a_later_part_continues_the_last(tmp_path: Path) -> None:
    live = lived(0, 100)
    ring = Ring()
    for frame in live[:80]:
        ring.put(frame)
    path = record(tmp_path / "1", live[:80])
    waiting: list[FileRecording] = []
    cursor = FrameCursor([FileRecording(path)], lambda: waiting.pop() if waiting else None)
    cursor.seek(2**62)
    assert cursor.forward() is None
    preroll = ring.preroll("full", live[80].snapshot.at_ns)
    ring.close()
    waiting.append(FileRecording(record(tmp_path / "2", live[80:], preroll=preroll)))
    assert [cursor.forward() for _ in live[80:]] == live[80:]


def test_frames_that_are_appended_are_read(tmp_path: Path) -> None:
    live = lived(0, 130)
    recorder = recorder_of(FileSink(str(tmp_path / "a")))
    for frame in live[:50]:
        recorder.put(frame)
    written(recorder, 50)
    cursor = FrameCursor([FileRecording(str(tmp_path / "a"))])
    assert walk(cursor) == live[:50]
    assert cursor.forward() is None
    for frame in live[50:]:
        recorder.put(frame)
    written(recorder, 130)
    assert [cursor.forward() for _ in live[50:]] == live[50:]
    assert cursor.forward() is None
    assert recorder.close()
    assert cursor.forward() is None


@pytest.mark.parametrize("copied", [1, 2], ids=["the last line", "the last two lines"])
def test_a_file_whose_last_snapshots_are_there_twice_has_an_end(tmp_path: Path, copied: int) -> None:
    path = record(tmp_path / "a", lived(1, 12))
    lines = Path(path).read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if not line.startswith(b'{"k":"end"')]
    last = [line for line in whole if line.startswith(b'{"k":"snap"')][-copied:]
    Path(path).write_bytes(b"".join([*whole, *last]))
    cursor = FrameCursor([FileRecording(path)])
    cursor.seek(0)
    steps = sum(cursor.forward() is not None for _ in range(60))
    assert steps == 11 + copied


def test_the_frames_in_memory_are_played_and_grow() -> None:
    live = lived(0, 130)
    ring = Ring()
    for frame in live[:100]:
        ring.put(frame)
    assert ring.drain(60)
    held = ring.recording()
    assert held is not None
    cursor = FrameCursor([held])
    assert cursor.seek(live[99].snapshot.wall_ns - 1) == live[98]
    for frame in live[100:]:
        ring.put(frame)
    assert ring.drain(60)
    assert [cursor.forward() for _ in live[99:]] == live[99:]
    assert cursor.forward() is None
    assert walk_back(cursor) == live
    ring.close()


def test_the_keyframe_is_shown_before_the_rest_is_decoded(tmp_path: Path) -> None:
    live = lived(0, 120)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    early: list[Frame] = []
    found = cursor.seek(live[100].snapshot.wall_ns, early.append)
    assert found == live[100]
    assert [(f.snapshot, f.sample, f.verdict) for f in early] == [
        (live[60].snapshot, live[60].sample, live[60].verdict)
    ]


def test_a_cancelled_seek_keeps_the_position(tmp_path: Path) -> None:
    live = lived(0, 150)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    cursor.seek(0)
    with pytest.raises(Cancelled):
        cursor.seek(live[140].snapshot.wall_ns, cancelled=lambda: True)
    assert cursor.frame == live[0]
    assert cursor.forward() == live[1]


def test_graphs_reach_further_back_than_the_history(tmp_path: Path) -> None:
    live = lived(0, 150)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    frame = cursor.seek(live[140].snapshot.wall_ns)
    first = frame.history[0].at_ns
    wanted = [f.sample._replace(processes=Rated()) for f in live if f.snapshot.at_ns < first]
    past = cursor.past(frame, 60)
    assert 0 < len(past) <= 60
    assert list(past) == wanted[-len(past) :]
    assert list(cursor.past(frame, 10_000)) == wanted


def test_graphs_reach_into_the_files_before_a_rotation(tmp_path: Path) -> None:
    live = lived(0, 150)
    cursor = FrameCursor(rotated_by_size(tmp_path, live))
    frame = cursor.seek(live[-1].snapshot.wall_ns)
    first = frame.history[0].at_ns
    wanted = [f.sample._replace(processes=Rated()) for f in live if f.snapshot.at_ns < first]
    assert list(cursor.past(frame, 10_000)) == wanted


def test_no_rule_runs_to_draw_the_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = lived(0, 150)
    cursor = FrameCursor([FileRecording(record(tmp_path / "a", live))])
    frame = cursor.seek(live[140].snapshot.wall_ns)
    monkeypatch.setattr("iotop_ai.diagnosis.engine.fold", lambda *_, **__: pytest.fail("a rule ran"))
    assert cursor.past(frame, 60)


def test_a_recording_that_has_only_a_pre_roll_is_refused(tmp_path: Path) -> None:
    live = lived(1, 10)
    ring = Ring()
    for frame in live:
        ring.put(frame)
    preroll = ring.preroll("full", live[-1].snapshot.at_ns + 1)
    ring.close()
    path = record(tmp_path / "a", live[:1], preroll=preroll)
    lines = Path(path).read_bytes().split(b"\n")
    kept = [line for line in lines if b'"pre":true' in line or line.startswith(b'{"k":"hdr"')]
    Path(path).write_bytes(b"\n".join(kept) + b"\n")
    with pytest.raises(InputError, match="pre-roll"):
        FrameCursor([FileRecording(path)])


def test_a_recording_opens_at_its_first_verdict() -> None:
    path = VERDICTS / "storage_read.iotop.jsonl.gz"
    with_verdict = FrameCursor([FileRecording(str(path))])
    first = with_verdict.seek(0)
    assert first.verdict.measuring
    opened = with_verdict.first_verdict()
    assert (opened.verdict.primary.class_id, opened.verdict.measuring) == ("storage_read", False)
    assert opened.sample.block.value
    assert opened is with_verdict.frame


def test_a_recording_opens_at_its_first_verdict_that_lasts() -> None:
    cursor = FrameCursor([FileRecording(str(VERDICTS / "gpu_throttle_heat.iotop.jsonl.gz"))])
    cursor.seek(0)
    opened = cursor.first_verdict()
    assert (opened.verdict.primary.class_id, opened is cursor.frame) == ("gpu_throttle", True)
    before = cursor.back()
    assert before is not None
    assert before.verdict.primary.class_id == "gpu_bound"


def test_a_recording_without_a_verdict_opens_a_few_steps_in(tmp_path: Path) -> None:
    cursor = FrameCursor([FileRecording(record(tmp_path / "a.iotop.jsonl", lived(1, 5)))])
    begin = cursor.seek(0)
    opened = cursor.first_verdict()
    assert opened.snapshot.wall_ns > begin.snapshot.wall_ns
    assert cursor.forward() is None
