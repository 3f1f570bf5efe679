"""The facts of a block device over a window, compared with what is normal for a device of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from math import sqrt

from iotop_ai.diagnosis.facts.per_sample_cache import PerSampleCache
from iotop_ai.diagnosis.facts.window import Flags, Window, at_least, both, mean, share
from iotop_ai.diagnosis.memory.read_latency_baseline import JUDGED_KINDS, NOTHING, Learned, baseline_ms
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo, BlockKey, BlockRates
from iotop_ai.model.counter import sum_of_known
from iotop_ai.model.sample import Sample

_MOST_LAYERS = 8
"""The most layers of stacked devices whose times are followed; more layers mean that the devices form a cycle."""


class DeviceFacts(NamedTuple):
    """One device over a window; a mean is None if no sample has the value or no request completed."""

    name: str
    info: BlockInfo
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    read_await_ms: float | None
    """The mean await of reads over all samples, weighted by the number of reads."""
    await_ms: float | None
    """The mean await of all requests over all samples, unweighted."""
    read_size_bytes: float | None
    busy_ratio: float | None
    normal_ms: float
    """The normal await of a read of this size: the learned value, or the value for the device's kind if it is
    lower."""
    inflation: float | None
    """The measured await divided by normal_ms."""
    serves_serially: bool
    """Whether the device serves requests one after the other, so that %util shows its load."""
    above_normal: Flags
    """For each sample, whether the await is at least inflation_some times normal; for a serial device, equal to
    ``saturated``."""
    slow: Flags
    """For each sample, whether the await is at least inflation_slow times normal; for a serial device, equal to
    ``saturated``."""
    saturated: Flags
    """For each sample, whether the device is saturated: for a serial device, whether it is busy and slow (disk_busy,
    disk_await_ms); for any other, whether its await is at least inflation_severe times normal."""
    critical: Flags
    """For each sample, whether the device is saturated and its await is at least disk_await_bad_ms; the busy ratio of a
    serial device must also be at least disk_busy_bad."""
    is_flat: bool
    """Whether the device is busy (steady_busy) while its read rate hardly varies (steady_variation)."""
    reads_per_s: float | None = None
    queue_size: float | None = None
    """The mean number of requests that are queued or in service."""
    is_capped: bool = False
    """Whether the device is a network volume that several reads keep busy at a flat rate, each about as long as usual:
    it gives what its owner pays for."""
    members: tuple[str, ...] = ()
    """The names of all disks whose facts these are, if a filesystem is on several disks (``joined``); otherwise ()."""

    @property
    def compared_await_ms(self) -> float | None:
        """The await to compare with normal_ms: the mean of reads, or of all requests if no read completed; None when
        unknown."""
        return self.read_await_ms if self.read_await_ms is not None else self.await_ms

    @property
    def mount(self) -> str:
        """The first mount point of the device; "" if it is not mounted."""
        return self.info.mounts[0].path if self.info.mounts else ""


def base_of(info: BlockInfo, infos: Mapping[str, BlockInfo]) -> BlockInfo:
    """The physical device below a stacked device; of several, the first of the slowest kind.

    Of a cache and the slower disk behind it, the disk is returned: it delivers what the cache does not hold.
    """
    if not (info.slaves or info.parent):
        return info
    bases, queue, seen = [], [info], {info.name}
    for device in queue:
        below = device.slaves or ((device.parent,) if device.kind in ("partition", "nvme-path") else ())
        members = [infos[name] for name in below if name in infos]
        if not members:
            bases.append(device)
        queue += [member for member in members if member.name not in seen]
        seen.update(below)
    return max(bases, key=lambda base: prior_ms(base, 0), default=info)


CLOUD_MODELS = ("Amazon Elastic Block Store", "nvme_card-pd", "MSFT NVMe Accelerator", "Microsoft NVMe Direct Disk Pd")
"""How the models of cloud network volumes with an NVMe interface begin: Amazon EBS, Google Persistent Disk, and managed
disks of Azure."""
FABRICS = tuple(f"NVMe over {transport}" for transport in ("tcp", "rdma", "fc"))
"""How ``BlockInfo.detail`` begins for NVMe disks that are reached over a network. Other transports ("loop",
"apple-nvme") are local."""


def serves_serially(base: BlockInfo) -> bool:
    """Whether the device serves requests one after the other, as rotating disks do, so that %util shows its load.

    The kernel's ``rotational`` is meaningful only for SCSI (including USB) and ATA devices.
    """
    return bool(base.rotational) and base.transport in ("ata", "scsi", "usb")


def is_network_volume(base: BlockInfo) -> bool:
    """Whether an NVMe disk is a network volume: a cloud volume, or a disk that is reached over NVMe over Fabrics."""
    return base.model.startswith(CLOUD_MODELS) or base.detail.startswith(FABRICS)


def latency_is_typical(base: BlockInfo) -> bool:
    """Whether devices of this kind have similar latencies: local disks do; network volumes and loop devices do not."""
    return base.transport in ("nvme", "ata", "scsi", "usb", "mmc") and not is_network_volume(base)


def prior_ms(base: BlockInfo, size_bytes: float | None, limits: Thresholds = LIMITS) -> float:
    """The normal await of a read of this size for the device's kind: network volume, NVMe, SSD or rotating disk."""
    if base.transport == "nvme" and not is_network_volume(base):
        fixed, per_s = limits.nvme_prior_ms, limits.nvme_prior_bytes_per_s
    elif base.transport in ("ata", "scsi", "usb", "mmc"):
        fixed, per_s = limits.ssd_prior_ms, limits.ssd_prior_bytes_per_s
        if serves_serially(base):
            fixed, per_s = limits.hdd_prior_ms, limits.hdd_prior_bytes_per_s
    else:
        fixed, per_s = limits.network_prior_ms, limits.network_prior_bytes_per_s
    return fixed + (size_bytes or 0.0) / per_s * 1000


def normal_await_ms(
    info: BlockInfo, base: BlockInfo, size_bytes: float | None, limits: Thresholds = LIMITS, learned: Learned = NOTHING
) -> float:
    """The normal await of a read of this size: the learned value, or the value for the device's kind if it is lower.

    The lower value is used because a long stall must not become normal. But the learned value is raised to at least
    half of the value for the kind (learned_floor), because an idle disk is faster than a busy disk can be. base: the
    physical device below the device.
    """
    prior, own = prior_ms(base, size_bytes, limits), baseline_ms(learned, info, size_bytes, limits)
    return prior if own is None else max(min(prior, own), limits.learned_floor * prior)


def _columns(rates: Sequence[BlockRates]) -> dict[str, tuple[float | None, ...]]:
    """The values of each rate, one per sample, by the name of the rate."""
    columns = zip(*rates, strict=True) if rates else repeat(())
    return dict(zip(BlockRates._fields, columns, strict=False))


def _weighted_mean(values: Iterable[float | None], weights: Iterable[float | None]) -> float | None:
    """The mean of the values, each with its weight; None if no value with a weight is known."""
    total_weight = summed = 0.0
    for value, weight in zip(values, weights, strict=True):
        if value is not None and weight:
            total_weight += weight
            summed += value * weight
    return summed / total_weight if total_weight else None


def _spread(values: list[float], level: float) -> float:
    """The standard deviation of the values around ``level``."""
    # statistics.pstdev computes with fractions, so it is far slower to run and to import.
    return sqrt(sum([(v - level) ** 2 for v in values]) / len(values))


def _has_no_times(info: BlockInfo, rates: list[BlockRates | None]) -> bool:
    """Whether a stacked device counts its requests but does not time them, as md does in kernels before 5.14."""
    if not info.slaves:
        return False
    active = [r for r in rates if r is not None and (r.reads_per_s or r.writes_per_s)]
    return bool(active) and not any(r.read_await_ms or r.await_ms or r.queue_size for r in active)


def _timed_by_members(
    rates: list[BlockRates | None], window: Window, info: BlockInfo, infos: Mapping[str, BlockInfo], layer: int = 0
) -> list[BlockRates | None]:
    """The rates of a device that the kernel does not time, with the queue and awaits of its members.

    The utilisation is the device's own; if that is 0 or unknown, it is the highest of its members.
    """
    tables = [{key.name: block for key, block in (s.block.value or {}).items()} for s in window.samples]
    below = []
    for name in info.slaves:
        member = [table.get(name) for table in tables]
        member_info = infos.get(name)
        if member_info is not None and layer < _MOST_LAYERS and _has_no_times(member_info, member):
            member = _timed_by_members(member, window, member_info, infos, layer + 1)
        below.append(member)
    return [None if r is None else _with_times(r, rows) for r, *rows in zip(rates, *below, strict=True)]


def _with_times(rates: BlockRates, members: list[BlockRates | None]) -> BlockRates:
    """The rates with the queue, awaits and utilisation that follow from those of the members in the same sample."""
    known = [m for m in members if m is not None]
    queues = [m.queue_size for m in known if m.queue_size is not None]
    busy = [m.busy_ratio for m in known if m.busy_ratio is not None]
    return rates._replace(
        read_await_ms=_weighted_mean([m.read_await_ms for m in known], [m.reads_per_s for m in known]),
        await_ms=_weighted_mean(
            [m.await_ms for m in known], [(m.reads_per_s or 0.0) + (m.writes_per_s or 0.0) for m in known]
        ),
        queue_size=sum(queues) if queues else None,
        busy_ratio=rates.busy_ratio or max(busy, default=None),
    )


def device_facts(
    key: BlockKey,
    info: BlockInfo,
    infos: Mapping[str, BlockInfo],
    window: Window,
    limits: Thresholds = LIMITS,
    learned: Learned = NOTHING,
) -> DeviceFacts:
    """The facts of one device over the window. learned: the read latency baselines of all devices."""
    rates = [(s.block.value or {}).get(key) for s in window.samples]
    timed = not _has_no_times(info, rates)
    if not timed:
        rates = _timed_by_members(rates, window, info, infos)
    known = [r for r in rates if r is not None]
    base = base_of(info, infos)
    serial = serves_serially(base)
    awaits = [None if r is None else r.await_ms if r.read_await_ms is None else r.read_await_ms for r in rates]
    column = _columns(known)
    size = _weighted_mean(column["read_size_bytes"], column["reads_per_s"])
    read_await_ms = _weighted_mean(column["read_await_ms"], column["reads_per_s"])
    normal = normal_await_ms(info, base, size, limits, learned if timed else NOTHING)
    await_ms = mean(column["await_ms"])
    compared_await_ms = read_await_ms if read_await_ms is not None else await_ms
    if serial:
        busy = [None if r is None else r.busy_ratio for r in rates]
        saturated = both(at_least(busy, limits.disk_busy), at_least(awaits, limits.disk_await_ms))
        critical = both(at_least(busy, limits.disk_busy_bad), at_least(awaits, limits.disk_await_bad_ms))
        above_normal = slow = saturated
    else:
        above_normal = at_least(awaits, limits.inflation_some * normal)
        # Most devices are below the lowest threshold, and thus below the other thresholds too.
        slow = saturated = critical = above_normal
        if True in above_normal:
            slow = at_least(awaits, limits.inflation_slow * normal)
            saturated = at_least(awaits, limits.inflation_severe * normal)
            critical = both(saturated, at_least(awaits, limits.disk_await_bad_ms))
    reads = [v for v in column["read_bytes_per_s"] if v is not None]
    read_rate, utilisation, queue_size = mean(reads), mean(column["busy_ratio"]), mean(column["queue_size"])
    busy_enough = (utilisation or 0.0) >= limits.steady_busy and len(reads) >= window.needed
    flat = bool(busy_enough and read_rate and _spread(reads, read_rate) <= limits.steady_variation * read_rate)
    return DeviceFacts(
        name=key.name,
        info=info,
        read_bytes_per_s=read_rate,
        write_bytes_per_s=mean(column["write_bytes_per_s"]),
        read_await_ms=read_await_ms,
        await_ms=await_ms,
        read_size_bytes=size,
        busy_ratio=utilisation,
        normal_ms=normal,
        inflation=None if compared_await_ms is None else compared_await_ms / normal,
        serves_serially=serial,
        above_normal=above_normal,
        slow=slow,
        saturated=saturated,
        critical=critical,
        is_flat=flat,
        reads_per_s=mean(column["reads_per_s"]),
        queue_size=queue_size,
        is_capped=flat and is_network_volume(base) and _is_shared(queue_size, compared_await_ms, normal),
    )


def _is_shared(queue_size: float | None, await_ms: float | None, normal_ms: float) -> bool:
    """Whether several requests are in the queue and take as long as usual. A single reader keeps any disk busy."""
    return (queue_size or 0.0) >= _SEVERAL and (await_ms or 0.0) >= _USUAL * normal_ms


_SEVERAL, _USUAL = 2.0, 0.5
"""The fewest requests in the queue, and the shortest await as a part of the normal one, of a volume at its limit."""


def joined(disks: Sequence[DeviceFacts], limits: Thresholds = LIMITS) -> DeviceFacts:
    """The disks of one filesystem as one device, named after the first slow disk, or the first disk if none is slow.

    Rates and queues are sums; awaits and sizes are means weighted by the reads; the utilisation is that of the busiest
    disk. A sample is slow if any disk is slow; the device is flat only if all disks are.
    """
    if len(disks) == 1:
        return disks[0]
    reads = [d.reads_per_s for d in disks]
    read_await_ms = _weighted_mean([d.read_await_ms for d in disks], reads)
    await_ms = _weighted_mean([d.await_ms for d in disks], reads)
    compared_await_ms = read_await_ms if read_await_ms is not None else await_ms
    named = next((d for d in disks if share(d.slow) >= limits.leave_share), disks[0])
    normal_ms = _weighted_mean([d.normal_ms for d in disks], reads) or named.normal_ms
    return named._replace(
        read_bytes_per_s=sum_of_known(d.read_bytes_per_s for d in disks),
        write_bytes_per_s=sum_of_known(d.write_bytes_per_s for d in disks),
        read_await_ms=read_await_ms,
        await_ms=await_ms,
        read_size_bytes=_weighted_mean([d.read_size_bytes for d in disks], reads),
        busy_ratio=max((d.busy_ratio for d in disks if d.busy_ratio is not None), default=None),
        normal_ms=normal_ms,
        inflation=None if compared_await_ms is None else compared_await_ms / normal_ms,
        serves_serially=any(d.serves_serially for d in disks),
        above_normal=_any_of([d.above_normal for d in disks]),
        slow=_any_of([d.slow for d in disks]),
        saturated=_any_of([d.saturated for d in disks]),
        critical=_any_of([d.critical for d in disks]),
        is_flat=all(d.is_flat for d in disks),
        is_capped=all(d.is_capped for d in disks),
        reads_per_s=sum_of_known(reads),
        queue_size=sum_of_known(d.queue_size for d in disks),
        members=tuple(d.name for d in disks),
    )


def _any_of(flags: Sequence[Flags]) -> Flags:
    """For each sample, whether any of the conditions is true. All conditions must be about the same samples."""
    return tuple(any(row) for row in zip(*flags, strict=True))


def _active(sample: Sample) -> dict[BlockKey, None]:
    return {key: None for key, rates in (sample.block.value or {}).items() if rates.active}


def all_devices(
    infos: Mapping[str, BlockInfo] | None,
    window: Window,
    cache: PerSampleCache[dict[BlockKey, None]],
    limits: Thresholds = LIMITS,
    learned: Learned = NOTHING,
) -> tuple[DeviceFacts, ...]:
    """Every disk, dm, md and loop device that was active in the window; () if no device is known."""
    if not infos:
        return ()
    active: dict[BlockKey, None] = {}
    for keys in cache.each(window.samples, (), _active):
        active.update(keys)
    return tuple(
        device_facts(key, info, infos, window, limits, learned)
        for key in active
        if (info := infos.get(key.name)) is not None and info.kind in JUDGED_KINDS
    )
