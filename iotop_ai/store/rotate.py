"""The next file of a recording: PATH stays the live name, full files get a time into theirs, are packed and shipped.

What follows a closed file (packing, retention, the hook) runs on a thread and in child processes at the lowest
priority, so that the recorder never waits for it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import iotop_ai
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.spawn import nothing_blocked
from iotop_ai.model.clean import clean
from iotop_ai.store.sink import FileSink

HOOK_S = 600.0
"""A hook may ship a file over a slow line, but not for ever."""
HOOK_VARIABLE = "IOTOP_AI_FILE"
_EXTENSION = re.compile(r"(?:\.iotop)?\.jsonl$")
_INSTALLED = ("site-packages", "dist-packages")


def part_name(path: str, wall_ns: int, number: int = 1) -> str:
    """The name of a full file: RUN.iotop.jsonl becomes RUN.20261121T143205.iotop.jsonl (UTC), "-2" and on for more."""
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


class Closing(Protocol):
    """A full sink."""

    path: str

    def close(self) -> None:
        """Give it back."""
        ...


class Rotator:
    """Gives the recorder its next file. keep: full files that stay, None all; hook: argv run for each closed file.

    say: takes one line for people when packing or the hook fails.
    """

    def __init__(
        self,
        clock: Clock,
        say: Callable[[str], None],
        *,
        keep: int | None = None,
        hook: Sequence[str] = (),
        hook_s: float = HOOK_S,
    ) -> None:
        self._clock = clock
        self._say = say
        self._keep = keep
        self._hook = tuple(hook)
        self._hook_s = hook_s
        self._closed: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="rotate", daemon=True)
        self._thread.start()

    def next_file(self, full: Closing) -> FileSink:
        """Rename the full file and open PATH anew. Raises OSError or IotopError and leaves the full one in place."""
        path, number = os.path.abspath(full.path), 1
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
        """Run the hook for the last file and wait for what is under way; whether it ended within ``seconds``."""
        if path is not None:
            self._closed.put((os.path.abspath(path), ""))
        self._closed.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End the child that runs now, from any thread."""
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
            except OSError as error:  # the next file has its own chance
                self._say(f"{clean(os.path.basename(path))}: {error.strerror}")

    def _pack(self, path: str) -> str:
        code = self._child_run([sys.executable, "-P", "-m", "iotop_ai.store.compress", path], _own_environment(), None)
        if code:
            self._say(f"{clean(os.path.basename(path))} could not be packed and stays as it is")
            return path
        return path + ".gz"

    def _retain(self, live: str) -> None:
        if self._keep is not None:
            parts = parts_of(live)
            for old in parts[: max(0, len(parts) - self._keep)]:
                os.unlink(old)

    def _ship(self, path: str) -> None:
        try:
            code = self._child_run(list(self._hook), {**os.environ, HOOK_VARIABLE: path}, self._hook_s)
        except subprocess.TimeoutExpired:
            self._say(f"the hook took longer than {self._hook_s:g} s for {clean(os.path.basename(path))} and was ended")
            return
        if code:
            self._say(f"the hook ended with status {code} for {clean(os.path.basename(path))}")

    def _child_run(self, argv: list[str], environment: dict[str, str], seconds: float | None) -> int:
        with nothing_blocked():
            self._child = child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,
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


def _own_environment() -> dict[str, str]:
    """For a process of our own whose folder is "/": from a checkout it has to be told where the package lies."""
    home = Path(iotop_ai.__file__).parents[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "PYTHON"))}
    if home.name not in _INSTALLED:
        environment["PYTHONPATH"] = str(home)
    return environment
