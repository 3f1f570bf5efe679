"""Where ``record`` writes: the file or pipe, its recorder, its rotation, and what there is to say about them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from iotop_ai.cli.record_options import STREAM, RecordOptions, default_output
from iotop_ai.collectors.clock import Clock
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError
from iotop_ai.model.frame import Frame
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.recorder import READER_GONE, Recorder, Sink
from iotop_ai.store.rotate import HOOK_S, Rotator
from iotop_ai.store.sink import FileSink, PipeSink

CLOSE_S = 20.0


class Output:
    """A recording that is being written. say: takes one line for people; ended: called when it ended by itself.

    Raises InputError or UsageError when the file cannot be had.
    """

    def __init__(
        self, options: RecordOptions, clock: Clock, say: Callable[[str], None], ended: Callable[[], None]
    ) -> None:
        self._options = options
        self._say = say
        self._told = ""
        self.path = options.output or default_output(os.uname().nodename, clock.wall_ns())
        sink = PipeSink(1) if self.path == STREAM else FileSink(self.path, append=options.append)
        self._device = sink.device() if isinstance(sink, FileSink) else None
        self._made = sink.fresh
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
            ended=ended,
        )
        if self.path != STREAM:
            say(f"to {clean(self.path)}")

    @property
    def alive(self) -> bool:
        """Whether it still writes."""
        return self._recorder.alive

    @property
    def broken(self) -> str:
        """Why it could not write to its end; "" when all is well or the reader has gone."""
        trouble = self._recorder.state().trouble
        return "" if trouble == READER_GONE else trouble

    def put(self, frame: Frame) -> None:
        """Record a Frame; say once what keeps it from being written, and once that it is written again."""
        self._recorder.put(frame)
        self._tell_trouble()

    def _next_file(self, full: Sink) -> Sink:
        assert self._rotator is not None
        try:
            return self._rotator.next_file(full)
        except (OSError, IotopError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._say(f"no new file could be begun, the old one goes on: {why}")
            raise

    def _tell_trouble(self) -> None:
        trouble = self.broken
        if trouble != self._told:
            self._say(trouble or "recording again")
            self._told = trouble

    def warn_of_own_disk(self, snapshot: Snapshot) -> None:
        """Say so when the file lies on a disk that is watched."""
        disks = snapshot.disks.value
        if self._device is None or disks is None:
            return
        name = next((info.name for info in disks.values() if (info.major, info.minor) == self._device), None)
        chosen = self._options.settings.devices
        if name is not None and (not chosen or name in chosen or disks[name].parent in chosen):
            self._say(f"the file lies on {name}, which is being watched: its writes are among that disk's figures")

    def close(self) -> None:
        """Write what is queued and the end line; run the hook for the last file and wait for it.

        A new file into which nothing could be written is taken away again.
        """
        if not self._recorder.close(CLOSE_S):
            self._say("the last lines are not taken in time; the recording ends without them")
        self._tell_trouble()
        if self._made and not self._recorder.state().size_bytes and self.path != STREAM:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
        if self._rotator is not None:
            self._rotator.finish(self.path if self._options.hook and os.path.lexists(self.path) else None, HOOK_S)

    def stop_waiting(self) -> None:
        """Asked to end a second time: do not wait for a hook any longer."""
        if self._rotator is not None:
            self._rotator.stop()
