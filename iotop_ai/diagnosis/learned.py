"""What the fold learns of each device: how long its reads take when nothing is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.model.baseline import MINUTE_NS, DeviceBaseline, size_of, with_minute
from iotop_ai.model.block import BlockInfo, BlockRates
from iotop_ai.model.sample import Sample

MOST_DEVICES = 64
STORAGE = frozenset(
    (
        "storage_read",
        "small_random",
        "io_limit",
        "cache_thrash",
        "loader_serial",
        "noisy_neighbour",
        "checkpoint_write",
        "failing_disk",
    )
)
"""Classes during which nothing is learned: else a stall that lasts would become what is normal."""
JUDGED_KINDS = ("disk", "dm", "md", "loop")
"""Kinds of devices whose awaits are judged, and learned."""

Learned = Mapping[str, DeviceBaseline]
NOTHING: Learned = {}


def identity(info: BlockInfo) -> str:
    """What a device is remembered by: its serial number, without one its name."""
    return info.serial or info.name


def seeded(learned: Learned, known: Learned) -> Learned:
    """With what was known from before of devices of which nothing has been learned yet."""
    fresh = {
        name: learned.get(name, DeviceBaseline())._replace(sizes=one.sizes)
        for name, one in known.items()
        if name not in learned or not any(size.minutes for size in learned[name].sizes)
    }
    return {**fresh, **{name: one for name, one in learned.items() if name not in fresh}} if fresh else learned


def learn(
    learned: Learned, sample: Sample, infos: Mapping[str, BlockInfo], frozen: bool, limits: Thresholds = LIMITS
) -> Learned:
    """With one more Sample. frozen: a storage finding is on; the running minute is then given up."""
    block, at = sample.block, sample.at_ns
    if frozen:
        running = any(one.minute is not None for one in learned.values())
        return {name: DeviceBaseline(sizes=one.sizes) for name, one in learned.items()} if running else learned
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
        # The one that moved last stands last.
        out[name] = _added(out.pop(name, DeviceBaseline()), at, rates, block.seconds, limits)
    if out is None:
        return learned
    for name in list(out)[: max(0, len(out) - MOST_DEVICES)]:
        del out[name]
    return out


def _added(one: DeviceBaseline, at_ns: int, rates: BlockRates, seconds: float, limits: Thresholds) -> DeviceBaseline:
    minute = at_ns // MINUTE_NS
    reads = round((rates.reads_per_s or 0.0) * seconds)
    if one.minute != minute:
        sizes = one.sizes
        if one.minute is not None and one.reads >= limits.baseline_reads:
            bucket = size_of(one.size_bytes / one.reads)
            full = with_minute(sizes[bucket], one.minute * MINUTE_NS, one.wait_us / one.reads / 1000)
            sizes = (*sizes[:bucket], full, *sizes[bucket + 1 :])  # type: ignore[assignment]
        one = DeviceBaseline(minute, sizes=sizes)
    return one._replace(
        reads=one.reads + reads,
        wait_us=one.wait_us + round(reads * (rates.read_await_ms or 0.0) * 1000),
        size_bytes=one.size_bytes + round(reads * (rates.read_size_bytes or 0.0)),
    )


def learned_ms(
    learned: Learned, info: BlockInfo, size_bytes: float | None, limits: Thresholds = LIMITS
) -> float | None:
    """What a tenth of the device's minutes with reads of this size stayed below; None while too few are known."""
    one = learned.get(identity(info))
    if one is None or size_bytes is None:
        return None
    baseline = one.sizes[size_of(size_bytes)]
    return baseline.low_ms() if baseline.minutes >= limits.baseline_minutes else None
