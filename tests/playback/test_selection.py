"""Recorded totals give the same diagnosis as folding the whole recording again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.export.json.diagnosis import Diagnosis
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import CLOCK_SET_BACK, NOT_RECORDED, Event
from iotop_ai.pipeline import frames
from iotop_ai.playback.run_reader import JudgedSpan, RunReader
from iotop_ai.playback.selection import RecordedFrames
from iotop_ai.present.text.units import clock
from iotop_ai.sources.recorded.source import ReplaySource
from iotop_ai.store.format.codec import TotalsLine
from iotop_ai.store.format.line_head import TOTALS
from iotop_ai.store.write.compress import compress
from iotop_ai.store.write.recorder import Recorder
from iotop_ai.store.write.sink import FileSink
from tests.scenarios.keep import INDEX, VERDICTS, snapshots
from tests.sources.recorded.test_corrected_times import stepped
from tests.sources.recorded.test_source import Rotated
from tests.store.scenario import Machine, lived
from tests.tui.recorded import record, stalling

KEPT: list[str] = sorted(kept["file"] for kept in json.loads((VERDICTS / INDEX).read_text()).values())
QUICK = [name for name in KEPT if name.split(".")[0] in ("storage_read", "comm_wait_network", "job_died_SIGKILL")]
SEEDS = [(0, False), (1, True), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((1, False), (2, True)))]
pytestmark = pytest.mark.xdist_group("selected recordings")  # the tests share their Frames, so one worker runs them


def folded(path: Path | str, begin: str | None = None, end: str | None = None) -> Diagnosis:
    """The diagnosis from folding every Snapshot."""
    diagnosis = Diagnosis()
    for frame in RecordedFrames(str(path), begin, end, allow_root=True):
        diagnosis.add(frame)
    return diagnosis


class Counted:
    """The diagnosis from recorded totals, where there are any."""

    def __init__(self, path: Path | str, begin: str | None = None, end: str | None = None) -> None:
        self.diagnosis = Diagnosis()
        self.tallies = self.frames = 0
        self.last: Frame | None = None
        for part in RecordedFrames(str(path), begin, end, allow_root=True).frames_or_totals():
            if isinstance(part, TotalsLine):
                self.tallies += 1
                self.diagnosis.join(part.tally)
            else:
                self.frames += 1
                self.diagnosis.add(part)
                self.last = part


def same(path: Path | str, begin: str | None = None, end: str | None = None) -> Counted:
    """Assert that recorded totals and folding agree in every figure; return the result of the totals."""
    totals, whole = Counted(path, begin, end), folded(path, begin, end)
    assert totals.diagnosis.totals() == whole.totals()
    assert totals.diagnosis.as_object() == whole.as_object()
    return totals


def agree_on_kept(name: str, folder: Path) -> None:
    """Assert that totals and folding agree on a stored recording, recorded again with another spacing of keyframes."""
    live = list(frames(snapshots(VERDICTS / name)))
    path = record(folder / "a.iotop.jsonl", live, keyframe_every=13)
    totals = same(path)
    assert totals.tallies == (len(live) - 1) // 13
    assert totals.frames == len(live) - 13 * totals.tallies
    assert totals.last is not None
    assert totals.last.verdict == live[-1].verdict


@pytest.mark.parametrize("name", QUICK)
def test_totals_and_folding_agree_on_some_real_causes(name: str, tmp_path: Path) -> None:
    agree_on_kept(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KEPT if name not in QUICK])
def test_totals_and_folding_agree_on_every_other_stored_cause(name: str, tmp_path: Path) -> None:
    agree_on_kept(name, tmp_path)


@pytest.mark.parametrize(("seed", "packed"), SEEDS)
def test_totals_and_folding_agree_on_random_sessions_and_parts_of_them(tmp_path: Path, seed: int, packed: bool) -> None:
    live = lived(seed, 100)
    path = record(tmp_path / "a.iotop.jsonl", live, keyframe_every=10)
    if packed:
        path = compress(path)
    assert same(path).tallies == 9
    pick = random.Random(seed)
    for _ in range(2):
        a, b = sorted(pick.sample(range(0, 100, 3), 2))
        same(path, f"{a}%", f"{b}%")
    same(path, None, "0%")
    same(path, "100%")


def test_totals_and_folding_agree_on_a_chain_of_parts(tmp_path: Path) -> None:
    live = lived(0, 150)
    rotated = Rotated(tmp_path / "a.iotop.jsonl")
    rotated.write(live)
    rotated.close()
    assert len(rotated.parts) > 1
    totals = same(rotated.path)
    assert totals.tallies > 0
    assert totals.frames < len(live)


def test_totals_and_folding_agree_on_a_chain_whose_clock_was_set_back(tmp_path: Path) -> None:
    live = list(frames(stepped(lived(0, 130), {40: -3600 * 10**9, 90: -60 * 10**9})))
    rotated = Rotated(tmp_path / "a.iotop.jsonl")
    rotated.write(live)
    rotated.close()
    assert len(rotated.parts) > 1
    for begin, end in ((None, None), ("15%", "70%")):
        totals, whole = Counted(rotated.path, begin, end), folded(rotated.path, begin, end)
        assert totals.tallies > 0
        one, other = totals.diagnosis.totals(), whole.totals()
        assert one._replace(spans=()) == other._replace(spans=())
        # A recorded span has no monotonic time, so its start is known only to about a second.
        assert [span[1:] for span in one.spans] == [span[1:] for span in other.spans]
        assert [span.wall_ns for span in one.spans] == pytest.approx([span.wall_ns for span in other.spans], abs=10**9)


def test_a_clock_that_was_set_back_between_two_blocks_is_reported(tmp_path: Path) -> None:
    path = record(tmp_path / "a.iotop.jsonl", lived(0, 100), keyframe_every=10)
    boundary = ReplaySource(str(path), allow_root=True).parts[0].blocks[5].at_ns
    at = next(i for i, frame in enumerate(lived(0, 100)) if frame.snapshot.at_ns == boundary)
    again = record(
        tmp_path / "b.iotop.jsonl", list(frames(stepped(lived(0, 100), {at: -90 * 10**9}))), keyframe_every=10
    )
    for every in (True, False):
        items = list(RunReader(RecordedFrames(str(again), allow_root=True), every=every))
        events = [e for one in items for e in (one.events if isinstance(one, JudgedSpan) else one.snapshot.events)]
        assert [event.text.split(";")[0] for event in events if event.kind == CLOCK_SET_BACK] == [
            "the clock was set back by 90 s"
        ]


def test_totals_and_folding_agree_on_a_file_with_a_reboot_and_an_append(tmp_path: Path) -> None:
    before, after = Machine(3, "boot-1"), Machine(4, "boot-2")
    after.wall = before.wall + 10**12
    live = list(frames([*(before.snapshot() for _ in range(70)), *(after.snapshot() for _ in range(70))]))
    path = tmp_path / "a.iotop.jsonl"
    record(path, live, keyframe_every=20)
    third = Machine(5, "boot-3")
    third.wall = after.wall + 10**12
    recorder = Recorder(FileSink(str(path), append=True), Clock(), cmdline="full", min_free_bytes=0)
    for frame in frames(third.snapshot() for _ in range(90)):
        recorder.put(frame)
    assert recorder.close()
    assert same(path).tallies == 9


def test_a_block_after_a_gap_gets_no_totals(tmp_path: Path) -> None:
    """The recorder saw more than is in the file, so its totals would differ."""
    live = lived(0, 200)
    recorder = Recorder(FileSink(str(tmp_path / "a")), Clock(), min_free_bytes=0, keyframe_every=20)
    for frame in live:
        recorder.put(frame)
    assert recorder.close()
    lines = (tmp_path / "a").read_bytes().splitlines()
    gaps = sum(b'"gap":true' in line[:200] for line in lines)
    blocks = sum(b',"key":true' in line[:200] for line in lines)
    assert sum(line.startswith(TOTALS) for line in lines) == blocks - gaps


def test_totals_of_other_rules_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    record(path, lived(0, 90), keyframe_every=20)
    assert Counted(path).tallies == 4
    path.write_bytes(path.read_bytes().replace(stamp().encode(), b"0-other", 1))
    totals = same(path)
    assert (totals.tallies, totals.frames) == (0, 90)


def test_totals_and_folding_agree_on_a_file_whose_writer_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.iotop.jsonl"
    record(path, lived(0, 90), keyframe_every=20)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-4]))
    assert same(path).tallies == 4


@pytest.mark.parametrize(
    "bad",
    [
        {"k": "tally"},
        {"k": "tally", "m": 1, "t": 1, "v": []},
        {"k": "tally", "m": 1, "t": 1, "v": [-1]},
        {"k": "tally", "m": 1, "t": 1, "v": [0, 0.0, 0, 0, [], [[1, "no_such_class", "OK", 1]]]},
        {"k": "tally", "m": 1, "t": 1, "v": [0, 0.0, 0, 0, [[["no_such_class", "info", 1.0], 0, 0, 0, 0]]]},
        {"k": "tally", "m": 1, "t": 1, "v": [0, 0.0, 0, 0, [[["idle", "info", 1.0], 0, 0, -5, 0]]]},
        {"k": "tally", "m": 1, "t": 1, "v": "no array"},
    ],
)
def test_malformed_totals_are_refused_with_the_number_of_their_line(tmp_path: Path, bad: dict[str, Any]) -> None:
    path = tmp_path / "a.iotop.jsonl"
    record(path, lived(0, 50), keyframe_every=20)
    lines = path.read_bytes().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.startswith(TOTALS))
    lines[first] = json.dumps(bad, separators=(",", ":")).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    if bad.get("v") == []:
        assert Counted(path).tallies == 2  # an empty array is valid: all fields have their defaults
        return
    with pytest.raises(InputError, match="line"):
        Counted(path)


def test_totals_and_folding_agree_on_a_part_of_a_stall(tmp_path: Path) -> None:
    path = record(tmp_path / "a.iotop.jsonl", stalling(), keyframe_every=30)
    for begin, end in ((None, "+95s"), ("+31s", "+89s")):
        same(path, begin, end)


def test_a_time_of_day_far_from_the_recording_is_a_mistake(tmp_path: Path) -> None:
    path = str(record(tmp_path / "a.iotop.jsonl", stalling(), keyframe_every=30))
    first_ns, _ = ReplaySource(path, allow_root=True).span()
    near, far = (clock(first_ns - ago_s * 10**9, pattern="%H:%M") for ago_s in (600, 6 * 3600))
    assert list(RecordedFrames(path, near, allow_root=True))
    for begin, end in ((far, None), (None, far)):
        with pytest.raises(UsageError, match=f"{far}: the recording is from "):
            RecordedFrames(path, begin, end, allow_root=True)


@pytest.fixture
def two_sessions(tmp_path: Path) -> Path:
    """A recording of 7 Snapshots 10 s apart, to which 60 Snapshots 1 s apart were appended 10 s later."""
    made = [frame.snapshot for frame in stalling()]
    path = tmp_path / "a.iotop.jsonl"
    record(path, list(frames(one._replace(interval_s=10.0) for one in made[:61:10])))
    record(tmp_path / "more", list(frames(one._replace(interval_s=1.0) for one in made[70:])))
    with path.open("ab") as out:
        out.write((tmp_path / "more").read_bytes())
    return path


@pytest.mark.parametrize(
    ("begin", "end", "interval_s"),
    [("-20s", None, "1"), (None, None, "1"), (None, "+30s", "10"), ("+20s", "+30s", "10")],
)
def test_facts_are_those_of_the_last_selected_session(
    two_sessions: Path, begin: str | None, end: str | None, interval_s: str
) -> None:
    played = RecordedFrames(str(two_sessions), begin, end, allow_root=True)
    assert played.about()["interval_s"] == interval_s
    assert list(RunReader(played))
    assert played.about()["interval_s"] == interval_s, "reading changed the interval"


@pytest.mark.parametrize(("most", "spacing_s"), [(60, 60.0), (70, None)])
def test_each_session_counts_with_its_own_interval(
    two_sessions: Path, most: int, spacing_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotop_ai.playback.run_reader.MOST_SNAPSHOTS", most)
    assert RunReader(RecordedFrames(str(two_sessions), allow_root=True)).spacing_s == spacing_s


def test_the_snapshots_of_a_burst_are_counted_by_their_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header has the usual interval of 10 s; the Snapshots are 1 s apart."""
    live = list(frames(frame.snapshot._replace(interval_s=10.0) for frame in stalling()))
    path = record(tmp_path / "a.iotop.jsonl", live)
    monkeypatch.setattr("iotop_ai.playback.run_reader.MOST_SNAPSHOTS", 100)
    assert RunReader(RecordedFrames(path, allow_root=True)).spacing_s == 60.0


def test_what_was_not_recorded_is_listed_although_totals_have_no_events(tmp_path: Path) -> None:
    live = stalling()
    middle = 80  # in the second of three blocks
    now = live[middle].snapshot
    note = Event(now.at_ns, now.wall_ns, NOT_RECORDED, "1 event not kept")
    live[middle] = live[middle]._replace(snapshot=now._replace(events=(*now.events, note)))
    path = record(tmp_path / "a.iotop.jsonl", live)
    counted = Counted(path)
    assert counted.tallies == 1, "the block with the note is not replaced by its totals"
    assert (now.wall_ns, note.text) in counted.diagnosis.missing
