"""Stores earlier health readings of each disk, so that growth is known after a restart or when a disk's name changes.

A disk is identified by serial number, model and world-wide name. The serial number alone is not enough, because some
USB bridges report the same number, such as "123456789012", for every disk. Each disk has one file in ``health/`` of the
state folder, with mode 0600. To write a history, a new file is made, flushed to disk and renamed over the old one, so
that one complete file exists even after a power cut or a kill. A lock keeps two monitors from writing at the same time.
A file that cannot be read is renamed and reported, and never overwritten. Earlier versions of this program named a file
by the serial number alone; such a file gets its new name when a disk of the same model is read.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.input_file import open_input
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.collectors.state.folder import open_folder, put_file
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.clean import clean
from iotop_ai.model.health.growth import DAY_S, nearest, past_of, point_of, recent_of
from iotop_ai.model.health.smart import HealthPoint, SmartState

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
FOLDER = "health"
LOCK_WAIT_S = 2.0
_LOCK_STEP_S = 0.02
FOLDER_WAIT_S = 5.0
"""The limit for reading and writing a history, in seconds. It is longer than LOCK_WAIT_S."""
_LARGEST_FILE_BYTES = 4 << 20
"""The largest file that is read, in bytes."""
_LONGEST_NAME = 120
"""The longest file name without its suffix, in characters; a longer one is cut and gets a hash."""
LEAST_INTERVAL_S = 600
"""The minimum number of seconds between stored readings while only fields in _UNIMPORTANT change."""
THINNING: tuple[tuple[int, int], ...] = (
    (2 * DAY_S, 0),
    (60 * DAY_S, 6 * 3600),
    (400 * DAY_S, DAY_S),
    (1 << 40, 7 * DAY_S),
)
"""Pairs of (an age in seconds, an interval in seconds): below this age, one point per interval is kept; 0 keeps all."""
MOST_POINTS = 4000
"""The most points that the history of a disk keeps."""
_FIELDS = HealthPoint._fields
_UNIMPORTANT = ("wall_s", "power_on_hours", "temperature_celsius", "error_log_entries")
"""The fields whose change alone is not a reason to store a reading."""
_SUFFIX = ".json"


class DiskHistory(NamedTuple):
    """The stored readings of one disk, oldest first. note: why readings are missing; "" when none is missing."""

    serial: str
    model: str
    points: tuple[HealthPoint, ...]
    note: str = ""
    wwn: str = ""


class HealthHistory:
    """Reads and writes the histories in one state folder. Only one thread at a time may use it."""

    def __init__(self, folder: Path | str, clock: Clock) -> None:
        self._path = os.path.join(folder, FOLDER)
        self._state_folder = folder
        self._clock = clock
        self._pause = threading.Event()

    @property
    def folder(self) -> Path:
        """The folder of the histories."""
        from pathlib import Path

        return Path(self._path)

    def with_history(self, state: SmartState) -> SmartState:
        """Return the state with ``read_wall_s``, ``earlier``, ``recent``, ``past`` and ``history_note``.

        The state is also stored if it is ``worth_keeping``.
        """
        wall_s = self._clock.wall_ns() // 1_000_000_000
        if not state.serial:
            return state._replace(read_wall_s=wall_s, history_note="no history: the disk reports no serial number")
        reading = point_of(state, wall_s)
        try:
            history = call_with_timeout(FOLDER_WAIT_S, self._state_folder, lambda: self._remember(state, reading))
        except OSError as error:
            note = f"no history: {self._cause(error)}"
            return state._replace(read_wall_s=wall_s, history_note=clean(note))
        past = past_of((*(p for p in history.points if p.wall_s < wall_s), reading), wall_s)
        return state._replace(
            read_wall_s=wall_s,
            earlier=nearest(history.points, wall_s),
            recent=recent_of(history.points, wall_s),
            past=past,
            history_note=clean(history.note),
        )

    def history_of(self, state: SmartState) -> DiskHistory | None:
        """Return the history of a disk; None when it has none. Raises OSError.

        A history that cannot be parsed has no points, and a note that says so.
        """
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return next(filter(None, (self._read_own(handle, name, state) for name in _names(state))), None)
        except ValueError as error:
            return DiskHistory(state.serial, "", (), f"the history of {state.serial} cannot be read: {error}")
        finally:
            os.close(handle)

    def all_histories(self) -> tuple[DiskHistory, ...]:
        """Return all histories that can be read, ordered by serial number; () when there are none."""
        try:
            names = sorted(os.listdir(self._path))
        except OSError:
            return ()
        histories = []
        for name in names:
            if name.endswith(_SUFFIX) and not name.startswith("."):
                with contextlib.suppress(OSError):
                    history = self._read_or_none(name)
                    histories += [history] if history is not None else []
        return tuple(sorted(histories, key=lambda history: (history.serial, history.model, history.wwn)))

    def _read_or_none(self, name: str) -> DiskHistory | None:
        handle = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return self._read(handle, name)
        except ValueError:
            return None
        finally:
            os.close(handle)

    def _remember(self, state: SmartState, reading: HealthPoint) -> DiskHistory:
        """Store ``reading`` if it is ``worth_keeping``; return the earlier history.

        Raises OSError when the history cannot be read.
        """
        os.close(open_folder(self._state_folder))  # creates this folder with mode 0700
        handle = open_folder(self._path)
        try:
            with self._locked(handle) as obstacle:
                return self._read_and_store(handle, state, reading, obstacle)
        finally:
            os.close(handle)

    def _read_and_store(self, folder: int, state: SmartState, reading: HealthPoint, obstacle: str) -> DiskHistory:
        """Store ``reading`` unless there is an obstacle; return the earlier history, with a note about any problem.

        A reading that is not ``worth_keeping`` is not stored either. obstacle: why nothing may be written; "" if we
        have the lock. Raises OSError when the history cannot be read.
        """
        name, stored_name = _names(state)[0], self._stored_name(folder, state)
        note = ""
        points: tuple[HealthPoint, ...] = ()
        try:
            history = self._read(folder, stored_name)
            points = () if history is None else history.points
        except ValueError as error:
            note = f"the history could not be read ({error})"
        if not obstacle:
            try:
                if note:
                    note += f" and was set aside as {os.path.join(self._path, self._set_aside(folder, name))}"
                elif stored_name != name:
                    os.rename(stored_name, name, src_dir_fd=folder, dst_dir_fd=folder)
                if worth_keeping(points, reading):
                    kept = DiskHistory(
                        state.serial, state.model, thin_out((*points, reading), reading.wall_s), wwn=state.wwn
                    )
                    put_file(folder, name, history_text(kept), lasting=True)
            except OSError as error:  # the disk is full or read-only
                obstacle = self._cause(error)
        if obstacle:
            note = note or f"this reading is not stored: {obstacle}"
        return DiskHistory(state.serial, state.model, points, note, state.wwn)

    def _cause(self, error: OSError) -> str:
        return f"{self._path}: {error.strerror}"

    def _stored_name(self, folder: int, state: SmartState) -> str:
        """Return the name of the disk's file: an older, less detailed name only if the file still has that name."""
        current_name, *old_names = _names(state)
        if current_name in os.listdir(folder):
            return current_name
        for name in old_names:
            with contextlib.suppress(ValueError):
                if self._read_own(folder, name, state) is not None:
                    return name
        return current_name

    def _read_own(self, folder: int, name: str, state: SmartState) -> DiskHistory | None:
        """Return the content of a file; None when it is missing or belongs to a disk of another model."""
        history = self._read(folder, name)
        return history if history is not None and history.model in ("", state.model) else None

    @contextlib.contextmanager
    def _locked(self, folder: int) -> Iterator[str]:
        """Yield "" if we got the lock within LOCK_WAIT_S, else the obstacle.

        A suspended monitor may keep the lock forever.
        """
        from iotop_ai.collectors.io import own_file  # start-up does not need it

        try:
            lock = os.open(".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        except OSError as error:
            yield self._cause(error)
            return
        try:
            until_ns = self._clock.monotonic_ns() + int(LOCK_WAIT_S * 1e9)
            locked = own_file.try_lock(lock)
            while not locked and self._clock.monotonic_ns() < until_ns:
                self._pause.wait(_LOCK_STEP_S)
                locked = own_file.try_lock(lock)
            if locked:
                with contextlib.suppress(OSError):  # a file that stays does no harm
                    self._remove_temporary_files(folder)
            yield "" if locked else "another monitor has locked the history"
        finally:
            own_file.unlock_and_close(lock)

    def _remove_temporary_files(self, folder: int) -> None:
        """Remove the temporary files of killed writers. The caller has the lock."""
        for name in os.listdir(folder):
            if name.startswith(".") and name.endswith(".new"):
                os.unlink(name, dir_fd=folder)

    def _set_aside(self, folder: int, name: str) -> str:
        aside = f"{name}.unreadable-{self._clock.wall_ns() // 1_000_000_000}"
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        return aside

    def _read(self, folder: int, name: str) -> DiskHistory | None:
        """Return the content of a file; None without one. Raises OSError, and ValueError if it is not a history."""
        try:
            with open_input(name, folder=folder, flags=os.O_NOFOLLOW) as file:
                raw = file.read(_LARGEST_FILE_BYTES + 1) or b""  # a named pipe without data gives None
        except FileNotFoundError:
            return None
        if len(raw) > _LARGEST_FILE_BYTES:
            raise ValueError("too large")
        return parse_history(raw)


def file_name(*words: str) -> str:
    """Return the file name made of these words, joined by "+".

    All characters but letters, digits, "-" and "_" are escaped as %XX, so that different words give different names.
    """
    from urllib.parse import quote  # this import is slow, and the start does not need it

    name = "+".join(quote(word, safe="") for word in words).replace(".", "%2E").replace("~", "%7E")
    if len(name) > _LONGEST_NAME:
        import hashlib  # this import is slow, and few names are that long

        name = name[: _LONGEST_NAME - 17] + "-" + hashlib.sha256(name.encode()).hexdigest()[:16]
    return name + _SUFFIX


def _names(state: SmartState) -> tuple[str, ...]:
    """Return the name of the disk's file, then the names with less detail that it may have.

    These are the name without a world-wide name, and the name of earlier versions, the serial number alone.
    """
    words = (state.serial, state.model)
    exact = [file_name(*words, state.wwn)] if state.wwn else []
    return (*exact, file_name(*words), file_name(state.serial))


def history_text(history: DiskHistory) -> bytes:
    """Return a history as JSON, with one point per line. The figures of a point are in the order of ``fields``."""
    import json

    head = {"format": FORMAT, "serial": history.serial, "model": history.model, "wwn": history.wwn, "fields": _FIELDS}
    lines = ",\n".join(json.dumps(list(point), separators=(",", ":")) for point in history.points)
    return f'{json.dumps(head)[:-1]}, "points": [\n{lines}\n]}}\n'.encode()


def parse_history(raw: bytes) -> DiskHistory:
    """Return the history in this JSON, without figures that this version does not know. Raises ValueError.

    Sample: {"format": 1, "serial": "S6", "model": "M", "fields": ["wall_s", "media_errors"], "points": [[1700, 0]]}
    """
    import json

    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("another format")
    fields, rows = document.get("fields"), document.get("points")
    if not isinstance(fields, list) or "wall_s" not in fields or not isinstance(rows, list):
        raise ValueError("no points")
    points = []
    for row in rows:
        if not isinstance(row, list) or len(row) != len(fields):
            raise ValueError("a point of another length")
        figures = {name: value for name, value in zip(fields, row, strict=True) if name in _FIELDS}
        if type(figures["wall_s"]) is not int or any(_is_invalid_figure(value) for value in figures.values()):
            raise ValueError("a figure that is not a whole number")
        points.append(HealthPoint(**figures))
    points.sort(key=lambda point: point.wall_s)
    return DiskHistory(_text(document, "serial"), _text(document, "model"), tuple(points), wwn=_text(document, "wwn"))


def _is_invalid_figure(value: Any) -> bool:
    return value is not None and type(value) is not int


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    return clean(value) if isinstance(value, str) else ""


def worth_keeping(points: tuple[HealthPoint, ...], reading: HealthPoint) -> bool:
    """Whether to store a reading: a count has changed, or the last stored reading is old.

    The last reading may also be in the future, if the clock was wrong; then the new reading is stored too.
    """
    if not points:
        return True
    last = points[-1]
    if any(getattr(last, name) != getattr(reading, name) for name in _FIELDS if name not in _UNIMPORTANT):
        return True
    return not 0 <= reading.wall_s - last.wall_s < LEAST_INTERVAL_S


def thin_out(points: tuple[HealthPoint, ...], wall_s: int) -> tuple[HealthPoint, ...]:
    """Return the points to keep, oldest first: all of the last two days, and one older point per THINNING interval.

    If these are more than MOST_POINTS, the oldest are dropped.
    """
    kept: list[HealthPoint] = []
    last: tuple[int, int] | None = None
    for point in sorted(points, key=attrgetter("wall_s")):
        interval_s = _interval_s(wall_s - point.wall_s)
        slot = (interval_s, point.wall_s // interval_s) if interval_s else None
        if slot is None or slot != last:
            kept.append(point)
        last = slot
    return tuple(kept[-MOST_POINTS:])


def _interval_s(age_s: int) -> int:
    """Return the seconds between two points that are kept at this age; 0 if all are kept."""
    for limit, step in THINNING:
        if age_s < limit:
            return step
    return THINNING[-1][1]
