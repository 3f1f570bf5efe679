"""The CSV log of ``record``. A full disk or a closed pipe ends only the log, and the recording goes on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

from iotop_ai.cli.commands.record.output import open_sink
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.export.logs.disk_csv import HEADER, disk_log_lines
from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.store.write.sink import TextSink


class CsvLog:
    """Writes the CSV log of a recording. Raises InputError or UsageError when the file cannot be opened.

    say: prints a line. on_end: called when a write fails or the reader of the pipe has gone.
    """

    def __init__(self, path: str, *, append: bool, say: Callable[[str], None], on_end: Callable[[], None]) -> None:
        self._path = path
        self._say = say
        self._on_end = on_end
        self.alive = True
        """Whether the log is still written."""
        self.error_text = ""
        """The error that ended the log; "" without an error, or when the reader of the pipe closed it."""
        self._sink = open_sink(path, lambda: TextSink(path, append=append))
        self._empty = self._sink.fresh
        """Whether the file holds nothing but the header, which this log has written."""
        if self._empty:
            self._write(HEADER + "\n")

    def put(self, frame: Frame, devices: Sequence[str]) -> None:
        """Write the lines of one interval."""
        for line in disk_log_lines(frame, devices):
            if self.alive:
                self._empty = False
                self._write(line + "\n")

    def _write(self, text: str) -> None:
        try:
            self._sink.write(text)
        except OSError as error:
            self.alive = False
            if not isinstance(error, BrokenPipeError):
                self._fail(error)
            self._on_end()

    def _fail(self, error: OSError) -> None:
        path = "standard output" if self._path == "-" else clean(self._path)
        self.error_text = f"the CSV log ends: {path}: {error.strerror}"
        self._say(self.error_text)

    def close(self) -> None:
        """Close the file, and remove a file that has only our header. A second call does nothing."""
        try:
            self._sink.close()
        except OSError as error:  # some file servers report a full disk only at the close
            self._fail(error)
        if self._empty and self._path != "-":
            self._empty = False
            with contextlib.suppress(OSError):  # the file may be gone, unresponsive or read-only by now
                call_with_timeout(HOME_TIMEOUT_S, self._path, lambda: os.unlink(self._path))
