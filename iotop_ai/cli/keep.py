"""What the live screen keeps: the last hour in memory, and the file that the key R begins."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from iotop_ai.collectors.clock import Clock
from iotop_ai.model.settings import Settings
from iotop_ai.model.snapshot import Event
from iotop_ai.tui.keeper import Keeper

if TYPE_CHECKING:
    from iotop_ai.store.recorder import Recorder
    from iotop_ai.store.ring import Ring
    from iotop_ai.store.sink import FileSink


def live_keeper(settings: Settings, pending: Callable[[int], tuple[Event, ...]]) -> Keeper:
    """The ring of a live session, and how it records. pending: as of Keeper."""
    clock = Clock()

    def record(preroll: tuple[str, ...]) -> Recorder:
        from iotop_ai.store.recorder import Recorder

        return Recorder(open_file(clock), clock, cmdline=settings.cmdline, preroll=preroll)

    return Keeper(clock, new_ring, record, settings.cmdline, pending)


def new_ring() -> Ring:
    """The last hour, of nothing yet."""
    from iotop_ai.store.ring import Ring

    return Ring()


def open_file(clock: Clock, folder: str = ".") -> FileSink:
    """HOST-TIME.iotop.jsonl, a new one; in the state directory where this folder may not, or should not, be written.

    Raises what refuses the state directory.
    """
    from iotop_ai.cli.record_options import default_output
    from iotop_ai.store.sink import FileSink

    name = default_output(os.uname().nodename, clock.wall_ns())
    return FileSink(unused(os.path.join(writable(folder), name), ".iotop.jsonl"))


def unused(path: str, suffix: str) -> str:
    """The path, or with -2, -3 before its suffix while that is there already: two begun within a second."""
    stem, number = path.removesuffix(suffix), 1
    while os.path.lexists(path):
        number += 1
        path = f"{stem}-{number}{suffix}"
    return path


def save_picture(svg: str, folder: str = ".") -> str:
    """Write a picture as HOST-TIME.svg, 0600, where a recording would go; its path. Raises what refuses."""
    from iotop_ai.cli.record_options import default_output

    name = default_output(os.uname().nodename, Clock().wall_ns()).removesuffix(".iotop.jsonl")
    path = unused(os.path.join(writable(folder), f"{name}.svg"), ".svg")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(svg)
    return os.path.abspath(path)


def writable(folder: str) -> str:
    """The folder, or the state directory where this one may not be, or should not be, written."""
    if not private(folder):
        folder = state_folder()
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def private(folder: str) -> bool:
    """Whether nobody but its owner's group may put files there, and we may."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    return not mode & stat.S_IWOTH and os.access(folder, os.W_OK | os.X_OK)


def state_folder() -> str:
    """Where recordings go that have no better place: of root below /var/lib, else as XDG says."""
    if os.geteuid() == 0:
        return "/var/lib/iotop-ai"
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "iotop-ai")
