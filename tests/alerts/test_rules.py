"""When a rule fires: once while its condition flaps, again after its cool-down, never for an unknown value."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pytest

from iotop_ai.alerts.rules import FIRING, MOST_NAMED, RESOLVED, AlertRules, Rule, default_rules
from iotop_ai.model.block.counters import BlockCounters, BlockKey, block_rates_of
from iotop_ai.model.condition.grammar import parse_condition
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.job.records import JobTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from tests.bench.server import Server
from tests.job_times import with_repeated_readings

HOT = Rule("hot", parse_condition("gpus.0.temperature_celsius > 85"))


@functools.cache
def template() -> Frame:
    server = Server("idle", gpus=1, disks=1, cores=1, processes=1)
    return list(frames(server.snapshot() for _ in range(2)))[-1]


def frame_at(second: int, celsius: float | None, *findings: Finding) -> Frame:
    """A Frame at this second in which the GPU has this temperature (None: unknown), with these findings."""
    frame = template()
    assert frame.sample.gpu.value is not None
    gpu = {uuid: rates._replace(temperature_celsius=celsius) for uuid, rates in frame.sample.gpu.value.items()}
    return frame._replace(
        snapshot=frame.snapshot._replace(at_ns=second * 10**9, wall_ns=second * 10**9),
        sample=frame.sample._replace(gpu=frame.sample.gpu._replace(value=gpu, renewed=True), seconds=1.0),
        verdict=frame.verdict._replace(findings=(*findings, *frame.verdict.findings)),
    )


def states(rule: Rule, temperatures: Iterable[float | None], begin: int = 0) -> list[tuple[int, str]]:
    rules, out = AlertRules([rule]), []
    for second, celsius in enumerate(temperatures, begin):
        out += [(second, alert.state) for _, alert in rules.add(frame_at(second, celsius))]
    return out


def test_a_condition_that_flaps_for_three_minutes_fires_once() -> None:
    flapping = [90.0 if second // 7 % 2 else 80.0 for second in range(180)]
    assert states(HOT, flapping) == [(7, FIRING)]


def test_the_message_has_the_value_at_which_the_rule_fired() -> None:
    rules = AlertRules([Rule("hot", parse_condition("gpus.0.temperature_celsius > 85 for 3s"))])
    texts = [alert.text for second in range(9) for _, alert in rules.add(frame_at(second, 91.0))]
    assert len(texts) == 1
    assert texts[0].endswith(": met: gpus.0.temperature_celsius > 85 C for 3 s, now 91 C")


def test_an_alert_is_resolved_when_its_condition_was_unmet_for_long_enough() -> None:
    assert states(HOT, [90.0] * 10 + [80.0] * 100) == [(0, FIRING), (70, RESOLVED)]


@pytest.mark.parametrize("dip", [84.0, None], ids=["below", "unknown"])
def test_a_short_dip_does_not_end_an_alert_whose_for_is_longer_than_its_clear_time(dip: float | None) -> None:
    rule = Rule("hot", parse_condition("gpus.0.temperature_celsius >= 85 for 2m"))
    temperatures = [*[90.0] * 130, dip, *[90.0] * 400, *[80.0] * 70]
    assert states(rule, temperatures) == [(119, FIRING), (531 + 60, RESOLVED)]


def test_a_rule_fires_again_after_its_cool_down() -> None:
    again = ([90.0] * 10 + [80.0] * 90) * 10
    assert [second for second, state in states(HOT, again) if state == FIRING] == [0, 600]


def test_an_unknown_value_changes_nothing() -> None:
    assert states(HOT, [None] * 200) == []
    assert states(HOT, [90.0] + [None] * 200) == [(0, FIRING)]


def test_an_alert_is_resolved_when_its_job_has_ended() -> None:
    (rule,) = (rule._replace(enabled=True) for rule in default_rules() if rule.name == "data_wait")
    short, rules = rule._replace(when=parse_condition("jobs.*.data_wait >= 20% for 20s")), AlertRules([rule])
    job_ends = with_repeated_readings(110, jobs=Reading(JobTable(), Status.OK))
    assert not [alert for frame in job_ends for alert in rules.add(frame)]
    rules = AlertRules([short])
    found = [(second, alert) for second, frame in enumerate(job_ends) for _, alert in rules.add(frame)]
    assert [(second, alert.state) for second, alert in found] == [(21, FIRING), (43 + 60, RESOLVED)]
    (fired, end) = (alert for _, alert in found)
    assert (end.subject, end.value) == (fired.subject, None)
    assert end.text.endswith(f"not met: jobs.{end.subject}.data_wait: no longer there; it fired for {end.subject}")


def test_a_rule_that_is_off_never_fires() -> None:
    assert states(HOT._replace(enabled=False), [90.0] * 5) == []
    assert not any(rule.enabled for rule in default_rules())


def test_an_alert_about_a_finding_names_its_disk() -> None:
    rules = AlertRules([rule._replace(enabled=True) for rule in default_rules()])
    finding = Finding("failing_disk", Severity.CRITICAL, 1.0, "sda")
    ((rule, alert),) = rules.add(frame_at(5, 40.0, finding))
    assert (rule.name, alert.severity, alert.subject) == ("failing_disk", "critical", "failing_disk sda")
    assert "failing_disk sda" in alert.text


def failing(second: int, *disks: str) -> Frame:
    """A Frame in which the rules find that these disks fail, and nothing else."""
    findings = [Finding("failing_disk", Severity.CRITICAL, 1.0, disk) for disk in disks]
    return frame_at(second, 40.0, *findings, Finding("idle", Severity.INFO, 1.0))


def test_each_object_fires_once_while_its_rule_is_firing() -> None:
    """The second disk flaps; one message reports the end of both, after which each may fire again."""
    (rule,) = (rule._replace(enabled=True) for rule in default_rules() if rule.name == "failing_disk")
    flapping = [("sda", "sdb") if second % 7 < 3 else ("sda",) for second in range(100)]
    rules, found = AlertRules([rule._replace(cooldown_s=0.0)]), []
    for second, disks in enumerate([("sda",)] * 5 + flapping + [()] * 70 + [("sdb",)] * 3):
        found += [(second, alert) for _, alert in rules.add(failing(second, *disks))]
    assert [(second, alert.state, alert.subject) for second, alert in found] == [
        (0, FIRING, "failing_disk sda"), (5, FIRING, "failing_disk sdb"),
        (165, RESOLVED, ""), (175, FIRING, "failing_disk sdb"),
    ]  # fmt: skip
    assert found[1][1].text.endswith("failing_disk sdb was active for 1 s")


def with_serial(frame: Frame, serial: str | None) -> Frame:
    """The Frame with this serial number of sda from SMART; None: sda has not answered."""
    state = None if serial is None else SmartState("sda", "ata", "M", serial, "F", "FAIL", "critical", ("pending",))
    reading = Reading(state, Status.PENDING if state is None else Status.OK)
    return frame._replace(snapshot=frame.snapshot._replace(smart=Reading({"sda": reading}, Status.OK)))


@pytest.mark.parametrize(
    ("serials", "fired"),
    [
        (["A", "A", None, "A", "A"], [0]),
        (["A", None, "B", "B", None, "B"], [0, 2]),
        (["A", "B", "A"], [0, 1, 2]),
        ([None, "A", "A"], [0]),
    ],
    ids=["comes back", "replaced", "replaced twice", "known later"],
)
def test_another_failing_disk_of_the_same_name_fires_again(serials: list[str | None], fired: list[int]) -> None:
    rules = AlertRules([Rule("bad", parse_condition("finding failing_disk"))])
    history = [with_serial(failing(second, "sda"), serial) for second, serial in enumerate(serials)]
    assert [second for second, frame in enumerate(history) for _ in rules.add(frame)] == fired


def test_the_time_of_a_finding_begins_again_with_another_disk() -> None:
    rules = AlertRules([Rule("bad", parse_condition("finding failing_disk for 5s"))])
    serials = ["A"] * 4 + ["B"] * 6
    history = [with_serial(failing(second, "sda"), serial) for second, serial in enumerate(serials)]
    assert [second for second, frame in enumerate(history) for _ in rules.add(frame)] == [8]


def reading(second: int, reads: int, await_ms: int = 0, diskseq: int = 1) -> Frame:
    """A Frame at this second in which the disk sda finished this many reads in the last second."""
    frame, key = frame_at(second, 40.0), BlockKey("sda", diskseq)
    before = BlockCounters(*[0] * len(BlockCounters._fields))
    counters = before._replace(rd_ios=reads, rd_ms=reads * await_ms)
    rates = block_rates_of(before, counters, 1.0)
    return frame._replace(
        snapshot=frame.snapshot._replace(block=Reading({key: counters}, Status.OK)),
        sample=frame.sample._replace(block=frame.sample.block._replace(value={key: rates}, renewed=True, seconds=1.0)),
    )


def test_an_alert_about_slow_reads_ends_while_the_disk_is_idle() -> None:
    rules, out = AlertRules([Rule("slow", parse_condition("disks.sda.r_await > 20ms"))]), []
    for second in (*range(200), *range(25_200, 25_210)):
        slow = second < 60 or second >= 25_200
        out += [(second, alert.state) for _, alert in rules.add(reading(second, 50 if slow else 0, 40))]
    assert out == [(0, FIRING), (120, RESOLVED), (25_200, FIRING)]


def test_another_busy_disk_of_the_same_name_fires_again() -> None:
    rules = AlertRules([Rule("queued", parse_condition("disks.sda.in_flight >= 0"))])
    history = [reading(second, 0, diskseq=diskseq) for second, diskseq in enumerate([1, 1, 2, 2])]
    assert [second for second, frame in enumerate(history) for _ in rules.add(frame)] == [0, 2]


def test_the_end_of_an_alert_names_the_finding_that_fired() -> None:
    rules = AlertRules([Rule("bad", parse_condition("finding failing_disk"))])
    disks_by_second = [("sda",), *[()] * 70]
    fired, end = [one for second, disks in enumerate(disks_by_second) for _, one in rules.add(failing(second, *disks))]
    assert (end.state, end.subject, end.value) == (RESOLVED, fired.subject, None)
    assert end.text.endswith("not met: failing_disk sda is not active; it fired for failing_disk sda")


@pytest.mark.parametrize("lasting", ["", " for 3s"])
def test_the_end_of_an_alert_names_the_object_that_fired_and_its_value(lasting: str) -> None:
    rules = AlertRules([Rule("hot", parse_condition(f"gpus.*.temperature_celsius > 85{lasting}"))])
    temperatures = [*[(90.0, 40.0)] * 5, *[(60.0, 70.0)] * 70]
    found = [one for second, celsius in enumerate(temperatures) for _, one in rules.add(hot(second, *celsius))]
    assert [(one.state, one.subject, one.value) for one in found] == [(FIRING, "0", 90.0), (RESOLVED, "0", 60.0)]
    assert found[1].text.endswith("not met: gpus.0.temperature_celsius 60 C; it fired for 0")


def test_the_end_of_an_alert_about_several_objects_has_no_subject_and_no_value() -> None:
    rules = AlertRules([Rule("hot", parse_condition("gpus.*.temperature_celsius > 85"))])
    temperatures = [*[(90.0, 90.0, 70.0)] * 5, *[(60.0, 60.0, 70.0)] * 70]
    *_, end = [one for second, celsius in enumerate(temperatures) for _, one in rules.add(hot(second, *celsius))]
    assert (end.state, end.subject, end.value) == (RESOLVED, "", None)
    assert end.text.endswith("it fired for 0, 1")


def hot(second: int, *celsius: float) -> Frame:
    """A Frame in which the GPUs have these temperatures."""
    frame = frame_at(second, 0.0)
    ((uuid, rates),) = (frame.sample.gpu.value or {}).items()
    table = {uuid: rates._replace(temperature_celsius=celsius[0])}
    table |= {str(i): rates._replace(temperature_celsius=one) for i, one in enumerate(celsius) if i}
    return frame._replace(sample=frame.sample._replace(gpu=frame.sample.gpu._replace(value=table)))


def test_each_object_fires_with_its_own_value() -> None:
    rules = AlertRules([Rule("hot", parse_condition("gpus.*.temperature_celsius > 85"))])
    temperatures = ((90.0, 40.0), (91.0, 88.0), (92.0, 89.0))
    found = [alert for second, celsius in enumerate(temperatures) for _, alert in rules.add(hot(second, *celsius))]
    assert [(alert.subject, alert.value) for alert in found] == [("0", 90.0), ("1", 88.0)]


def test_objects_of_the_same_frame_share_a_message() -> None:
    rule = Rule("bad", parse_condition("finding failing_disk"), resolved=True)
    rules, disks = AlertRules([rule]), [f"sd{letter}" for letter in "abcdefghijkl"]
    disks_by_second = [disks, [*disks, "sdm"], [*disks, "sdm", "sdn", "sdo"], *[[]] * 70]
    found = [one for second, names in enumerate(disks_by_second) for _, one in rules.add(failing(second, *names))]
    assert [(one.state, len(one.each)) for one in found] == [(FIRING, 12), (FIRING, 0), (FIRING, 2), (RESOLVED, 0)]
    first, single, pair, end = found
    assert {one.subject for one in first.each} == {f"failing_disk {disk}" for disk in disks}
    assert first.text.startswith(first.each[0].text + "; also failing_disk sd")
    assert first.text.endswith(" and 2 more")
    assert first.text.count("failing_disk sd") == MOST_NAMED
    assert (single.subject, "also" in single.text) == ("failing_disk sdm", False)
    assert {one.subject for one in pair.each} == {"failing_disk sdn", "failing_disk sdo"}
    assert end.text.count("failing_disk sd") == MOST_NAMED
    assert end.text.endswith(" and 5 more")
