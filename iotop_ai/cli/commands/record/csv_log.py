"""The CSV log of ``record``. A full disk or a closed pipe ends only the log, and the recording goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from iotop_ai.cli.commands.record.output import open_sink
from iotop_ai.export.logs.disk_csv import HEADER, disk_log_lines
from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.store.write.sink import TextSink


class CsvLog:
    """Writes the CSV log of a recording.

    say: prints a line. on_end: called when the log ends because of an error. Raises InputError or UsageError.
    """

    def __init__(self, path: str, *, append: bool, say: Callable[[str], None], on_end: Callable[[], None]) -> None:
        self._path = path
        self._say = say
        self._on_end = on_end
        self.alive = True
        """Whether the log is still written."""
        self.broken = ""
        """The error that ended the log; "" without an error, or when the reader of the pipe closed it."""
        self._sink = open_sink(path, lambda: TextSink(path, append=append))
        if self._sink.fresh:
            self._write(HEADER + "\n")

    def put(self, frame: Frame, devices: Sequence[str]) -> None:
        """Write the lines of one interval."""
        for line in disk_log_lines(frame, devices):
            if self.alive:
                self._write(line + "\n")

    def _write(self, text: str) -> None:
        try:
            self._sink.write(text)
        except OSError as error:
            self.alive = False
            if not isinstance(error, BrokenPipeError):
                path = "standard output" if self._path == "-" else clean(self._path)
                self.broken = f"the CSV log ends: {path}: {error.strerror}"
                self._say(self.broken)
            self._on_end()

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        with contextlib.suppress(OSError):  # some file servers report a full disk only at the close
            self._sink.close()
