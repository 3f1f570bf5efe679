"""The last hour in memory, to look back while live: the lines of a recording, packed as they come.

It holds full command lines, which never leave the machine from here: what a file begins with passes the redaction.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from iotop_ai import __version__
from iotop_ai.diagnosis.stamp import stamp
from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import HISTORY_S, Frame
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.blocks import Block, split_lines
from iotop_ai.store.codec import FORMAT, Encoder, Header
from iotop_ai.store.file import FileRecording
from iotop_ai.store.lane import Lane
from iotop_ai.store.preroll import SNAP, marked_pre, redacted_line

if TYPE_CHECKING:
    from zlib import _Compress as _Squeeze

log = logging.getLogger(__name__)

RING_BYTES = 8 << 20
RING_S = 3600.0
TOGETHER, TOGETHER_PROCESSES = 8, 2000
"""So many Frames are packed at once, of so many processes together at most: the second right behind the first takes
less than half of what it takes a second later, and each Frame that waits holds a table of its processes."""
MOST_KEPT_BYTES = RING_BYTES
"""What may be held beside the ring by somebody who looks back for hours; then nothing newer is taken in."""
_LEVEL = 5
_PIECE = 1 << 16
_WAIT_S = 2.0
_SHORT_S = 0.2
"""How long somebody who looks back waits for the newest seconds to be packed."""


class RingState(NamedTuple):
    """For the screen. span_s: how far back one can look, 0 when nowhere yet; size_bytes: memory of the lines."""

    span_s: float
    size_bytes: int
    dropped: int
    trouble: str


class _Packed(NamedTuple):
    block: Block
    data: bytes


class Ring:
    """Takes Frames on a thread of its own; ``recording`` is what it holds at a moment.

    put never blocks. most_bytes, most_s: what is older or more is dropped, a keyframe with its minute at a time.
    """

    def __init__(self, most_bytes: int = RING_BYTES, most_s: float = RING_S) -> None:
        self._most_bytes = most_bytes
        self._most_ns = int(most_s * 1e9)
        self._lane = Lane()
        self._waiting: list[Frame] = []
        self._put_lock = threading.Lock()
        self._encoder = Encoder()
        self._lock = threading.Lock()
        self._done: list[_Packed] = []
        self._done_bytes = 0
        self._open: Block | None = None
        self._squeeze = zlib.compressobj(_LEVEL)
        self._parts: list[bytes] = []
        self._open_bytes = 0
        self._session = 0
        self._number = 0
        self._boot = ""
        self._newest_ns = 0
        self._header: Header | None = None
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="ring", daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        """Remember a Frame; returns at once."""
        table = frame.snapshot.processes.value
        with self._put_lock:
            self._waiting.append(frame)
            many = len(self._waiting)
            if many >= TOGETHER or table is None or many * len(table.stat) >= TOGETHER_PROCESSES:
                self._hand_on()

    def _hand_on(self) -> None:
        """Have those packed that wait; with their lock held."""
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self._lane.put(frame)

    def drained(self, seconds: float = _WAIT_S) -> bool:
        """Wait until all that was put is held, at most ``seconds``; whether it is."""
        with self._put_lock:
            self._hand_on()
        return self._lane.drained(seconds)

    def state(self) -> RingState:
        """How far back it reaches and what it takes."""
        self.drained(_SHORT_S)
        with self._lock:
            first = self._seekable_ns()
            span_s = 0.0 if first is None else max(0.0, (self._newest_ns - first) / 1e9)
            return RingState(span_s, self._done_bytes + self._open_bytes, self._lane.dropped, self._trouble)

    def recording(self) -> RingRecording | None:
        """What it holds now, to step through; it changes only when it is refreshed. None while it holds nothing."""
        packed, header = self._held(), self._header
        return None if not packed or header is None else RingRecording(RingBlocks(packed, self._held), header)

    def _held(self) -> tuple[_Packed, ...]:
        self.drained(_SHORT_S)
        with self._lock:
            if self._open is None:
                return ()
            squeeze = self._squeeze.copy()
            newest = self._open._replace(length=self._open_bytes)
            return (*self._done, _Packed(newest, b"".join(self._parts) + squeeze.flush()))

    def preroll(self, level: str, before_ns: int) -> tuple[str, ...]:
        """The snap lines before a moment, from the last keyframe at least a minute back, redacted and marked "pre"."""
        self.drained()
        held = self.recording()
        if held is None:
            return ()
        session = held.blocks[-1].session
        mine = [block for block in held.blocks if block.session == session and block.at_ns < before_ns]
        if not mine:
            return ()
        far = [block for block in mine if block.at_ns <= before_ns - HISTORY_S * 1e9]
        out = []
        for block in mine[mine.index((far or mine[:1])[-1]) :]:
            for raw in held.raw_lines(block):
                line = raw.decode()
                if line.startswith(SNAP) and int(line[len(SNAP) + 4 :].split(",", 1)[0]) < before_ns:
                    out.append(marked_pre(redacted_line(line, level)))
        return tuple(out)

    def close(self) -> None:
        """Stop the thread; what is held stays readable."""
        with self._put_lock:
            self._hand_on()
        self._lane.close()
        self._thread.join(_WAIT_S)

    def _run(self) -> None:
        try:
            while (taken := self._lane.take()) is not None:
                snapshot = taken.frame.snapshot
                if taken.orphans:
                    snapshot = snapshot._replace(events=(*taken.orphans, *snapshot.events))
                self._take(taken.frame._replace(snapshot=snapshot), taken.gap)
        except Exception as error:  # looking back ends, the monitor goes on and says so
            log.exception("the ring failed")
            self._trouble = f"{type(error).__name__}: {error}"

    def _take(self, frame: Frame, gap: bool) -> None:
        snapshot = frame.snapshot
        fresh = snapshot.host.boot_id != self._boot
        if fresh:
            self._encoder.restart()
        text = self._encoder.text(frame, gap=gap)
        squeeze = zlib.compressobj(_LEVEL) if text.key else self._squeeze
        # A keyframe begins a block of its own, so that nobody has to wait for it; no piece of it is kept as text.
        parts = [squeeze.compress(piece.encode()) for piece in text.pieces] if text.key else []
        data = b"" if text.key else "".join(text.pieces).encode()
        with self._lock:
            if fresh:
                self._boot = snapshot.host.boot_id
                self._session += 1
                self._header = _header(snapshot)
            if text.key:
                self._next_block(snapshot, squeeze)
            else:
                parts.append(squeeze.compress(data))
            self._parts += filter(None, parts)
            self._open_bytes += sum(map(len, parts))
            self._newest_ns = snapshot.at_ns
            self._forget()

    def _next_block(self, snapshot: Snapshot, squeeze: _Squeeze) -> None:
        if self._open is not None:
            packed = b"".join(self._parts) + self._squeeze.flush()
            self._done.append(_Packed(self._open._replace(length=len(packed)), packed))
            self._done_bytes += len(packed)
        self._number += 1
        self._open = Block(self._number, 0, snapshot.at_ns, snapshot.wall_ns, self._session)
        self._squeeze, self._parts, self._open_bytes = squeeze, [], 0

    def _forget(self) -> None:
        while self._done and (
            self._done_bytes + self._open_bytes > self._most_bytes
            or self._done[0].block.at_ns < self._newest_ns - self._most_ns - HISTORY_S * 1e9
        ):
            self._done_bytes -= len(self._done.pop(0).data)

    def _seekable_ns(self) -> int | None:
        """Where the first Frame with a whole history lies: a minute behind the first keyframe of the session."""
        blocks = [packed.block for packed in self._done] + ([self._open] if self._open is not None else [])
        first = next((block for block in blocks if block.session == self._session), None)
        if first is None:
            return None
        return first.at_ns if first.offset == 1 else first.at_ns + int(HISTORY_S * 1e9)


class RingBlocks:
    """The blocks of a ring at a moment, or with ``refresh`` at a later one. newer: what the ring holds then."""

    def __init__(self, packed: tuple[_Packed, ...], newer: Callable[[], tuple[_Packed, ...]]) -> None:
        self.found = [one.block for one in packed]
        self._data = {one.block.offset: one.data for one in packed}
        self._newer = newer

    def refresh(self) -> bool:
        """Take what came since; whether there is more. What the ring has dropped meanwhile stays: its place counts."""
        packed = self._newer()
        newest = packed[-1] if packed else None
        # The packer may hold back a short line, so what it has given out so far does not tell.
        if newest is None or self._data.get(newest.block.offset) == newest.data:
            return False
        if self._kept_bytes(packed[0].block.offset) > MOST_KEPT_BYTES:
            return False
        first = packed[0].block.offset
        self.found = [*(block for block in self.found if block.offset < first), *(one.block for one in packed)]
        self._data |= {one.block.offset: one.data for one in packed}
        return True

    def _kept_bytes(self, first: int) -> int:
        """What the ring has dropped and this still holds."""
        return sum(len(data) for offset, data in self._data.items() if offset < first)

    def data(self, block: Block) -> bytes:
        """A block's lines."""
        return zlib.decompressobj().decompress(self._data[block.offset])

    def lines(self, block: Block) -> Iterator[bytes]:
        """A block's lines one by one, without their ends."""
        return split_lines(self._pieces(self._data[block.offset]))

    @staticmethod
    def _pieces(data: bytes) -> Iterator[bytes]:
        expand = zlib.decompressobj()
        while data:
            yield expand.decompress(data, _PIECE)
            data = expand.unconsumed_tail

    def place(self, block: Block, number: int) -> str:
        """Where the block's line of this number is, for people."""
        return f"line {number} of minute {block.offset}"

    def fileno(self) -> int:
        """Memory has no descriptor."""
        raise InputError("the memory is no file")

    def close(self) -> None:
        """Nothing to give back."""


class RingRecording(FileRecording):
    """A ring's blocks as a recording: entered at any keyframe, stepped through."""

    def __init__(self, blocks: RingBlocks, header: Header) -> None:
        self._hold("memory", blocks, header)


def _header(snapshot: Snapshot) -> Header:
    return Header(
        FORMAT, __version__, snapshot.host.name, snapshot.host.boot_id, snapshot.wall_ns, snapshot.at_ns,
        snapshot.interval_s, "full", stamp(), continues=False,
    )  # fmt: skip
