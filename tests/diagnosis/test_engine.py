from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.rules import RULES
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.verdict_class import CLASS_SPECS, State
from tests.diagnosis.build import BUSY, IDLE, PREPARING, SINGLE, STARVED, Disk, Machine, S, classes, play, snapshot_of

SCENES = (STARVED, PREPARING, SINGLE, BUSY, IDLE, Machine(without_readings=True), Machine(cpu=0.5))


def test_without_a_history_the_verdict_is_measuring() -> None:
    for machine in SCENES:
        carry, verdict = fold(FoldState(), snapshot_of(machine, 0), ())
        assert (classes(verdict), verdict.state) == (["unknown"], State.UNSURE)
        assert verdict.measuring
        assert (verdict.watched_s, verdict.needed_s) == (0, 10)
        assert carry.started_ns == 0


def test_a_verdict_is_given_once_the_first_window_is_full() -> None:
    verdicts = [f.verdict for f in play((STARVED, 12))]
    assert [v.watched_s for v in verdicts] == list(range(12))
    assert [v.state for v in verdicts[:10]] == [State.UNSURE] * 10
    assert [v.state for v in verdicts[10:]] == [State.STARVED] * 2


def test_with_a_long_interval_a_verdict_needs_three_intervals() -> None:
    frames = play((replace(STARVED, interval_s=15.0), 5))
    assert frames[-1].verdict.needed_s == 45
    assert [f.verdict.state for f in frames] == [State.UNSURE] * 3 + [State.STARVED] * 2


def test_the_fold_gives_the_same_result_each_time() -> None:
    first, again = play((STARVED, 14), (BUSY, 14)), play((STARVED, 14), (BUSY, 14))
    assert [f.carry for f in first] == [f.carry for f in again]
    assert [f.verdict for f in first] == [f.verdict for f in again]


def test_continuing_from_a_carry_equals_folding_from_the_beginning() -> None:
    frames = play((STARVED, 30))
    middle = frames[17]
    carry = middle.carry
    for frame in frames[18:]:
        carry, verdict = fold(carry, frame.snapshot, frame.history)
        assert (carry, verdict) == (frame.carry, frame.verdict)


def test_a_finding_survives_a_short_relief_and_ends_in_a_longer_one() -> None:
    fed = replace(STARVED, gpus=(0.97,) * 8, power=650.0)
    states = [f.verdict.state for f in play((STARVED, 25), (fed, 4), (STARVED, 10))]
    assert set(states[11:]) == {State.STARVED}
    states = [f.verdict.state for f in play((STARVED, 25), (fed, 12))]
    assert states[-1] is State.OK


def test_a_new_finding_stays_for_its_minimum_time_and_keeps_its_start() -> None:
    gone = replace(IDLE, cpu=0.6)
    frames = play((IDLE, 11), (gone, 12))
    idle = [f for f in frames if f.verdict.primary.class_id == "idle"]
    entered = idle[0].snapshot.at_ns
    assert all(f.verdict.primary.since_ns == entered for f in idle)
    assert 9 * S <= idle[-1].snapshot.at_ns - entered <= LIMITS.dwell_s * 1e9
    assert frames[-1].verdict.primary.class_id == "unknown"


def test_with_short_intervals_a_decision_is_made_about_once_a_second() -> None:
    frames = play((replace(STARVED, interval_s=0.2), 80))
    decided = {f.carry.decided_ns for f in frames}
    assert len(decided) == 16
    assert frames[-1].verdict.state is State.STARVED


def test_the_states_of_the_last_hour_are_kept_with_their_changes() -> None:
    carry = play((STARVED, 20), (IDLE, 45))[-1].carry
    words = [word for _, word in carry.states]
    assert words[:2] == ["UNSURE", "STARVED"]
    assert words[-1] == "CALM"
    assert all(a != b for a, b in pairwise(words))


def test_a_loop_device_counts_as_active_for_a_while_after_its_last_use() -> None:
    loop = Disk("loop0", "loop", kind="loop", mount="", read_bytes_per_s=1e6, await_ms=1, busy=0.1)
    used = replace(IDLE, disks=(loop,))
    quiet = replace(IDLE, disks=(replace(loop, read_bytes_per_s=0),))
    frames = play((used, 3), (quiet, 70))
    assert frames[2].carry.active_ns == {"loop0": 2 * S}
    assert frames[60].carry.active_ns == {"loop0": 2 * S}
    assert frames[-1].carry.active_ns == {}


def test_missing_groups_of_signals_are_named() -> None:
    verdict = play((replace(IDLE, ptrace=False), 1))[-1].verdict
    assert (verdict.groups_seen, verdict.groups_all) == (3, 6)
    assert verdict.missing == ("not root", "no NVIDIA driver", "no disk has SMART")
    snapshot = snapshot_of(STARVED, 3)._replace(
        pressure=Reading(None, Status.OFF, "PSI is off", "boot with psi=1", 3), smart=Reading(None)
    )
    verdict = fold(FoldState(), snapshot, ())[1]
    assert verdict.missing == ("PSI off", "SMART pending")
    unsure = play((Machine(without_readings=True), 1))[-1].verdict
    assert (unsure.groups_seen, len(unsure.missing)) == (0, 6)


def test_every_rule_has_a_different_name() -> None:
    assert len({rule.__name__ for rule in RULES}) == len(RULES)


def test_the_stamp_changes_with_the_limits() -> None:
    assert stamp() == stamp(LIMITS)
    assert stamp(LIMITS._replace(blocked=0.6)) != stamp()


MACHINES = st.builds(
    replace,
    st.sampled_from(SCENES),
    gpus=st.sampled_from([(), (None,), (0.0,), (0.5, None), (0.95,) * 2]),
    gpu_status=st.sampled_from(list(Status)),
    power=st.sampled_from([None, 0.0, 650.0]),
    cpu=st.sampled_from([None, 0.0, 1.0]),
    io_pressure=st.sampled_from([None, 0.0, 1.0]),
    disks=st.sampled_from([(), (Disk(unknown=True),), STARVED.disks]),
    interval_s=st.sampled_from([0.1, 1.0, 30.0, 100.0]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(MACHINES, st.integers(1, 14)), min_size=1, max_size=3))
def test_for_any_input_the_verdict_is_within_its_bounds(scenes: list[tuple[Machine, int]]) -> None:
    interval = scenes[0][0].interval_s
    for frame in play(*((replace(m, interval_s=interval), n) for m, n in scenes)):
        verdict = frame.verdict
        assert verdict.findings
        assert verdict.groups_seen + len(verdict.missing) == verdict.groups_all
        for finding in verdict.findings:
            assert 0 <= finding.confidence <= 1
            assert finding.lost_ratio is None or 0 <= finding.lost_ratio <= 1
            assert {advice.template for advice in finding.advice} <= set(CLASS_SPECS[finding.class_id].advice)
            if finding.state is State.OK:
                least = LIMITS.leave_level
                assert any(e.value is not None and e.value >= (e.threshold or 0) * least for e in finding.evidence)
        if any(f.state is State.STARVED for f in verdict.findings):
            assert not any(f.state in (State.OK, State.CALM) for f in verdict.findings)


@pytest.mark.parametrize("machine", SCENES)
def test_a_repeated_tick_changes_nothing(machine: Machine) -> None:
    frame = play((machine, 15))[-1]
    carry, verdict = fold(frame.carry, frame.snapshot, frame.history)
    assert verdict == frame.verdict
    assert carry == frame.carry
