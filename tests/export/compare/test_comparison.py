"""Comparisons of two real runs agree with the logs of the trainers."""

from __future__ import annotations

import itertools

import pytest

from iotop_ai.export.compare.comparison import JOB, MARKS, TIME, Change, Interval, compare_runs, job_disk
from iotop_ai.export.compare.sentence import change_text, interval_text, sentence
from iotop_ai.export.compare.text import (
    aligned_text,
    clear_text,
    compare_object,
    not_compared_text,
    render_compare_text,
)
from iotop_ai.export.html.compare import render_compare_html
from iotop_ai.export.report.series import downsampled
from iotop_ai.export.report.step_curve import with_steps
from iotop_ai.export.report.story import Story
from iotop_ai.export.report.words import verdicts_over_time
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.condition.figures import SHARE_NAMES
from iotop_ai.model.errors import UsageError
from iotop_ai.model.job.time_shares import LOST
from iotop_ai.model.snapshot import Event
from iotop_ai.sources.imports.step_log import PRINTED, StepLog, StepPoint
from tests.export.compare.kept import TRUTH, comparison, story

# the tests share cached stories and comparisons, so one worker runs them all
pytestmark = pytest.mark.xdist_group("comparison")


@pytest.mark.parametrize("name", TRUTH, ids="of_{}".format)
def test_each_run_has_the_figures_of_the_trainers_log(name: str) -> None:
    truth = TRUTH[name]
    found = comparison(name, name, True)
    wait, steps = found.change("data_wait"), found.change("steps_per_s")
    assert wait is not None
    assert steps is not None
    assert wait.before == pytest.approx(truth["wait_ratio"], abs=0.03)
    assert steps.before == pytest.approx(truth["steps_per_s"], rel=0.02)


@pytest.mark.parametrize(
    ("before", "after"), [("slow", "memory"), ("slow", "fast_disk"), ("slow", "two_workers"), ("slow", "warm")]
)
def test_a_run_is_faster_by_the_true_difference(before: str, after: str) -> None:
    found = comparison(before, after, True)
    steps, wait = found.change("steps_per_s"), found.change("data_wait")
    assert steps is not None
    assert wait is not None
    assert steps.clear
    assert wait.clear
    truth = TRUTH[after]["steps_per_s"] - TRUTH[before]["steps_per_s"]
    assert steps.difference == pytest.approx(truth, rel=0.04)
    assert steps.interval is not None
    assert steps.interval.low - 0.2 <= truth <= steps.interval.high + 0.2


@pytest.mark.parametrize(
    ("before", "after", "begin", "reason"),
    [
        ("slow", "memory", "1.7x faster (12.0 -> 19.8 steps/s)", "it no longer reads from loop0 ("),
        ("memory", "slow", "1.7x slower (19.8 -> 12.0 steps/s)", "it reads from loop0 now ("),
        ("slow", "warm", "47 % faster (12.0 -> 17.6 ", "it reads less from its disk (6.0 MB/s -> 1.6 MB/s): a warmer"),
        ("warm", "slow", "32 % slower (17.6 -> 12.0 ", "MB/s -> 6.0 MB/s): a colder cache, or more data"),
        ("slow", "two_workers", "1.7x faster (12.0 -> 19.8 steps/s)", "2 workers load instead of 1"),
        ("slow", "fast_disk", "1.6x faster", "its data lies on loop2 (r_await 3 ms) instead of loop0 (20 ms)"),
    ],
)
def test_the_sentence_names_the_difference_and_its_cause(before: str, after: str, begin: str, reason: str) -> None:
    text = sentence(comparison(before, after, True))
    assert text.startswith(begin)
    assert ": waiting for data " in text
    assert reason in text.split(", because ")[1]


def test_a_disk_that_both_runs_read_alike_is_not_a_cause_if_one_jobs_disk_is_unknown() -> None:
    slow, fast = story("slow", True), story("memory", True)
    unknown = fast._replace(devices=slow.devices)
    for pair in ((slow, unknown), (unknown, slow)):
        assert ", because " not in sentence(compare_runs(*pair))
    loop0 = next(one for one in slow.devices if one.name == "loop0")
    uncounted = fast._replace(devices=(loop0._replace(curves={}), *fast.devices))
    unread = fast._replace(devices=())
    for run in (uncounted, unread):
        for pair in ((slow, run), (run, slow)):
            assert ", because " not in sentence(compare_runs(*pair))


@pytest.mark.parametrize(("before", "after"), [("slow", "two_workers"), ("two_workers", "slow")])
def test_fewer_workers_are_not_named_as_the_cause_of_a_faster_run(before: str, after: str) -> None:
    found = comparison(before, after, True)
    assert " instead of " in sentence(found)
    swapped = [
        one._replace(jobs=tuple(job._replace(workers=3 - (job.workers or 0)) for job in one.jobs))
        for one in (found.before, found.after)
    ]
    assert " instead of " not in sentence(found._replace(before=swapped[0], after=swapped[1]))


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        ("slow", "again", True),
        ("slow", "again", False),
        ("slow", "threads", True),
        ("memory", "two_workers", True),
        pytest.param("slow", "threads", False, marks=pytest.mark.slow),
        pytest.param("memory", "two_workers", False, marks=pytest.mark.slow),
    ],
)
def test_equal_runs_have_no_clear_difference(one: str, other: str, steps: bool) -> None:
    for found in (comparison(one, other, steps), comparison(other, one, steps)):
        assert sentence(found).startswith("No clear difference: ")
        assert not any(
            change.clear for change in found.changes if change.name in ("compute", "data_wait", "steps_per_s")
        )


HALVES = {
    "slow": [(name, at) for name in ("slow", "again", "threads") for at in (2.0, 20.0)],
    "fast": [(name, at) for name in ("memory", "two_workers") for at in (2.0, 20.0)],
}


def test_at_most_one_in_twenty_pairs_of_equal_halves_differs() -> None:
    """Runs of equal speed are cut into halves of 18 s. They make 21 pairs, most of them from two different runs."""
    wrong, pairs = [], 0
    for halves in HALVES.values():
        for one, other in itertools.combinations(halves, 2):
            cut = [with_marks(name, ("a", at), ("b", at + 18.0), steps=True) for name, at in (one, other)]
            found = compare_runs(*(whole._replace(devices=(), totals={}) for whole in cut), MARKS)
            pairs += 1
            assert found.change("steps_per_s") is not None
            wrong += [(one, other, c) for c in found.changes if c.clear and c.name in ("steps_per_s", "compute")]
    assert pairs == 21
    assert len({pair[:2] for pair in wrong}) <= 1, wrong


def test_a_disk_that_became_faster_is_named() -> None:
    """The fast disk has the name of the slow disk, as if a cache had been added or the disk had been repaired."""
    slow, fast = story("slow", True), story("fast_disk", True)
    info = next(one.info for one in slow.devices if one.name == "loop0")
    devices = tuple(one._replace(name="loop0", info=info) if one.name == "loop2" else one for one in fast.devices)
    job = fast.jobs[0]._replace(disk="loop0")
    found = compare_runs(slow, fast._replace(devices=devices, jobs=(job,)))
    assert found.same_disk
    assert sentence(found).endswith(", because r_await of loop0 fell from 20 to 3 ms")
    assert sentence(compare_runs(found.after, found.before)).endswith(", because r_await of loop0 rose from 3 to 20 ms")


def test_another_disk_of_the_same_name_is_called_another_disk() -> None:
    """After a restart, the kernel has given the slow disk's name to the fast disk."""
    slow, fast = story("slow", True), story("fast_disk", True)
    fast_disk = next(one for one in fast.devices if one.name == "loop2")
    assert fast_disk.info is not None
    devices = (fast_disk._replace(name="loop0", info=fast_disk.info._replace(size_bytes=1 << 40)),)
    found = compare_runs(slow, fast._replace(devices=devices, jobs=(fast.jobs[0]._replace(disk="loop0"),)))
    assert found.job_disks == ("loop0", "loop0")
    assert not found.same_disk
    assert sentence(found).endswith("its data lies on another disk, named loop0 too (r_await 20 -> 3 ms)")


RAID = BlockInfo("md0", 9, 0, "md", "md0", "raid1", size_bytes=1 << 40)
VOLUME = BlockInfo("dm-0", 253, 0, "dm", "vg/data", "LVM", size_bytes=1 << 40)
DISK = BlockInfo("sda", 8, 0, "disk", "sda", "SATA SSD", model="Fast", serial="S1", size_bytes=1 << 40)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (RAID, RAID._replace(detail="raid1 degraded"), True),
        (RAID, RAID._replace(detail="raid5"), False),
        (VOLUME, VOLUME._replace(size_bytes=1 << 41), True),
        (VOLUME, VOLUME._replace(label="vg/other"), False),
        (DISK, DISK._replace(size_bytes=1 << 41), True),
        (DISK, DISK._replace(serial="S2"), False),
        (DISK, DISK._replace(serial="", detail="", size_bytes=None), True),
        (DISK, DISK._replace(serial="", model="Slow"), False),
        (DISK, DISK._replace(name="sdb", label="sdb"), True),
        (DISK, DISK._replace(name="sdb", label="sdb", serial=""), False),
    ],
)
def test_the_disks_of_two_jobs_are_compared_by_their_identity(before: BlockInfo, after: BlockInfo, same: bool) -> None:
    found = compare_runs(with_job_disk(story("slow", True), before), with_job_disk(story("fast_disk", True), after))
    assert found.same_disk is same
    if before.name == after.name:
        assert (found.change(f"disks.{before.name}.busy_ratio") is not None) is same


def with_job_disk(run: Story, info: BlockInfo) -> Story:
    """The run, as if the data of its main job lay on the disk ``info``."""
    job = run.jobs[0]
    (disk,) = (one for one in run.devices if one.name == job.disk)
    return run._replace(devices=(disk._replace(name=info.name, info=info),), jobs=(job._replace(disk=info.name),))


def test_a_disk_with_another_name_is_recognised_by_its_serial() -> None:
    slow, fast = with_job_disk(story("slow", True), DISK), story("fast_disk", True)
    renamed = DISK._replace(name="sdb", label="sdb")
    found = compare_runs(slow, with_job_disk(fast, renamed))
    assert sentence(found).endswith(", because r_await of sdb (sda before) fell from 20 to 3 ms")
    after = with_job_disk(fast, renamed)
    path = after.devices[0]._replace(name="sdc", info=DISK._replace(name="sdc", label="sdc"))
    ambiguous = compare_runs(slow, after._replace(devices=(*after.devices, path)))
    assert not ambiguous.same_disk


def test_cpus_are_the_cause_only_if_they_are_full_in_the_slower_run() -> None:
    pairs = ((0.2, 0.6), (0.96, 0.99), (0.6, 0.99))
    calm, both_full, full = (Change("cpu.all.busy_ratio", "CPUs busy", "ratio", *pair) for pair in pairs)
    wait = Change("data_wait", "without data", "ratio", 0.40, 0.50, Interval(0.06, 0.14))
    steps = Change("steps_per_s", "steps/s", "1/s", 12.0, 10.0, Interval(-3.0, -1.0))
    found = comparison("slow", "again", True)
    certain = Interval(0.3, 0.5)
    cpu_cause = ", because the machine's CPUs are now full (60 % -> 99 % busy)"
    for busy, cause in ((calm, ""), (both_full, ""), (full, cpu_cause)):
        changes = (steps, wait, busy._replace(interval=certain))
        expected = f"17 % slower (12.0 -> 10.0 steps/s): waiting for data 40 % -> 50 %{cause}"
        assert sentence(found._replace(changes=changes)) == expected
    for name, is_named in (("data_disk", False), ("data_cpu", True)):
        share = Change(name, name, "ratio", 0.0, 0.1, Interval(0.06, 0.14))
        text = sentence(found._replace(changes=(steps, wait, full._replace(interval=certain), share)))
        assert ("CPUs are now full" in text) is is_named


def test_without_steps_the_share_of_compute_decides() -> None:
    text = sentence(comparison("slow", "memory"))
    assert text.startswith(
        "The second run computes for more of its time, 60 % -> 100 %: waiting for data 39 % -> 0 %, because "
    )


def test_the_jobs_own_disk_is_found_by_its_mount() -> None:
    assert job_disk(story("slow")) == "loop0"
    assert job_disk(story("memory")) == ""


def test_a_comparison_gives_the_same_result_each_time() -> None:
    assert compare_runs(story("slow"), story("memory")) == comparison("slow", "memory")


def with_marks(name: str, *marks: tuple[str, float], steps: bool = False) -> Story:
    found = story(name, steps)
    events = tuple(Event(0, found.begin_ns + round(at * 1e9), "mark", text) for text, at in marks)
    return found._replace(events=events)


def test_the_change_of_every_share_is_known() -> None:
    found = comparison("slow", "memory")
    changes = {name: found.change({"goodput": "compute"}.get(name, name)) for name in SHARE_NAMES}
    assert [name for name, change in changes.items() if change is None or change.interval is None] == []
    lost, parts = changes["lost"], [changes[name] for name in LOST]
    assert lost is not None
    assert lost.difference == pytest.approx(sum(part.difference or 0.0 for part in parts if part is not None))


def test_runs_are_compared_between_marks_that_both_have() -> None:
    before = with_marks("slow", ("epoch 1", 5), ("epoch 2", 25), ("late", 30))
    after = with_marks("memory", ("other", 1), ("epoch 1", 10), ("epoch 2", 28))
    found = compare_runs(before, after)
    assert found.aligned_by == MARKS
    assert [round(window.seconds) for window in found.windows] == [20, 18]
    assert aligned_text(found) == 'from mark "epoch 1" to "epoch 2": 20 s and 18 s'
    close = with_marks("memory", ("epoch 1", 10), ("epoch 2", 12))
    assert compare_runs(before, close).aligned_by == JOB
    assert compare_runs(before, close, MARKS).aligned_by == MARKS
    assert compare_runs(before, after, TIME).aligned_by == TIME
    assert comparison("slow", "memory").aligned_by == JOB


def starting_up(run: Story, points: int) -> Story:
    """The run, as if its main job had started up in all of these first points of its curves."""
    job = run.jobs[0]
    shares = {
        name: curve._replace(
            values=tuple(value if value is None or i >= points else 0.0 for i, value in enumerate(curve.values))
        )
        for name, curve in job.shares.items()
    }
    values = job.shares["compute"].values
    shares["startup"] = job.shares["compute"]._replace(
        values=tuple(None if value is None else float(i < points) for i, value in enumerate(values))
    )
    return run._replace(jobs=(job._replace(shares=shares),))


def test_a_jobs_start_up_is_not_compared() -> None:
    """The first interval of a job has no shares, because they need two readings."""
    run = story("memory")
    assert run.jobs[0].shares["compute"].values[0] is None
    found = compare_runs(starting_up(run, 3), starting_up(run, 16))
    assert found.aligned_by == JOB
    begins = [round((window.begin_ns - run.begin_ns) / 1e9) for window in found.windows]
    assert begins == [3, 16]
    compute = found.change("compute")
    assert compute is not None
    assert compute.difference == pytest.approx(0.0, abs=0.01)


def test_runs_that_cannot_be_aligned_are_an_error() -> None:
    with pytest.raises(UsageError, match="fewer than two marks"):
        compare_runs(story("slow"), story("memory"), MARKS)
    with pytest.raises(UsageError, match="no job whose time was recorded"):
        compare_runs(story("slow")._replace(jobs=()), story("memory"), JOB)


def test_runs_without_a_job_give_no_answer() -> None:
    found = compare_runs(story("slow")._replace(jobs=()), story("memory")._replace(jobs=()))
    assert found.aligned_by == TIME
    assert sentence(found) == (
        "Cannot tell which is faster: neither steps nor where the time went is recorded in both runs; "
        "verdict STARVED (slow disk) -> OK (GPU-bound)"
    )


def test_the_verdicts_of_both_runs_are_given() -> None:
    found = compare_runs(story("slow")._replace(jobs=()), story("memory")._replace(jobs=()))
    lines = [line.strip() for line in render_compare_text(found, 200).splitlines()]
    at = lines.index("verdict: UNSURE (cause not seen) 5 s -> STARVED (slow disk) 26 s")
    assert lines[at + 1].startswith("STARVED: the GPU waits for data 39 % of the time; disk loop0 ")
    assert "verdict: OK (GPU-bound) 31 s" in lines
    before, after = compare_object(found)["runs"]
    assert (before["verdict"], before["state"]) == ("storage_read", "STARVED")
    assert [span["state"] for span in before["timeline"]] == ["UNSURE", "STARVED"]
    assert (after["verdict"], after["state"]) == ("gpu_bound", "OK")
    assert "verdict: OK (GPU-bound) 31 s" in render_compare_html(found)


def test_a_verdict_that_often_changes_is_summed() -> None:
    run = story("slow")
    text = verdicts_over_time(run._replace(timeline=run.timeline * 3))
    assert text == "STARVED (slow disk) 78 s, UNSURE (cause not seen) 15 s"


def test_two_lines_of_a_log_give_no_answer() -> None:
    """A log with a line every few minutes shows one rate for all the time between two lines."""

    def with_two_lines(steps: int) -> Story:
        run = story("slow")
        lines = ((100, 1.5), (100 + steps, 37.5))
        points = tuple(StepPoint(step, run.begin_ns + round(at * 1e9)) for step, at in lines)
        return with_steps(run, StepLog(PRINTED, points))

    found = compare_runs(with_two_lines(432), with_two_lines(461))
    assert sentence(found).startswith("Cannot tell: the runs are too short for a comparison, each run needs 201 s")


def test_a_short_run_gives_no_answer() -> None:
    short = with_marks("slow", ("a", 5), ("b", 12))
    found = compare_runs(short, with_marks("memory", ("a", 5), ("b", 30)), MARKS)
    assert sentence(found).startswith(
        "Cannot tell: the runs are too short for a comparison, each run needs 15 s or more ("
    )


def test_a_long_run_with_few_known_values_gives_no_answer() -> None:
    run = story("slow")
    shares = {
        share: curve._replace(values=(*curve.values[:4], *[None] * (len(curve.values) - 4)))
        for share, curve in run.jobs[0].shares.items()
    }
    found = compare_runs(run._replace(jobs=(run.jobs[0]._replace(shares=shares),)), story("memory"), TIME)
    assert sentence(found).startswith("Cannot tell: too few values of ")


def read_every_9_s(name: str) -> Story:
    """The run, as if it had been recorded with an interval of 9 s."""
    run = story(name)
    shares = {share: downsampled(curve, 5) for share, curve in run.jobs[0].shares.items()}
    return run._replace(jobs=(run.jobs[0]._replace(shares=shares),))


def test_a_run_of_few_readings_needs_more_time() -> None:
    before, after = read_every_9_s("slow"), read_every_9_s("memory")
    assert {curve.step_s for curve in before.jobs[0].shares.values()} == {9.0}
    begin = "Cannot tell: the runs are too short for a comparison, each run needs 45 s or more ("
    assert sentence(compare_runs(before, after)).startswith(begin)
    marks = with_marks("slow", ("a", 5), ("b", 25)).events, with_marks("memory", ("a", 5), ("b", 25)).events
    found = compare_runs(before._replace(events=marks[0]), after._replace(events=marks[1]))
    assert found.aligned_by == JOB


@pytest.mark.parametrize(
    ("unit", "before", "after", "interval", "clear"),
    [
        ("ratio", 0.40, 0.42, Interval(0.015, 0.025), False),
        ("ratio", 0.40, 0.44, Interval(0.015, 0.065), True),
        ("ratio", 0.40, 0.60, Interval(-0.01, 0.41), False),
        ("1/s", 10.0, 10.3, Interval(0.2, 0.4), False),
        ("1/s", 10.0, 11.0, Interval(0.5, 1.5), True),
        ("ms", 10.0, None, None, False),
    ],
)
def test_a_clear_change_is_more_than_chance_and_large_enough(
    unit: str, before: float, after: float | None, interval: Interval | None, clear: bool
) -> None:
    assert Change("x", "x", unit, before, after, interval).clear is clear


def test_an_unknown_change_is_neither_clear_nor_unclear_in_text_and_json() -> None:
    found = comparison("slow", "memory", False)
    words = {True: "yes", False: "no", None: "?"}
    shown = [(one["name"], words[one["clear"]]) for one in compare_object(found)["changes"]]
    assert shown == [(one.name, clear_text(one)) for one in found.changes]
    assert "?" in dict(shown).values()


def with_disk(run: Story, name: str, **changes: object) -> Story:
    """The run, with changed fields of the identity of one disk."""
    devices = tuple(
        one._replace(info=one.info._replace(**changes)) if one.name == name and one.info else one  # type: ignore[arg-type]
        for one in run.devices
    )
    return run._replace(devices=devices)


def test_two_disks_of_the_same_name_are_not_compared_and_a_line_says_so() -> None:
    before, after = story("slow", True), story("two_workers", True)
    same = comparison("slow", "two_workers", True)
    assert same.change("disks.vda.busy_ratio") is not None
    assert same.not_compared == ()
    assert "left out" not in render_compare_text(same, 100) + render_compare_html(same)
    found = compare_runs(with_disk(before, "vda", serial="S1"), with_disk(after, "vda", serial="S2"))
    assert found.change("disks.vda.busy_ratio") is None
    lines = render_compare_text(found, 100).splitlines()
    assert "left out  vda is another disk in the second run (other serial number)" in lines
    assert "left out: vda is another disk in the second run (other serial number)" in render_compare_html(found)
    assert compare_object(found)["not_compared"] == [{"disk": "vda", "field": "serial"}]


@pytest.mark.parametrize(
    ("field", "before", "after", "why"),
    [
        ("size_bytes", 480_000_000, 160_000_000, "sizes 480 MB and 160 MB"),
        ("size_bytes", 480_000_000, 480_000_512, "sizes 480000000 B and 480000512 B"),
        ("model", "Fast", "Slow", "models Fast and Slow"),
        ("detail", "SATA SSD", "SATA HDD", "types SATA SSD and SATA HDD"),
    ],
)
def test_the_difference_of_two_disks_of_the_same_name_is_shown(
    field: str, before: object, after: object, why: str
) -> None:
    first = with_disk(story("slow"), "vda", **{"serial": "", field: before})
    second = with_disk(story("two_workers"), "vda", **{"serial": "", field: after})
    assert not_compared_text(compare_runs(first, second)) == f"vda is another disk in the second run ({why})"


def test_no_figure_falls_by_more_than_100_percent() -> None:
    one = Change("x", "vda: read", "B/s", 100.0, 11.0, Interval(-253.0, 31.0))
    assert interval_text(one) == "-100 to +31 %"


@pytest.mark.parametrize(
    ("unit", "change", "interval"), [("ratio", "0 points", "0 to +2 points"), ("1/s", "0 %", "0 to +2 %")]
)
def test_a_change_that_rounds_to_zero_has_no_sign(unit: str, change: str, interval: str) -> None:
    one = Change("x", "x", unit, 1.0, 0.998, Interval(-0.004, 0.02))
    assert change_text(one) == change
    assert interval_text(one) == interval


def test_clear_changes_are_listed_if_the_outcome_is_not_clear() -> None:
    found = comparison("slow", "again", True)
    steps = Change("steps_per_s", "steps/s", "1/s", 12.0, 12.0, Interval(-0.1, 0.1))
    written = Change("disks.vda.write_bytes_per_s", "vda: written", "B/s", 100.0, 369.0, Interval(200.0, 300.0))
    disk = Change("job_disk.read_bytes_per_s", "job's disk: read", "B/s", 0.0, 2.0 * 2**20, Interval(1e6, 3e6))
    same = disk._replace(name="disks.loop0.read_bytes_per_s", title="loop0: read")
    begin = "No clear difference: 12.0 -> 12.0 steps/s, -1 to +1 %"
    assert sentence(found._replace(changes=(steps,))) == begin
    assert sentence(found._replace(changes=(steps, disk, written, same))) == (
        f"{begin}; clear elsewhere: job's disk read 0 MB/s -> 2.0 MB/s, vda written +269 %"
    )
    text = sentence(found._replace(changes=(steps, *(written._replace(name=f"disks.{i}.x") for i in range(5)))))
    assert text.endswith(", vda written +269 % and 2 more")
