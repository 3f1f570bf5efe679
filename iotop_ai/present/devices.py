"""Which block devices are shown, in which order, and what is known about each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from iotop_ai.model.block import (
    UNKNOWN_BLOCK_RATES,
    BlockInfo,
    BlockKey,
    BlockRates,
    Mount,
    block_rates,
)
from iotop_ai.model.block_tree import DeviceRow, folded, hidden_when_idle, leaves_below, mounts_on
from iotop_ai.model.finding import Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.pattern import pattern
from iotop_ai.model.record import NamedTuple
from iotop_ai.present.line import DISK_PREFIX
from iotop_ai.present.memo import once_a_frame
from iotop_ai.present.recent import did
from iotop_ai.present.view import View

DISK_CLASSES = ("storage_read", "small_random", "io_limit", "loader_serial", "noisy_neighbour", "failing_disk")
"""Classes whose subject is a device's kernel name."""
_RECENT_NS = 60_000_000_000
_DIGITS = pattern(r"(\d+)")


class Device(NamedTuple):
    """One row of the disk panel. info None: nobody has said what it is.

    queue_s: request-seconds in the history; busy is whether anything happened in it. seconds: since the base while
    accumulating, else None.
    """

    key: BlockKey
    info: BlockInfo | None
    rates: BlockRates
    queue_s: float
    busy: bool
    guilty: bool
    seconds: float | None = None

    @property
    def name(self) -> str:
        """The kernel name."""
        return self.key.name

    @property
    def row_key(self) -> str:
        """The key of its row."""
        return DISK_PREFIX + self.key.name


@lru_cache(maxsize=4096)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts sda2 before sda10."""
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in _DIGITS.split(name) if p)


def infos(frame: Frame) -> Mapping[str, BlockInfo]:
    """Identity of every device; empty while it is unknown."""
    return frame.snapshot.disks.value or {}


def guilty_device(frame: Frame) -> str:
    """Kernel name of the device that a finding of warning or above names; "" when none does."""
    named = [
        finding.subject
        for finding in frame.verdict.findings
        if finding.class_id in DISK_CLASSES and finding.severity is not Severity.INFO
    ]
    if not named:
        return ""
    known = {key.name for key in frame.snapshot.block.value or {}}
    return next((name for name in named if name in known), "")


@once_a_frame
def rates_of(frame: Frame, view: View) -> tuple[Mapping[BlockKey, BlockRates], float | None]:
    """Rates of every device: of the newest interval, or since the base with its seconds while accumulating."""
    base, now = view.base, frame.snapshot
    if base is None:
        return frame.sample.block.value or {}, None
    if base.block.value is None or now.block.value is None or base.host.boot_id != now.host.boot_id:
        return {}, None
    seconds = ((now.block.at_ns or 0) - (base.block.at_ns or 0)) / 1e9
    if seconds <= 0:
        return {}, None
    return block_rates(base.block.value, now.block.value, seconds), seconds


@once_a_frame
def everything(frame: Frame, view: View) -> tuple[Device, ...]:
    """Every device of the newest reading, partitions and hidden ones too, in natural order."""
    table = frame.snapshot.block.value or {}
    known, (rates, seconds) = infos(frame), rates_of(frame, view)
    queue, busy = did(frame)
    guilty = guilty_device(frame)
    out = [
        Device(
            key,
            known.get(key.name),
            rates.get(key, UNKNOWN_BLOCK_RATES),
            queue.get(key.name, 0.0),
            key.name in busy,
            key.name == guilty,
            seconds,
        )
        for key in _ordered(tuple(table))
    ]
    return tuple(out)


@lru_cache(maxsize=2)
def _ordered(keys: tuple[BlockKey, ...]) -> tuple[BlockKey, ...]:
    return tuple(sorted(keys, key=lambda key: natural(key.name)))


def _listed(device: Device, frame: Frame, view: View) -> bool:
    info = device.info
    if view.devices:
        return device.name in view.devices or (info is not None and info.label in view.devices)
    if device.guilty:
        return True
    if info is None:
        return frame.snapshot.disks.value is None
    if home_of(device.name, frame) != device.name:
        return False
    if hidden_when_idle(info):
        if device.name == view.device:
            return True
        seen = frame.carry.active_ns.get(device.name)
        return seen is not None and frame.snapshot.at_ns - seen <= _RECENT_NS
    return True


@once_a_frame
def listed(frame: Frame, view: View) -> tuple[Device, ...]:
    """The devices that have a row of their own: the guilty one first, then whole devices, those that hide last.

    loop, ram, zram and rom only when they did something in the last minute. What folds under another device
    (partitions, volumes of one disk, disks of an array, paths) never, but for those asked for by name.
    """
    shown = [d for d in everything(frame, view) if _listed(d, frame, view)]
    if view.only_active:
        keep = {view.device}
        rates = UNKNOWN_BLOCK_RATES
        shown = [d for d in shown if d.rates.active or d.guilty or d.name in keep or d.rates[:4] == rates[:4]]
    return tuple(sorted(shown, key=lambda d: (not d.guilty, d.info is not None and hidden_when_idle(d.info))))


@once_a_frame
def chosen(frame: Frame, view: View) -> Device | None:
    """The device whose graphs are shown: the viewer's, else the guilty one, else the busiest, else the root's."""
    shown = listed(frame, view)
    if view.device:
        for device in everything(frame, view):
            if device.name == view.device:
                return device
    if not shown:
        return None
    if shown[0].guilty:
        return shown[0]
    # The uppermost of a stack has the mount, so it wins when it is as busy as what lies below.
    best = max(shown, key=lambda d: (round(d.queue_s, 1), -len(d.info.holders) if d.info else 0))
    if best.queue_s >= 0.05:
        return best
    rooted = [d for d in shown if any(m.path == "/" for m in mounts(d.name, frame))]
    return rooted[0] if rooted else shown[0]


def nested(name: str, frame: Frame, view: View) -> list[Device]:
    """What folds under a device: its partitions and volumes in use, the disks of an array; in natural order."""
    tree = _tree(frame)
    return [
        d for d in everything(frame, view) if (row := tree.get(d.name)) is not None and row.under == name and _used(d)
    ]


def _used(device: Device) -> bool:
    """Whether a nested device is worth a row: an unmounted, unstacked partition is not."""
    info = device.info
    return info is not None and (info.kind != "partition" or bool(info.mounts or info.holders or device.busy))


def partitions(name: str, frame: Frame, view: View) -> list[Device]:
    """The mounted partitions of a disk, in natural order."""
    return [d for d in everything(frame, view) if d.info is not None and d.info.parent == name and d.info.mounts]


def home_of(name: str, frame: Frame) -> str:
    """The device under which this one folds; itself when it stands alone."""
    row = _tree(frame).get(name)
    return row.under if row is not None and row.under else name


class _Standing:
    """What is asked of one description of the devices, each answered once."""

    def __init__(self, known: Mapping[str, BlockInfo]) -> None:
        self.known = known
        self.rows = {row.name: row for row in folded(known)}
        self.mounts: dict[str, list[Mount]] = {}
        self.leaves: dict[str, list[str]] = {}


_NEWEST: list[_Standing] = []


def _standing(frame: Frame) -> _Standing:
    known = infos(frame)
    # Read anew they are other objects, and mostly say the same.
    if not _NEWEST or (_NEWEST[0].known is not known and _NEWEST[0].known != known):
        _NEWEST[:] = [_Standing(known)]
    return _NEWEST[0]


def _tree(frame: Frame) -> Mapping[str, DeviceRow]:
    """Where each device stands in the list, by name."""
    return _standing(frame).rows


def mounts(name: str, frame: Frame) -> list[Mount]:
    """Everything mounted from the device, its partitions or what is stacked on it; the shortest path first."""
    standing = _standing(frame)
    found = standing.mounts.get(name)
    if found is None:
        found = sorted(mounts_on(name, standing.known), key=lambda m: (len(m.path), m.path))
        standing.mounts[name] = found
    return found


def leaves(name: str, frame: Frame) -> list[str]:
    """The physical devices below a device, natural order; the device itself when nothing is known below it."""
    standing = _standing(frame)
    found = standing.leaves.get(name)
    if found is None:
        found = standing.leaves[name] = sorted(leaves_below(name, standing.known), key=natural) or [name]
    return found


def title_of(device: Device, frame: Frame) -> str:
    """The short name with the number of disks below it where there are several: "md0 x4"."""
    row = _tree(frame).get(device.name)
    label = device.info.label if device.info is not None and device.info.label else device.name
    return short_name(device) + (row.title[len(label) :] if row is not None else "")


def short_name(device: Device) -> str:
    """The name people use, in few columns: the label of a dm device, nvme4 for nvme4n1."""
    info = device.info
    name = info.label if info is not None and info.label else device.name
    return name[:-2] if name.startswith("nvme") and name.endswith("n1") else name
