"""The normal latency of a device: that of its kind or of its history, whichever is lower; stalls are not history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.engine import fold
from iotop_ai.diagnosis.memory.read_latency_baseline import MOST_DEVICES, baseline_ms, identity, learn
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.block.counters import BlockKey
from iotop_ai.model.block.read_latency_baseline import (
    BOUNDS_NS,
    PART_NS,
    PARTS,
    Baseline,
    DeviceBaseline,
    bin_of,
    middle_ms,
    size_bucket,
    with_minute,
)
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.sample import Sample
from iotop_ai.pipeline import frames
from tests.diagnosis.build import JOB_ALONE, MB, Disk, Machine, S, play, sample_of, snapshot_of
from tests.store.scenario import session

INFOS = {"sda": Disk().info}


def baselines_after(*scenes: tuple[Machine, int], frozen: bool = False) -> dict[str, DeviceBaseline]:
    learned: dict[str, DeviceBaseline] = {}
    second = 0
    for machine, ticks in scenes:
        for _ in range(ticks):
            infos = {d.name: d.info for d in machine.disks}
            learned = dict(learn(learned, sample_of(machine, second), infos, frozen))
            second += 1
    return learned


def reading(await_ms: float, size: float = 128 * 1024) -> Machine:
    return Machine(disks=(Disk(read_bytes_per_s=50 * MB, await_ms=await_ms, busy=0.3, size_bytes=size),))


def test_an_octave_has_four_bins() -> None:
    assert list(BOUNDS_NS) == sorted(set(BOUNDS_NS))
    assert all(abs(bin_of(ms * 2) - bin_of(ms) - 4) <= 1 for ms in (0.01, 0.3, 1.0, 7.0, 90.0))
    for ms in (0.002, 0.3, 5.5, 870.0):
        assert middle_ms(bin_of(ms)) == pytest.approx(ms, rel=0.1)
    assert (bin_of(0.0), bin_of(1e9)) == (0, len(BOUNDS_NS) - 1)
    assert middle_ms(10**6) > 50_000
    assert middle_ms(-5) == middle_ms(0)


def test_reads_are_in_one_of_three_buckets_by_their_size() -> None:
    assert [size_bucket(n) for n in (4096, 16 << 10, 20_000, 128 << 10, 1 << 20)] == [0, 0, 1, 1, 2]


def test_a_tenth_of_the_minutes_lies_below_the_baseline() -> None:
    baseline = Baseline()
    assert baseline.low_ms() is None
    for minute in range(100):
        baseline = with_minute(baseline, minute * 60 * S, 1.0 if minute < 15 else 40.0)
    assert baseline.minutes == 100
    assert baseline.low_ms() == pytest.approx(1.0, rel=0.1)
    assert baseline.low_ms(0.5) == pytest.approx(40.0, rel=0.1)


def test_minutes_older_than_a_day_are_dropped() -> None:
    baseline = with_minute(Baseline(), 0, 0.1)
    baseline = with_minute(baseline, (PARTS - 1) * PART_NS, 9.0)
    assert (len(baseline.parts), baseline.minutes) == (2, 2)
    baseline = with_minute(baseline, PARTS * PART_NS, 9.0)
    assert baseline.low_ms() == pytest.approx(9.0, rel=0.1)
    for part in range(40):
        baseline = with_minute(baseline, part * PART_NS, 1.0)
    assert len(baseline.parts) == PARTS


def test_minutes_are_counted_by_the_size_of_their_reads() -> None:
    learned = baselines_after((reading(0.4), 15 * 60), (reading(2.0, 4096.0), 3 * 60))
    small, middle, large = learned["sda"].sizes
    assert (small.minutes, middle.minutes, large.minutes) == (2, 15, 0)
    assert baseline_ms(learned, INFOS["sda"], 128 * 1024) == pytest.approx(0.4, rel=0.1)
    assert baseline_ms(learned, INFOS["sda"], 4096) is None
    assert baseline_ms(learned, INFOS["sda"], None) is None
    assert baseline_ms({}, INFOS["sda"], 4096) is None


def test_an_idle_unknown_or_frozen_device_adds_no_history() -> None:
    assert baselines_after((Machine(), 180)) == {}
    assert baselines_after((Machine(disks=(Disk(unknown=True),)), 180)) == {}
    assert baselines_after((reading(0.4), 180), frozen=True) == {}
    before = baselines_after((reading(0.4), 90))
    after = learn(before, sample_of(reading(0.4), 90), INFOS, frozen=True)
    assert (after["sda"].minute, after["sda"].reads) == (None, 0)
    assert after["sda"].sizes == before["sda"].sizes
    assert learn(after, sample_of(reading(0.4), 91), INFOS, frozen=True) is after


def test_a_device_is_known_by_its_serial_number_and_the_number_of_devices_is_bounded() -> None:
    info = INFOS["sda"]
    assert (identity(info), identity(info._replace(serial="S1"))) == ("sda", "S1")
    many = Machine(disks=tuple(replace(reading(1.0).disks[0], name=f"sd{i}") for i in range(MOST_DEVICES + 9)))
    learned = baselines_after((many, 3))
    assert len(learned) == MOST_DEVICES
    assert "sd0" not in learned


def test_a_new_device_of_a_known_name_has_no_history_unless_its_serial_number_is_known() -> None:
    machine = Machine(disks=(replace(reading(0.4).disks[0], name="loop0", kind="loop"),))
    own = DeviceBaseline(sizes=(Baseline(), Baseline(((0, ((bin_of(0.4), 60),)),)), Baseline()))

    def known(serial: str, *numbers: int | None) -> bool:
        """Whether the device has a history after Samples with these diskseqs; None: the devices are unread."""
        info = machine.disks[0].info._replace(serial=serial)
        carry = FoldState(learned={identity(info): own})
        samples: tuple[Sample, ...] = ()
        for second, number in enumerate(numbers):
            sample, snapshot = sample_of(machine, second), snapshot_of(machine, second)
            table = None if number is None else {BlockKey("loop0", number): machine.disks[0].rates}
            samples = (*samples, sample._replace(block=sample.block._replace(value=table)))
            snapshot = snapshot._replace(disks=snapshot.disks._replace(value={"loop0": info}))
            carry, _ = fold(carry, snapshot, samples)
        return baseline_ms(carry.learned, info, 128 * 1024) is not None

    assert known("", 41, 41)
    assert known("", 0, 0)
    assert known("", 41, None, 41)
    assert known("S1", 41, 42)
    assert not known("", 41, 42)
    assert not known("", 41, None, 42)


def test_a_device_that_was_faster_is_called_slow_sooner() -> None:
    history = Baseline(((0, ((bin_of(0.2), 60),)),))
    carry = FoldState(learned={"sda": DeviceBaseline(sizes=(Baseline(), history, Baseline()))})
    calm = replace(JOB_ALONE, disks=(replace(JOB_ALONE.disks[0], await_ms=1.2, queue=7.9),))
    assert play((calm, 14))[-1].verdict.primary.class_id == "loader_serial"
    slow = play((calm, 14), carry=carry)[-1].verdict.primary
    assert slow.class_id == "storage_read"
    floor = LIMITS.learned_floor * dict(play((calm, 14))[-1].verdict.primary.args)["normal_ms"]
    assert dict(slow.args)["normal_ms"] == pytest.approx(floor)


def test_a_history_of_only_stalls_does_not_raise_the_normal_latency() -> None:
    history = Baseline(((0, ((bin_of(500.0), 600),)),))
    carry = FoldState(learned={"sda": DeviceBaseline(sizes=(Baseline(), history, Baseline()))})
    assert play((JOB_ALONE, 14), carry=carry)[-1].verdict.primary.class_id == "storage_read"


def test_a_stall_does_not_become_normal() -> None:
    frame = play((reading(0.3), 13 * 60), (JOB_ALONE, 4 * 60))[-1]
    (baseline,) = (baseline.sizes[1] for baseline in frame.carry.learned.values())
    assert frame.verdict.primary.class_id == "storage_read"
    assert baseline.low_ms(0.99) == pytest.approx(0.3, rel=0.1)
    assert frame.carry.learned["sda"].minute is None


def test_each_sample_is_added_once_and_none_after_a_gap() -> None:
    made = list(frames(session(31, 40)))
    for frame in made:
        assert frame.carry.fed_ns == frame.sample.at_ns
    infos = made[-1].snapshot.disks.value or {}
    assert learn(made[-1].carry.learned, made[-1].sample._replace(gap=True), infos, False) is made[-1].carry.learned
