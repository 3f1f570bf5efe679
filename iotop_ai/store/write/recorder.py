"""Writes Frames to a file on a separate thread, so that the screen and the collectors never wait for the disk."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import deque
from collections.abc import Callable

from iotop_ai import __version__
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.diagnosis.verdict.totals import VerdictTotalsBuilder
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import IotopError
from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S, Frame
from iotop_ai.model.snapshot import NOT_RECORDED, Event, Snapshot, newest_events
from iotop_ai.store.format.codec import FORMAT, KEYFRAME_EVERY, Encoder, Header, end_line, header_line, tally_line
from iotop_ai.store.format.line_head import is_keyframe, is_snap, with_pre, with_previous_length
from iotop_ai.store.format.redact import Redactor
from iotop_ai.store.format.size_limits import LineTooLong
from iotop_ai.store.write.frame_queue import FrameQueue, Lost, QueuedFrame
from iotop_ai.store.write.retries import Retries
from iotop_ai.store.write.sink import Full, Sink

log = logging.getLogger(__name__)

SYNC_S = 15.0
FREE_SPACE_EVERY_S = 5.0
HUNG_S = 5.0
"""A write that takes longer is reported by ``state``. At an interval of 1 s the queue has room for two minutes; after
that Snapshots are lost."""
MIN_FREE_BYTES = 64 << 20
READER_GONE = "the reader has gone"
DELETED = "the file was deleted"
ARGUMENTS_LEFT_OUT = "command arguments left out from here on: with them a line is longer than 16 MiB"


class Rotation(NamedTuple):
    """The size and the age of a file at which the next file begins; None for no limit."""

    bytes: int | None = None
    seconds: float | None = None


class RecorderState(NamedTuple):
    """The progress of writing a recording.

    snapshots, dropped: the numbers of Snapshots that were written, and that were lost, so far
    trouble: why nothing is being written; "" if there is no error
    dropped_events: the number of events that were lost with dropped Snapshots
    deleted_files: the number of files that were deleted while they were written, and replaced by new files
    earlier, earlier_bytes: the paths, oldest first, and the total size of the files that errors ended before this one,
        without deleted ones
    """

    path: str
    size_bytes: int
    started_ns: int
    snapshots: int
    dropped: int
    trouble: str
    dropped_events: int = 0
    deleted_files: int = 0
    earlier: tuple[str, ...] = ()
    earlier_bytes: int = 0


class Recorder:
    """Takes Frames and writes them as lines.

    ``put`` never blocks: when the queue is full, the oldest Frame is dropped. Then the next line is a keyframe with a
    gap mark, preceded by the dropped events and an event with the number of missing Snapshots and the reason. A write
    that failed is tried again as Retries determines; when that fails too, or when the file was deleted, a new file in
    the same folder continues the recording.

    preroll: snap lines from before the recording, marked "pre", or a function that returns such lines before an at_ns;
        it is called on the recorder's thread
    rotate: a function that takes the sink whose file has reached its limit and returns the next one; if it raises
        OSError or IotopError, the old sink stays in use
    on_end: a function that is called on the recorder's thread when the recorder stops
    on_left: a function that is called on that thread with the path of a file that was closed because of an error
    begun_wall_ns: the wall time at which the file's first session began, from which its age counts; None for a new file
    """

    def __init__(
        self,
        sink: Sink,
        clock: Clock,
        *,
        cmdline: str = "names",
        preroll: Callable[[int], tuple[str, ...]] | tuple[str, ...] = (),
        rotation: Rotation = Rotation(),  # noqa: B008 - a frozen record
        rotate: Callable[[Sink], Sink] | None = None,
        min_free_bytes: int = MIN_FREE_BYTES,
        origin: str = "",
        on_end: Callable[[], None] | None = None,
        on_left: Callable[[str], None] | None = None,
        keyframe_every: int = KEYFRAME_EVERY,
        begun_wall_ns: int | None = None,
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._redactor = Redactor(cmdline)
        self._encoder = Encoder(keyframe_every)
        self._rotation = rotation
        self._rotate = rotate
        self._min_free_bytes = min_free_bytes
        self._origin = origin
        self._on_end = on_end
        self._on_left = on_left
        self._queue = FrameQueue()
        self._header: Header | None = None
        self._continues = False
        self._totals: tuple[Snapshot, VerdictTotalsBuilder] | None = None
        """The newest Snapshot of the block, and the block's totals; None if it gets none."""
        self._recent: deque[tuple[int, bool, str]] = deque()
        """(time, whether it is a keyframe, text) of the newest snap lines, which ``preroll`` returns."""
        self._pre_lines = preroll
        self._opened_ns = self._synced_ns = self._started_ns = clock.monotonic_ns()
        if begun_wall_ns is not None:
            self._opened_ns -= max(0, clock.wall_ns() - begun_wall_ns)
        self._space_ns: int | None = None
        """The time at which the free space was last read."""
        self._snapshots = self._begin_bytes = self._deleted_files = 0
        """``_begin_bytes`` is the file's size from which a rotation counts; the others are as in ``RecorderState``."""
        # The offsets in the sink of the newest block, and of a header that will be part of the next block.
        self._block_at: int | None = None
        self._lead_at: int | None = None
        self._trouble = self._why = ""
        """The reason why nothing is being written, and the reason why the missing Snapshots were not written."""
        self._retries = Retries()
        self._lost = Lost()
        """The totals of lost Snapshots that are already reported in the file."""
        self._after = ""
        """The name of the file that the current one continues after errors; "" once a header contains it."""
        self._earlier: tuple[str, ...] = ()
        self._earlier_bytes = 0
        """Both as in ``RecorderState``."""
        self._busy_ns: int | None = None
        """The time at which the sink became busy; None while it is idle."""
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        """Queue a Frame for the file without waiting."""
        self._queue.put(frame)

    def state(self) -> RecorderState:
        """The current progress."""
        sink, lost, busy_ns, trouble = self._sink, self._queue.lost, self._busy_ns, self._trouble
        if busy_ns is not None and self._clock.monotonic_ns() - busy_ns > HUNG_S * 1e9:
            trouble = f"not recording: {'its disk' if sink.recovers else 'the reader'} does not answer"
        progress = (self._started_ns, self._snapshots, lost.frames, trouble, lost.events, self._deleted_files)
        return RecorderState(sink.path, sink.size, *progress, self._earlier, self._earlier_bytes)

    def preroll(self) -> tuple[str, ...]:
        """The snap lines since the last keyframe that is at least HISTORY_S old, with which another file can start."""
        return tuple(with_pre(line) for _, _, line in self._recent)

    @property
    def alive(self) -> bool:
        """Whether the recorder's thread still runs."""
        return self._thread.is_alive()

    def close(self, seconds: float = 10.0) -> bool:
        """Write the queued Frames and the end line; return whether that took at most ``seconds``."""
        self._queue.close()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (queued := self._queue.take()) is not None:
                self._record(queued)
            if not self._retries.failing:
                self._end()
        except BrokenPipeError:
            self._trouble = READER_GONE
        except Full as full:  # the file ends with the last complete line
            self._trouble = f"not recording: {full}"
        except OSError as error:
            self._trouble = f"no longer recording: {error.strerror}"
        except Exception as error:  # the recording ends, but the monitor continues
            log.exception("recorder failed")
            self._trouble = f"no longer recording: {type(error).__name__}: {error}"
        finally:
            self._close_sink()
            self._busy_ns = None
            if self._on_end is not None:
                self._on_end()

    def _end(self) -> None:
        self._busy_ns = self._clock.monotonic_ns()
        if self._header is not None:
            self._write([*self._totals_line(), end_line(self._busy_ns)])
        self._sync_sink()

    def _sync_sink(self) -> None:
        """Make the kernel write the file to the disk. Raises OSError, also if the file was deleted."""
        self._sink.sync()
        if self._sink.is_deleted():
            raise FileNotFoundError(errno.ENOENT, DELETED)

    def _close_sink(self) -> None:
        try:
            self._sink.close()
        except OSError as error:  # some filesystems report errors only when a file is closed
            self._trouble = self._trouble or f"no longer recording: {error.strerror}"

    def _record(self, queued: QueuedFrame) -> None:
        snapshot = self._redactor.snapshot(queued.frame.snapshot)
        if queued.orphaned_events:
            snapshot = snapshot._replace(events=(*queued.orphaned_events, *snapshot.events))
        # Up to two more events may follow: one about lost Snapshots, and one about arguments that are left out.
        events = newest_events(snapshot.events, snapshot.at_ns, snapshot.wall_ns)
        frame = queued.frame._replace(snapshot=snapshot._replace(events=events))
        now = self._busy_ns = self._clock.monotonic_ns()
        try:
            if not self._may_write(now):
                self._lose(frame)
                return
            self._write_frame(self._with_lost(frame, queued.lost), queued.gap, now)
        except (Full, LineTooLong) as error:
            self._why = str(error)
            self._trouble = f"not recording: {error}"
            self._lose(frame)
            return
        except OSError as error:
            if not self._sink.recovers:
                raise
            self._count_failure(error)
            self._lose(frame)
            return
        finally:
            self._busy_ns = None
        self._lost, self._trouble, self._why = queued.lost, "", ""
        self._retries.count_write()
        self._snapshots += 1
        if now - self._synced_ns > SYNC_S * 1e9:
            self._sync(now)

    def _with_lost(self, frame: Frame, lost: Lost) -> Frame:
        """The Frame with an event about the Snapshots that are missing before it."""
        frames, events = lost.frames - self._lost.frames, lost.events - self._lost.events
        if not frames:
            return frame
        snapshot = frame.snapshot
        missing = f"{frames} snapshot{'' if frames == 1 else 's'}"
        if events:
            missing += f" and {events} event{'' if events == 1 else 's'}"
        text = f"{missing} not written: {self._why or 'the disk did not keep up'}"
        event = Event(snapshot.at_ns, snapshot.wall_ns, NOT_RECORDED, text)
        return frame._replace(snapshot=snapshot._replace(events=(*snapshot.events, event)))

    def _write_frame(self, frame: Frame, gap: bool, now: int) -> None:
        snapshot = frame.snapshot
        if self._header is not None and snapshot.host.boot_id != self._header.boot_id:
            self._write(self._totals_line())
            self._header, self._continues, self._totals = None, False, None
            self._recent.clear()  # no pre-roll comes from another boot, whose clock cannot be compared
        elif self._header is not None and self._rotate is not None and self._rotation_is_due(now):
            self._next_file(self._rotate, snapshot.at_ns, now)
        if self._header is None:
            self._begin(frame)
        frame, lines = self._encode(frame, gap)
        key = any(is_keyframe(line) for line in lines)
        if key:
            self._write_block(lines)
        else:
            self._write(lines)
        self._add_to_totals(frame, key, gap)
        self._remember(snapshot.at_ns, lines)

    def _encode(self, frame: Frame, gap: bool) -> tuple[Frame, list[str]]:
        """The Frame as it is written, and its lines.

        If they are too long, this Frame and all later ones are written with names instead of command lines. Raises
        LineTooLong if the lines are too long even then.
        """
        try:
            return frame, self._encoder.lines(frame, gap=gap)
        except LineTooLong:
            if self._redactor.level == "names":
                raise
        log.warning("%s: only command names from here on: a keyframe would be too long", self._sink.path)
        self._redactor = Redactor("names")
        snapshot = self._redactor.snapshot(frame.snapshot)
        event = Event(snapshot.at_ns, snapshot.wall_ns, NOT_RECORDED, ARGUMENTS_LEFT_OUT)
        self._encoder.restart()
        frame = frame._replace(snapshot=snapshot._replace(events=(*snapshot.events, event)))
        return frame, self._encoder.lines(frame, gap=gap)

    def _sync(self, now: int) -> None:
        """Make the kernel write the file to the disk. After an error, a new file is begun.

        Later syncs would prove nothing, because the kernel reports an error only once.
        """
        self._busy_ns = self._synced_ns = now
        try:
            self._sync_sink()
            self._retries.reset()
        except OSError as error:
            if not self._sink.recovers:
                raise
            self._retries.give_up()
            self._count_failure(error)
        finally:
            self._busy_ns = None

    def _may_write(self, now: int) -> bool:
        """Whether a Frame may be written: there is space, and the last write worked or it is time for another try.

        If all tries for this file failed, a new file is begun.
        """
        if self._short_of_space(now):
            return False
        if not self._retries.failing:
            return True
        if not (self._retries.due(now) or self._queue.closing):
            return False
        # A new file that is still empty is tried again instead of being replaced.
        return not (self._retries.given_up and self._sink.size) or self._continue_in_new_file(now)

    def _continue_in_new_file(self, now: int) -> bool:
        try:
            new_sink = self._sink.replacement()
        except (OSError, IotopError) as error:
            self._count_failure(error)
            return False
        if new_sink is None:
            return False
        log.warning("%s: %s; the recording continues in %s", self._sink.path, self._why, new_sink.path)
        deleted = self._sink.is_deleted()
        self._close_sink()
        if not deleted:
            self._earlier = (*self._earlier, self._sink.path)
            self._earlier_bytes += self._sink.size
            if self._on_left is not None:
                self._on_left(self._sink.path)
        self._after, self._sink = "" if deleted else os.path.basename(self._sink.path), new_sink
        self._deleted_files += deleted
        self._header, self._continues, self._totals = None, True, None
        self._opened_ns = self._synced_ns = now
        return True

    def _count_failure(self, error: Exception) -> None:
        self._why = (error.strerror if isinstance(error, OSError) else str(error)) or "an error"
        self._trouble = f"not recording: {self._why}"
        self._retries.count_failure(self._clock.monotonic_ns())

    def _add_to_totals(self, frame: Frame, key: bool, gap: bool) -> None:
        """Add the Frame to the totals, unless its block has none.

        A block after a gap has no totals, because a reader lacks the dropped Frames, so that its verdicts may differ. A
        block with an event of kind NOT_RECORDED has none either, so that no reader skips that event.
        """
        if key:
            self._totals = None if gap else (frame.snapshot, VerdictTotalsBuilder())
        if any(event.kind == NOT_RECORDED for event in frame.snapshot.events):
            self._totals = None
        if self._totals is not None:
            builder = self._totals[1]
            builder.add(frame)
            self._totals = (frame.snapshot, builder)

    def _totals_line(self) -> list[str]:
        """The tally line that ends a block; [] without totals."""
        return [] if self._totals is None else [tally_line(self._totals[0], self._totals[1].totals())]

    def _lose(self, frame: Frame) -> None:
        """Count the Frame as dropped; the next line is then a keyframe."""
        self._queue.lose(frame)
        self._encoder.restart()

    def _short_of_space(self, now: int) -> bool:
        """Whether the disk has too little free space.

        The space is read every FREE_SPACE_EVERY_S, or at every call while nothing can be written.
        """
        if self._space_ns is not None and now - self._space_ns < FREE_SPACE_EVERY_S * 1e9 and not self._trouble:
            return False
        self._space_ns = now
        free = self._sink.free_bytes()
        if free is not None and free < self._min_free_bytes:
            self._why = f"less than {_size_text(self._min_free_bytes)} free on its disk"
            self._trouble = f"not recording: {self._why}"
            return True
        return False

    def _rotation_is_due(self, now: int) -> bool:
        size, seconds = self._rotation
        # The pre-roll does not count, because it may be larger than a small limit.
        return (size is not None and self._sink.size - self._begin_bytes >= size) or (
            seconds is not None and now - self._opened_ns >= seconds * 1e9
        )

    def _next_file(self, rotate: Callable[[Sink], Sink], at_ns: int, now: int) -> None:
        self._write([*self._totals_line(), end_line(at_ns)])
        self._totals = None
        self._sink.sync()
        self._opened_ns, self._begin_bytes = now, self._sink.size
        try:
            self._sink = rotate(self._sink)
        except (OSError, IotopError) as error:
            log.warning("the next file cannot be created: %s", error)
            self._encoder.restart()
            return
        self._header, self._continues = None, True

    def _begin(self, frame: Frame) -> None:
        """Write the header and the pre-roll of a file or session that begins with this Frame."""
        snapshot = frame.snapshot
        header = Header(
            FORMAT, __version__, snapshot.host.name, snapshot.host.boot_id, snapshot.wall_ns, snapshot.at_ns,
            snapshot.interval_s, self._redactor.level, stamp(), self._continues, self._origin, self._after,
        )  # fmt: skip
        pre: tuple[str, ...] = ()
        if self._continues:
            pre = self.preroll()
        elif self._pre_lines:
            pre = self._pre_lines(snapshot.at_ns) if callable(self._pre_lines) else self._pre_lines
            self._pre_lines = pre  # kept for another try in case the write fails
        begin = self._sink.size
        try:
            self._write([header_line(header), *pre])
        except Full:
            if not (self._continues and pre):
                raise
            # The pre-roll may be larger than all the lines that still fit, and the file before has the same Snapshots.
            pre = ()
            self._write([header_line(header)])
        self._pre_lines, self._after = (), ""
        self._header = header
        self._lead_at, self._block_at = None if pre else begin, None
        if not begin:
            self._begin_bytes = self._sink.size
        self._encoder.restart()

    def _write_block(self, lines: list[str]) -> None:
        """Write the totals of the previous block, then lines with a keyframe that contains the length of that block."""
        totals = self._totals_line()
        begin = self._sink.size + sum(len(line.encode()) + 1 for line in totals)
        if self._lead_at is not None:
            begin = self._lead_at
        if self._block_at is not None:
            back = begin - self._block_at
            lines = [with_previous_length(line, back) if is_keyframe(line) else line for line in lines]
        self._write([*totals, *lines])
        self._lead_at, self._block_at = None, begin

    def _write(self, lines: list[str]) -> None:
        self._sink.write(("\n".join(lines) + "\n").encode())

    def _remember(self, at_ns: int, lines: list[str]) -> None:
        """Keep the snap lines since the last keyframe that is at least HISTORY_S old, as pre-roll of the next file.

        At least HISTORY_LEAST lines are kept.
        """
        for line in lines:
            if is_snap(line):
                self._recent.append((at_ns, is_keyframe(line), line))
        keep_from = 0
        for i, (line_ns, key, _) in enumerate(self._recent):
            if line_ns > at_ns - HISTORY_S * 1e9 or i > len(self._recent) - HISTORY_LEAST:
                break
            if key:
                keep_from = i
        for _ in range(keep_from):
            self._recent.popleft()


def _size_text(bytes_: int) -> str:
    """A size as --min-free names it, such as "1 KiB" or "1.5 GiB"."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if bytes_ >= 1 << power:
            return f"{bytes_ / (1 << power):.4g} {unit}"
    return f"{bytes_} B"
