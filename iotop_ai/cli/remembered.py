"""What the live screen keeps from one time to the next: sort order, panels, theme, and the device by what it is."""

from __future__ import annotations

import os

from iotop_ai.collectors.state_folder import keep_file
from iotop_ai.model.block import BlockInfo
from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.model.json_text import loads
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.settings import SORT_KEYS, THEMES, Settings
from iotop_ai.model.typed import TYPE_CHECKING
from iotop_ai.present.devices import infos
from iotop_ai.present.keymap import PANEL_KEYS
from iotop_ai.present.process import optional_columns
from iotop_ai.present.view import View

if TYPE_CHECKING:
    from pathlib import Path

NAME = "screen.json"
LONGEST = 64 * 1024
BROKEN = "failed: what the screen remembered is unreadable and is made anew"
_VERSION = 1


class Remembered(NamedTuple):
    """As the screen was left. None: nothing is remembered of it. device: kernel name, serial number, model, label."""

    sort: str | None = None
    reverse: bool | None = None
    only_active: bool | None = None
    hidden: frozenset[str] | None = None
    theme: str | None = None
    device: tuple[str, str, str, str] | None = None
    tree: bool | None = None
    no_columns: frozenset[str] | None = None


def recall(folder: Path | str) -> tuple[Remembered, str]:
    """What is remembered, and what to say when it cannot be believed; nothing is ever raised."""
    try:
        handle = os.open(os.path.join(folder, NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Remembered(), ""
    except OSError as error:
        return Remembered(), f"failed: {clean(os.path.join(folder, NAME))}: {error.strerror}"
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            return Remembered(), f"failed: {clean(os.path.join(folder, NAME))} belongs to somebody else and is not read"
        return _parse(os.read(handle, LONGEST)), ""
    except (OSError, ValueError, RecursionError):
        return Remembered(), BROKEN
    finally:
        os.close(handle)


def _parse(raw: bytes) -> Remembered:
    """The record of a file's bytes. Raises ValueError for anything that was not written by ``keep``."""
    tree = loads(raw)
    if not isinstance(tree, dict) or tree.get("version") != _VERSION:
        raise ValueError("another version")
    sort, theme, hidden, device = (tree.get(name) for name in ("sort", "theme", "hidden", "device"))
    reverse, only, branches = (tree.get(name) for name in ("reverse", "only_active", "tree"))
    without = tree.get("no_columns")
    if sort not in (None, *SORT_KEYS) or theme not in (None, *THEMES):
        raise ValueError("unknown words")
    if not all(switch is None or isinstance(switch, bool) for switch in (reverse, only, branches)):
        raise ValueError("no switch")
    if hidden is not None and not (isinstance(hidden, list) and all(name in PANEL_KEYS for name in hidden)):
        raise ValueError("no panels")
    if without is not None and not (isinstance(without, list) and all(name in _columns() for name in without)):
        raise ValueError("no columns")
    if device is not None:
        if not (isinstance(device, list) and len(device) == 4 and all(isinstance(part, str) for part in device)):
            raise ValueError("no device")
        device = tuple(clean(part) for part in device)
    panels, columns = (None if names is None else frozenset(names) for names in (hidden, without))
    return Remembered(sort, reverse, only, panels, theme, device, branches, columns)


def _columns() -> list[str]:
    """Ids of the columns that may be left out; a list, as a broken file may ask for what cannot be hashed."""
    return [column.id for column in optional_columns()]


def keep(folder: Path, what: Remembered) -> None:
    """Write it in place of what is there, whole or not at all. Raises OSError."""
    import json

    sets = {name: value for name, value in what._asdict().items() if isinstance(value, frozenset)}
    text = json.dumps({"version": _VERSION, **what._asdict(), **{name: sorted(value) for name, value in sets.items()}})
    keep_file(folder, NAME, text.encode() + b"\n")


def as_left(settings: Settings, was: Remembered) -> Settings:
    """The Settings with what is remembered where the user has not chosen otherwise for this run."""
    known: dict[str, object] = {
        name: getattr(was, name) for name in ("sort", "reverse", "only_active", "theme", "tree")
    }
    for name in ("hidden", "no_columns"):
        if (names := getattr(was, name)) is not None:
            known[name] = tuple(sorted(names))
    changes = {name: value for name, value in known.items() if value is not None and name not in settings.chosen}
    return settings._replace(**changes)  # type: ignore[arg-type]


def device_as_left(frame: Frame, was: Remembered) -> str:
    """The kernel name that the remembered device has now; "" when none was chosen or it is not here.

    A serial number names it wherever it is plugged in; a device without one is the one of the same name and model.
    """
    if was.device is None:
        return ""
    name, serial, model, label = was.device
    known = infos(frame)
    if serial:
        found = [info.name for info in known.values() if info.serial == serial and info.model == model]
        return name if name in found else found[0] if found else ""
    same = known.get(name)
    if same is not None and (same.serial, same.model, same.label) == ("", model, label):
        return name
    # A volume keeps its label when its number changes.
    return next((info.name for info in known.values() if label not in ("", name) and info.label == label), "")


def left(view: View, look: str, frame: Frame, settings: Settings, was: Remembered) -> Remembered:
    """What to remember of a screen that is left; what was chosen for this run alone does not count.

    look: the theme that a key has chosen, "" when none has.
    """
    info: BlockInfo | None = infos(frame).get(view.device)
    device = None if info is None else (info.name, info.serial, info.model, info.label)
    if view.device and info is None:
        device = was.device
    now = Remembered(
        view.sort, view.reverse, view.only_active, view.hidden, look or was.theme, device, view.tree, view.no_columns
    )
    began = Remembered(settings.sort, settings.reverse, settings.only_active, frozenset(settings.hidden))
    began = began._replace(tree=settings.tree, no_columns=frozenset(settings.no_columns))
    kept = {
        name: getattr(was, name)
        for name in ("sort", "reverse", "only_active", "hidden", "tree", "no_columns")
        if getattr(now, name) == getattr(began, name) and (name in settings.chosen or getattr(was, name) is None)
    }
    return now._replace(**kept)
