"""The figures of a disk's screen: its normal await, the distribution of awaits, its peaks, and the processes that use
it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from iotop_ai.diagnosis.facts.block import DeviceFacts, device_facts
from iotop_ai.diagnosis.facts.window import recent_window
from iotop_ai.diagnosis.memory.read_latency_baseline import baseline_ms
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockKey, BlockRates, is_leaf
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.present.block import devices
from iotop_ai.present.block.devices import BlockDevice
from iotop_ai.present.job.current import current_job, job_mount
from iotop_ai.present.screen.selection import next_in_order
from iotop_ai.present.screen.view import View

BOUNDS_MS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""The upper bounds of the histogram's bins in ms. An await equal to a bound is in the next bin. The last bin has no
upper bound.
"""
FEW_BOUNDS_MS = (0.2, 1.0, 5.0, 20.0, 100.0, 500.0)
"""The bounds on a narrow screen."""


class DeviceWindow(NamedTuple):
    """The figures of a disk in the window that the verdict's rules judge."""

    facts: DeviceFacts | None
    """The rules' facts about the disk; None when nothing is known."""
    learned: bool
    """Whether the normal read await was learned from this disk; otherwise, it is the value for its kind."""
    seconds: float
    """The length of the window in seconds."""


def device_window(frame: Frame, device: BlockDevice) -> DeviceWindow:
    """The disk's figures in the rules' window, computed as the rules compute them."""
    samples = recent_window(frame.history, frame.snapshot.at_ns, LIMITS.window_s, ("block",))
    infos = devices.infos(frame)
    if device.info is None or not samples.samples:
        return DeviceWindow(None, False, samples.seconds)
    facts = device_facts(device.key, device.info, infos, samples, learned=frame.carry.learned)
    own_ms = baseline_ms(frame.carry.learned, device.info, facts.read_size_bytes)
    return DeviceWindow(facts, facts.normal_ms == own_ms, samples.seconds)


def slowness(facts: DeviceFacts) -> int:
    """How slow the disk is: 0 normal, unknown or fewer than one read per second, 1 slow, 2 very slow.

    The read await is compared with the normal one; for a disk that seeks, %util and the read await are compared with
    fixed limits.
    """
    if not facts.reads_per_s or facts.reads_per_s < 1 or facts.read_await_ms is None:
        return 0
    if facts.serves_serially:
        busy = facts.busy_ratio or 0.0
        slow = busy >= LIMITS.disk_busy and facts.read_await_ms >= LIMITS.disk_await_ms
        severe = busy >= LIMITS.disk_busy_bad and facts.read_await_ms >= LIMITS.disk_await_bad_ms
        return 2 if severe else int(slow)
    inflation = facts.read_await_ms / facts.normal_ms
    return 2 if inflation >= LIMITS.inflation_severe else int(inflation >= LIMITS.inflation_slow)


class AwaitHistogram(NamedTuple):
    """The number of requests by their await.

    Each request counts with the mean await of the interval in which it completed, because the kernel does not publish
    the time of each request.
    """

    reads: tuple[float, ...]
    """The number of reads in each bin: one bin for each bound, and one for awaits from the last bound on."""
    writes: tuple[float, ...]
    """The number of writes in each bin."""
    seconds: float
    """The total length of the intervals in seconds."""


def await_histogram(history: Iterable[Sample], key: BlockKey, bounds: tuple[float, ...] = BOUNDS_MS) -> AwaitHistogram:
    """The histogram of a disk's awaits over the history, gaps excepted. bounds: the upper bounds of the bins in ms."""
    reads, writes = [0.0] * (len(bounds) + 1), [0.0] * (len(bounds) + 1)
    seconds = 0.0
    for sample in history:
        rates = (sample.block.value or {}).get(key)
        if rates is None or sample.gap or not sample.block.renewed or not sample.block.seconds:
            continue
        seconds += sample.block.seconds
        for per_s, await_ms, bins in (
            (rates.reads_per_s, rates.read_await_ms, reads),
            (rates.writes_per_s, rates.write_await_ms, writes),
        ):
            if per_s and await_ms is not None:
                bins[bisect_right(bounds, await_ms)] += per_s * sample.block.seconds
    return AwaitHistogram(tuple(reads), tuple(writes), seconds)


class Percentiles(NamedTuple):
    """The awaits in ms that 50, 90 and 99 % of the requests do not exceed. Each request counts with the mean await of
    its interval.
    """

    p50: float
    p90: float
    p99: float


def await_percentiles(history: Iterable[Sample], key: BlockKey, direction: str) -> Percentiles | None:
    """The percentiles of the awaits of reads or writes over the history; None if no request completed.

    direction: "read" or "write".
    """
    means: list[tuple[float, float]] = []
    for sample in history:
        rates = (sample.block.value or {}).get(key)
        if rates is None or sample.gap or not sample.block.renewed or not sample.block.seconds:
            continue
        per_s, await_ms = getattr(rates, f"{direction}s_per_s"), getattr(rates, f"{direction}_await_ms")
        if per_s and await_ms is not None:
            means.append((await_ms, per_s * sample.block.seconds))
    if not means:
        return None
    means.sort()
    total_requests = sum(requests for _, requests in means)
    percentiles: list[float] = []
    counted = 0.0
    for await_ms, requests in means:
        counted += requests
        # The last factor allows for rounding.
        while len(percentiles) < 3 and counted >= (0.5, 0.9, 0.99)[len(percentiles)] * total_requests * (1 - 1e-12):
            percentiles.append(await_ms)
    return Percentiles(*percentiles)


class Peaks(NamedTuple):
    """The largest value of each figure in any interval; None when unknown."""

    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    reads_per_s: float | None
    writes_per_s: float | None
    queue_size: float | None
    seconds: float
    """The seconds that the samples cover, without gaps."""


def device_peaks(samples: Sequence[Sample], key: BlockKey) -> Peaks:
    """The largest figures of the disk in these samples."""
    intervals = [
        rates
        for sample in samples
        if not sample.gap and (rates := (sample.block.value or {}).get(key)) is not None and sample.block.seconds
    ]

    def peak(field: str) -> float | None:
        return max((v for rates in intervals if (v := getattr(rates, field)) is not None), default=None)

    seconds = sum(sample.seconds or 0.0 for sample in samples if not sample.gap)
    return Peaks(
        peak("read_bytes_per_s"),
        peak("write_bytes_per_s"),
        peak("reads_per_s"),
        peak("writes_per_s"),
        peak("queue_size"),
        seconds,
    )


ONLY_DISK, JOB_FILES, BUSIEST = "alone", "job", "busiest"
"""The reasons that ``process_attribution`` gives."""


def process_attribution(frame: Frame, view: View, device: BlockDevice) -> tuple[str, str]:
    """(the reason for the choice of processes that the disk's screen lists, the job as "NAME of USER" for JOB_FILES,
    otherwise "").

    ONLY_DISK: only this disk moved bytes, so all disk I/O of processes was on it. This also requires that nothing was
    written to other disks, or to other partitions or volumes of the same disks, in the whole history, because bytes can
    reach a disk long after a process wrote them. JOB_FILES: the job's files are on this disk. BUSIEST: neither is true,
    and the kernel does not say which disks a process uses, so the busiest processes are listed.
    """
    below = set(devices.leaves(device.name, frame))
    others = [d for d in devices.all_devices(frame, view) if _is_other(frame, device, d)]
    if _moves(device.rates) and all(_moves(d.rates) is False and not d.totals.write_rate_sum for d in others):
        return ONLY_DISK, ""
    job = current_job(frame)
    mount = None if job is None else job_mount(frame, job)
    if job is not None and mount is not None and below & devices.mount_stack(frame, mount):
        return JOB_FILES, f"{job.name} of {job.user}"
    return BUSIEST, ""


def _is_other(frame: Frame, device: BlockDevice, candidate: BlockDevice) -> bool:
    """Whether the candidate's bytes are not the device's: it is another disk, or another part of the same disks, such
    as the next partition.
    """
    if candidate.info is None:
        return False
    if set(devices.leaves(device.name, frame)).isdisjoint(devices.leaves(candidate.name, frame)):
        return is_leaf(candidate.info)
    own, candidates_own = (devices.stack(frame, (d.name,)) for d in (device, candidate))
    return candidate.name not in own and device.name not in candidates_own


def _moves(rates: BlockRates) -> bool | None:
    """Whether any bytes moved; None if either rate is unknown."""
    moved = (rates.read_bytes_per_s, rates.write_bytes_per_s)
    return None if None in moved else any(moved)


def device_or_selected(frame: Frame, view: View, name: str) -> BlockDevice | None:
    """The device called ``name``, or the selected device for ""; None if there is none."""
    if not name:
        return devices.selected_device(frame, view)
    return next((d for d in devices.all_devices(frame, view) if d.name == name), None)


def next_device(frame: Frame, view: View, name: str, step: int) -> str:
    """The name of the device ``step`` rows below ``name`` in the panel, wrapping around; "" if the panel is empty."""
    order = [d.name for d in devices.panel_devices(frame, view)]
    if name not in order:  # a nested device counts as the row that it is nested under
        name = devices.top_row_of(name, frame)
    return next_in_order(order, name, step) or ""
