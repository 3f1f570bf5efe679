"""The part of the rules' state (FoldState) about each device's usual read latency.

The latency is learned while no finding about storage is active.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.model.block.counters import BlockInfo, BlockRates
from iotop_ai.model.block.read_latency_baseline import MINUTE_NS, DeviceBaseline, size_bucket, with_minute
from iotop_ai.model.sample import Sample

MOST_DEVICES = 64
"""The most baselines that are kept; the devices that were read longest ago are dropped."""
JUDGED_KINDS = ("disk", "dm", "md", "loop")
"""The kinds of devices whose awaits are judged and kept as baselines."""

Learned = Mapping[str, DeviceBaseline]
"""The baseline of each device, by its ``identity``."""
NOTHING: Learned = {}


def identity(info: BlockInfo) -> str:
    """The key of a device: its serial number, or its name if it has no serial number."""
    return info.serial or info.name


def with_earlier_baselines(learned: Learned, earlier: Learned) -> Learned:
    """The baselines, completed with those of an earlier session for devices that have none yet."""
    adopted = {
        name: learned.get(name, DeviceBaseline())._replace(sizes=baseline.sizes)
        for name, baseline in earlier.items()
        if name not in learned or not any(size.minutes for size in learned[name].sizes)
    }
    if not adopted:
        return learned
    return {**adopted, **{name: baseline for name, baseline in learned.items() if name not in adopted}}


def without_replaced(learned: Learned, history: Sequence[Sample]) -> Learned:
    """The baselines without those of a kernel name that now belongs to another device, such as loop0 with a new image.

    A device with a serial number keeps its baseline. history: the Samples so far, oldest first.
    """
    now = history[-1].block.value
    before = next((table for sample in reversed(history[:-1]) if (table := sample.block.value) is not None), None)
    if not learned or now is None or before is None:
        return learned
    replaced = {key.name for key in now.keys() - before.keys()} & learned.keys()
    return {name: baseline for name, baseline in learned.items() if name not in replaced} if replaced else learned


def learn(
    learned: Learned, sample: Sample, infos: Mapping[str, BlockInfo], frozen: bool, limits: Thresholds = LIMITS
) -> Learned:
    """The baselines after one more Sample.

    frozen: whether a storage finding is active. Nothing is then learned, and the figures of the current minute are
    dropped.
    """
    block, at = sample.block, sample.at_ns
    if frozen:
        any_minute_begun = any(baseline.minute is not None for baseline in learned.values())
        if not any_minute_begun:
            return learned
        return {name: DeviceBaseline(sizes=baseline.sizes) for name, baseline in learned.items()}
    if block.value is None or not block.renewed or sample.gap or not block.seconds:
        return learned
    out: dict[str, DeviceBaseline] | None = None
    for key, rates in block.value.items():
        info = infos.get(key.name)
        if info is None or info.kind not in JUDGED_KINDS or not rates.reads_per_s or rates.read_await_ms is None:
            continue
        name = identity(info)
        if out is None:
            out = dict(learned)
        # The devices are ordered by their newest reads, so the first entry is the first to be dropped.
        out[name] = _with_reads(out.pop(name, DeviceBaseline()), at, rates, block.seconds, limits)
    if out is None:
        return learned
    for name in list(out)[: max(0, len(out) - MOST_DEVICES)]:
        del out[name]
    return out


def _with_reads(
    baseline: DeviceBaseline, at_ns: int, rates: BlockRates, seconds: float, limits: Thresholds
) -> DeviceBaseline:
    minute = at_ns // MINUTE_NS
    reads = round((rates.reads_per_s or 0.0) * seconds)
    if baseline.minute != minute:
        sizes = baseline.sizes
        if baseline.minute is not None and baseline.reads >= limits.baseline_reads:
            bucket = size_bucket(baseline.size_bytes / baseline.reads)
            updated = with_minute(sizes[bucket], baseline.minute * MINUTE_NS, baseline.wait_us / baseline.reads / 1000)
            sizes = (*sizes[:bucket], updated, *sizes[bucket + 1 :])  # type: ignore[assignment]
        baseline = DeviceBaseline(minute, sizes=sizes)
    return baseline._replace(
        reads=baseline.reads + reads,
        wait_us=baseline.wait_us + round(reads * (rates.read_await_ms or 0.0) * 1000),
        size_bytes=baseline.size_bytes + round(reads * (rates.read_size_bytes or 0.0)),
    )


def baseline_ms(
    learned: Learned, info: BlockInfo, size_bytes: float | None, limits: Thresholds = LIMITS
) -> float | None:
    """The 10th percentile of the device's one-minute mean awaits for reads of this size.

    None if there are too few minutes, or if the size is unknown.
    """
    device = learned.get(identity(info))
    if device is None or size_bytes is None:
        return None
    by_size = device.sizes[size_bucket(size_bytes)]
    return by_size.low_ms() if by_size.minutes >= limits.baseline_minutes else None
