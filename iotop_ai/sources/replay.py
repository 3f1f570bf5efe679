"""A recording as a Source: one file, the chain it was rotated into, or a stream that comes line by line."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from typing import NamedTuple

from iotop_ai.diagnosis.stamp import stamp
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.sources.chain import LOOK_S, Tail, may_grow, next_part, open_chain
from iotop_ai.store.blocks import GZIP_MAGIC, split_lines
from iotop_ai.store.codec import Closed, Decoder, Header, Item, Snap
from iotop_ai.store.file import FileRecording

STREAM = "-"
_PIECE = 1 << 16


class Span(NamedTuple):
    """From when to when a recording shows something, Unix ns."""

    begin_ns: int
    end_ns: int


class Start(NamedTuple):
    """Where to read from: the number of a part in the chain and of a block in it."""

    part: int = 0
    block: int = 0


def check_user(allow_root: bool) -> None:
    """Refuse to read somebody's file with root's rights: who may not read it would learn of it. Raises UsageError."""
    if os.geteuid() == 0 and not allow_root:
        raise UsageError("a recording is not opened as root, who may read every file; --allow-root opens it anyway")


class Player:
    """Decoded lines to what ``pipeline.frames`` takes.

    header: the one in force, None before the first. made_by: the stamp of the recorded memory, which is handed out
    only where it is this program's. closed: whether the newest line was an end line.
    """

    def __init__(self, header: Header | None = None, made_by: str = "") -> None:
        self.header = header
        self.closed = False
        self._known = made_by == stamp()
        self._fresh = False

    def play(self, item: Item | None, *, skip_pre: bool = False) -> Snapshot | Keyframe | None:
        """The Snapshot of a snap line, None for any other. skip_pre: the pre-roll was played already (a chain)."""
        if isinstance(item, Header):
            self.header = item
            self._known = item.stamp == stamp()
            self._fresh = not item.continues
        elif isinstance(item, Closed):
            self.closed = True
        elif isinstance(item, Snap) and not (item.pre and skip_pre):
            self.closed = False
            return self._snapshot(item)
        return None

    def _snapshot(self, item: Snap) -> Snapshot | Keyframe:
        if not item.key:
            return Keyframe(item.snapshot, None, None, pre=True) if item.pre else item.snapshot
        fresh, self._fresh = self._fresh, False
        return Keyframe(item.snapshot, item.carry if self._known else None, item.last, item.gap, fresh, item.pre)


class ReplaySource:
    """Yields the Snapshots and Keyframes of a recording, oldest first, and ends with it.

    path: a file or "-" for a stream on ``fd``, read as it comes. follow: at the end of a file that was not closed,
    wait for more, also across a rotation. Raises InputError for what is no recording, UsageError as root. What flows
    upstream is ignored: a recording is read-only. Can be iterated once; the files are given back behind it.
    """

    live = False

    def __init__(self, path: str, *, allow_root: bool = False, follow: bool = False, fd: int = 0) -> None:
        check_user(allow_root)
        self.path = path
        self.streams = path == STREAM
        self._fd = fd
        self._follow = follow
        self._closing = threading.Event()
        self._from_ns: int | None = None
        self._span: Span | None = None
        self._parts: list[FileRecording] = [] if self.streams else open_chain(path)
        self._player = Player(self._parts[0].header if self._parts else None)

    @property
    def header(self) -> Header | None:
        """The header in force at what was last yielded; of a stream None before its first line."""
        return self._player.header

    @property
    def parts(self) -> list[FileRecording]:
        """The files of the chain, oldest first; [] for a stream."""
        return self._parts

    def span(self) -> Span:
        """From the first to the last Snapshot that is shown. Raises UsageError for a stream, whose end nobody knows."""
        if self.streams:
            raise UsageError("a stream has no known end; give the time with its date, or name a file")
        if self._span is None:
            self._span = self._find_span()
        return self._span

    def _find_span(self) -> Span:
        blocks = [block for part in self._parts for block in part.blocks]
        shown = [block for block in blocks if not block.pre] or blocks[-1:]
        begin_ns, end_ns = shown[0].wall_ns, shown[-1].wall_ns
        last = self._parts[-1]
        for item in last.lines(len(last.blocks) - 1):
            if isinstance(item, Snap):
                end_ns = item.snapshot.wall_ns
        return Span(begin_ns, end_ns)

    def start_at(self, wall_ns: int) -> None:
        """Yield what is needed for every Frame from this time on to be as it was live; what is earlier is pre-roll."""
        self._from_ns = wall_ns

    def __iter__(self) -> Iterator[Snapshot | Keyframe]:
        for item in self._stream() if self.streams else self._files():
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
            # A torn last line is left out: its writer was killed.
            for line in split_lines(self._pieces(), torn=False):
                if not number and line.startswith(GZIP_MAGIC):
                    raise InputError("packed; unpack it first: zcat FILE | iotop-ai …")
                item = decoder.read(line) if line else None
                if not number and not isinstance(item, Header):
                    raise InputError("no recording: it does not begin with a header line")
                number += 1
                out = self._player.play(item)
                if out is not None:
                    yield out
        except InputError as error:
            raise InputError(f"standard input: line {number + 1}: {error}") from None
        if not number and not self._closing.is_set():
            raise InputError("standard input: no recording: no whole line came")

    def _pieces(self) -> Iterator[bytes]:
        ready = select.poll()  # select() refuses descriptors from 1024 on
        ready.register(self._fd, select.POLLIN)
        while not self._closing.is_set():
            if ready.poll(LOOK_S * 1000):
                piece = os.read(self._fd, _PIECE)
                if not piece:
                    return
                yield piece

    def _files(self) -> Iterator[Snapshot | Keyframe]:
        start = self._start()
        parts = iter(self._parts[start.part :])
        part: FileRecording | None = next(parts)
        assert part is not None  # a chain has at least one part
        self._player = Player(part.header, part.stamp_of(start.block))
        block, skip_pre = start.block, False
        try:
            while part is not None:
                grows = self._follow and part.path == self.path and may_grow(part)
                for item in self._growing(part, block) if grows else part.lines(block):
                    out = self._player.play(item, skip_pre=skip_pre)
                    if out is not None:
                        yield out
                following = next(parts, None)
                if following is None and self._follow:
                    following = next_part(self.path, part)
                part.close()
                part, block, skip_pre = following, 0, True
        finally:  # also where a line cannot be read, or nobody wants more
            for one in (*self._parts, *([] if part is None else [part])):
                one.close()

    def _growing(self, part: FileRecording, block: int) -> Iterator[Item]:
        return Tail(part.fileno(), self.path, part.blocks[block].offset, self._closing.wait).items()

    def _start(self) -> Start:
        """Where to read from for the time asked for: far enough before it that history and memory are whole."""
        found = None
        if self._from_ns is not None:
            for p, part in enumerate(self._parts):
                for b, block in enumerate(part.blocks):
                    if not block.pre and block.wall_ns <= self._from_ns:
                        found = Start(p, b)
        if found is None:
            return Start()
        part = self._parts[found.part]
        block = part.blocks[found.block]
        return found._replace(block=part.entry(block.session, block.at_ns).block)

    def set_interval(self, seconds: float) -> None:
        """A recording's interval is what was recorded."""

    def hold_smart(self, hold: bool) -> None:
        """Nothing is asked of a recording's disks."""

    def add_event(self, kind: str, text: str) -> None:
        """A recording is read-only."""

    def close(self) -> None:
        """Stop yielding, also in the midst of waiting; safe from any thread."""
        self._closing.set()
