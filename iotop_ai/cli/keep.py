"""What the live screen keeps: the last hour in memory, and the file that the key R begins."""

from __future__ import annotations

import os
import stat

from iotop_ai.cli.record_options import default_output
from iotop_ai.collectors.clock import Clock
from iotop_ai.model.settings import Settings
from iotop_ai.store.recorder import Recorder
from iotop_ai.store.ring import Ring
from iotop_ai.store.sink import FileSink
from iotop_ai.tui.keeper import Keeper


def live_keeper(settings: Settings) -> Keeper:
    """The ring of a live session, and how it records."""
    clock = Clock()

    def record(preroll: tuple[str, ...]) -> Recorder:
        return Recorder(open_file(clock), clock, cmdline=settings.cmdline, preroll=preroll)

    return Keeper(clock, Ring(), record, settings.cmdline)


def open_file(clock: Clock, folder: str = ".") -> FileSink:
    """HOST-TIME.iotop.jsonl here, or in the state directory where this folder may not be, or should not be, written.

    Raises what refuses the state directory.
    """
    name = default_output(os.uname().nodename, clock.wall_ns())
    if not private(folder):
        folder = state_folder()
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return FileSink(os.path.join(folder, name))


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
