"""Writes the file for node_exporter on a separate thread, so that a filesystem that hangs stops only this file."""

from __future__ import annotations

import threading
from collections.abc import Callable

from iotop_ai.export.prometheus.textfile import EVERY_S, Textfile
from iotop_ai.model.errors import InputError, IotopError
from iotop_ai.model.frame import Frame

CHECK_S = 1.0
"""The longest wait for the check of the file's folder, in seconds."""
END_S = 5.0
"""The longest wait for the last write and the removal of the file, in seconds."""


class TextfileThread:
    """Passes the newest Frame to a Textfile until ``close``. say: prints each new error, and its end."""

    def __init__(self, textfile: Textfile, say: Callable[[str], None]) -> None:
        self._textfile = textfile
        self._say = say
        self._condition = threading.Condition()
        self._frame: Frame | None = None
        """The newest Frame, until the thread takes it."""
        self._writing_since_ns: int | None = None
        """The time of the Frame that the thread has taken; None while it waits for a Frame."""
        self._stopping = False
        self._folder_error = ""
        self._checked = threading.Event()
        """Set when the file's folder was checked."""
        self._error = ""
        """The error of the last attempt to write the file; "" after a success."""
        self._thread = threading.Thread(target=self._run, name="textfile", daemon=True)

    def start(self) -> None:
        """Start the thread. Raises InputError if the file cannot be written to its folder."""
        self._thread.start()
        # A filesystem that does not answer is reported later, like one that stops answering.
        self._checked.wait(CHECK_S)
        if self._folder_error:
            raise InputError(self._folder_error)

    def put(self, frame: Frame) -> None:
        """Set the newest Frame, without waiting. Report a write that has not ended after EVERY_S."""
        with self._condition:
            self._frame = frame
            self._condition.notify()
            since_ns = self._writing_since_ns
            if since_ns is not None and frame.snapshot.at_ns - since_ns >= EVERY_S * 1e9:
                self._report(f"--textfile: {self._textfile.path}: the filesystem does not answer")

    def close(self) -> None:
        """Remove the file and end the thread; give up after END_S if the filesystem does not answer.

        Does nothing if the thread could not be started.
        """
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.is_alive():
            self._thread.join(END_S)

    def _run(self) -> None:
        try:
            self._check_folder()
            while (frame := self._next()) is not None:
                self._write(frame)
        finally:
            self._textfile.close()

    def _next(self) -> Frame | None:
        """Wait for a Frame and return it; None once ``close`` is called."""
        with self._condition:
            self._writing_since_ns = None
            self._condition.wait_for(lambda: self._frame is not None or self._stopping)
            frame, self._frame = self._frame, None
            if self._stopping or frame is None:
                return None
            self._writing_since_ns = frame.snapshot.at_ns
            return frame

    def _check_folder(self) -> None:
        try:
            self._textfile.check_folder()
        except (IotopError, OSError) as raised:
            self._folder_error = self._error_text(raised)
        self._checked.set()

    def _write(self, frame: Frame) -> None:
        error = ""
        try:
            if not self._textfile.put(frame):
                return
        except (IotopError, OSError) as raised:
            error = self._error_text(raised)
        with self._condition:
            self._report(error)

    def _error_text(self, error: IotopError | OSError) -> str:
        if isinstance(error, OSError):
            return f"--textfile: {self._textfile.path}: {error.strerror}"
        return f"--textfile: {error}"  # the text names the file

    def _report(self, error: str) -> None:
        if error != self._error:
            self._say(error or f"writing {self._textfile.path} again")
            self._error = error
