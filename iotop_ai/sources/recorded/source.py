"""A recording as a Source: a file with its rotated parts, or a stream.

A keyframe is a Snapshot from which a reader can start; with the Snapshots up to the next keyframe, it makes a block.
The fold is the function that runs the rules on one Snapshot after the other. A keyframe contains the fold's
state, and a header the stamp (version and checksum) of the rules that made this state. The pre-roll consists of
Snapshots that only give the rules their history; it yields no Frame.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from typing import NamedTuple

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.sources.recorded.corrected_times import AS_RECORDED, corrected_times_of, with_corrected_times
from iotop_ai.sources.recorded.rotated_parts import POLL_S, Tail, may_grow, next_part, open_chain
from iotop_ai.store.format.codec import Decoder, Header, Item, SnapLine
from iotop_ai.store.format.size_limits import ReaderBudget
from iotop_ai.store.read.blocks import GZIP_MAGIC, split_lines
from iotop_ai.store.read.file import FileRecording

STREAM = "-"
STREAM_NAME = "standard input"
"""The name of a stream in error messages."""
_CHUNK = 1 << 16


class NoLineError(InputError):
    """A stream that ended before its first complete line."""


class Span(NamedTuple):
    """The Unix times, in ns, of the first and the last Snapshot outside the pre-roll."""

    begin_ns: int
    end_ns: int


class Start(NamedTuple):
    """Where reading begins: the index of a part, and the index of a block in that part."""

    part: int = 0
    block: int = 0


class LinePlayer:
    """Turns decoded lines into the items that ``pipeline.frames`` takes.

    header: the header that applies to the next line; None before the first header of a stream
    recorded_stamp: the stamp of the rules that made the recorded fold states, which are used only if this program has
        the same stamp
    """

    def __init__(self, header: Header | None = None, recorded_stamp: str = "") -> None:
        self.header = header
        self._same_rules = recorded_stamp == stamp()
        self._new_session = False

    def play(self, item: Item | None, *, skip_pre: bool = False) -> Snapshot | Keyframe | None:
        """Return the Snapshot or Keyframe of a snap line; None for any other line.

        skip_pre: whether to leave out the pre-roll, as in all parts but the first
        """
        if isinstance(item, Header):
            self.header = item
            self._same_rules = item.stamp == stamp()
            self._new_session = not item.continues
        elif isinstance(item, SnapLine) and not (item.pre and skip_pre):
            return self._snapshot(item)
        return None

    def _snapshot(self, item: SnapLine) -> Snapshot | Keyframe:
        if not item.key:
            return Keyframe(item.snapshot, None, None, pre=True) if item.pre else item.snapshot
        new_session, self._new_session = self._new_session, False
        return Keyframe(
            item.snapshot, item.carry if self._same_rules else None, item.last, item.gap, new_session, item.pre
        )


class ReplaySource:
    """Yields the Snapshots and Keyframes of a recording, oldest first.

    Only one iteration is possible; it closes the files. Requests such as ``set_interval`` have no effect. Raises
    InputError for a file that is not a recording.

    path: a file, or "-" for a stream on ``fd``
    follow: whether to wait for more lines at the end of an unclosed recording, and to continue with the next file after
        a rotation
    allow_root: as in ``open_blocks``; it has no effect on a stream, which the user's shell has opened
    correct_times: whether wall times are corrected (corrected_times.py)
    """

    live = False

    def __init__(
        self, path: str, *, allow_root: bool = False, follow: bool = False, fd: int = 0, correct_times: bool = False
    ) -> None:
        self.path = path
        self.is_stream = path == STREAM
        self._fd = fd
        self._follow = follow
        self._closing = threading.Event()
        self._from_ns: int | None = None
        self._span: Span | None = None
        self._parts: list[FileRecording] = [] if self.is_stream else open_chain(path, allow_root=allow_root)
        self._correct_times = correct_times
        try:
            self.times = corrected_times_of(self._parts) if correct_times else AS_RECORDED
        except BaseException:
            for part in self._parts:
                part.close()
            raise
        self._player = LinePlayer(self._parts[0].header if self._parts else None)

    @property
    def header(self) -> Header | None:
        """The header that applies to the newest item; None before the first line of a stream."""
        return self._player.header

    @property
    def parts(self) -> list[FileRecording]:
        """The files of the recording, oldest first; [] for a stream."""
        return self._parts

    def span(self) -> Span:
        """Return the times of the first and the last Snapshot outside the pre-roll. Raises UsageError for a stream."""
        if self.is_stream:
            raise UsageError("a stream has no known end; give the time with its date, or name a file")
        if self._span is None:
            self._span = self._find_span()
        return self._span

    def _find_span(self) -> Span:
        blocks = [(part, b, block.pre) for part in self._parts for b, block in enumerate(part.blocks)]
        shown_blocks = [(part, b) for part, b, pre in blocks if not pre] or [blocks[-1][:2]]
        begin_ns, end_ns = self.times.begin_ns(*shown_blocks[0]), self.times.begin_ns(*shown_blocks[-1])
        if self.times.anchors:
            return Span(begin_ns, self.times.end_ns)
        last = self._parts[-1]
        for item in last.lines(len(last.blocks) - 1):
            if isinstance(item, SnapLine):
                end_ns = item.snapshot.wall_ns
        return Span(begin_ns, end_ns)

    def start_at(self, wall_ns: int) -> None:
        """Begin at this time.

        Earlier Snapshots are yielded as pre-roll, so that each Frame is the same as when it was recorded.
        """
        self._from_ns = wall_ns

    def __iter__(self) -> Iterator[Snapshot | Keyframe]:
        items = self._stream() if self.is_stream else self._files()
        for item in (
            with_corrected_times(items, None if self.is_stream else self.times) if self._correct_times else items
        ):
            snapshot = item.snapshot if isinstance(item, Keyframe) else item
            if self._from_ns is None or snapshot.wall_ns >= self._from_ns:
                yield item
            else:
                yield item._replace(pre=True) if isinstance(item, Keyframe) else Keyframe(item, None, None, pre=True)
            if self._closing.is_set():
                return

    def _stream(self) -> Iterator[Snapshot | Keyframe]:
        decoder, number = Decoder(), 0
        try:
            # If the writer was killed, its last line may be incomplete; such a line is left out.
            for line in split_lines(self._chunks(), torn=False):
                if not number and line.startswith(GZIP_MAGIC):
                    raise InputError("packed; unpack it first: zcat FILE | iotop-ai …")
                item = decoder.read(line) if line else None
                if not number and not isinstance(item, Header):
                    raise InputError("not a recording: it does not begin with a header line")
                number += 1
                out = self._player.play(item)
                if out is not None:
                    yield out
        except InputError as error:
            raise InputError(f"{STREAM_NAME}: line {number + 1}: {error}") from None
        if not number and not self._closing.is_set():
            raise NoLineError(f"{STREAM_NAME}: not a recording: no complete line was received")

    def _chunks(self) -> Iterator[bytes]:
        ready = select.poll()  # select() does not accept descriptors from 1024 on
        ready.register(self._fd, select.POLLIN)
        while not self._closing.is_set():
            if ready.poll(POLL_S * 1000):
                chunk = os.read(self._fd, _CHUNK)
                if not chunk:
                    return
                yield chunk

    def _files(self) -> Iterator[Snapshot | Keyframe]:
        start = self._start()
        parts = iter(self._parts[start.part :])
        part: FileRecording | None = next(parts)
        assert part is not None  # a recording has at least one file
        self._player = LinePlayer(part.header, part.stamp_of(start.block))
        block, skip_pre, budget = start.block, False, ReaderBudget()
        try:
            while part is not None:
                grows = self._follow and part.path == self.path and may_grow(part)
                for item in self._growing(part, block, budget) if grows else part.lines(block, budget=budget):
                    out = self._player.play(item, skip_pre=skip_pre)
                    if out is not None:
                        yield out
                following = next(parts, None)
                if following is None and self._follow:
                    following = next_part(self.path, part, self._closing.wait)
                part.close()
                part, block, skip_pre = following, 0, True
        finally:  # also after an error, or when the caller stops early
            for opened in (*self._parts, *([] if part is None else [part])):
                opened.close()

    def _growing(self, part: FileRecording, block: int, budget: ReaderBudget) -> Iterator[Item]:
        tail = Tail(part.fileno(), self.path, part.blocks[block].offset, self._closing.wait)
        return tail.items(budget, own_rules=part.stamp_of(block) == stamp())

    def _start(self) -> Start:
        """Return where reading begins, so that history and fold state are complete at the time set by ``start_at``."""
        start = None
        if self._from_ns is not None:
            for p, part in enumerate(self._parts):
                for b, block in enumerate(part.blocks):
                    if not block.pre and self.times.begin_ns(part, b) <= self._from_ns:
                        start = Start(p, b)
        if start is None:
            return Start()
        part = self._parts[start.part]
        block = part.blocks[start.block]
        return start._replace(block=part.entry(block.session, block.at_ns).block)

    def set_interval(self, seconds: float) -> None:
        """Do nothing: the interval is that of the recording."""

    def suspend_smart_queries(self, suspend: bool) -> None:
        """Do nothing: a recording does not query disks."""

    def add_event(self, kind: str, text: str) -> None:
        """Do nothing: a recording is read-only."""

    def close(self) -> None:
        """Stop the iteration, even while it waits. Any thread can call this method."""
        self._closing.set()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closing.is_set()
