"""The table of steps: it has the last message of each running process, and its size is limited."""

from __future__ import annotations

from iotop_ai.collectors.job.steps import MOST_PROCESSES, StepReports
from iotop_ai.model.job.steps import StepCounts
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessTable

KEY = ProcessKey(7, 70)


def running(*keys: ProcessKey) -> ProcessTable:
    info = {key: ProcessInfo("python", (), "me", 1000) for key in keys}
    return ProcessTable({}, {}, info, frozenset(), 0, 0, (0,), {}, {}, {}, {})


def counts(at_ns: int, steps: int = 1) -> StepCounts:
    return StepCounts(at_ns, steps, steps, 0)


def test_without_messages_the_table_is_empty_and_stays_unchanged() -> None:
    reports = StepReports(5_000)
    first, second = reports.reading(running(KEY)), reports.reading(running())
    assert first == second
    assert (first.value, first.at_ns) == ({}, 5_000)


def test_the_newest_totals_of_a_running_process_are_in_the_table() -> None:
    reports = StepReports(0)
    for message in (counts(3_000, 3), counts(9_500, 9), counts(6_000, 6)):
        reports.take(7, message)
    reading = reports.reading(running(KEY))
    assert reading.value == {KEY: counts(9_500, 9)}
    assert reading.at_ns == 9_000, "the time is not cut to whole microseconds, as recordings have it"


def test_the_last_message_of_an_ended_process_is_in_one_more_table() -> None:
    reports = StepReports(0)
    reports.take(7, counts(1_000))
    reports.reading(running(KEY))
    reports.take(7, counts(2_000, 2))
    assert reports.reading(running()).value == {KEY: counts(2_000, 2)}
    assert reports.reading(running()).value == {}


def test_while_the_processes_are_unknown_no_process_counts_as_ended() -> None:
    reports = StepReports(0)
    reports.take(7, counts(1_000))
    reports.reading(running(KEY))
    for _ in range(3):
        assert reports.reading(None).value == {KEY: counts(1_000)}
    assert reports.reading(running(KEY)).value == {KEY: counts(1_000)}


def test_a_process_that_is_not_listed_yet_is_added_later() -> None:
    reports = StepReports(0)
    reports.take(7, counts(1_000))
    assert reports.reading(None).value == {}
    assert reports.reading(running(KEY)).value == {KEY: counts(1_000)}


def test_the_number_of_processes_is_bounded() -> None:
    reports = StepReports(0)
    for pid in range(1, MOST_PROCESSES + 50):
        reports.take(pid, counts(1_000))
    table = reports.reading(running(*(ProcessKey(pid, 1) for pid in range(1, MOST_PROCESSES + 50))))
    assert table.value is not None
    assert len(table.value) == MOST_PROCESSES
