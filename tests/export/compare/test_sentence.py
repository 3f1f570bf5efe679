"""The sentence of a comparison where the shares of the jobs' time are not counted, or do not explain the outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.export.compare.bootstrap import Interval
from iotop_ai.export.compare.comparison import MARKS, Change, compare_runs
from iotop_ai.export.compare.sentence import sentence, value_text
from iotop_ai.export.report.series import Curve, Stat
from iotop_ai.export.report.story import Steps, Story
from tests.export.compare.kept import comparison, story
from tests.export.report.stories import read

FOLDER = Path(__file__).resolve().parents[2] / "data" / "verdicts"


def test_the_wait_for_data_is_given_where_no_other_share_is_counted() -> None:
    found = compare_runs(*(read(FOLDER / f"{name}.iotop.jsonl.gz") for name in ("storage_read", "healthy")))
    assert sentence(found) == (
        "Waiting for data 75 % -> 0 % of the time; cannot tell which is faster, because neither steps nor computing "
        "time is recorded in both runs; verdict STARVED (slow disk) -> OK (data is ready)"
    )
    of_a_part = sentence(found._replace(aligned_by=MARKS))
    assert of_a_part.startswith("Cannot tell which is faster: "), "the wait is known for the whole of a run only"


STEPS = Change("steps_per_s", "steps/s", "1/s", 12.0, 9.0, Interval(-3.5, -2.5))
CLOCK = Change("gpu_sm_mhz", "clock of busy GPUs", "MHz", 1980.0, 1410.0, Interval(-600.0, -500.0))
HEAT = Change("gpu_throttled", "GPUs slowed by heat or power brake", "ratio", 0.0, 0.85, Interval(0.8, 0.9))
BUSY = Change("gpu_busy", "GPUs busy", "ratio", 0.9, 0.25, Interval(-0.7, -0.6))
SLOWED = "25 % slower (12.0 -> 9.0 steps/s)"


def turned(change: Change) -> Change:
    """The change with both runs exchanged."""
    assert change.interval is not None
    interval = Interval(-change.interval.high, -change.interval.low)
    return change._replace(before=change.after, after=change.before, interval=interval)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((STEPS, CLOCK), f"{SLOWED}: the clock of busy GPUs fell from 1980 to 1410 MHz"),
        (
            (STEPS, CLOCK, HEAT),
            f"{SLOWED}: the clock of busy GPUs fell from 1980 to 1410 MHz; heat or the power brake slowed them 85 % of "
            "the time",
        ),
        (
            (turned(STEPS), turned(CLOCK), turned(HEAT)),
            "33 % faster (9.0 -> 12.0 steps/s): the clock of busy GPUs rose from 1410 to 1980 MHz; heat or the power "
            "brake slowed them 85 % of the time before",
        ),
        ((STEPS, turned(CLOCK)), SLOWED),  # a higher clock does not make a job slower
        ((STEPS, CLOCK._replace(after=1850.0)), SLOWED),  # 7 % of the clock do not explain 25 % of the steps
        ((STEPS, CLOCK._replace(interval=None)), SLOWED),
        ((STEPS, CLOCK, BUSY), SLOWED),  # GPUs that have less to do lower their clock
        ((STEPS, CLOCK, turned(BUSY)), f"{SLOWED}: the clock of busy GPUs fell from 1980 to 1410 MHz"),
        ((STEPS, CLOCK, turned(HEAT)), f"{SLOWED}: the clock of busy GPUs fell from 1980 to 1410 MHz"),
        (
            (STEPS, CLOCK, Change("data_wait", "without data", "ratio", 0.1, 0.4, Interval(0.2, 0.4))),
            f"{SLOWED}: waiting for data 10 % -> 40 %",
        ),
    ],
)
def test_the_clock_of_the_gpus_explains_what_no_share_of_time_does(changes: tuple[Change, ...], expected: str) -> None:
    assert sentence(comparison("slow", "again", True)._replace(changes=changes)) == expected


@pytest.mark.parametrize(
    "steps", [STEPS._replace(before=9.0, after=5.0), turned(STEPS._replace(before=9.0, after=5.0))]
)
def test_the_clock_explains_a_change_and_its_reverse(steps: Change) -> None:
    clock = CLOCK if steps.after == 5.0 else turned(CLOCK)
    assert "the clock of busy GPUs" in sentence(comparison("slow", "again", True)._replace(changes=(steps, clock)))


def test_the_gpus_do_not_explain_a_job_that_uses_none() -> None:
    found = comparison("slow", "again", True)
    main = found.after.main_job
    assert main is not None
    jobs = tuple(job._replace(gpus=0) if job == main else job for job in found.after.jobs)
    assert sentence(found._replace(after=found.after._replace(jobs=jobs), changes=(STEPS, CLOCK))) == SLOWED


def test_other_gpus_explain_what_no_share_of_time_does() -> None:
    found = comparison("slow", "again", True)
    card = found.before.gpus[0]
    idle = card._replace(name="NVIDIA T400", busy=Stat(0.0, None, 0.0, 0, 40.0))
    before, after, same = (
        found.before._replace(gpus=(*(card._replace(name=name) for name in names), idle))
        for names in (("NVIDIA H100", "NVIDIA H100"), ("NVIDIA A100", "NVIDIA L4"), ("NVIDIA H100",))
    )
    text = sentence(found._replace(before=before, after=after, changes=(STEPS, CLOCK)))
    assert text == f"{SLOWED}: it runs on NVIDIA A100 and NVIDIA L4 instead of NVIDIA H100"
    assert "instead" not in sentence(found._replace(before=before, after=same, changes=(STEPS, CLOCK)))


def test_a_temperature_has_its_unit() -> None:
    assert value_text(81.6, "celsius") == "82 C"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (20.0, 19.0, "5 % slower"),
        (19.0, 20.0, "5 % faster"),
        (20.0, 14.0, "30 % slower"),
        (14.0, 20.0, "43 % faster"),
        (10.0, 15.0, "1.5x faster"),
        (15.0, 10.0, "1.5x slower"),
        (2.0, 41.0, "20x faster"),
        (2.0, 0.0, "many times slower"),
    ],
)
def test_a_small_change_is_a_percentage_and_a_large_one_a_factor(before: float, after: float, expected: str) -> None:
    steps = Change("steps_per_s", "steps/s", "1/s", before, after, Interval(after - before, after - before))
    found = comparison("slow", "again", True)._replace(changes=(steps,))
    assert sentence(found).startswith(f"{expected} (")


def test_two_runs_without_a_step_have_no_interval_in_percent() -> None:
    steps = Change("steps_per_s", "steps/s", "1/s", 0.0, 0.0, Interval(0.0, 0.0))
    found = comparison("slow", "again", True)._replace(changes=(steps,))
    assert sentence(found) == "No clear difference: 0 -> 0 steps/s"


@pytest.mark.parametrize(
    ("before", "after", "pair"),
    [
        (12.0, 19.84, "12.0 -> 19.8"),
        (0.0333, 0.05, "0.0333 -> 0.0500"),  # steps of 30 s and of 20 s
        (0.95, 1.9, "0.950 -> 1.9"),
        (0.9996, 0.0, "1.0 -> 0"),
        (1 / 3600, 1 / 1800, "0.000278 -> 0.000556"),
    ],
)
def test_slow_steps_have_three_digits(before: float, after: float, pair: str) -> None:
    steps = Change("steps_per_s", "steps/s", "1/s", before, after, Interval(-1.0, 1.0))
    found = comparison("slow", "again", True)._replace(changes=(steps,))
    assert sentence(found).startswith(f"No clear difference: {pair} steps/s")
    assert " -> ".join(value_text(value, "1/s") for value in (before, after)) == pair


def with_reports(per_s: float) -> Story:
    """A run of 40 s whose job reports each of its steps; a step fills many points of the curve."""
    run = story("slow")
    curve = Curve(run.begin_ns, 1.0, (per_s,) * 40, (1.0,) * 40)
    return run._replace(log=Steps("its own report", round(40 * per_s), per_s, curve, reading_s=1 / per_s))


def test_a_few_reports_of_long_steps_do_not_show_which_run_is_faster() -> None:
    found = compare_runs(with_reports(0.1), with_reports(0.08))
    text = sentence(found)
    assert text.startswith("Cannot tell: the runs are too short for a comparison, each run needs 62 s or more")
