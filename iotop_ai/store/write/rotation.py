"""Rotation: PATH always names the file being written; full files get a time in their name, are packed (gzip), and are
passed to a hook. A full file is called a part of the recording.

Packing, the removal of old files and the hook run on a separate thread and in child processes, so the recorder never
waits for them. Packing has the lowest priority.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.own_file import remove_left_over
from iotop_ai.collectors.io.root import absolute_path
from iotop_ai.collectors.io.spawn import own_environment, own_python, start_user_command
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError
from iotop_ai.store.format.part_names import TIME_FORMAT, part_name, part_pattern
from iotop_ai.store.write.sink import FileSink

HOOK_S = 600.0
"""The time limit of a hook in seconds; a hook may ship a file over a slow network."""
HOOK_VARIABLE = "IOTOP_AI_FILE"
_SECOND = timedelta(seconds=1)


def full_files(path: str) -> list[str]:
    """The full files of a recording, packed or not, oldest first."""
    return [part for part, _ in _timed_parts(path)]


def _own_parts(path: str) -> list[tuple[str, str]]:
    """The full files that this user owns, as in ``_timed_parts``. Those of others in a shared folder are ignored."""
    return [(part, when) for part, when in _timed_parts(path) if _is_own(part)]


def _is_own(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except FileNotFoundError:  # it was packed or removed meanwhile
        return False


def _timed_parts(path: str) -> list[tuple[str, str]]:
    """The full files of a recording with the time in the name of each, oldest first."""
    folder, name = os.path.split(path)
    part = part_pattern(name)
    matches = [match for other in os.listdir(folder or ".") if (match := part.fullmatch(other))]
    matches.sort(key=lambda match: (match[1], int(match[2] or 1)))
    return [(os.path.join(folder, match[0]), match[1]) for match in matches]


class FullSink(Protocol):
    """The parts of a full file's sink that rotation needs."""

    path: str

    def is_named(self) -> bool:
        """Whether the path still names the file."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Rotator:
    """Gives the recorder its next file.

    keep: the number of full files that are kept; None for all
    hook: the command that is run for each closed file, as a list of arguments
    report: a function that is called with a one-line message if packing, removing or the hook fails
    """

    def __init__(
        self,
        clock: Clock,
        report: Callable[[str], None],
        *,
        keep: int | None = None,
        hook: Sequence[str] = (),
    ) -> None:
        self._clock = clock
        self._report = report
        self._recordings: list[str] = []
        """Each PATH that was rotated. After an error that ended a file, the recording continues under another PATH."""
        self._keep = keep
        self._hook = tuple(hook)

        self._closed_files: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        """(closed file, PATH); PATH is "" for the last file, for which only the hook runs. None ends the thread."""
        self.packing = ""
        """The path of the file that is being packed; "" while none is."""
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="rotate", daemon=True)
        self._thread.start()

    def next_file(self, full: FullSink) -> FileSink:
        """Rename the full file, unless it was moved or deleted, and create PATH again.

        Raises OSError or IotopError, after which the full file still has its name. If another program has created PATH
        meanwhile, the full file keeps its new name, which is then the sink's path.
        """
        path = absolute_path(full.path)
        if not full.is_named():
            if os.path.lexists(path):
                raise InputError(f"{clean(full.path)} is another file now")
            return self._recreate(full)
        part = self._free_name(path)
        os.rename(path, part)
        try:
            sink = FileSink(full.path)
        except BaseException as error:
            if _rename_back(part, path):
                raise
            full.path = part
            raise InputError(f"another program has created {clean(path)}") from error
        full.close()
        if path not in self._recordings:
            self._recordings.append(path)
        self._closed_files.put((part, path))
        return sink

    def take_left(self, path: str) -> None:
        """Run the hook for a file that was closed because of an error."""
        self._closed_files.put((absolute_path(path), ""))

    def _recreate(self, full: FullSink) -> FileSink:
        """Create PATH again after the full file was moved or deleted. Raises IotopError."""
        sink = FileSink(full.path)
        full.close()
        self._report(f"{clean(full.path)} was moved or deleted; continuing in a new file of that name")
        return sink

    def _free_name(self, path: str) -> str:
        """A file name that sorts after the names of this user's earlier full files, even if the clock was set back."""
        when = datetime.fromtimestamp(self._clock.wall_ns() // 10**9, UTC)
        for _, newest in _own_parts(path)[-1:]:
            with contextlib.suppress(ValueError, OverflowError):  # not a time, or a year beyond 9999
                when = max(when, datetime.strptime(newest, TIME_FORMAT).replace(tzinfo=UTC) + _SECOND)
        while any(os.path.lexists(part_name(path, when) + tail) for tail in ("", ".gz")):
            when += _SECOND
        return part_name(path, when)

    def finish(self, path: str | None, seconds: float) -> bool:
        """Run the hook for the last file and wait for all work; return whether that took at most ``seconds``."""
        if path is not None:
            self._closed_files.put((absolute_path(path), ""))
        self._closed_files.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Kill the running child process; may be called from any thread."""
        child = self._child
        if child is not None:
            _kill(child)

    def _run(self) -> None:
        while (closed := self._closed_files.get()) is not None:
            path, recording = closed
            try:
                if recording:
                    path = self._pack(path)
                    _remove_incomplete(recording)
                    self._remove_old(path)
            except OSError as error:  # the next file may succeed
                self._report_error(path, error)
            if self._hook and os.path.lexists(path):
                self._run_hook(path)

    def _report_error(self, path: str, error: OSError) -> None:
        self._report(f"{clean(os.path.basename(path))}: {error.strerror or error}")

    def _pack(self, path: str) -> str:
        self.packing = path
        try:
            code = self._run_child(own_python("iotop_ai.store.write.compress", path), own_environment(), None)
        except OSError as error:  # the packer does not start; old files are removed and the hook runs anyway
            self._report_error(path, error)
            code = 1
        finally:
            self.packing = ""
        if code:
            self._report(f"{clean(os.path.basename(path))} could not be packed and stays as it is")
            return path
        return path + ".gz"

    def _remove_old(self, newest: str) -> None:
        """Remove old files so that ``keep`` remain, counted back from ``newest``, which stays for its hook."""
        parts = [part for recording in self._recordings for part, _ in _own_parts(recording)]
        if self._keep is not None and newest in parts:
            older = parts[: parts.index(newest)]
            for old in older[: max(0, len(older) + 1 - self._keep)]:
                try:
                    os.unlink(old)
                except FileNotFoundError:  # it was removed meanwhile
                    continue
                except OSError as error:  # the hook runs anyway
                    self._report_error(old, error)

    def _run_hook(self, path: str) -> None:
        name = clean(os.path.basename(path))
        try:
            code = self._run_child(list(self._hook), {**os.environ, HOOK_VARIABLE: path}, HOOK_S)
        except subprocess.TimeoutExpired:
            self._report(f"the hook took longer than {HOOK_S:g} s for {name} and was killed")
            return
        except OSError as error:
            self._report(f"the hook {clean(self._hook[0])} did not run for {name}: {error.strerror or error}")
            return
        if code:
            self._report(f"the hook ended with status {code} for {name}")

    def _run_child(self, argv: list[str], environment: dict[str, str], seconds: float | None) -> int:
        self._child = child = start_user_command(
            argv, stdout=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            _kill(child)
            child.wait()
            raise
        finally:
            self._child = None


def _remove_incomplete(recording: str) -> None:
    """Remove the incomplete files of this user's packers that were killed. Raises OSError.

    A file that another packer is writing stays, because it is locked.
    """
    path, name = os.path.split(recording)
    part = part_pattern(name)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for other in os.listdir(folder):
            if other.endswith(".gz.part") and part.fullmatch(other.removesuffix(".part")):
                remove_left_over(other, folder)
    finally:
        os.close(folder)


def _rename_back(part: str, path: str) -> bool:
    """Rename the full file back to PATH; return False if PATH exists, which is then left as it is. Raises OSError."""
    try:
        os.link(part, path, follow_symlinks=False)  # unlike a rename, a link never replaces a file
    except FileExistsError:
        return False
    except OSError:  # the filesystem may lack hard links
        if os.path.lexists(path):
            return False
        os.rename(part, path)
    else:
        os.unlink(part)
    return True


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
