"""The notebook commands: after ``%load_ext iotop_ai``, ``%monitor_io start | stop | report`` and ``%%monitor_io``."""

from __future__ import annotations

import contextlib
import os.path
import shlex
import sys
import threading
import time
from importlib import import_module
from typing import Any

from iotop_ai.model.errors import IotopError
from iotop_ai.train.monitor import Monitor
from iotop_ai.train.picture import picture

USAGE = "usage: %monitor_io start [FILE] | stop | report, or %%monitor_io [FILE] as the first line of a cell"
PROGRESS_S = 1.0


class Session:
    """One recording in a notebook: a Monitor, and a progress line below the cell."""

    def __init__(self, path: str | None, show_progress: bool) -> None:
        self.monitor = Monitor(path)
        self.ended = False
        self._begin = time.monotonic()
        self._duration_s = 0.0
        self._early_end: float | None = None
        """The monotonic time at which an early end of the recording was noticed; None without an early end."""
        self._stop_progress = threading.Event()
        self._handle: Any = None
        self.monitor.start()
        self._thread: threading.Thread | None = None
        if show_progress and not self.monitor.error:
            self._handle = _display(_html(self._progress()), display_id=True)
            thread = threading.Thread(target=self._update_progress, name="monitor_io", daemon=True)
            with contextlib.suppress(RuntimeError):  # this user has too many threads: the line stays as it is
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """End the recording. The last verdict stays available."""
        if self.ended:
            return
        self.ended = True
        self._stop_progress.set()
        if self._thread is not None:
            self._thread.join(2 * PROGRESS_S)
        self.monitor.verdict()
        self._duration_s = self._seconds()
        self.monitor.stop()

    def report(self) -> Any:
        """Return the picture and the verdict of the recording so far, or of the whole recording after its end."""
        if not self.ended:
            self.monitor.verdict()
            self._duration_s = self._seconds()
        m = self.monitor
        return _html(picture(m.verdict(wait=0), m.breakdown(wait=0), self._duration_s, m.path, m.error))

    def replace_progress(self) -> None:
        """Replace the progress line with the report; without a progress line, display the report."""
        if self._handle is None:
            _display(self.report())
        else:
            self._handle.update(self.report())

    def _update_progress(self) -> None:
        while not self._stop_progress.wait(PROGRESS_S):
            if self._handle is not None:
                self._handle.update(_html(self._progress()))

    def _seconds(self) -> float:
        """Return how long the recording has lasted, up to its early end if it has ended early."""
        now = time.monotonic()
        if self._early_end is None and self.monitor.error:
            self._early_end = now
        return (now if self._early_end is None else self._early_end) - self._begin

    def _progress(self) -> str:
        verdict = self.monitor.verdict(wait=0)
        words = self.monitor.error or ("recording" if verdict is None else f"{verdict.state}: {verdict.text}")
        seconds = int(self._seconds())
        return f"<pre>monitor_io {seconds // 60}:{seconds % 60:02} {escape_html(words)}</pre>"


class Magics:
    """The commands ``%monitor_io`` and ``%%monitor_io``."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._session: Session | None = None

    def monitor_io(self, line: str, cell: str | None = None) -> Any:
        """Record this machine while cells run; then show the verdict and the shares of time.

        %monitor_io start [FILE] begins a recording. %monitor_io stop ends the recording and reports on it.
        %monitor_io report reports on the recording so far. %%monitor_io [FILE] records while its cell runs.
        """
        try:
            words = shlex.split(line)
        except ValueError:
            return _say(USAGE)
        if cell is not None:
            return self._cell(words, cell)
        if words[:1] == ["start"] and len(words) <= 2:
            if self._session is not None and not self._session.ended:
                return _say("monitor_io: already recording; %monitor_io stop ends the recording")
            self._session = Session(_path(words[1:]), show_progress=False)
            return _say(f"monitor_io: {self._session.monitor.error or 'recording'}")
        if self._session is None:
            return _say(USAGE if words not in (["stop"], ["report"]) else "monitor_io: nothing is recorded yet")
        if words == ["stop"]:
            self._session.stop()
            return self._session.report()
        return self._session.report() if words == ["report"] else _say(USAGE)

    def _cell(self, words: list[str], cell: str) -> Any:
        if len(words) > 1:
            return _say(USAGE)
        if _awaits(self._shell, cell):
            raise CellFailedError("a cell with await does not run under %%monitor_io; use %monitor_io start and stop")
        session = Session(_path(words), show_progress=True)
        if self._session is None or self._session.ended:
            self._session = session
        result = None
        try:
            result = self._shell.run_cell(cell)
        finally:
            session.stop()
            session.replace_progress()
        # run_cell has already shown the error or the result of the cell.
        if result is not None and not result.success:
            error = result.error_before_exec or result.error_in_exec
            raise CellFailedError(f"the monitored cell ended with {type(error).__name__}")
        return None


def _path(words: list[str]) -> str | None:
    """Return the path in a magic's arguments, with ~ expanded; None without an argument."""
    return os.path.expanduser(words[0]) if words else None


def _awaits(shell: Any, cell: str) -> bool:
    """Whether a cell awaits outside a function while this thread runs an event loop, as in Jupyter's kernel.

    A magic is a plain function. It cannot await the cell, and inside a running loop it cannot start another loop.
    """
    is_async = getattr(shell, "should_run_async", None)
    if is_async is None or not is_async(cell, transformed_cell=shell.transform_cell(cell)):
        return False
    import asyncio  # imported here, because it is slow

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class CellFailedError(IotopError):
    """A monitored cell did not run, or it ended with an error that is shown above. This error stops "run all"."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def load_ipython_extension(shell: Any) -> None:
    """Register the commands. IPython calls this function for ``%load_ext iotop_ai``."""
    magics = Magics(shell)
    shell.register_magic_function(magics.monitor_io, "line_cell", "monitor_io")


def escape_html(text: str) -> str:
    """Return the text with HTML's special characters escaped, quotes included."""
    from html import escape

    return escape(text, quote=True)


def _html(text: str) -> Any:
    return import_module("IPython.display").HTML(text)


def _display(content: Any, **options: Any) -> Any:
    return import_module("IPython.display").display(content, **options)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
