"""Keeps the screen's view between sessions: its sort order, panels, theme, selected device and so on."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from json import loads
from typing import TYPE_CHECKING, Any

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.collectors.state.folder import keep_file
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import SORT_KEYS, THEMES, UNITS, Settings
from iotop_ai.present.block.devices import infos
from iotop_ai.present.process.table import optional_columns
from iotop_ai.present.screen.actions import PANEL_KEYS
from iotop_ai.present.screen.view import View

if TYPE_CHECKING:
    from pathlib import Path

NAME = "screen.json"
LARGEST_BYTES = 64 * 1024
"""The maximum number of bytes that are read from the file."""
UNREADABLE_VIEW = "failed: the remembered view is unreadable; the defaults are used"
_VERSION = 1
_NUMBERED_KINDS = ("loop", "ram", "zram", "ublk", "zloop", "zvol", "dm")
_NUMBERED_PREFIX = "nbd"
"""Devices of these kinds, or with this prefix, are numbered in the order in which they are set up: without a serial
number and a label, the same kernel name may be another device in the next session.
"""


class RememberedView(NamedTuple):
    """The view at the last exit. A field is None if its value was not remembered.

    reverse, only_active: None, or the values of an older file; they are never used, because a reversed order and the
        filter for active rows last for one session only
    hidden: the hidden panels
    device: the kernel name, serial number, model and label of the selected device
    whole_disk: if that device is a partition, the kernel name, serial number and model of its disk, because a partition
        has no serial number of its own; None for other devices, and if the disk has no serial number
    no_columns: the hidden columns of the process table
    dismissed: the names of the doctor's problems that the user dismissed
    """

    sort: str | None = None
    reverse: bool | None = None
    only_active: bool | None = None
    hidden: frozenset[str] | None = None
    theme: str | None = None
    device: tuple[str, str, str, str] | None = None
    tree: bool | None = None
    no_columns: frozenset[str] | None = None
    units: str | None = None
    dismissed: frozenset[str] | None = None
    whole_disk: tuple[str, str, str] | None = None


def read_view(folder: Path | str) -> tuple[RememberedView, str]:
    """Return the remembered view, and an error message or "". Never raises; waits at most HOME_TIMEOUT_S."""
    try:
        return call_with_timeout(HOME_TIMEOUT_S, folder, lambda: _read(folder))
    except TimeoutError as error:
        return RememberedView(), f"failed: {clean(os.path.join(folder, NAME))}: {error.strerror}"


def _read(folder: Path | str) -> tuple[RememberedView, str]:
    shown_path = clean(os.path.join(folder, NAME))
    try:
        handle = os.open(os.path.join(folder, NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return RememberedView(), ""
    except OSError as error:
        return RememberedView(), f"failed: {shown_path}: {error.strerror}"
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            return (
                RememberedView(),
                f"failed: {shown_path} belongs to another user and is not read",
            )
        return _parse(os.read(handle, LARGEST_BYTES)), ""
    except (OSError, ValueError, RecursionError):
        return RememberedView(), UNREADABLE_VIEW
    finally:
        os.close(handle)


def _parse(raw: bytes) -> RememberedView:
    """Return the view that the file's bytes describe. Raises ValueError if ``write_view`` cannot have written them."""
    stored = loads(raw)
    if not isinstance(stored, dict) or stored.get("version") != _VERSION:
        raise ValueError("another version")
    sort, theme, hidden, device = (stored.get(name) for name in ("sort", "theme", "hidden", "device"))
    reverse, only_active, tree = (stored.get(name) for name in ("reverse", "only_active", "tree"))
    no_columns = stored.get("no_columns")
    units, dismissed = stored.get("units"), stored.get("dismissed")
    if units not in (None, *UNITS):
        raise ValueError("unknown units")
    if dismissed is not None and not (isinstance(dismissed, list) and all(isinstance(name, str) for name in dismissed)):
        raise ValueError("not names")
    if sort not in (None, *SORT_KEYS) or theme not in (None, *THEMES):
        raise ValueError("unknown words")
    if not all(switch is None or isinstance(switch, bool) for switch in (reverse, only_active, tree)):
        raise ValueError("not a switch")
    if hidden is not None and not (isinstance(hidden, list) and all(name in PANEL_KEYS for name in hidden)):
        raise ValueError("not panels")
    if no_columns is not None and not (isinstance(no_columns, list) and all(name in _columns() for name in no_columns)):
        raise ValueError("not columns")
    identity, whole_disk = _texts(device, 4), _texts(stored.get("whole_disk"), 3)
    panels, columns = (None if names is None else frozenset(names) for names in (hidden, no_columns))
    dismissed_names = None if dismissed is None else frozenset(clean(name) for name in dismissed)
    remembered = RememberedView(sort, reverse, only_active, panels, theme, None, tree, columns, units, dismissed_names)
    return remembered._replace(device=identity, whole_disk=whole_disk)


def _texts(stored: object, count: int) -> Any:
    """Return the texts of a device's identity as a tuple, or None if none are stored.

    Raises ValueError unless there are ``count`` texts.
    """
    if stored is None:
        return None
    if not (isinstance(stored, list) and len(stored) == count and all(isinstance(text, str) for text in stored)):
        raise ValueError("not a device")
    return tuple(clean(text) for text in stored)


def _columns() -> list[str]:
    """Return the ids of the optional columns. A list, because a broken file may hold values that cannot be hashed."""
    return [column.id for column in optional_columns()]


def write_view(folder: Path, view: RememberedView) -> None:
    """Replace the file atomically. Raises OSError."""
    import json

    sets = {name: sorted(value) for name, value in view._asdict().items() if isinstance(value, frozenset)}
    text = json.dumps({"version": _VERSION, **view._asdict(), **sets})
    keep_file(folder, NAME, text.encode() + b"\n")


def restored_settings(settings: Settings, remembered: RememberedView) -> Settings:
    """Return the Settings with the remembered value of each field that no flag, variable or settings file sets."""
    values: dict[str, object] = {name: getattr(remembered, name) for name in ("sort", "theme", "tree", "units")}
    for name in ("hidden", "no_columns"):
        if (names := getattr(remembered, name)) is not None:
            values[name] = tuple(sorted(names))
    changes = {name: value for name, value in values.items() if value is not None and name not in settings.chosen}
    return settings._replace(**changes)  # type: ignore[arg-type]


def restored_device(frame: Frame, remembered: RememberedView, shown: Collection[str] = ()) -> str:
    """Return the current kernel name of the remembered device.

    Returns "" when none was selected, when the device is absent, or when it is not one of the devices to show.

    shown: the kernel names of the devices to show; empty for all.
    """
    name = _current_name(frame, remembered)
    return name if not shown or name in shown else ""


def _current_name(frame: Frame, remembered: RememberedView) -> str:
    """Return the current kernel name of the remembered device; "" when none was selected or the device is absent.

    A device with a serial number is found by serial number and model, under any kernel name. A partition is found in
    its disk, which is found in the same way. Any other device is found by kernel name, model and label together if its
    kernel name identifies it, or else by its label alone.
    """
    if remembered.device is None:
        return ""
    name, serial, model, label = remembered.device
    devices = infos(frame)
    if serial:
        return _name_by_serial(devices, name, serial, model)
    if remembered.whole_disk is not None:
        disk = _name_by_serial(devices, *remembered.whole_disk)
        partition = devices.get(disk + name.removeprefix(remembered.whole_disk[0]))
        return partition.name if partition is not None and partition.parent == disk else ""
    info = devices.get(name)
    if info is not None and (info.serial, info.model, info.label) == ("", model, label) and _is_known(info, devices):
        return name
    # The number in a volume's kernel name may change, but its label does not.
    return next((info.name for info in devices.values() if label not in ("", name) and info.label == label), "")


def _is_known(info: BlockInfo, devices: Mapping[str, BlockInfo]) -> bool:
    """Whether the device can be found again: its serial number, its label or its kernel name identifies it."""
    whole = devices.get(info.parent, info) if info.kind == "partition" else info
    if whole.serial or whole.label != whole.name:
        return True
    return whole.kind not in _NUMBERED_KINDS and not whole.name.startswith(_NUMBERED_PREFIX)


def _name_by_serial(devices: Mapping[str, BlockInfo], name: str, serial: str, model: str) -> str:
    """Return the kernel name of the device with this serial number and model; "" if no device has them.

    name: the remembered kernel name. It decides if several devices have that serial number and model.
    """
    names = [info.name for info in devices.values() if info.serial == serial and info.model == model]
    return name if name in names else names[0] if names else ""


def view_to_remember(
    view: View, chosen_theme: str, frame: Frame, settings: Settings, remembered: RememberedView
) -> RememberedView:
    """Return the view to remember at exit.

    A field that the user did not change in this session stays None if it was not remembered. An unchanged field
    keeps its remembered value if a flag or setting overrode that value in this session. The device keeps its remembered
    value if it was absent or not shown, or if the screen follows the job's device. A device that cannot be found again,
    such as a loop device, is not remembered.

    chosen_theme: the theme that the user selected by key, or "". settings: the settings with which the screen started.
    """
    devices = infos(frame)
    same_name = None if remembered.device is None else devices.get(remembered.device[0])
    if same_name is not None and not _is_known(same_name, devices):  # an older version remembered such a device
        remembered = remembered._replace(device=None, whole_disk=None)
    info: BlockInfo | None = devices.get(view.device)
    known = info is not None and _is_known(info, devices)
    device = (info.name, info.serial, info.model, info.label) if info is not None and known else None
    disk = None if info is None or info.kind != "partition" else devices.get(info.parent)
    whole_disk = None if disk is None or not disk.serial else (disk.name, disk.serial, disk.model)
    not_shown = not restored_device(frame, remembered, settings.devices)
    if view.follow_job or (info is None and (view.device or not_shown)):
        device, whole_disk = remembered.device, remembered.whole_disk
    theme = chosen_theme or remembered.theme
    at_exit = RememberedView(view.sort, None, None, view.hidden, theme, device, view.tree, view.no_columns, view.units)
    at_exit = at_exit._replace(dismissed=view.dismissed or None, whole_disk=whole_disk)
    at_start = RememberedView(settings.sort, None, None, frozenset(settings.hidden))
    at_start = at_start._replace(tree=settings.tree, no_columns=frozenset(settings.no_columns), units=settings.units)
    unchanged = {
        name: getattr(remembered, name)
        for name in ("sort", "hidden", "tree", "no_columns", "units")
        if getattr(at_exit, name) == getattr(at_start, name)
        and (name in settings.chosen or getattr(remembered, name) is None)
    }
    return at_exit._replace(**unchanged)
