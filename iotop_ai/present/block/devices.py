"""The block devices to show, their order, and the figures of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.block.counters import (
    UNKNOWN_BLOCK_RATES,
    BlockInfo,
    BlockKey,
    BlockRates,
    Mount,
    block_rates,
)
from iotop_ai.model.block.tree import (
    DeviceRow,
    below_of,
    device_rows,
    devices_of_mount,
    disks_of_mount,
    hidden_when_idle,
    leaves_below,
    mounts_on,
)
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import JobMount
from iotop_ai.present.block.history_totals import NO_TOTALS, DeviceTotals, device_totals
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame
from iotop_ai.present.text.line import DISK_PREFIX
from iotop_ai.present.verdict.culprit import culprit_of, named_disks

_ACTIVE_WITHIN_NS = 60_000_000_000
"""A device that is hidden when idle keeps its row for this long after its last activity."""
_LEAST_QUEUE_S = 0.05
"""The busiest device is selected only if its requests in the history took at least this many seconds in total."""
_DIGITS = pattern(r"(\d+)")


class BlockDevice(NamedTuple):
    """A block device as a row of the disk panel."""

    key: BlockKey
    info: BlockInfo | None
    """The device's identity; None until it has been read."""
    rates: BlockRates
    """The rates of the latest interval; in accumulation mode, the rates since ``view.base``."""
    totals: DeviceTotals
    """The totals over the history."""
    is_culprit: bool
    """Whether this is the culprit: the first of the devices that findings name."""
    seconds: float | None = None
    """The seconds since ``view.base`` in accumulation mode; otherwise None."""
    hue: str = "bad"
    """The colour of the culprit."""
    is_named: bool = False
    """Whether a finding names the device."""

    @property
    def name(self) -> str:
        """The kernel name."""
        return self.key.name

    @property
    def row_key(self) -> str:
        """The key of the device's row."""
        return DISK_PREFIX + self.key.name


@lru_cache(maxsize=4096)
def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts sda2 before sda10."""
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in _DIGITS.split(name) if p)


def infos(frame: Frame) -> Mapping[str, BlockInfo]:
    """The identity of each device by its kernel name; empty when unknown."""
    return frame.snapshot.disks.value or {}


def culprit_disk(frame: Frame) -> str:
    """The kernel name of the first disk that a finding names; "" if no finding names a disk."""
    return culprit_of(frame, View()).disk


@cached_per_frame
def rates_of(frame: Frame, view: View) -> tuple[Mapping[BlockKey, BlockRates], float | None]:
    """(rates of each device, None) for the latest interval; in accumulation mode, (rates since ``view.base``, seconds
    since then), or ({}, None) if the base and the newest reading cannot be compared.
    """
    base, now = view.base, frame.snapshot
    if base is None:
        return frame.sample.block.value or {}, None
    if base.block.value is None or now.block.value is None or base.host.boot_id != now.host.boot_id:
        return {}, None
    seconds = ((now.block.at_ns or 0) - (base.block.at_ns or 0)) / 1e9
    if seconds <= 0:
        return {}, None
    return block_rates(base.block.value, now.block.value, seconds, now.disks.value), seconds


@cached_per_frame
def all_devices(frame: Frame, view: View) -> tuple[BlockDevice, ...]:
    """All devices of the newest reading, including partitions and hidden devices, in natural order."""
    table = frame.snapshot.block.value or {}
    by_name, (rates, seconds) = infos(frame), rates_of(frame, view)
    totals = device_totals(frame, view)
    culprit, named = culprit_of(frame, view), named_disks(frame, view)
    out = []
    for key in _natural_order(tuple(table)):
        figures = rates.get(key, UNKNOWN_BLOCK_RATES), totals.get(key, NO_TOTALS)
        is_culprit, hue = key.name == culprit.disk, culprit.disk_hue or "bad"
        out.append(
            BlockDevice(key, by_name.get(key.name), *figures, is_culprit, seconds, hue, is_named=key.name in named)
        )
    return tuple(out)


@lru_cache(maxsize=2)
def _natural_order(keys: tuple[BlockKey, ...]) -> tuple[BlockKey, ...]:
    return tuple(sorted(keys, key=lambda key: natural_key(key.name)))


def _has_own_row(device: BlockDevice, frame: Frame, view: View) -> bool:
    info = device.info
    if view.devices:
        return device.name in view.devices or (info is not None and info.label in view.devices)
    if device.is_named:
        return True
    if info is None:
        return frame.snapshot.disks.value is None
    if top_row_of(device.name, frame) != device.name:
        return False
    if hidden_when_idle(info) and device.name != view.device:
        active_ns = frame.carry.active_ns.get(device.name)
        return active_ns is not None and frame.snapshot.at_ns - active_ns <= _ACTIVE_WITHIN_NS
    return True


@cached_per_frame
def _with_idle(frame: Frame, view: View) -> tuple[BlockDevice, ...]:
    """The devices that the panel shows without ``view.only_active``, in the panel's order."""
    rows = [d for d in all_devices(frame, view) if _has_own_row(d, frame, view)]
    return tuple(sorted(rows, key=_order))


def _order(device: BlockDevice) -> tuple[bool, bool, bool]:
    """A sort key: the culprit first, then the other disks that a finding names; those hidden when idle last."""
    hidden = device.info is not None and hidden_when_idle(device.info)
    return not device.is_culprit, not device.is_named, hidden


@cached_per_frame
def panel_devices(frame: Frame, view: View) -> tuple[BlockDevice, ...]:
    """The devices with a row of their own: first those that a finding names, last those hidden when idle.

    If the user lists devices, only these have a row. Otherwise, a device that is hidden when idle has a row only if the
    user selected it, a finding names it, or it was active in the last minute. Partitions, volumes of one disk, members
    of an array and paths of a multipath device are nested under another device, and have a row of their own only if a
    finding names them. A device of unknown identity has a row only while no device's identity is known.

    With ``view.only_active``, an idle device has a row only if the user selected it or a finding names it.
    """
    rows = _with_idle(frame, view)
    if not view.only_active:
        return rows
    return tuple(d for d in rows if d.rates.active or d.is_named or d.name == view.device or _rates_unknown(d.rates))


def _rates_unknown(rates: BlockRates) -> bool:
    """Whether the rates are unknown; the number of requests in flight may be known all the same."""
    return rates[:4] == UNKNOWN_BLOCK_RATES[:4]


def chosen_name(frame: Frame, view: View) -> str:
    """The kernel name of the device that the user selected; "" without one, and while that device is absent."""
    return view.device if any(device.name == view.device for device in all_devices(frame, view)) else ""


@cached_per_frame
def selected_device(frame: Frame, view: View) -> BlockDevice | None:
    """The device that the graphs show, the first of these that exists: the user's choice, the culprit, the busiest
    device, the device with the root mount, the first device in the panel. It may be idle, even with
    ``view.only_active``, so that panels do not move with the load. None without such a device.
    """
    rows = _with_idle(frame, view)
    if view.device:
        for device in all_devices(frame, view):
            if device.name == view.device:
                return device
    if not rows:
        return None
    if rows[0].is_culprit:
        return rows[0]
    # The top of a stack holds the mount, so it is preferred if it is as busy as the devices below it.
    busiest = max(rows, key=lambda d: (round(d.totals.queue_s, 1), -len(d.info.holders) if d.info else 0))
    if busiest.totals.queue_s >= _LEAST_QUEUE_S:
        return busiest
    return next((d for d in rows if any(m.path == "/" for m in mounts(d.name, frame))), rows[0])


def nested_devices(name: str, frame: Frame, view: View) -> list[BlockDevice]:
    """The partitions, volumes or members nested under the device ``name``, in natural order. An unused partition is
    left out unless the user selected it.
    """
    rows = _tree(frame).rows
    nested = [d for d in all_devices(frame, view) if (row := rows.get(d.name)) is not None and row.under == name]
    return [d for d in nested if d.name == view.device or _deserves_row(d)]


def _deserves_row(device: BlockDevice) -> bool:
    """Whether a nested device gets a row. An idle partition without a mount or a holder does not."""
    info = device.info
    return info is not None and (info.kind != "partition" or bool(info.mounts or info.holders or device.totals.active))


def mounted_partitions(name: str, frame: Frame, view: View) -> list[BlockDevice]:
    """The mounted partitions of a disk, in natural order."""
    return [d for d in all_devices(frame, view) if d.info is not None and d.info.parent == name and d.info.mounts]


def top_row_of(name: str, frame: Frame) -> str:
    """The name of the device under which this one is nested; ``name`` itself if it is not nested."""
    row = _tree(frame).rows.get(name)
    return row.under if row is not None and row.under else name


class _DeviceTree:
    """How the devices are stacked: their rows, and a cache of each device's mounts and physical devices."""

    def __init__(self, by_name: Mapping[str, BlockInfo]) -> None:
        self.infos = by_name
        self.rows: Mapping[str, DeviceRow] = {row.name: row for row in device_rows(by_name)}
        self.mounts: dict[str, list[Mount]] = {}
        self.leaves: dict[str, list[str]] = {}


_newest_tree: list[_DeviceTree] = []
"""A cache with at most one entry. Identities are read anew every few seconds, but rarely differ from those before."""


def _tree(frame: Frame) -> _DeviceTree:
    by_name = infos(frame)
    if not _newest_tree or (_newest_tree[0].infos is not by_name and _newest_tree[0].infos != by_name):
        _newest_tree[:] = [_DeviceTree(by_name)]
    return _newest_tree[0]


def mounts(name: str, frame: Frame) -> list[Mount]:
    """All mounts of the device, of its partitions and of devices stacked on it; the shortest path first."""
    tree = _tree(frame)
    if name not in tree.mounts:
        tree.mounts[name] = sorted(mounts_on(name, tree.infos), key=lambda m: (len(m.path), m.path))
    return tree.mounts[name]


def leaves(name: str, frame: Frame) -> list[str]:
    """The physical devices below a device, in natural order; the device itself if none is known."""
    tree = _tree(frame)
    if name not in tree.leaves:
        tree.leaves[name] = sorted(leaves_below(name, tree.infos), key=natural_key) or [name]
    return tree.leaves[name]


def mount_device(frame: Frame, view: View, mount: JobMount) -> BlockDevice | None:
    """The device that holds the mount, or its disk if it is a partition; of several, the one that the verdict names as
    the cause, otherwise the first. None for a network mount or unknown device.
    """
    return main_disk(mount_disks(frame, view, mount))


def main_disk(disks: Sequence[BlockDevice]) -> BlockDevice | None:
    """Of several disks, the one that the verdict names as the cause, otherwise the first; None if there are none."""
    return next((disk for disk in disks if disk.is_culprit), disks[0] if disks else None)


def mount_disks(frame: Frame, view: View, mount: JobMount) -> list[BlockDevice]:
    """The devices that hold the mount, with the disk instead of a partition, in natural order; several for btrfs or
    ZFS.
    """
    names = disks_of_mount(mount, infos(frame))
    return [device for device in all_devices(frame, view) if device.name in names]


def mount_stack(frame: Frame, mount: JobMount) -> frozenset[str]:
    """The kernel names of the mount's devices and of all devices below them."""
    return stack(frame, devices_of_mount(mount, infos(frame)))


def stack(frame: Frame, tops: Sequence[str]) -> frozenset[str]:
    """The kernel names of these devices and of all devices below them."""
    by_name = infos(frame)
    pending = [by_name[name] for name in tops if name in by_name]
    names: set[str] = set()
    while pending:
        info = pending.pop()
        names.add(info.name)
        pending += [by_name[name] for name in below_of(info) if name in by_name and name not in names]
    return frozenset(names)


def title_of(device: BlockDevice, frame: Frame) -> str:
    """The short name, with the number of disks below it if there are several: "md0 x4"."""
    row = _tree(frame).rows.get(device.name)
    label = device.info.label if device.info is not None and device.info.label else device.name
    return short_name(device) + (row.title[len(label) :] if row is not None else "")


def short_name(device: BlockDevice) -> str:
    """The label of a dm device, "nvme4" for nvme4n1, otherwise the kernel name."""
    info = device.info
    return without_namespace(info.label if info is not None and info.label else device.name)


def without_namespace(name: str) -> str:
    """ "nvme4" for "nvme4n1", because most NVMe disks have only one namespace."""
    return name[:-2] if name.startswith("nvme") and name.endswith("n1") else name
