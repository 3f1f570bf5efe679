"""The CSV log of ``record``. A full disk or a closed pipe ends only the log, and the recording goes on."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Sequence

from iotop_ai.cli.commands.record.output import open_sink
from iotop_ai.cli.start.abandon import abandon_files
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout
from iotop_ai.export.logs.disk_csv import HEADER, disk_log_lines
from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.present.text.units import plural
from iotop_ai.store.write.frame_queue import FrameQueue
from iotop_ai.store.write.sink import TextSink

log = logging.getLogger(__name__)
CLOSE_S = 5.0
"""The longest wait for the last lines to be written, in seconds."""


class CsvLog:
    """Writes the CSV log of a recording on a thread, so that the recording does not wait for a disk or a reader.

    Raises InputError or UsageError when the file cannot be opened. When too many Frames wait, the oldest is dropped.

    devices: the disks in the log; () for the disks that count in the machine's totals
    say: prints a line
    on_end: called on the log's thread when the log ends, also because a write fails or the reader of the pipe has gone
    """

    def __init__(
        self,
        path: str,
        *,
        append: bool,
        devices: Sequence[str],
        say: Callable[[str], None],
        on_end: Callable[[], None],
    ) -> None:
        self._path = path
        self._devices = devices
        self._say = say
        self._on_end = on_end
        self.alive = True
        """Whether the log is still written."""
        self.error_text = ""
        """The error that ended the log; "" without an error, or when the reader of the pipe closed it."""
        self._loss_reported = False
        self._sink = open_sink(path, lambda: TextSink(path, append=append))
        self._empty = self._sink.fresh
        """Whether the file is new and has no line for a disk yet."""
        self._queue = FrameQueue()
        self._thread = threading.Thread(target=self._run, name="csv-log", daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        """Queue the lines of one interval without waiting. Report the first loss of lines."""
        if not self.alive:
            return
        self._queue.put(frame)
        if self._queue.lost.frames and not self._loss_reported:
            self._loss_reported = True
            late = "its reader" if self._path == "-" else "its disk"
            self._say(f"the CSV log lacks lines from here on: {late} does not keep up")

    def _run(self) -> None:
        try:
            if self._empty:
                self._sink.write(HEADER + "\n")
            while (queued := self._queue.take()) is not None:
                for line in disk_log_lines(queued.frame, self._devices):
                    self._empty = False
                    self._sink.write(line + "\n")
        except BrokenPipeError:
            pass
        except OSError as error:
            self._fail(str(error.strerror))
        except Exception as error:  # the log ends, but the recording continues
            log.exception("the CSV log failed")
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            try:
                self._sink.close()
            except OSError as error:  # some file servers report a full disk only at the close
                self._fail(str(error.strerror))
            self.alive = False
            self._on_end()

    def _fail(self, why: str) -> None:
        path = "standard output" if self._path == "-" else clean(self._path)
        self.error_text = f"the CSV log ends: {path}: {why}"
        self._say(self.error_text)

    def close(self, seconds: float = CLOSE_S) -> None:
        """Write the queued lines and close the file; wait at most ``seconds``. Report missing lines.

        Removes a new file that has no line for a disk.
        """
        self._queue.close()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._say("the last lines of the CSV log were not written in time")
            if self._path != "-":
                abandon_files()
        elif self._empty and self._path != "-":
            with contextlib.suppress(OSError):  # the file may be gone, unresponsive or read-only by now
                call_with_timeout(HOME_TIMEOUT_S, self._path, lambda: os.unlink(self._path))
        if lost := self._queue.lost.frames:
            self._say(f"{plural(lost, 'interval')} missing in the CSV log")
