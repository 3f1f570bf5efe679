"""What a device's own screen works out: what is normal, how awaits spread, the most seen, whose processes they are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from iotop_ai.diagnosis.devices import DeviceFacts, base_of, device_facts, prior_ms
from iotop_ai.diagnosis.learned import learned_ms
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.diagnosis.window import window
from iotop_ai.model.block import BlockKey, BlockRates, is_leaf
from iotop_ai.model.frame import Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.present import devices
from iotop_ai.present.devices import Device
from iotop_ai.present.jobs import job_mount, shown_job
from iotop_ai.present.path import behind
from iotop_ai.present.select import after
from iotop_ai.present.view import View

BOUNDS_MS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
FEW_BOUNDS_MS = (0.2, 1.0, 5.0, 20.0, 100.0, 500.0)
"""Upper bounds of the spread's parts; what is above the last is a part of its own. The few are for narrow screens."""


class Recent(NamedTuple):
    """The window of the verdict's rules. facts: None while nothing is known. learned: the normal read time is this
    disk's own, else that of its kind. seconds: how far the window reaches back.
    """

    facts: DeviceFacts | None
    learned: bool
    seconds: float


def recent(frame: Frame, device: Device) -> Recent:
    """What the device did in the window that the rules judge, with the same figures as theirs."""
    look = window(frame.history, frame.snapshot.at_ns, LIMITS.window_s, ("block",))
    known = devices.infos(frame)
    if device.info is None or not look.samples:
        return Recent(None, False, look.seconds)
    found = device_facts(device.key, device.info, known, look, learned=frame.carry.learned)
    own = learned_ms(frame.carry.learned, device.info, found.read_size_bytes)
    prior = prior_ms(base_of(device.info, known), found.read_size_bytes)
    return Recent(found, own is not None and own <= prior, look.seconds)


def slowness(facts: DeviceFacts) -> int:
    """0 as it should be, 1 slow, 2 very slow: reads against what is normal, on a disk that seeks the classic rule."""
    if not facts.reads_per_s or facts.reads_per_s < 1 or facts.read_await_ms is None:
        return 0
    if facts.serial:
        busy = facts.busy_ratio or 0.0
        slow = busy >= LIMITS.disk_busy and facts.read_await_ms >= LIMITS.disk_await_ms
        severe = busy >= LIMITS.disk_busy_bad and facts.read_await_ms >= LIMITS.disk_await_bad_ms
        return 2 if severe else int(slow)
    inflation = facts.read_await_ms / facts.normal_ms
    return 2 if inflation >= LIMITS.inflation_severe else int(inflation >= LIMITS.inflation_slow)


class Spread(NamedTuple):
    """Requests of a history by the mean await of the interval in which they were done.

    bounds: upper bounds in ms. reads, writes: requests in each part, one more than there are bounds. seconds: of the
    intervals that count.
    """

    bounds: tuple[float, ...]
    reads: tuple[float, ...]
    writes: tuple[float, ...]
    seconds: float


def spread(history: Iterable[Sample], key: BlockKey, bounds: tuple[float, ...] = BOUNDS_MS) -> Spread:
    """How the awaits of a device spread over the history; the kernel tells no single request."""
    reads, writes = [0.0] * (len(bounds) + 1), [0.0] * (len(bounds) + 1)
    seconds = 0.0
    for sample in history:
        rates = (sample.block.value or {}).get(key)
        if rates is None or sample.gap or not sample.block.renewed or not sample.block.seconds:
            continue
        seconds += sample.block.seconds
        for done, await_ms, into in (
            (rates.reads_per_s, rates.read_await_ms, reads),
            (rates.writes_per_s, rates.write_await_ms, writes),
        ):
            if done and await_ms is not None:
                into[bisect_right(bounds, await_ms)] += done * sample.block.seconds
    return Spread(bounds, tuple(reads), tuple(writes), seconds)


class Most(NamedTuple):
    """The largest figures of one interval that were seen; None when none was known. seconds: how long was looked."""

    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    reads_per_s: float | None
    writes_per_s: float | None
    queue_size: float | None
    seconds: float


def most_seen(samples: Sequence[Sample], key: BlockKey) -> Most:
    """The ceilings that the device has shown in these samples."""
    known = [
        rates
        for sample in samples
        if not sample.gap and (rates := (sample.block.value or {}).get(key)) is not None and sample.block.seconds
    ]

    def most(field: str) -> float | None:
        return max((v for rates in known if (v := getattr(rates, field)) is not None), default=None)

    seconds = sum(sample.seconds or 0.0 for sample in samples if not sample.gap)
    return Most(
        most("read_bytes_per_s"),
        most("write_bytes_per_s"),
        most("reads_per_s"),
        most("writes_per_s"),
        most("queue_size"),
        seconds,
    )


ALONE, JOBS, BUSIEST = "alone", "job", "busiest"


def tie(frame: Frame, view: View, device: Device) -> tuple[str, str]:
    """(how processes and the device belong together, the job's name for JOBS).

    ALONE: no other disk moved a byte, so all I/O to disks was here. JOBS: the job's files lie on it. BUSIEST: neither
    is known, and the kernel does not tell which process uses which disk.
    """
    below = set(devices.leaves(device.name, frame))
    others = [d for d in devices.everything(frame, view) if d.info is not None and is_leaf(d.info)]
    others = [d for d in others if d.name not in below]
    if _moves(device.rates) and all(_moves(d.rates) is False for d in others):
        return ALONE, ""
    job = shown_job(frame)
    mount = None if job is None else job_mount(frame, job)
    found = None if mount is None else behind(frame, view, mount)
    if job is not None and found is not None and below & set(devices.leaves(found.name, frame)):
        return JOBS, f"{job.name} of {job.user}"
    return BUSIEST, ""


def _moves(rates: BlockRates) -> bool | None:
    """Whether bytes moved; None unknown."""
    known = (rates.read_bytes_per_s, rates.write_bytes_per_s)
    return None if None in known else any(known)


def shown_device(frame: Frame, view: View, name: str) -> Device | None:
    """The device of that name, else the chosen one; None without any."""
    found = next((d for d in devices.everything(frame, view) if d.name == name), None)
    return found or devices.chosen(frame, view)


def device_after(frame: Frame, view: View, name: str, step: int) -> str:
    """Name of the device ``step`` rows on in the disk panel, round its ends; "" without any."""
    order = [d.name for d in devices.listed(frame, view)]
    if name not in order:  # one that folds under another is left by way of that one
        name = devices.home_of(name, frame)
    return after(order, name, step) or ""
