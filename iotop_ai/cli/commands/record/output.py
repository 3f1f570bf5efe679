"""The output of ``record``: the file or pipe, its recorder, its rotation, and the messages about them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from iotop_ai.cli.commands.record.options import STREAM, RecordOptions, default_output
from iotop_ai.cli.start.abandon import abandon_files
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.with_timeout import call_with_timeout
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError, IotopError
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.playback.session_recording import remove_file, shown_state
from iotop_ai.present.screen.recording_state import missing_text, recording_text
from iotop_ai.store.write.recorder import DELETED, READER_GONE, Recorder
from iotop_ai.store.write.rotation import HOOK_S, Rotator
from iotop_ai.store.write.sink import FileSink, PipeSink, Sink

CLOSE_S = 20.0
"""The longest wait for the last lines to be written, in seconds."""
OPEN_S = 5.0
"""The longest wait for a file to be opened, in seconds."""
PACKING_S = 1.0
"""The time that ``close`` waits for packing before it reports the wait, in seconds."""
_STEP_S = 0.2
"""The time between two checks for a second end signal while ``close`` waits, in seconds."""
T = TypeVar("T")


def open_sink(path: str, make: Callable[[], T]) -> T:
    """Return the sink that ``make`` opens at this path.

    Raises InputError, including when the disk or server of the path does not answer.
    """
    try:
        return call_with_timeout(OPEN_S, path, make)
    except TimeoutError as error:
        raise InputError(f"{clean(path)}: {error.strerror}; check its disk or server") from None


class Output:
    """A recording in progress. say: prints a line. on_end: called on the recorder's thread when the recording ends.

    Raises InputError or UsageError when the file cannot be opened.
    """

    def __init__(
        self, options: RecordOptions, clock: Clock, say: Callable[[str], None], on_end: Callable[[], None]
    ) -> None:
        self._options = options
        self._clock = clock
        self._hurry = False
        """Whether ``close`` is to stop waiting, because a second end signal has come."""
        self._say = say
        self._on_end = on_end
        self._ended = False
        self._rotated = False
        self._last_trouble = ""
        self._deleted_files = 0
        self.path = options.output or default_output(os.uname().nodename, clock.wall_ns())
        sink: PipeSink | FileSink
        if self.path == STREAM:
            sink = PipeSink(1)
        else:
            sink = open_sink(self.path, self._open_file)
            self.path = sink.path
        self._device = sink.device() if isinstance(sink, FileSink) else None
        self._is_new_file = sink.fresh
        self._rotator: Rotator | None = None
        if self.path != STREAM and (options.rotation != (None, None) or options.hook):
            self._rotator = Rotator(clock, say, keep=options.keep, hook=options.hook)
        self._recorder = Recorder(
            sink,
            clock,
            cmdline=options.settings.cmdline,
            rotation=options.rotation,
            rotate=None if self._rotator is None else self._next_file,
            min_free_bytes=options.min_free_bytes,
            on_end=self._end,
            on_left=None if self._rotator is None else self._rotator.take_left,
            begun_wall_ns=sink.begun_wall_ns if isinstance(sink, FileSink) else None,
        )

    def announce(self) -> None:
        """Print the file's name. Call this after the command has started: if it cannot start, the file is removed."""
        if self.path != STREAM:
            self._say(f"to {clean(self.path)}")

    def _end(self) -> None:
        self._ended = True
        self._on_end()

    def _open_file(self) -> FileSink:
        # The default name exists if another recording began in the same second. A program that controls the recording
        # cannot choose another name if the one that it gave exists. In both cases we choose a free name.
        options = self._options
        if not options.output or (options.control and not options.append):
            return FileSink.new(self.path)
        return FileSink(self.path, append=options.append)

    @property
    def alive(self) -> bool:
        """Whether the recorder still writes. False as soon as ``on_end`` is called."""
        return not self._ended

    @property
    def error_text(self) -> str:
        """The error that prevents writing; "" without an error, or when the reader of the pipe closed it."""
        trouble = self._recorder.state().trouble
        return "" if trouble == READER_GONE else trouble

    def put(self, frame: Frame) -> None:
        """Record a Frame. Report when writing begins to fail, and when it works again."""
        self._recorder.put(frame)
        self._report_trouble()

    def _next_file(self, full_sink: Sink) -> Sink:
        assert self._rotator is not None
        try:
            next_sink = self._rotator.next_file(full_sink)
        except (OSError, IotopError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._say(f"cannot start a new file, continuing the old one: {why}")
            raise
        self._rotated = True
        return next_sink

    def _report_trouble(self) -> None:
        trouble, state = self.error_text, self._recorder.state()
        if trouble != self._last_trouble:
            self._say(trouble or "recording again")
            self._last_trouble = trouble
        deleted = state.deleted_files != self._deleted_files
        if deleted or state.path != self.path:
            why = "was deleted" if deleted else "cannot be written"
            self._say(f"{clean(self.path)} {why}; continuing in {clean(state.path)}")
            self.path, self._is_new_file, self._deleted_files = state.path, True, state.deleted_files

    def warn_of_own_disk(self, snapshot: Snapshot) -> None:
        """Warn when the file is on a watched disk, because that disk's figures then include the recording's writes."""
        disks = snapshot.disks.value
        if self._device is None or disks is None:
            return
        name = next((info.name for info in disks.values() if (info.major, info.minor) == self._device), None)
        watched = self._options.settings.devices
        if name is not None and (not watched or name in watched or disks[name].parent in watched):
            self._say(f"the file is on {name}, a watched disk: that disk's figures include the recording's writes")

    def close(self) -> None:
        """Write the queued lines and the end line, then run the hook for the last file and wait for it.

        Gives up the lines after CLOSE_S, and the hook after HOOK_S. Removes a new file that has stayed empty, unless it
        continues others: a recording is opened by the name of its newest file.
        """
        end_ns = self._clock.monotonic_ns() + int(CLOSE_S * 1e9)
        closed = self._recorder.close(0.0)
        while not (closed or self._hurry or self._clock.monotonic_ns() > end_ns):
            closed = self._recorder.close(_STEP_S)
        if not closed:
            self._say("the last lines were not written in time; the recording ends without them")
            abandon_files()
        self._report_trouble()
        self._print_summary()
        if self._is_new_file and not self._rotated and not self._recorder.state().size_bytes and self.path != STREAM:
            remove_file(self.path)
        if self._rotator is not None:
            run_hook = self._options.hook and closed and os.path.lexists(self.path)
            if not self._rotator.finish(self.path if run_hook else None, PACKING_S):
                if packing := self._rotator.packing:
                    self._say(f"packing {clean(os.path.basename(packing))}; Ctrl-C leaves it unpacked")
                self._rotator.finish(None, HOOK_S)

    def _print_summary(self) -> None:
        """Print the recording's duration, size and files, and what is missing in it.

        Prints only what is missing if the recording goes to a stream, has no Snapshot, is controlled by a program, was
        deleted at any time, or is rotated, because several files have no common size.
        """
        state, options = self._recorder.state(), self._options
        deleted = state.deleted_files or state.trouble.endswith(DELETED)
        one_file = self.path != STREAM and options.rotation == (None, None) and not deleted
        if not one_file or not state.snapshots or options.control:
            text = missing_text(state.dropped, state.dropped_events)
        else:
            text = recording_text(shown_state(state, self._clock.monotonic_ns())._replace(trouble=""))
        if text:
            self._say(text)

    def stop_waiting(self) -> None:
        """Stop waiting for the disk or a hook, because a second end signal has come."""
        self._hurry = True
        if self._rotator is not None:
            self._rotator.stop()
