"""Disks that are slow while their error counts grow, that have errors in the kernel's log, or that are too hot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.health.rules import with_verdict
from iotop_ai.model.health.smart import HealthPoint, SmartState
from iotop_ai.model.machine.kernel_log import DeviceErrors
from iotop_ai.model.verdict_class import State
from iotop_ai.present.verdict import headline
from tests.diagnosis.build import MB, Disk, Machine, S, classes, play, verdict_of

NOW_S = 1_790_000_000
DAY_AGO = HealthPoint(NOW_S - 86_400)
FINE = SmartState("sda", "ata", "X", "1", "1", "PASS", "unknown", (), read_wall_s=NOW_S)
CABLE = with_verdict(FINE._replace(crc_errors=640, earlier=DAY_AGO._replace(crc_errors=40)))
HOT = with_verdict(
    FINE._replace(
        protocol="nvme",
        warning_temperature_minutes=90,
        earlier=DAY_AGO._replace(warning_temperature_minutes=46),
    )
)
MEDIA = with_verdict(FINE._replace(protocol="nvme", media_errors=9, earlier=DAY_AGO._replace(media_errors=2)))
SLOW = Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0)


def found(machine: Machine) -> list[Finding]:
    return [one for one in verdict_of(machine).findings if one.class_id == "failing_disk"]


@pytest.mark.parametrize(
    ("state", "severity", "cure", "figure"),
    [
        (CABLE, Severity.WARNING, "check_cable", "crc_errors_growth"),
        (HOT, Severity.WARNING, "cool_disk", "warning_temperature_minutes_growth"),
        # Growing media errors are critical by themselves; the two findings become one.
        (MEDIA, Severity.CRITICAL, "replace_disk", "media_errors"),
    ],
)
def test_a_slow_disk_that_gets_worse_is_failing_with_a_reason(
    state: SmartState, severity: Severity, cure: str, figure: str
) -> None:
    (one,) = found(Machine(disks=(SLOW,), smart=(state,), cpu=0.5))
    assert (one.subject, one.severity, one.state) == ("sda", severity, State.FAILING)
    assert [advice.template for advice in one.advice] == [cure]
    assert any(evidence.metric.endswith(figure) for evidence in one.evidence)


def test_the_banner_shows_the_failing_disk() -> None:
    frame = play((Machine(disks=(SLOW,), smart=(CABLE,), cpu=0.5), 15))[-1]
    texts = ["".join(span.text for span in part(frame.verdict)) for part in (headline.headline, headline.advice)]
    assert texts[0] == ("sda is slow and getting worse: 640 CRC errors, +600 in 24 h: cable or backplane, not the disk")
    assert texts[1] == "check sda's cable, connector and backplane"
    because = "".join(span.text for span in headline.because(frame.verdict))
    assert because.startswith("it answers in 60 ms (typical ≤ ")


@pytest.mark.parametrize(
    "machine",
    [
        Machine(disks=(replace(SLOW, await_ms=0.4, busy=0.2),), smart=(CABLE,), cpu=0.5),
        Machine(disks=(SLOW,), smart=(with_verdict(FINE._replace(crc_errors=640)),), cpu=0.5),
        Machine(disks=(SLOW,), smart=(CABLE._replace(device="sdb"),), cpu=0.5),
        Machine(disks=(SLOW,), smart=(CABLE,), smart_silent=True, cpu=0.5),
        Machine(disks=(replace(SLOW, unknown=True),), smart=(CABLE,), cpu=0.5),
        Machine(disks=(SLOW,), cpu=0.5),
    ],
    ids=["fast", "old errors", "another disk", "silent", "unknown rates", "no SMART"],
)
def test_disks_that_are_only_slow_or_only_worn_are_not_failing(machine: Machine) -> None:
    assert "failing_disk" not in classes(verdict_of(machine))


def test_the_finding_stays_for_some_seconds_when_the_disk_is_fast_again() -> None:
    slow = Machine(disks=(SLOW,), smart=(CABLE,), cpu=0.5)
    fast = replace(slow, disks=(replace(SLOW, await_ms=0.4, busy=0.2),))
    key = ("failing_disk", "sda")
    last = [frame for frame in play((slow, 15), (fast, 30)) if key in frame.carry.held][-1]
    assert (last.snapshot.at_ns - last.carry.held[key].last_true_ns) / S == LIMITS.keep_s - 1
    assert last.snapshot.at_ns < 40 * S


def erring(lines: int, what: str, at_s: float, name: str = "sda", kind: str = "disk") -> Machine:
    """A machine whose kernel reported errors of a device at this second of the scene."""
    return Machine(
        disks=(Disk(name=name, kind=kind),), cpu=0.5, errors={"sda": DeviceErrors(lines, int(at_s * S), what)}
    )


@pytest.mark.parametrize(
    ("what", "severity", "cure"),
    [("I/O", Severity.WARNING, "check_cable"), ("critical medium", Severity.CRITICAL, "replace_disk")],
)
def test_a_disk_with_errors_is_shown_at_once(what: str, severity: Severity, cure: str) -> None:
    frame = play((erring(3, what, 0), 1))[-1]
    (one,) = [f for f in frame.verdict.findings if f.class_id == "failing_disk"]
    assert (one.subject, one.severity) == ("sda", severity)
    assert [advice.template for advice in one.advice] == [cure]
    assert [(e.metric, e.value) for e in one.evidence] == [("kernel.sda.errors", 3.0)]


def test_the_banner_shows_the_errors() -> None:
    frame = play((erring(1, "I/O", 0), 15))[-1]
    texts = [headline.text_of(part(frame.verdict)) for part in (headline.headline, headline.because)]
    assert texts[0] == "sda is reporting errors: 1 I/O error in the kernel's log"
    assert texts[1].startswith("the kernel reports failed requests")


@pytest.mark.parametrize(
    "machine",
    [erring(1, "I/O", -600), erring(1, "I/O", 99), erring(1, "I/O", 0, kind="loop"), erring(1, "I/O", 0, name="sdb")],
    ids=["old", "of another time", "a loop device", "gone"],
)
def test_errors_that_are_old_or_of_another_device_do_not_count(machine: Machine) -> None:
    assert found(machine) == []


def test_timeouts_of_a_controller_count_for_its_disk() -> None:
    machine = Machine(
        disks=(Disk(name="nvme10n1", transport="nvme"), Disk(name="nvme1n1", transport="nvme")),
        cpu=0.5, errors={"nvme1": DeviceErrors(2, 0, "timeout")},
    )  # fmt: skip
    (one,) = found(machine)
    assert (one.subject, one.severity) == ("nvme1n1", Severity.WARNING)


@pytest.mark.parametrize(
    ("state", "how", "cure"),
    [
        (FINE._replace(rotation_rpm=7200, temperature_celsius=61), "too hot: 61 °C", "cool_disk"),
        (FINE._replace(protocol="nvme", critical_warning=0x02, temperature_celsius=85), "too hot: ", "cool_disk"),
        (FINE._replace(protocol="nvme", critical_warning=0x06, temperature_celsius=85), "FAILING: ", "replace_disk"),
        (FINE._replace(assessment="FAIL"), "FAILING: ", "replace_disk"),
    ],
)
def test_a_disk_that_is_only_hot_gets_the_advice_to_cool_it(state: SmartState, how: str, cure: str) -> None:
    frame = play((Machine(disks=(Disk(),), cpu=0.5, smart=(with_verdict(state),)), 12))[-1]
    (one,) = [f for f in frame.verdict.findings if f.class_id == "failing_disk"]
    assert (one.severity, [advice.template for advice in one.advice]) == (Severity.CRITICAL, [cure])
    assert headline.text_of(headline.headline(frame.verdict)).startswith(f"sda is {how}")
    assert "throttles" not in headline.text_of(headline.advice(frame.verdict))


def test_a_hot_disk_with_medium_errors_is_to_be_replaced() -> None:
    hot = with_verdict(FINE._replace(protocol="nvme", critical_warning=0x02, temperature_celsius=85))
    frame = play((replace(erring(7, "critical medium", 0), smart=(hot,)), 12))[-1]
    (one,) = [f for f in frame.verdict.findings if f.class_id == "failing_disk"]
    assert [advice.template for advice in one.advice] == ["replace_disk", "cool_disk"]
    assert headline.text_of(headline.headline(frame.verdict)).startswith("sda is reporting errors: 7 critical medium")


def test_a_failing_disk_with_a_bad_cable_is_replaced_first() -> None:
    dying = SmartState("sda", "ata", "X", "1", "1", "FAIL", "critical", ("312 reallocated sectors",))
    frame = play((replace(erring(7, "interface CRC", 0), smart=(dying,)), 12))[-1]
    (one,) = [f for f in frame.verdict.findings if f.class_id == "failing_disk"]
    assert [advice.template for advice in one.advice] == ["replace_disk", "check_cable"]


@pytest.mark.parametrize("name", ["nbd0", "rbd1", "drbd0"])
def test_a_disk_that_is_reached_over_the_network_gets_no_advice_about_cables(name: str) -> None:
    (one,) = found(Machine(disks=(Disk(name=name),), cpu=0.5, errors={name: DeviceErrors(1, 0, "I/O")}))
    assert [advice.template for advice in one.advice] == ["reach_device"]


def test_errors_of_an_nvme_path_count_for_its_disk() -> None:
    path = Disk(name="nvme0c0n1", transport="nvme", kind="nvme-path", mount="")
    for disks in ((Disk(name="nvme0n1", transport="nvme"), path), (Disk(name="nvme0n1", transport="nvme"),)):
        errors = {"nvme0c0n1": DeviceErrors(1, 0, "critical medium")}
        (one,) = found(Machine(disks=disks, cpu=0.5, errors=errors))
        assert (one.subject, one.severity) == ("nvme0n1", Severity.CRITICAL)


def test_errors_are_forgotten_even_if_smart_does_not_answer() -> None:
    first, later = (replace(erring(1, "I/O", at_s), smart=(FINE,), smart_silent=True) for at_s in (0, -700))
    frames = play((first, 3), (later, 15))
    assert ["failing_disk" in classes(frames[at].verdict) for at in (0, 2, -1)] == [True, True, False]
