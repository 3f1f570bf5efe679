"""The last hour in memory, for looking back on the live screen: lines of a recording, compressed as Frames arrive.

The lines contain full command lines, but only in memory: pre-roll (the lines with which a new recording starts) is
redacted before it is written to a file.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from iotop_ai import __version__
from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import HISTORY_LEAST, HISTORY_S, Frame
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.format.codec import FORMAT, Encoder, Header
from iotop_ai.store.format.line_head import parse_head, with_pre
from iotop_ai.store.format.preroll import redacted_line
from iotop_ai.store.format.redact import Redactor
from iotop_ai.store.format.size_limits import LineTooLong
from iotop_ai.store.read.blocks import Block, split_lines
from iotop_ai.store.read.file import FileRecording
from iotop_ai.store.write.frame_queue import FrameQueue

if TYPE_CHECKING:
    from zlib import _Compress

log = logging.getLogger(__name__)

RING_BYTES = 8 << 20
RING_S = 3600.0
BATCH, BATCH_PROCESSES = 8, 2000
"""Frames wait until there are this many of them, or this many processes in them. Compressing a Frame directly after
another one takes less than half the CPU time of compressing it a second later, but each Frame that waits keeps a
process table in memory."""
BLOCK_S = 180.0
"""A block that lasts this long, in seconds, ends as soon as it contains HISTORY_LEAST Frames. The oldest block cannot
be shown, because it is the history of the next one. Without this limit, it would take up much of the hour
when the interval between Frames is long."""
MOST_KEPT_BYTES = RING_BYTES
"""The maximum number of bytes of dropped blocks that a RingRecording keeps for a user who looks at them. Beyond this,
it is not refreshed."""
_ZLIB_LEVEL = 5
_CHUNK = 1 << 16
_WAIT_S = 2.0
"""The longest wait for the ring's thread, in seconds."""
_SHORT_WAIT_S = 0.2
"""The longest time, in seconds, that a user who looks back waits for the newest Frames to be compressed."""


class RingState(NamedTuple):
    """The part of the last hour that is kept, and its state.

    span_s: how many seconds the user can look back; 0 while looking back is not possible
    size_bytes: the memory that the compressed lines take
    dropped: the number of Frames that were lost because compression was too slow
    trouble: why the ring no longer keeps new Frames; "" without an error
    """

    span_s: float
    size_bytes: int
    dropped: int
    trouble: str


class _Packed(NamedTuple):
    """A block with its compressed lines."""

    block: Block
    data: bytes


class Ring:
    """A ring buffer of compressed Frames, filled on a separate thread. ``put`` never blocks. ``recording`` reads it.

    most_bytes, most_s: the limits of size and age, beyond which the oldest block is dropped; the limit of age does not
        count HISTORY_S, the history that the oldest Frame needs
    """

    def __init__(self, most_bytes: int = RING_BYTES, most_s: float = RING_S) -> None:
        self._most_bytes = most_bytes
        self._most_ns = int(most_s * 1e9)
        self._queue = FrameQueue()
        self._waiting: list[Frame] = []
        """The Frames of the next batch."""
        self._put_lock = threading.Lock()
        self._encoder = Encoder()
        self._redactor: Redactor | None = None
        """Redacts command lines; set after a keyframe with full command lines was too long."""
        self._lock = threading.Lock()
        self._closed_blocks: list[_Packed] = []
        """The complete blocks, oldest first."""
        self._closed_bytes = 0
        self._open_block: Block | None = None
        """The block to which Frames are added; its compressed text is in ``_parts`` and ``_compressor``."""
        self._compressor = zlib.compressobj(_ZLIB_LEVEL)
        self._parts: list[bytes] = []
        self._open_bytes = self._open_frames = 0
        self._session = 0
        self._number = 0
        """The number of blocks so far, dropped ones included; each block has its number as its ``offset``."""
        self._boot_id: str | None = None
        self._newest_ns = 0
        self._header: Header | None = None
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="ring", daemon=True)
        self._thread.start()

    def put(self, frame: Frame) -> None:
        """Add a Frame without waiting for its compression."""
        table = frame.snapshot.processes.value
        with self._put_lock:
            self._waiting.append(frame)
            count = len(self._waiting)
            if count >= BATCH or table is None or count * len(table.stat) >= BATCH_PROCESSES:
                self._queue_waiting()

    def _queue_waiting(self) -> None:
        """Queue the waiting Frames; the caller must hold ``_put_lock``."""
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self._queue.put(frame)

    def drain(self, seconds: float = _WAIT_S) -> bool:
        """Wait at most ``seconds`` until all Frames are compressed; return whether they are.

        After the ring has failed, return False at once.
        """
        with self._put_lock:
            self._queue_waiting()
        return not self._trouble and self._queue.drain(seconds)

    def state(self) -> RingState:
        """The state of the ring. Waits at most _SHORT_WAIT_S for the newest Frames."""
        self.drain(_SHORT_WAIT_S)
        with self._lock:
            first = self._seekable_ns()
            span_s = 0.0 if first is None else max(0.0, (self._newest_ns - first) / 1e9)
            return RingState(span_s, self._closed_bytes + self._open_bytes, self._queue.lost.frames, self._trouble)

    def recording(self) -> RingRecording | None:
        """A recording of the ring's current contents, which can be refreshed later; None while the ring is empty.

        Waits at most _SHORT_WAIT_S for the newest Frames.
        """
        packed, header = self._contents(), self._header
        return None if not packed or header is None else RingRecording(RingBlocks(packed, self._contents), header)

    def _contents(self) -> tuple[_Packed, ...]:
        self.drain(_SHORT_WAIT_S)
        with self._lock:
            if self._open_block is None:
                return ()
            compressor = self._compressor.copy()
            newest = self._open_block._replace(length=self._open_bytes)
            return (*self._closed_blocks, _Packed(newest, b"".join(self._parts) + compressor.flush()))

    def preroll(self, level: str, before_ns: int) -> tuple[str, ...]:
        """The snap lines before a monotonic time, redacted to a level and marked "pre".

        They start at the last keyframe that is at least a minute before that time. If no other keyframe is between it
        and that time, they start one keyframe earlier. If none is a minute before that time, they start at the
        session's first keyframe. () without lines.
        """
        self.drain()
        recording = self.recording()
        if recording is None:
            return ()
        session = recording.blocks[-1].session
        blocks = [block for block in recording.blocks if block.session == session and block.at_ns < before_ns]
        if not blocks:
            return ()
        older = [block for block in blocks if block.at_ns <= before_ns - HISTORY_S * 1e9]
        # If the interval is long, a minute may contain too few Frames, but the block before always contains enough.
        first = min(max(0, len(older) - 1), max(0, len(blocks) - 2))
        out = []
        for block in blocks[first:]:
            for raw in recording.raw_lines(block):
                head = parse_head(raw)
                if head is not None and head.is_snap and head.at_ns is not None and head.at_ns < before_ns:
                    out.append(with_pre(redacted_line(raw.decode(), level)))
        return tuple(out)

    def close(self) -> None:
        """Stop the thread; recordings of the ring stay readable."""
        with self._put_lock:
            self._queue_waiting()
        self._queue.close()
        self._thread.join(_WAIT_S)

    def _run(self) -> None:
        try:
            while (queued := self._queue.take()) is not None:
                snapshot = queued.frame.snapshot
                if queued.orphaned_events:
                    snapshot = snapshot._replace(events=(*queued.orphaned_events, *snapshot.events))
                self._add(queued.frame._replace(snapshot=snapshot), queued.gap)
        except Exception as error:  # the ring keeps no new Frames, but the monitor continues
            log.exception("the ring failed")
            self._trouble = f"{type(error).__name__}: {error}"

    def _add(self, frame: Frame, gap: bool) -> None:
        snapshot = frame.snapshot
        new_boot = snapshot.host.boot_id != self._boot_id
        if new_boot or self._may_block_end(snapshot):
            self._encoder.restart()
        try:
            compressor, parts, change = self._encode(frame, gap)
        except LineTooLong:
            if self._redactor is not None:
                raise
            log.warning("looking back shows the names of commands only: a keyframe would be longer than 16 MiB")
            self._redactor = Redactor("names")
            self._encoder.restart()
            compressor, parts, change = self._encode(frame, gap)
        with self._lock:
            if new_boot:
                self._boot_id = snapshot.host.boot_id
                self._session += 1
                self._header = _header(snapshot)
            if compressor is not self._compressor:
                self._next_block(snapshot, compressor)
            else:
                parts.append(compressor.compress(change))
            self._parts += filter(None, parts)
            self._open_bytes += sum(map(len, parts))
            self._open_frames += 1
            self._newest_ns = snapshot.at_ns
            self._drop_oldest()

    def _may_block_end(self, snapshot: Snapshot) -> bool:
        """Whether the open block began long enough ago and has enough Frames to be the history of the next block."""
        block = self._open_block
        return (
            block is not None and snapshot.at_ns - block.at_ns >= BLOCK_S * 1e9 and self._open_frames >= HISTORY_LEAST
        )

    def _encode(self, frame: Frame, gap: bool) -> tuple[_Compress, list[bytes], bytes]:
        """The block's compressor, the compressed chunks of a keyframe's lines, and the uncompressed text of a change.

        The compressor is new for a keyframe. A keyframe is compressed in chunks and without the lock, so that readers
        do not wait for it and its whole text is never in memory. Raises LineTooLong.
        """
        if self._redactor is not None:
            frame = frame._replace(snapshot=self._redactor.snapshot(frame.snapshot))
        lines = self._encoder.encode(frame, gap=gap)
        if not lines.key:
            return self._compressor, [], "".join(lines.chunks).encode()
        compressor = zlib.compressobj(_ZLIB_LEVEL)
        return compressor, [compressor.compress(chunk.encode()) for chunk in lines.chunks], b""

    def _next_block(self, snapshot: Snapshot, compressor: _Compress) -> None:
        if self._open_block is not None:
            packed = b"".join(self._parts) + self._compressor.flush()
            self._closed_blocks.append(_Packed(self._open_block._replace(length=len(packed)), packed))
            self._closed_bytes += len(packed)
        self._number += 1
        self._open_block = Block(self._number, 0, snapshot.at_ns, snapshot.wall_ns, self._session)
        self._compressor, self._parts, self._open_bytes, self._open_frames = compressor, [], 0, 0

    def _drop_oldest(self) -> None:
        while self._closed_blocks and (
            self._closed_bytes + self._open_bytes > self._most_bytes or self._is_oldest_unused()
        ):
            self._closed_bytes -= len(self._closed_blocks.pop(0).data)

    def _is_oldest_unused(self) -> bool:
        """Whether the oldest block is too old, and the block after it is enough history for the whole span to be shown.

        However old it is, the last closed block is kept, because it is the history of the open one.
        """
        if len(self._closed_blocks) < 2:
            return False
        begin_ns = self._newest_ns - self._most_ns
        shown = self._closed_blocks[2].block if len(self._closed_blocks) > 2 else self._open_block
        is_old = self._closed_blocks[0].block.at_ns < begin_ns - HISTORY_S * 1e9
        return is_old and shown is not None and shown.at_ns <= begin_ns

    def _seekable_ns(self) -> int | None:
        """The time of the session's first Frame that can be shown; None while the ring is empty.

        A Frame needs a minute of history, so this is the first keyframe that is a minute after the session's first one
        in the ring. Before the first block that the ring ever had, there is no history, so its Frames can be shown at
        once.
        """
        blocks = [packed.block for packed in self._closed_blocks] + (
            [self._open_block] if self._open_block is not None else []
        )
        first = next((block for block in blocks if block.session == self._session), None)
        if first is None:
            return None
        if first.offset == 1:
            return first.at_ns
        begin_ns = first.at_ns + int(HISTORY_S * 1e9)
        return next((b.at_ns for b in blocks if b.session == self._session and b.at_ns >= begin_ns), begin_ns)


class RingBlocks:
    """The blocks of a ring, as they were when this object was created or last refreshed.

    contents_now: a function that returns the current contents of the ring
    """

    cut_bytes = 0

    def __init__(self, packed: tuple[_Packed, ...], contents_now: Callable[[], tuple[_Packed, ...]]) -> None:
        self.index = [entry.block for entry in packed]
        self._data = {entry.block.offset: entry.data for entry in packed}
        self._contents_now = contents_now

    def refresh(self) -> bool:
        """Add newer blocks and lines; return whether any were added.

        Blocks that the ring has dropped are kept, so that the indexes of the blocks stay valid. Nothing is added once
        they take more than MOST_KEPT_BYTES.
        """
        packed = self._contents_now()
        newest = packed[-1] if packed else None
        # The compressor may keep back a short line, so only the flushed data shows whether there are new lines.
        if newest is None or self._data.get(newest.block.offset) == newest.data:
            return False
        first_offset = packed[0].block.offset
        if self._kept_bytes(first_offset) > MOST_KEPT_BYTES:
            return False
        self.index = [
            *(block for block in self.index if block.offset < first_offset),
            *(entry.block for entry in packed),
        ]
        self._data |= {entry.block.offset: entry.data for entry in packed}
        return True

    def _kept_bytes(self, first_offset: int) -> int:
        """The bytes of blocks that the ring has dropped but this object keeps."""
        return sum(len(data) for offset, data in self._data.items() if offset < first_offset)

    def data(self, block: Block) -> bytes:
        """The lines of a block."""
        return zlib.decompressobj().decompress(self._data[block.offset])

    def lines(self, block: Block) -> Iterator[bytes]:
        """The lines of a block one by one, without their line ends."""
        return split_lines(self._decompressed(self._data[block.offset]))

    @staticmethod
    def _decompressed(data: bytes) -> Iterator[bytes]:
        decompressor = zlib.decompressobj()
        while data:
            yield decompressor.decompress(data, _CHUNK)
            data = decompressor.unconsumed_tail

    def place(self, block: Block, number: int) -> str:
        """The position of a block's line, for messages."""
        return f"line {number} of block {block.offset}"

    def fileno(self) -> int:
        """Raise InputError, because memory does not have a file descriptor."""
        raise InputError("the last hour in memory is not a file")

    def close(self) -> None:
        """Do nothing, because there is nothing to close."""


class RingRecording(FileRecording):
    """A ring's blocks with the interface of a recording in a file."""

    def __init__(self, blocks: RingBlocks, header: Header) -> None:
        self.allow_root = False
        self._set_blocks("memory", blocks, header)


def _header(snapshot: Snapshot) -> Header:
    return Header(
        FORMAT, __version__, snapshot.host.name, snapshot.host.boot_id, snapshot.wall_ns, snapshot.at_ns,
        snapshot.interval_s, "full", stamp(), continues=False,
    )  # fmt: skip
