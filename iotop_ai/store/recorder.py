"""Frames to a file on a thread of its own: the screen and the collectors never wait for the disk."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from iotop_ai import __version__
from iotop_ai.collectors.clock import Clock
from iotop_ai.diagnosis.stamp import stamp
from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S, Frame
from iotop_ai.model.snapshot import Event
from iotop_ai.store.codec import FORMAT, Encoder, Header, header_line, to_line
from iotop_ai.store.redact import Redactor
from iotop_ai.store.sink import Full

log = logging.getLogger(__name__)

QUEUE = 120
SYNC_S = 15.0
LOOK_S = 5.0
MIN_FREE_BYTES = 64 << 20
_SNAP = '{"k":"snap",'


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
    keyframe that says there is a gap. preroll: snap lines (marked "pre") from before the recording. rotate: called
    with the closed sink to get the next one. ended: called on the recorder's thread when it stops for good.
    """

    def __init__(
        self,
        sink: Sink,
        clock: Clock,
        *,
        cmdline: str = "names",
        preroll: tuple[str, ...] = (),
        rotation: Rotation = Rotation(),  # noqa: B008 - a frozen record
        rotate: Callable[[Sink], Sink] | None = None,
        min_free_bytes: int = MIN_FREE_BYTES,
        origin: str = "",
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._redactor = Redactor(cmdline)
        self._encoder = Encoder()
        self._rotation = rotation
        self._rotate = rotate
        self._min_free = min_free_bytes
        self._origin = origin
        self._queue: deque[Frame] = deque()
        self._orphans: list[Event] = []
        self._ready = threading.Condition()
        self._closing = False
        self._gap = False
        self._header: Header | None = None
        self._recent: deque[tuple[int, bool, str]] = deque()
        self._preroll = preroll
        self._opened_ns = self._synced_ns = self._looked_ns = clock.monotonic_ns()
        self._started_ns = self._opened_ns
        self._snapshots = self._dropped = self._begun_bytes = 0
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        """Record a Frame; returns at once."""
        with self._ready:
            if len(self._queue) >= QUEUE:
                lost = self._queue.popleft()
                self._orphans.extend(lost.snapshot.events)
                self._gap = True
                self._dropped += 1
            self._queue.append(frame)
            self._ready.notify()

    def state(self) -> RecorderState:
        """How it goes."""
        return RecorderState(
            self._sink.path, self._sink.size, self._started_ns, self._snapshots, self._dropped, self._trouble
        )

    def preroll(self) -> tuple[str, ...]:
        """The snap lines since the last keyframe that is a history old, as another file may begin with them."""
        return tuple(marked_pre(line) for _, _, line in self._recent)

    @property
    def alive(self) -> bool:
        """Whether it still takes Frames to its file."""
        return self._thread.is_alive()

    def close(self, seconds: float = 10.0) -> bool:
        """Write what is queued and the end line; whether that was done within ``seconds``."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while True:
                with self._ready:
                    while not self._queue and not self._closing:
                        self._ready.wait(1.0)
                    if not self._queue:
                        break
                    frame = self._queue.popleft()
                    gap, self._gap = self._gap, False
                    orphans, self._orphans = tuple(self._orphans), []
                self._record(frame, gap, orphans)
            if self._header is not None:
                self._write([to_line({"k": "end", "m": self._clock.monotonic_ns()})])
            self._sink.sync()
        except BrokenPipeError:
            self._trouble = "the reader has gone"
        except Exception as error:  # the recording ends, the monitor goes on and says so
            log.exception("recorder failed")
            self._trouble = f"{type(error).__name__}: {error}"
        finally:
            self._sink.close()

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
            if self._header is None or snapshot.host.boot_id != self._header.boot_id:
                self._begin(frame, continues=False)
            elif self._rotate is not None and self._due(now):
                self._write([to_line({"k": "end", "m": snapshot.at_ns})])
                self._sink.sync()
                self._sink = self._rotate(self._sink)
                self._opened_ns = now
                self._begin(frame, continues=True)
            lines = self._encoder.lines(frame, gap=gap)
            self._write(lines)
        except Full as full:
            self._trouble = f"not recording: {full}"
            self._lose(frame)
            return
        self._trouble = ""
        self._snapshots += 1
        self._remember(snapshot.at_ns, lines)
        if now - self._synced_ns > SYNC_S * 1e9:
            self._sink.sync()
            self._synced_ns = now

    def _lose(self, frame: Frame) -> None:
        with self._ready:
            self._gap = True
            self._dropped += 1
            self._orphans = [*frame.snapshot.events, *self._orphans]
        self._encoder.restart()

    def _short_of_space(self, now: int) -> bool:
        if now - self._looked_ns < LOOK_S * 1e9 and not self._trouble:
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

    def _begin(self, frame: Frame, *, continues: bool) -> None:
        snapshot = frame.snapshot
        self._header = Header(
            FORMAT, __version__, snapshot.host.name, snapshot.host.boot_id, snapshot.wall_ns, snapshot.at_ns,
            snapshot.interval_s, self._redactor.level, stamp(), continues, self._origin,
        )  # fmt: skip
        pre = self.preroll() if continues else self._preroll
        self._write([header_line(self._header), *pre])
        self._begun_bytes = self._sink.size
        self._encoder.restart()

    def _write(self, lines: list[str]) -> None:
        self._sink.write(("\n".join(lines) + "\n").encode())

    def _remember(self, at_ns: int, lines: list[str]) -> None:
        """Keep the snap lines since the last keyframe that is at least a history old: the next file's pre-roll."""
        for line in lines:
            if line.startswith(_SNAP):
                self._recent.append((at_ns, ',"key":true,' in line[:200], line))
        keep_from = 0
        for i, (at, key, _) in enumerate(self._recent):
            if at > at_ns - HISTORY_S * 1e9 or i > len(self._recent) - HISTORY_LEAST:
                break
            if key:
                keep_from = i
        for _ in range(keep_from):
            self._recent.popleft()


def marked_pre(line: str) -> str:
    """A snap line as one of the pre-roll."""
    return line if '"pre":true,' in line[:60] else line.replace(_SNAP, _SNAP + '"pre":true,', 1)
