"""Rotation: PATH is always the file being written; full files get a time into their name, are packed and shipped.

Packing, retention and the hook run on a thread and in child processes at the lowest priority, so the recorder never
waits for them.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.spawn import own_environment, own_python, start_user_command
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError
from iotop_ai.store.write.sink import FileSink

HOOK_S = 600.0
"""Time limit of a hook, which may ship a file over a slow network."""
HOOK_VARIABLE = "IOTOP_AI_FILE"
_EXTENSION = re.compile(r"(?:\.iotop)?\.jsonl$")


def part_name(path: str, wall_ns: int, number: int = 1) -> str:
    """The name of a full file: RUN.20261121T143205.iotop.jsonl (UTC) of RUN.iotop.jsonl; number 2 adds "-2"."""
    found = _EXTENSION.search(path)
    stem, extension = (path[: found.start()], found[0]) if found else (path, "")
    when = datetime.fromtimestamp(wall_ns // 10**9, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{stem}.{when}{'' if number == 1 else f'-{number}'}{extension}"


def parts_of(path: str) -> list[str]:
    """The full files of a recording, packed or not, oldest first."""
    folder, name = os.path.split(path)
    found = _EXTENSION.search(name)
    stem, extension = (name[: found.start()], found[0]) if found else (name, "")
    part = re.compile(re.escape(stem) + r"\.(\d{8}T\d{6})(?:-(\d+))?" + re.escape(extension) + r"(?:\.gz)?")
    matches = [match for other in os.listdir(folder or ".") if (match := part.fullmatch(other))]
    matches.sort(key=lambda match: (match[1], int(match[2] or 1)))
    return [os.path.join(folder, match[0]) for match in matches]


class FullSink(Protocol):
    """A full sink."""

    path: str

    def is_named(self) -> bool:
        """Whether the path still names the file."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Rotator:
    """Gives the recorder its next file.

    keep: number of full files that stay, None for all. hook: argv, run for each closed file. report: takes a one-line
    message when packing or the hook fails.
    """

    def __init__(
        self,
        clock: Clock,
        report: Callable[[str], None],
        *,
        keep: int | None = None,
        hook: Sequence[str] = (),
        hook_s: float = HOOK_S,
    ) -> None:
        self._clock = clock
        self._report = report
        self._keep = keep
        self._hook = tuple(hook)
        self._hook_s = hook_s
        self._closed: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="rotate", daemon=True)
        self._thread.start()

    def next_file(self, full: FullSink) -> FileSink:
        """Rename the full file and open PATH anew. Raises OSError or IotopError, with the full file in place."""
        path, number = os.path.abspath(full.path), 1
        if not full.is_named():
            raise InputError(f"{clean(full.path)} is another file now")
        wall_ns = self._clock.wall_ns()
        while any(os.path.lexists(part_name(path, wall_ns, number) + tail) for tail in ("", ".gz")):
            number += 1
        part = part_name(path, wall_ns, number)
        os.rename(path, part)
        try:
            sink = FileSink(full.path)
        except BaseException:
            os.rename(part, path)
            raise
        full.close()
        self._closed.put((part, path))
        return sink

    def finish(self, path: str | None, seconds: float) -> bool:
        """Run the hook for the last file and wait for all work; whether it ended within ``seconds``."""
        if path is not None:
            self._closed.put((os.path.abspath(path), ""))
        self._closed.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Kill the child that runs now; from any thread."""
        child = self._child
        if child is not None:
            _kill(child)

    def _run(self) -> None:
        while (closed := self._closed.get()) is not None:
            path, live = closed
            try:
                if live:
                    path = self._pack(path)
                    self._retain(live)
                if self._hook and os.path.lexists(path):
                    self._ship(path)
            except OSError as error:  # the next file may succeed
                self._report(f"{clean(os.path.basename(path))}: {error.strerror}")

    def _pack(self, path: str) -> str:
        code = self._run_child(own_python("iotop_ai.store.write.compress", path), own_environment(), None)
        if code:
            self._report(f"{clean(os.path.basename(path))} could not be packed and stays as it is")
            return path
        return path + ".gz"

    def _retain(self, live: str) -> None:
        if self._keep is not None:
            # Another user's newer files in a shared folder must not push this user's files out.
            parts = [part for part in parts_of(live) if os.lstat(part).st_uid == os.geteuid()]
            for old in parts[: max(0, len(parts) - self._keep)]:
                os.unlink(old)

    def _ship(self, path: str) -> None:
        try:
            code = self._run_child(list(self._hook), {**os.environ, HOOK_VARIABLE: path}, self._hook_s)
        except subprocess.TimeoutExpired:
            self._report(
                f"the hook took longer than {self._hook_s:g} s for {clean(os.path.basename(path))} and was ended"
            )
            return
        if code:
            self._report(f"the hook ended with status {code} for {clean(os.path.basename(path))}")

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


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
