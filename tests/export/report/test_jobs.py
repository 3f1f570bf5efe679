"""The steps of a job are those that its ranks report, counted over the time between two messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, cycle

import pytest

from iotop_ai.export.compare.comparison import Window, points_of
from iotop_ai.export.report.jobs import MOST_MOUNTS, JobFold
from iotop_ai.export.report.money import gpu_time
from iotop_ai.export.report.series import MOST_POINTS, Grid
from iotop_ai.export.report.story import Steps
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.job.records import Job, JobMount, JobPlace, JobTable, Rank
from iotop_ai.model.job.steps import StepCounts
from iotop_ai.model.job.time_shares import TimeCounts
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.sample import between
from iotop_ai.model.verdict_totals import JobTime
from iotop_ai.pipeline import samples
from tests.export.make import INFOS, WALL_NS, S, ok, snapshot

RUN_S = 600
Messages = Sequence[tuple[ProcessKey, float, int]]


def messages(*steps_s: float, key: int = 10, offset_s: float = 0.0) -> Messages:
    """One message at the end of each step. The given lengths of steps repeat."""
    lengths = cycle(steps_s)
    ends = accumulate((next(lengths) for _ in range(RUN_S * 2)), initial=offset_s)
    return [(ProcessKey(key, 1), end_s, done) for done, end_s in enumerate(ends) if done]


def reported(
    *ranks: Messages, numbers: Sequence[int | None] = (None, None), late_s: float = 0.0, most: int = MOST_POINTS
) -> Steps:
    """The steps of a job whose ranks send these messages, which are read once a second.

    late_s: how long after the time of a Snapshot its messages are read. most: the most points of the curve.
    """
    keys = list(dict.fromkeys(key for one in ranks for key, _, _ in one))
    job = Job(ProcessKey(1, 1), "train.py", "alice", 1000, tuple(map(Rank, keys)))
    snapshots = []
    for at_s in range(1, RUN_S + 1):
        newest: dict[ProcessKey, StepCounts] = {}
        for one, number in zip(ranks, numbers, strict=False):
            for key, end_s, done in one:
                if end_s <= at_s + late_s:
                    newest[key] = StepCounts(int(end_s * S), done, done, None, number)
        sent_ns = max((counts.at_ns for counts in newest.values()), default=0)
        readings = {"jobs": ok(JobTable({job.key: job}), at_s * S), "steps": ok(newest, sent_ns)}
        snapshots.append(snapshot(at_s, at_s * S, **readings)._replace(interval_s=1.0))
    grid = Grid(WALL_NS + S, None, 1.0, most)
    fold = JobFold(grid)
    for one, sample in samples(snapshots):
        interval = None if sample.seconds is None else grid.interval(one.wall_ns, sample.seconds)
        if interval is not None:
            fold.add(interval, one, sample)
    (story,) = fold.stories({})
    assert story.steps is not None
    return story.steps


DATA = JobMount("/my data", "ext4", "/dev/sda1", "8:1")


def place_of(*looks: tuple[JobMount, Mapping[str, BlockInfo] | None]) -> tuple[str, str, str]:
    """The mount, filesystem and disk of a job that reads from these mounts, with these disks, one second each."""
    job = Job(ProcessKey(1, 1), "train.py", "alice", 1000, ())
    grid = Grid(WALL_NS, None, 1.0)
    fold = JobFold(grid)
    for second, (mount, infos) in enumerate(looks, 1):
        jobs = JobTable({job.key: job}, places={job.key: JobPlace(mounts=(mount,))})
        disks: Reading[object] = Reading() if infos is None else ok(infos, second * S)
        one = snapshot(second, second * S, jobs=ok(jobs, second * S), disks=disks)
        interval = grid.interval(WALL_NS + second * S, 1.0)
        assert interval is not None
        fold.add(interval, one, between(None, one, None))
    (story,) = fold.stories({})
    return story.mount, story.fstype, story.disk


def test_the_disk_of_a_job_may_be_known_later_than_its_mount() -> None:
    assert place_of((DATA, None), (DATA, INFOS), (DATA, None)) == ("/my data", "ext4", "sda")


def test_the_place_of_a_job_is_where_it_read_longest() -> None:
    """The last seconds of a run, in which a checkpoint is read back, do not move its data to another disk."""
    other = JobMount("/checkpoints", "xfs", "/dev/loop0", "7:0")
    assert place_of(*[(DATA, INFOS)] * 20, *[(other, INFOS)] * 3) == ("/my data", "ext4", "sda")
    assert place_of(*[(DATA, INFOS)] * 3, *[(other, INFOS)] * 20) == ("/checkpoints", "xfs", "loop0")


def test_the_number_of_mounts_of_a_job_is_bounded() -> None:
    many = [JobMount(f"/snapshots/{i}", "ext4", "/dev/sda1", "8:1") for i in range(MOST_MOUNTS)]
    assert place_of(*[(one, INFOS) for one in many], *[(DATA, INFOS)] * 20)[0] == "/snapshots/0"


@pytest.mark.parametrize("steps_s", [(10.0,), (4.0,), (0.5,), (1.0,) * 10 + (10.0,), (0.3, 2.9)])
def test_steps_of_any_length_are_all_counted(steps_s: tuple[float, ...]) -> None:
    """The first message of a process begins the count, and a step is done once it is reported."""
    found, per_s = reported(messages(*steps_s)), len(steps_s) / sum(steps_s)
    assert found.per_s == pytest.approx(per_s, rel=0.01)
    assert found.steps == pytest.approx(RUN_S * per_s, abs=2.5)
    assert found.curve is not None
    whole = points_of(found.curve, Window(0, 2 * WALL_NS))
    assert whole.mean == pytest.approx(per_s, rel=0.01)
    assert sum(v * w for v, w in zip(whole.values, whole.weights, strict=True)) == pytest.approx(found.steps, abs=2.5)


@pytest.mark.parametrize(("steps_s", "expected_s"), [((20.0,), 20.0), ((0.5,), 1.0), ((1.0,) * 10 + (10.0,), 20 / 11)])
def test_readings_are_as_far_apart_as_the_messages_that_are_read(steps_s: tuple[float, ...], expected_s: float) -> None:
    """The curve has a point a second, so a longer step fills several points with one reading."""
    found = reported(messages(*steps_s))
    assert found.reading_s == pytest.approx(expected_s, rel=0.01)
    assert found.curve is not None
    assert found.curve.step_s == 1.0
    assert found.spacing_s == max(1.0, found.reading_s)


def test_a_message_after_the_time_of_its_snapshot_does_not_double_the_step_of_the_grid() -> None:
    found = reported(messages(1.0, offset_s=0.005), late_s=0.01, most=RUN_S - 1)
    assert found.curve is not None
    assert (found.curve.step_s, len(found.curve.values)) == (1.0, RUN_S - 1)


def test_the_slowest_rank_counts_unless_it_has_just_begun() -> None:
    began = [one for one in messages(100.0, key=12) if one[2] < 3]
    found = reported(messages(2.0), messages(5.0, key=11, offset_s=0.4), began, numbers=(0, 1, 2))
    assert (found.steps, found.per_s) == (118, pytest.approx(0.2))


def test_a_restarted_process_continues_its_rank() -> None:
    first = [one for one in messages(2.0) if one[1] <= 300]
    second = messages(2.0, key=11, offset_s=300)
    found = reported([*first, *second], numbers=(0,))
    assert (found.steps, found.per_s) == (149 + 149, pytest.approx(0.5))


def test_the_time_of_a_gpu_is_divided_among_the_jobs_that_hold_it() -> None:
    """Both jobs hold GPU-1 in the first half of an hour; one of them holds GPU-2 as well."""
    one, other = (
        Job(ProcessKey(pid, pid), "train.py", "alice", 1000, (Rank(ProcessKey(pid, pid), gpus=gpus),))
        for pid, gpus in ((1, ("GPU-1", "GPU-2")), (2, ("GPU-1",)))
    )
    grid = Grid(WALL_NS, None, 60.0)
    fold = JobFold(grid)
    for minute in range(1, 61):
        jobs = JobTable({job.key: job for job in ((one, other) if minute <= 30 else (one,))})
        read = snapshot(minute, 60 * minute * S, jobs=ok(jobs, 60 * minute * S))
        interval = grid.interval(read.wall_ns, 60.0)
        assert interval is not None
        fold.add(interval, read, between(None, read, None))
    hour_ms = 3_600_000
    times = {one.key: TimeCounts(compute=hour_ms), other.key: TimeCounts(data_disk=hour_ms // 2)}
    stories = fold.stories({key: JobTime(key, "train.py", counts) for key, counts in times.items()})
    assert [story.gpu_hours(story.counts.whole_ms) for story in stories] == pytest.approx([1.75, 0.25])
    found = gpu_time(stories)
    assert found is not None
    assert (found.used, found.lost) == pytest.approx((2.0, 0.25))


@pytest.mark.parametrize(("are_gpus_known", "mean"), [(True, 8 * 0.1 + 0.4), (False, (8 * 0.1 + 0.4) / 0.5)])
def test_a_gpu_that_is_given_back_counts_only_while_it_is_held(are_gpus_known: bool, mean: float) -> None:
    """In an hour, a job holds 8 GPUs for 6 minutes, one for 24, and then none, or the GPUs cannot be read."""
    key, grid = ProcessKey(1, 1), Grid(WALL_NS, None, 60.0)
    fold = JobFold(grid)
    for minute in range(1, 61):
        gpus = tuple(f"GPU-{i}" for i in range(8 if minute <= 6 else minute <= 30))
        job = Job(key, "train.py", "alice", 1000, (Rank(key, gpus=gpus),))
        at_ns = 60 * minute * S
        read = snapshot(minute, at_ns, jobs=ok(JobTable({key: job}), at_ns))
        if minute <= 30 or are_gpus_known:
            read = read._replace(gpu=Reading({}, Status.OK, "", "", at_ns))
        interval = grid.interval(read.wall_ns, 60.0)
        assert interval is not None
        fold.add(interval, read, between(None, read, None))
    (story,) = fold.stories({key: JobTime(key, "train.py", TimeCounts(compute=3_600_000))})
    assert (story.gpus, story.gpu_hours(3_600_000)) == (8, pytest.approx(mean))
