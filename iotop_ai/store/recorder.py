"""Frames to a file on a thread of its own: the screen and the collectors never wait for the disk."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from iotop_ai import __version__
from iotop_ai.collectors.clock import Clock
from iotop_ai.diagnosis.stamp import stamp
from iotop_ai.diagnosis.tally import Tallying
from iotop_ai.model.errors import IotopError
from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S, Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.store.codec import FORMAT, KEYFRAME_EVERY, Encoder, Header, header_line, tally_line
from iotop_ai.store.lane import Lane
from iotop_ai.store.pieces import to_line
from iotop_ai.store.preroll import SNAP, marked_pre
from iotop_ai.store.redact import Redactor
from iotop_ai.store.sink import Full

log = logging.getLogger(__name__)

SYNC_S = 15.0
LOOK_S = 5.0
MIN_FREE_BYTES = 64 << 20
READER_GONE = "the reader has gone"
_KEY = ',"key":true,'


class Sink(Protocol):
    """What a recorder writes to."""

    path: str

    @property
    def size(self) -> int:
        """Bytes so far."""
        ...

    def write(self, data: bytes) -> None:
        """Append whole lines. Raises Full."""
        ...

    def sync(self) -> None:
        """Have it written out."""
        ...

    def free_bytes(self) -> int | None:
        """Bytes left; None unknown."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class Rotation(NamedTuple):
    """When a file is closed and the next begun: at a size, an age, either or neither (None)."""

    bytes: int | None = None
    seconds: float | None = None


class RecorderState(NamedTuple):
    """For the screen. dropped: Snapshots lost so far; trouble: why nothing is written now, "" when all is well."""

    path: str
    size_bytes: int
    started_ns: int
    snapshots: int
    dropped: int
    trouble: str


class Recorder:
    """Takes Frames, writes lines.

    put never blocks: when the queue is full the oldest Frame is dropped, its events are kept, and the next line is a
    keyframe that says there is a gap. preroll: the snap lines (marked "pre") from before the recording, or what gives
    those before an at_ns, asked on the recorder's thread. rotate: called with the full sink, whose last line is
    written, to get the next one; raises OSError or IotopError to go on with the old one. ended: called on the
    recorder's thread when it stops for good.
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
        ended: Callable[[], None] | None = None,
        keyframe_every: int = KEYFRAME_EVERY,
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._redactor = Redactor(cmdline)
        self._encoder = Encoder(keyframe_every)
        self._rotation = rotation
        self._rotate = rotate
        self._min_free = min_free_bytes
        self._origin = origin
        self._ended = ended
        self._lane = Lane()
        self._header: Header | None = None
        self._continues = False
        self._counted: tuple[Snapshot, Tallying] | None = None
        self._recent: deque[tuple[int, bool, str]] = deque()
        self._preroll = preroll
        self._opened_ns = self._synced_ns = self._started_ns = clock.monotonic_ns()
        self._looked_ns: int | None = None
        self._snapshots = self._begun_bytes = 0
        # Where in the sink the newest block begins, and the header that is to be a part of the next.
        self._block_at: int | None = None
        self._lead_at: int | None = None
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        """Record a Frame; returns at once."""
        self._lane.put(frame)

    def state(self) -> RecorderState:
        """How it goes."""
        sink = self._sink
        return RecorderState(sink.path, sink.size, self._started_ns, self._snapshots, self._lane.dropped, self._trouble)

    def preroll(self) -> tuple[str, ...]:
        """The snap lines since the last keyframe that is a history old, as another file may begin with them."""
        return tuple(marked_pre(line) for _, _, line in self._recent)

    @property
    def alive(self) -> bool:
        """Whether it still takes Frames to its file."""
        return self._thread.is_alive()

    def close(self, seconds: float = 10.0) -> bool:
        """Write what is queued and the end line; whether that was done within ``seconds``."""
        self._lane.close()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (taken := self._lane.take()) is not None:
                self._record(taken.frame, taken.gap, taken.orphans)
            if self._header is not None:
                self._write([*self._tallied(), to_line({"k": "end", "m": self._clock.monotonic_ns()})])
            self._sink.sync()
        except BrokenPipeError:
            self._trouble = READER_GONE
        except Full as full:  # the last whole line is the end
            self._trouble = f"not recording: {full}"
        except OSError as error:
            self._trouble = f"not recording any more: {error.strerror}"
        except Exception as error:  # the recording ends, the monitor goes on and says so
            log.exception("recorder failed")
            self._trouble = f"not recording any more: {type(error).__name__}: {error}"
        finally:
            self._sink.close()
            if self._ended is not None:
                self._ended()

    def _record(self, frame: Frame, gap: bool, orphans: tuple[Event, ...]) -> None:
        snapshot = self._redactor.snapshot(frame.snapshot)
        if orphans:
            snapshot = snapshot._replace(events=(*orphans, *snapshot.events))
        frame = frame._replace(snapshot=snapshot)
        now = self._clock.monotonic_ns()
        if self._short_of_space(now):
            self._lose(frame)
            return
        try:
            if self._header is not None and snapshot.host.boot_id != self._header.boot_id:
                self._write(self._tallied())
                self._header, self._continues, self._counted = None, False, None
            elif self._header is not None and self._rotate is not None and self._due(now):
                self._next_file(self._rotate, snapshot.at_ns, now)
            if self._header is None:
                self._begin(frame)
            lines = self._encoder.lines(frame, gap=gap)
            key = any(_is_key(line) for line in lines)
            if key:
                self._write_block(lines)
            else:
                self._write(lines)
        except Full as full:
            self._trouble = f"not recording: {full}"
            self._lose(frame)
            return
        self._trouble = ""
        self._snapshots += 1
        self._count(frame, key, gap)
        self._remember(snapshot.at_ns, lines)
        if now - self._synced_ns > SYNC_S * 1e9:
            self._sink.sync()
            self._synced_ns = now

    def _count(self, frame: Frame, key: bool, gap: bool) -> None:
        """Count the Frame's verdict. Behind a gap the file's fold differs from ours up to the next keyframe."""
        if key:
            self._counted = None if gap else (frame.snapshot, Tallying())
        if self._counted is not None:
            counted = self._counted[1]
            counted.add(frame)
            self._counted = (frame.snapshot, counted)

    def _tallied(self) -> list[str]:
        """The line that ends a block, [] when nothing was counted of it."""
        return [] if self._counted is None else [tally_line(self._counted[0], self._counted[1].tally())]

    def _lose(self, frame: Frame) -> None:
        self._lane.lose(frame)
        self._encoder.restart()

    def _short_of_space(self, now: int) -> bool:
        if self._looked_ns is not None and now - self._looked_ns < LOOK_S * 1e9 and not self._trouble:
            return False
        self._looked_ns = now
        free = self._sink.free_bytes()
        if free is not None and free < self._min_free:
            self._trouble = f"not recording: less than {self._min_free >> 20} MiB free on its disk"
            return True
        return False

    def _due(self, now: int) -> bool:
        size, seconds = self._rotation
        # The pre-roll does not count: it may be larger than a small limit, and each line would begin a file.
        return (size is not None and self._sink.size - self._begun_bytes >= size) or (
            seconds is not None and now - self._opened_ns >= seconds * 1e9
        )

    def _next_file(self, rotate: Callable[[Sink], Sink], at_ns: int, now: int) -> None:
        self._write([*self._tallied(), to_line({"k": "end", "m": at_ns})])
        self._counted = None
        self._sink.sync()
        self._opened_ns, self._begun_bytes = now, self._sink.size
        try:
            self._sink = rotate(self._sink)
        except (OSError, IotopError) as error:
            log.warning("no next file: %s", error)
            self._encoder.restart()
            return
        self._header, self._continues = None, True

    def _begin(self, frame: Frame) -> None:
        snapshot = frame.snapshot
        header = Header(
            FORMAT, __version__, snapshot.host.name, snapshot.host.boot_id, snapshot.wall_ns, snapshot.at_ns,
            snapshot.interval_s, self._redactor.level, stamp(), self._continues, self._origin,
        )  # fmt: skip
        pre: tuple[str, ...] = ()
        if self._continues:
            pre = self.preroll()
        elif self._preroll:
            pre = self._preroll(snapshot.at_ns) if callable(self._preroll) else self._preroll
            self._preroll = ()
        begun = self._sink.size
        self._write([header_line(header), *pre])
        self._header = header
        self._lead_at, self._block_at = None if pre else begun, None
        self._begun_bytes = self._sink.size
        self._encoder.restart()

    def _write_block(self, lines: list[str]) -> None:
        """Lines with a keyframe, which says how long the block before is, behind what was counted of that."""
        counted = self._tallied()
        begin = self._sink.size + sum(len(line.encode()) + 1 for line in counted)
        if self._lead_at is not None:
            begin = self._lead_at
        back = "" if self._block_at is None else f'"back":{begin - self._block_at},'
        self._write([*counted, *(line.replace(_KEY, _KEY + back, 1) if _is_key(line) else line for line in lines)])
        self._lead_at, self._block_at = None, begin

    def _write(self, lines: list[str]) -> None:
        self._sink.write(("\n".join(lines) + "\n").encode())

    def _remember(self, at_ns: int, lines: list[str]) -> None:
        """Keep the snap lines since the last keyframe that is at least a history old: the next file's pre-roll."""
        for line in lines:
            if line.startswith(SNAP):
                self._recent.append((at_ns, _is_key(line), line))
        keep_from = 0
        for i, (at, key, _) in enumerate(self._recent):
            if at > at_ns - HISTORY_S * 1e9 or i > len(self._recent) - HISTORY_LEAST:
                break
            if key:
                keep_from = i
        for _ in range(keep_from):
            self._recent.popleft()


def _is_key(line: str) -> bool:
    """Whether a line is a keyframe."""
    return line.startswith(SNAP) and _KEY in line[:200]
