"""A finding that does not clear by itself can be acknowledged, and is shown again when it gets worse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.verdict.acknowledge import (
    ACK,
    ENDED,
    UNDONE,
    apply_ack_events,
    identity,
    is_worse,
    open_findings,
    value_of,
)
from iotop_ai.model.finding import Evidence, Finding, Severity
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.rules import with_verdict
from iotop_ai.model.health.smart import HealthPoint, SmartState
from iotop_ai.model.machine.kernel_log import DeviceErrors
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Event, Snapshot
from tests.diagnosis.build import IDLE, MB, Disk, Machine, classes, play, sample_of, snapshot_of
from tests.diagnosis.gpu_scenes import FED
from tests.diagnosis.host_scenes import GONE, ended

FAILING = Finding(
    "failing_disk", Severity.CRITICAL, 0.95, "sda",
    evidence=(
        Evidence("smart.sda.critical", 1.0, "count", 1.0),
        Evidence("smart.sda.reallocated", 312.0, "count", 0.0),
        Evidence("disks.sda.await_ms", 87.0, "ms"),
    ),
)  # fmt: skip
LOST = Finding("gpu_fault", Severity.CRITICAL, 0.9, "GPU-1", evidence=(Evidence("gpus.1.xid", 79.0, "count", 0.0),))


def ill(reallocated: int = 312) -> Machine:
    state = SmartState("sda", "ata", "Spinner", "WD 1  2", "F1", "FAIL", "critical", (f"{reallocated} sectors",))
    return Machine(smart=(state._replace(reallocated=reallocated),))


def at(machine: Machine, second: int, *events: Event) -> Snapshot:
    return snapshot_of(machine, second)._replace(events=events)


def ack(name: str, value: str) -> Event:
    return Event(0, 0, ACK, f"{name} {value}")


def test_the_identity_of_a_device_is_its_serial_number_or_its_uuid() -> None:
    assert identity(FAILING, snapshot_of(ill(), 1)) == "failing_disk:WD_1_2"
    assert identity(FAILING, snapshot_of(IDLE, 1)) == "failing_disk:sda"
    assert identity(LOST, snapshot_of(IDLE, 1)) == "gpu_fault:GPU-1"
    assert identity(Finding("storage_read", Severity.WARNING, 0.9, "sda"), snapshot_of(IDLE, 1)) == ""


def test_an_acknowledged_death_is_hidden_but_not_a_later_death_with_the_same_pid() -> None:
    def frames_of(*events: Event) -> list[Frame]:
        return [*play((Machine(cpu=0.3), 12), (replace(GONE, events=(ended("trainer", -9),)), 1), *((
            Machine(cpu=0.3, events=(event,)), 3) for event in events))]  # fmt: skip

    shown = frames_of()[-1]
    death = shown.verdict.primary
    name = identity(death, shown.snapshot)
    assert (death.class_id, name) == ("job_died", f"job_died:50:{shown.snapshot.at_ns // 10**9}")
    hidden = frames_of(ack(name, value_of(death)))[-1]
    assert "job_died" not in classes(hidden.verdict)
    later = death._replace(since_ns=(death.since_ns or 0) + 90 * 10**9)
    assert open_findings([later], hidden.carry.acked, hidden.snapshot) == [later]


def test_two_disks_with_one_serial_number_are_acknowledged_separately() -> None:
    def named(*states: SmartState) -> list[str]:
        table = {f"sd{letter}": Reading(state, Status.OK) for letter, state in zip("ab", states, strict=True)}
        snapshot = snapshot_of(IDLE, 1)
        snapshot = snapshot._replace(smart=Reading(table, Status.OK))
        return [identity(FAILING._replace(subject=name), snapshot) for name in table]

    bridge = SmartState("sda", "ata", "Model 1", "123456789012", "F", "FAIL", "critical", ())
    # the two devices are paths to one disk
    assert named(bridge, bridge) == ["failing_disk:123456789012"] * 2
    other = ["failing_disk:123456789012_Model_1", "failing_disk:123456789012_Model_2"]
    assert named(bridge, bridge._replace(model="Model 2")) == other
    by_wwn = ["failing_disk:123456789012_Model_1_5000a", "failing_disk:123456789012_Model_1_5000b"]
    assert named(bridge._replace(wwn="5000a"), bridge._replace(wwn="5000b")) == by_wwn
    assert named(bridge, bridge._replace(serial="another"))[0] == "failing_disk:123456789012"


def test_the_acknowledged_value_has_only_figures_that_can_grow() -> None:
    assert value_of(FAILING) == "critical critical=1 reallocated=312"


def test_worse_means_more_severe_more_errors_or_a_new_reason() -> None:
    value = value_of(FAILING)
    assert not is_worse(FAILING, value)
    assert not is_worse(FAILING._replace(severity=Severity.WARNING), value)
    assert is_worse(FAILING, value.replace("312", "311"))
    assert not is_worse(FAILING, value.replace("312", "313"))
    assert is_worse(FAILING, value.replace("critical ", "warning ", 1))
    pending = FAILING._replace(evidence=(*FAILING.evidence, Evidence("smart.sda.pending", 1.0, "count", 0.0)))
    assert is_worse(pending, value)
    assert is_worse(LOST, "critical xid=48")
    assert is_worse(LOST, "critical xid=95")
    assert not is_worse(LOST, "critical xid=79")
    for broken in ("", "nonsense", "critical xid", "critical xid=x"):
        assert is_worse(LOST, broken)


NOW_S = 1_790_000_000
SOUND = SmartState("sda", "ata", "X", "S1", "1", "PASS", "unknown", (), read_wall_s=NOW_S)


def in_log(lines: int, what: str) -> Machine:
    return Machine(disks=(Disk(),), cpu=0.5, smart=(with_verdict(SOUND),), errors={"sda": DeviceErrors(lines, 0, what)})


def cable(count: int, a_day_ago: int) -> Machine:
    state = with_verdict(SOUND._replace(crc_errors=count, earlier=HealthPoint(NOW_S - 86_400, crc_errors=a_day_ago)))
    return Machine(disks=(Disk(read_bytes_per_s=10 * MB, await_ms=60, busy=1.0),), cpu=0.5, smart=(state,))


def worn(**more: Any) -> Machine:
    state = SOUND._replace(protocol="nvme", used_percent=100)._replace(**more)
    return Machine(disks=(Disk(),), cpu=0.5, smart=(with_verdict(state),))


def lasting(machine: Machine) -> Finding:
    carry = play((machine, 15))[-1].carry
    return next(one.finding for one in carry.held.values() if one.finding.class_id == "failing_disk")


def test_an_acknowledged_finding_comes_back_with_more_or_with_other_errors() -> None:
    logged, crc, used = (lasting(machine) for machine in (in_log(1, "I/O"), cable(640, 40), worn()))
    for one, value in (
        (logged, "warning errors=1 is:I/O=1"),
        (crc, "warning crc_errors=640 crc_errors_growth=600 is:crc-grows=1"),
        (used, "critical critical=1 is:worn-out=1"),
    ):
        assert value_of(one) == value
        assert not is_worse(one, value)
    assert is_worse(lasting(in_log(5000, "I/O")), value_of(logged))
    assert is_worse(lasting(in_log(1, "timeout")), value_of(logged))
    assert is_worse(lasting(cable(9000, 8500)), value_of(crc))
    assert not is_worse(lasting(cable(640, 600)), value_of(crc))
    assert is_worse(logged, value_of(crc))
    assert is_worse(lasting(worn(assessment="FAIL", critical_warning=0x0C)), value_of(used))


def test_cable_errors_come_back_when_they_get_clearly_worse() -> None:
    value = value_of(lasting(cable(10_640, 10_040)))
    for count, a_day_ago in ((10_641, 10_041), (10_900, 10_200), (11_800, 10_700)):
        assert not is_worse(lasting(cable(count, a_day_ago)), value)
    assert is_worse(lasting(cable(12_000, 10_800)), value), "twice as many errors in a day are not worse"
    assert is_worse(lasting(cable(21_280, 20_800)), value), "twice as many errors in all are not worse"
    # An earlier version of the program stored no growth.
    assert not is_worse(lasting(cable(12_000, 10_800)), "warning crc_errors=10640 is:crc-grows=1")
    few = value_of(lasting(cable(41, 11)))
    assert not is_worse(lasting(cable(50, 20)), few)


def test_cable_errors_in_the_kernels_log_come_back_in_the_same_way() -> None:
    value = value_of(lasting(in_log(4, "interface CRC")))
    assert not is_worse(lasting(in_log(13, "interface CRC")), value)
    assert is_worse(lasting(in_log(14, "interface CRC")), value)
    assert is_worse(lasting(in_log(5, "critical medium")), value)


def test_a_value_of_an_earlier_version_is_read() -> None:
    assert is_worse(lasting(cable(640, 40)), "warning crc_errors_growth=600")
    assert not is_worse(FAILING, "critical critical=1 reallocated=312 crc_errors_growth=600")


def test_rounding_does_not_make_a_large_count_worse() -> None:
    many = FAILING._replace(evidence=(Evidence("smart.sda.media_errors", 12_345_678.0, "count", 0.0),))
    assert not is_worse(many, value_of(many))


def test_events_acknowledge_and_withdraw() -> None:
    none: dict[str, str] = {}
    assert apply_ack_events(none, (Event(0, 0, "mark", "x"),)) is none
    acked = apply_ack_events(none, (ack("a:1", "critical x=1"), ack("b:2", "warning")))
    assert acked == {"a:1": "critical x=1", "b:2": "warning"}
    assert apply_ack_events(acked, (Event(0, 0, UNDONE, "a:1"),)) == {"b:2": "warning"}


def test_an_acknowledged_finding_is_left_out() -> None:
    snapshot = snapshot_of(ill(), 1)
    name = identity(FAILING, snapshot)
    assert open_findings([FAILING, LOST], {name: value_of(FAILING)}, snapshot) == [LOST]
    assert open_findings([FAILING], {name: "critical reallocated=9"}, snapshot) == [FAILING]


def test_an_acknowledged_disk_stays_hidden_until_it_gets_worse() -> None:
    carry, history = FoldState(), ()
    seen, ruled_out = [], []
    for second in range(40):
        machine = ill(312 if second < 30 else 330)
        events = (ack("failing_disk:WD_1_2", "critical critical=1 reallocated=312"),) if second == 20 else ()
        snapshot = at(machine, second, *events)
        history = (*history, sample_of(machine, second))
        carry, verdict = fold(carry, snapshot, history)
        seen.append("failing_disk" in classes(verdict))
        ruled_out.append("failing_disk" in {one.class_id for one in verdict.primary.ruled_out})
    assert seen[19]
    assert not any(seen[20:30])
    assert all(seen[30:])
    assert not any(ruled_out), "an acknowledged disk is ruled out as a cause"
    assert carry.acked == {"failing_disk:WD_1_2": "critical critical=1 reallocated=312"}


GPU_IS_LOST = replace(FED, gpu_lost=frozenset((3,)))


def acknowledged(machine: Machine, name: str) -> Machine:
    """The machine with the event that acknowledges its finding of this identity."""
    frame = play((machine, 15))[-1]
    finding = next(one.finding for one in frame.carry.held.values() if identity(one.finding, frame.snapshot) == name)
    return replace(machine, events=(ack(name, value_of(finding)),))


def test_a_gpu_that_is_lost_again_is_shown_although_the_first_loss_was_acknowledged() -> None:
    seen = acknowledged(GPU_IS_LOST, "gpu_fault:GPU-3")
    frames = play((GPU_IS_LOST, 15), (seen, 1), (GPU_IS_LOST, 30), (FED, 40), (GPU_IS_LOST, 15))
    assert not any("gpu_fault" in classes(frame.verdict) for frame in frames[16:86])
    assert frames[45].carry.acked["gpu_fault:GPU-3"] != ENDED, "it has not ended"
    assert frames[85].carry.acked == {"gpu_fault:GPU-3": ENDED}
    assert "gpu_fault" in classes(frames[-1].verdict)


def test_a_gpu_that_answers_after_a_restart_is_shown_when_it_is_lost_again() -> None:
    repeated = replace(FED, events=acknowledged(GPU_IS_LOST, "gpu_fault:GPU-3").events)
    assert "gpu_fault" in classes(play((repeated, 1), (FED, 20), (GPU_IS_LOST, 15))[-1].verdict)
    still_lost = replace(GPU_IS_LOST, events=repeated.events)
    assert "gpu_fault" not in classes(play((still_lost, 1), (GPU_IS_LOST, 40))[-1].verdict)


def test_an_absent_gpu_keeps_its_acknowledgement() -> None:
    seen, absent = acknowledged(GPU_IS_LOST, "gpu_fault:GPU-3"), replace(FED, gpus=FED.gpus[:3])
    frames = play((GPU_IS_LOST, 15), (seen, 1), (absent, 60), (GPU_IS_LOST, 15))
    assert not any("gpu_fault" in classes(frame.verdict) for frame in frames[16:])


def test_a_disk_that_was_sound_again_is_shown_when_it_fails_again() -> None:
    seen = acknowledged(ill(), "failing_disk:WD_1_2")
    sound = replace(ill(), smart=(ill().smart[0]._replace(severity="ok", reallocated=0),))
    silent = replace(ill(), smart_silent=True)
    for between, is_shown in ((sound, True), (silent, False)):
        frames = play((ill(), 15), (seen, 1), (between, 40), (ill(), 5))
        assert ("failing_disk" in classes(frames[-1].verdict)) is is_shown


def test_errors_after_a_restart_are_compared_from_0() -> None:
    value = value_of(lasting(in_log(50, "critical medium")))
    assert not is_worse(lasting(in_log(50, "critical medium")), value)
    assert is_worse(lasting(in_log(49, "critical medium")), value)
    cable_value = value_of(lasting(in_log(50, "interface CRC")))
    assert not is_worse(lasting(in_log(9, "interface CRC")), cable_value)
    assert is_worse(lasting(in_log(10, "interface CRC")), cable_value)


def test_new_errors_after_a_restart_stay_when_their_count_reaches_the_acknowledged_one() -> None:
    fifty = in_log(50, "critical medium")
    repeated = replace(in_log(49, "critical medium"), events=(ack("failing_disk:S1", value_of(lasting(fifty))),))
    frames = play((repeated, 1), (in_log(49, "critical medium"), 20), (fifty, 5))
    assert all("failing_disk" in classes(frame.verdict) for frame in frames[15:])


def test_a_cause_that_comes_and_goes_with_the_load_stays_acknowledged() -> None:
    seen = acknowledged(cable(640, 40), "failing_disk:S1")
    idle = replace(cable(640, 40), disks=(Disk(),))
    frames = play((cable(640, 40), 20), (seen, 1), (idle, 60), (cable(640, 40), 20))
    assert not any("failing_disk" in classes(frame.verdict) for frame in frames[21:])


@pytest.mark.parametrize("value", ["critical errors=", "critical errors=x", "critical errors", "", "="])
def test_a_malformed_acknowledgement_hides_nothing(value: str) -> None:
    repeated = replace(in_log(50, "critical medium"), events=(ack("failing_disk:S1", value),))
    frames = play((repeated, 1), (in_log(50, "critical medium"), 20), (Machine(disks=(Disk(),), cpu=0.5), 40))
    assert "failing_disk" in classes(frames[20].verdict)
