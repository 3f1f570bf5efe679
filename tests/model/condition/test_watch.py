"""Conditions on 44 s of Frames of a real trainer on a slow disk: a batch is 7 reads of 128 KiB, 51 ms each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest

from iotop_ai.diagnosis.verdict.totals import VerdictTotalsBuilder
from iotop_ai.model.block.counters import BlockCounters, BlockInfo, BlockKey
from iotop_ai.model.condition.figures import FAMILIES, Value, fields_of, figure_of, values
from iotop_ai.model.condition.grammar import parse_condition
from iotop_ai.model.condition.over_run import ConditionOverRun, ConditionResult
from iotop_ai.model.condition.watch import ConditionWatch, all_clauses_met
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.job.records import JobTable
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from tests.bench.server import Server
from tests.job_times import GAP_AT, not_counted, slow_disk, with_gap, with_repeated_readings


def over(text: str, played: tuple = ()) -> ConditionResult:  # type: ignore[type-arg]
    """The result of a condition over a whole run."""
    run, totals = ConditionOverRun(parse_condition(text)), VerdictTotalsBuilder()
    for frame in played or slow_disk():
        run.add(frame)
        totals.add(frame)
    return run.outcome(totals.totals())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_of_every_family_can_be_read(family: str) -> None:
    frame = slow_disk()[-1]
    for field in fields_of(family):
        name = f"{family}.{field}" if FAMILIES[family].alone else f"{family}.*.{field}"
        assert all(isinstance(one, Value) for one in values(figure_of(name), frame))


def test_the_values_of_a_figure_are_those_of_the_sample() -> None:
    frame = slow_disk()[-1]
    table = frame.sample.block.value
    assert table is not None
    assert {(one.name, one.value) for one in values(figure_of("disks.loop*.r_await"), frame)} == {
        (key.name, rates.read_await_ms) for key, rates in table.items() if key.name.startswith("loop")
    }
    (share,) = values(figure_of("data_wait"), frame)
    assert frame.sample.jobs.value is not None
    (shares,) = frame.sample.jobs.value.times.values()
    assert share.value == pytest.approx(shares.data)
    (by_name,) = values(figure_of("jobs.trainer.py.data_wait"), frame)
    assert by_name == share


def test_a_share_is_that_of_the_whole_time() -> None:
    found = over("data_wait > 10%")
    assert found.met is True
    assert found.clauses[0].value == pytest.approx(0.67, abs=0.01)
    assert over("data_wait > 90%").met is False
    assert over("data_wait > 10%", not_counted()).met is None
    assert over("jobs.other.py.data_wait > 10%").met is None


def test_a_time_per_request_is_the_mean_over_all_requests() -> None:
    """The mean is compared with the counters: the milliseconds of all reads, divided by their number."""
    played = slow_disk()
    first, last = (
        next(counts for key, counts in (frame.snapshot.block.value or {}).items() if key.name == "loop0")
        for frame in (played[0], played[-1])
    )
    assert None not in (first.rd_ms, last.rd_ms, first.rd_ios, last.rd_ios)
    truth = (last.rd_ms - first.rd_ms) / (last.rd_ios - first.rd_ios)  # type: ignore[operator]
    assert over("disks.loop0.r_await > 1").clauses[0].value == pytest.approx(truth, rel=1e-6)


def test_a_clause_with_for_needs_one_uninterrupted_stretch() -> None:
    assert over("disks.*.r_await > 20ms for 5s").met is True
    short = over("disks.*.r_await > 20ms for 10m")
    assert short.met is False
    assert 5 < short.clauses[0].held_s < 60
    assert over("disks.*.r_await > 10s for 1s").clauses[0].held_s == 0


def test_a_finding_meets_a_clause() -> None:
    found = over("finding storage_read")
    assert (found.met, found.clauses[0].held_s > 20) == (True, True)
    assert over("finding STARVED for 20s").met is True
    assert over("finding failing_disk").met is False


def test_all_clauses_must_be_met() -> None:
    assert over("data_wait > 10% and finding failing_disk").met is False
    assert over("data_wait > 10% and smart.*.used_percent > 1%").met is None
    assert over("finding failing_disk and smart.*.used_percent > 1%").met is False


def test_clauses_with_for_must_be_met_at_the_same_time() -> None:
    assert over("disks.*.r_await > 20ms for 5s and data_disk > 20% for 5s").met is True
    # Each clause was met for some seconds, but they were never met at once.
    assert over("disks.loop0.r_await > 20ms for 3s and disks.loop0.r_await < 20ms for 3s").met is False


def test_a_condition_that_the_totals_answer_needs_no_frame() -> None:
    assert not ConditionOverRun(parse_condition("data_wait > 10% and finding *d*k")).needs_frames
    assert not ConditionOverRun(parse_condition("jobs.*.lost > 10%")).needs_frames
    assert ConditionOverRun(parse_condition("data_wait > 10% for 3s")).needs_frames
    assert ConditionOverRun(parse_condition("disks.*.r_await > 10")).needs_frames


def test_on_the_live_machine_a_condition_is_met_once_it_has_lasted_and_ends_at_a_gap() -> None:
    watch = ConditionWatch(parse_condition("data_wait > 20% for 10s"))
    met = [all_clauses_met(watch.add(frame)) for frame in slow_disk()]
    assert met[0] is None
    first = met.index(True)
    assert all(one is False for one in met[1:first] if one is not None)
    frame = slow_disk()[-1]
    assert all_clauses_met(watch.add(frame._replace(sample=frame.sample._replace(gap=True)))) is not True


def live(text: str, played: Iterable[Frame]) -> list[bool | None]:
    """Whether a condition is met at each of these Frames."""
    watch = ConditionWatch(parse_condition(text))
    return [all_clauses_met(watch.add(frame)) for frame in played]


SHARES = ["data_wait >= 20% for {}", "jobs.*.data_wait >= 20% for {}", "jobs.trainer.py.data_disk >= 20% for {}"]


@cache
def ended_job() -> tuple[Frame, ...]:
    """The Frames of the recording, and 20 s more without the job."""
    return with_repeated_readings(20, jobs=Reading(JobTable(), Status.OK))


@cache
def blind() -> tuple[Frame, ...]:
    """The Frames of the recording, and 20 s more in which neither jobs nor disks can be read."""
    failed: Reading[None] = Reading(None, Status.FAILED, "no answer")
    return with_repeated_readings(20, jobs=failed, block=failed)


@pytest.mark.parametrize("text", SHARES)
def test_a_job_that_ended_meets_no_condition(text: str) -> None:
    """The table of jobs is read once without the job and then only repeated, as by the collector of jobs."""
    assert over(text.format("50s"), ended_job()).met is False
    assert live(text.format("20s"), ended_job())[42:] == [True, *[False] * 20]


@pytest.mark.parametrize("text", [*SHARES, "disks.loop0.busy_ratio > 30% for {}", "disks.*.busy_ratio > 30% for {}"])
def test_a_failed_reading_meets_no_condition_and_is_unknown(text: str) -> None:
    assert over(text.format("50s"), blind()).met is False
    assert live(text.format("20s"), blind())[42:] == [True, *[None] * 20]


def test_a_removed_disk_meets_no_condition() -> None:
    table = slow_disk()[-1].snapshot.block.value or {}
    rest = {key: counters for key, counters in table.items() if key.name != "loop0"}
    gone = with_repeated_readings(20, block=Reading(rest, Status.OK))
    assert over("disks.loop0.busy_ratio > 30% for 50s", gone).met is False
    assert live("disks.*.busy_ratio > 30% for 20s", gone)[42:] == [True, *[False] * 20]
    assert live("disks.loop0.busy_ratio > 30% for 20s", gone)[42:] == [True, *[False] * 20]


def test_a_replaced_disk_does_not_inherit_the_time_of_the_earlier_disk() -> None:
    """The requests in flight are known at once, unlike the rates of a new disk."""
    old = slow_disk()[-1].snapshot.block.value or {}
    new = {key._replace(diskseq=key.diskseq + 1000): counters for key, counters in old.items()}
    found = with_repeated_readings(30, block=Reading(new, Status.OK))
    assert live("disks.loop0.in_flight >= 0 for 20s", found)[42:] == [True, *[False] * 19, *[True] * 11]


def test_a_figure_that_is_not_read_again_keeps_its_value() -> None:
    assert over("disks.loop0.busy_ratio > 30% for 60s", with_repeated_readings(20)).met is True


@pytest.mark.parametrize("text", [*SHARES, "disks.loop0.busy_ratio > 30% for {}", "finding UNSURE for {}"])
def test_the_time_of_a_gap_is_not_counted(text: str) -> None:
    """The Frame after the gap meets the clause, whose time then begins at that Frame."""
    assert with_gap()[GAP_AT].sample.gap
    assert over(text.format("60s"), with_gap()).met is False
    assert live(text.format("2s"), with_gap())[GAP_AT : GAP_AT + 3] == [False, False, True]


def test_the_time_of_a_gap_that_the_recorder_marked_is_not_counted() -> None:
    """The recorded Sample after the gap is that of the live machine, which does not span the gap."""
    moved = [frame.snapshot for frame in with_gap()]
    sample = slow_disk()[GAP_AT].sample._replace(at_ns=moved[GAP_AT].at_ns, wall_ns=moved[GAP_AT].wall_ns)
    marked = Keyframe(moved[GAP_AT], None, sample, gap=True)
    played = tuple(frames([*moved[:GAP_AT], marked, *moved[GAP_AT + 1 :]]))
    assert not played[GAP_AT].sample.gap
    text = "disks.loop0.busy_ratio > 30% for {}"
    assert over(text.format("60s"), played).met is False
    assert live(text.format("5s"), played)[GAP_AT - 1 : GAP_AT + 1] == [True, False]


def test_a_finding_is_unknown_if_no_verdict_was_made() -> None:
    first = slow_disk()[:10]
    assert all(frame.verdict.measuring for frame in first)
    for text in ("finding failing_disk", "finding unknown"):
        assert (over(text, first).met, over(f"{text} for 2s", first).met) == (None, None)
    assert over("finding failing_disk for 2s", slow_disk()[:11]).met is False


def with_mount(*readings: Reading[FilesystemUsage]) -> tuple[Frame, ...]:
    """The Frames of 3 s, with these readings of one filesystem, beside another filesystem that is half full."""
    half = Reading(FilesystemUsage(100, 50, 50, 100, 50), Status.OK)
    return tuple(
        frame._replace(
            snapshot=frame.snapshot._replace(
                filesystems=Reading({"/half": half, "/mnt": readings[n % len(readings)]}, Status.OK)
            )
        )
        for n, frame in enumerate(slow_disk()[:4])
    )


@pytest.mark.parametrize("hold", ["", " for 1s"])
def test_an_object_that_failed_throughout_makes_the_condition_unknown(hold: str) -> None:
    failed: Reading[FilesystemUsage] = Reading(None, Status.FAILED, "does not answer")
    absent: Reading[FilesystemUsage] = Reading(None, Status.ABSENT, "is gone")
    known = Reading(FilesystemUsage(100, 40, 40, 100, 50), Status.OK)
    text = f"filesystems.*.used_ratio > 90%{hold}"
    found = over(text, with_mount(failed))
    assert (found.met, found.clauses[0].name) == (None, "/mnt")
    assert over(f"filesystems.*.used_ratio > 40%{hold}", with_mount(failed)).met is True
    assert over(f"filesystems./ha*.used_ratio > 90%{hold}", with_mount(failed)).met is False
    assert over(text, with_mount(absent)).met is False
    assert over(text, with_mount(failed, known)).met is False


def test_a_gpu_that_is_lost_throughout_makes_the_condition_unknown() -> None:
    server = Server("idle", gpus=2, disks=1, cores=1, processes=1)
    lost: Reading[GpuState] = Reading(None, Status.FAILED, "the GPU is lost")
    made = []
    for snapshot in (server.snapshot() for _ in range(4)):
        first, second = (snapshot.gpu.value or {}).items()
        made.append(snapshot._replace(gpu=snapshot.gpu._replace(value=dict([first, (second[0], lost)]))))
    found = tuple(frames(iter(made)))
    assert over("gpus.*.temperature_celsius > 200", found).met is None
    assert over("gpus.?.temperature_celsius > 200", found).met is None
    assert over("gpus.0.temperature_celsius > 200", found).met is False
    assert over("gpus.*.temperature_celsius > 1", found).met is True
    later_lost = tuple(frames(iter([server.snapshot(), *made[1:]])))
    assert over("gpus.*.temperature_celsius > 200", later_lost).met is False


@cache
def with_disk(kind: str, off: bool = True) -> tuple[Frame, ...]:
    """The Frames of 4 s, with one more disk, whose counters do not change."""
    made = []
    for frame in slow_disk()[:5]:
        key, counters = BlockKey("sdx", 0), BlockCounters(*[0] * len(BlockCounters._fields))
        info = BlockInfo("sdx", 9, 0, kind, "sdx", stats_off=off)
        block = frame.snapshot.block._replace(value={**(frame.snapshot.block.value or {}), key: counters})
        disks = Reading({**(frame.snapshot.disks.value or {}), "sdx": info}, Status.OK)
        made.append(frame.snapshot._replace(block=block, disks=disks))
    return tuple(frames(iter(made)))


@pytest.mark.parametrize("hold", ["", " for 2s"])
@pytest.mark.parametrize("figure", ["busy_ratio > 99.9%", "r_await > 10s", "await > 10s"])
def test_a_disk_that_was_never_measured_makes_the_condition_unknown(figure: str, hold: str) -> None:
    found = over(f"disks.*.{figure}{hold}", with_disk("disk"))
    assert (found.met, found.clauses[0].name) == (None, "sdx")
    assert over(f"disks.loop*.{figure}{hold}", with_disk("disk")).met is False
    assert over(f"disks.*.{figure}{hold}", with_disk("disk", off=False)).met is False, (
        "an idle disk was taken for an unknown one"
    )
    assert over(f"disks.*.{figure}{hold}", with_disk("zram")).met is False, (
        "a device in memory was taken for an unmeasured disk"
    )
    assert over(f"disks.*.busy_ratio > 1%{hold}", with_disk("disk")).met is True


@pytest.mark.parametrize("kind", ["partition", "zram"])
def test_a_named_partition_or_memory_device_that_was_never_measured_makes_the_condition_unknown(kind: str) -> None:
    # The pattern matches vda, too, which is measured.
    found = over("disks.?d?.r_await > 10s", with_disk(kind))
    assert (found.met, found.clauses[0].name) == (None, "sdx")
