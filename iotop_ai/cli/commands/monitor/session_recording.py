"""The data that the live screen keeps: the last hour in memory, the recording that key R starts, and screenshots."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.own_file import create
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError
from iotop_ai.model.settings import Settings
from iotop_ai.model.snapshot import Event
from iotop_ai.playback.session_recording import SessionRecorder

if TYPE_CHECKING:
    from iotop_ai.store.last_hour import Ring
    from iotop_ai.store.write.recorder import Recorder
    from iotop_ai.store.write.sink import FileSink


OPEN_S = 5.0
"""The time limit for opening a new recording, in seconds."""


def live_recorder(settings: Settings, pending: Callable[[int], tuple[Event, ...]]) -> SessionRecorder:
    """Return the SessionRecorder of a live session. pending: as in SessionRecorder."""
    clock = Clock()

    def make_recorder(preroll: tuple[str, ...]) -> Recorder:
        from iotop_ai.store.write.recorder import Recorder

        return Recorder(open_file(clock), clock, cmdline=settings.cmdline, preroll=preroll)

    return SessionRecorder(clock, new_ring, make_recorder, settings.cmdline, pending, why_other_folder)


def new_ring() -> Ring:
    """Return an empty buffer for the last hour."""
    from iotop_ai.store.last_hour import Ring

    return Ring()


def open_file(clock: Clock, folder: str = ".") -> FileSink:
    """Open a new file HOST-TIME.iotop.jsonl in ``writable_folder(folder)``.

    Raises OSError or IotopError when it cannot be created, InputError when the folder does not answer.
    """
    from iotop_ai.cli.commands.record.options import default_output
    from iotop_ai.store.write.sink import FileSink

    name = default_output(os.uname().nodename, clock.wall_ns())
    path = os.path.abspath(folder)
    try:
        if call_with_timeout(OPEN_S, path, lambda: is_private(folder)):
            return call_with_timeout(OPEN_S, path, lambda: FileSink.new(os.path.join(folder, name)))
        fallback = recordings_folder()
        return call_with_timeout(OPEN_S, fallback, lambda: FileSink.new(os.path.join(writable_folder(folder), name)))
    except TimeoutError as error:
        raise InputError(f"{clean(str(error.filename))}: {error.strerror}") from None


def save_screenshot(svg: str) -> str:
    """Write a screenshot as HOST-TIME.svg, mode 0600, in ``writable_folder(".")``; return its path. Raises OSError."""
    from iotop_ai.cli.commands.record.options import default_output
    from iotop_ai.store.write.sink import unused_path

    name = default_output(os.uname().nodename, Clock().wall_ns()).removesuffix(".iotop.jsonl")
    path = unused_path(os.path.join(writable_folder("."), f"{name}.svg"))
    with os.fdopen(create(path), "w", encoding="utf-8") as file:
        file.write(svg)
    return os.path.abspath(path)


def writable_folder(folder: str) -> str:
    """Return ``folder``, or ``recordings_folder()`` if ``folder`` is not writable or is writable by all users.

    The fallback folder is created if it is missing. Raises OSError, whose text says what to do.
    """
    if is_private(folder):
        return folder
    fallback = recordings_folder()
    try:
        os.makedirs(fallback, mode=0o700, exist_ok=True)
    except OSError as error:
        why = f"{error.strerror}; start iotop-ai in a folder that only you can write to"
        raise OSError(error.errno, why, fallback) from None
    return fallback


def is_private(folder: str) -> bool:
    """Whether this process may create files in the folder, and users outside the folder's group may not."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    return not mode & stat.S_IWOTH and os.access(folder, os.W_OK | os.X_OK)


def why_other_folder() -> str:
    """Return the reason why recordings and screenshots are not put into the current folder; "" if they are."""
    try:
        current = os.getcwd()
        if is_private(current):
            return ""
        shared = os.stat(current).st_mode & stat.S_IWOTH
    except OSError:
        return "the current folder is gone"
    return f"{clean(current)} is {'writable by every user' if shared else 'not writable'}"


def recordings_folder() -> str:
    """Return the fallback folder for recordings: below /var/lib for root, or else below the XDG state directory."""
    if os.geteuid() == 0:
        return "/var/lib/iotop-ai"
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "iotop-ai")
