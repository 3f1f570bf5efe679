"""A recording stores where the time of the jobs went. A recording of an older version has no such times."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job, JobTable, Rank
from iotop_ai.model.job.time_shares import SHARES, TimeCounts, add_time, mean_shares, time_shares
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.compress import compress
from tests.store.scenario import session
from tests.tui.recorded import record

TOP = Path(__file__).resolve().parents[3]
OLDER_RECORDING = TOP / "tests" / "data" / "verdicts" / "storage_read_torch.iotop.jsonl.gz"
FIRST, SECOND = ProcessKey(100, 700), ProcessKey(200, 1400)
pytestmark = pytest.mark.xdist_group("read recordings")  # the tests share their Frames, so one worker runs them all
BEGINS, ENDS = 40, 100
"""The Snapshots between which the second job runs."""


def snapshots(count: int = 130) -> Iterator[Snapshot]:
    """A machine with a job and, for a while, a second job."""
    pick = random.Random(9)
    times: dict[ProcessKey, TimeCounts] = {}
    earlier_ns = 0
    for n, snapshot in enumerate(session(4, count)):
        keys = (FIRST, SECOND) if BEGINS <= n < ENDS else (FIRST,)
        elapsed_ms = (snapshot.at_ns - earlier_ns) // 1_000_000 if n else 0
        earlier_ns = snapshot.at_ns
        for key in keys:
            weights = [pick.choice((0, 0, 0, 1, 5)) for _ in SHARES]
            weights[pick.randrange(len(SHARES))] += 1
            shares = [weight / sum(weights) for weight in weights]
            times[key] = add_time(times.get(key, TimeCounts()), shares, elapsed_ms)
        jobs = {key: Job(key, "train.py", "alice", 1000, (Rank(key),)) for key in keys}
        table = JobTable(jobs, own_cpu_ns=n * 1000, times={key: times[key] for key in keys})
        yield snapshot._replace(jobs=Reading(table, Status.OK, at_ns=snapshot.at_ns))


@pytest.fixture(scope="module")
def live() -> list[Frame]:
    return list(frames(snapshots()))


def times_of(frame: Frame) -> tuple[object, object]:
    """The counters and the shares of a Frame."""
    table, sample = frame.snapshot.jobs.value, frame.sample.jobs.value
    return None if table is None else table.times, None if sample is None else sample.times


def test_a_recording_of_an_older_version_has_no_times() -> None:
    seen = 0
    for frame in frames(FileRecording(str(OLDER_RECORDING)).items()):
        table, sample = frame.snapshot.jobs.value, frame.sample.jobs.value
        if table is None or not table.jobs:
            continue
        seen += 1
        assert table.times == {}
        assert sample is None or sample.times == {}
    assert seen > 20


@pytest.mark.parametrize("packed", [False, True])
def test_times_are_the_same_when_played_and_after_a_seek(tmp_path: Path, live: list[Frame], packed: bool) -> None:
    path = record(tmp_path / "a.iotop.jsonl", live)
    recording = FileRecording(compress(path) if packed else path)
    played = list(frames(recording.items()))
    assert [times_of(frame) for frame in played] == [times_of(frame) for frame in live]
    for at in (BEGINS, ENDS) if packed else (1, BEGINS + 1, 60, ENDS - 1, len(live) - 1):
        entry = recording.entry(recording.blocks[-1].session, live[at].snapshot.at_ns)
        items = recording.items(entry.block, fold_ns=entry.fold_ns)
        found = next(frame for frame in frames(items) if frame.snapshot.at_ns == live[at].snapshot.at_ns)
        assert times_of(found) == times_of(live[at])


def test_the_shares_of_the_intervals_add_up_to_those_of_the_whole(live: list[Frame]) -> None:
    for key, first, last in ((FIRST, 0, len(live) - 1), (SECOND, BEGINS, ENDS - 1)):
        tables = [frame.snapshot.jobs.value for frame in (live[first], live[last])]
        samples = [frame.sample.jobs.value for frame in live[first + 1 : last + 1]]
        parts = [sample.times[key] for sample in samples if sample is not None]
        assert len(parts) == last - first
        before, after = (table.times[key] for table in tables if table is not None)
        assert mean_shares(parts) == pytest.approx(time_shares(before, after))


def test_the_first_reading_of_a_job_has_no_shares_yet(live: list[Frame]) -> None:
    samples = [frame.sample.jobs.value for frame in live]
    known = [n for n, sample in enumerate(samples) if sample is not None and SECOND in sample.times]
    assert known == list(range(BEGINS + 1, ENDS))
