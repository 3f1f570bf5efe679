"""A recording in a file, which can be read starting at any keyframe, even while the file grows.

A fold over the Snapshots makes the verdicts: the rules judge each Snapshot and pass their state on to the next one. A
keyframe contains this fold state, so that a fold can begin there.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import HISTORY_S
from iotop_ai.model.keyframe import SPACING_S, Keyframe
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.store.format.codec import Decoder, EndLine, Header, Item, SnapLine
from iotop_ai.store.format.line_head import HEADER
from iotop_ai.store.format.size_limits import ReaderBudget
from iotop_ai.store.read.blocks import Block, Blocks, NoKeyframeError, open_blocks

WARM_UP_S = 300.0
"""If other rules made the recorded fold state, the fold begins this many seconds before the requested time."""


class Entry(NamedTuple):
    """The position at which reading begins in order to show a given time.

    block: the index of the first block to read
    fold_ns: the time of the keyframe at which the fold begins; earlier Snapshots only build history
    warming: whether the recorded fold state is ignored, because other rules made it, so that the fold begins earlier
    """

    block: int
    fold_ns: int
    warming: bool


class FileRecording:
    """A recording in one file. A file contains sessions in order of wall time; each is one run of the monitor.

    Times are monotonic ns within a session. Raises InputError for a file that is not a recording; the message never
    quotes the content of the file.

    allow_root: whether root may open a file of any owner
    """

    def __init__(self, path: str, *, allow_root: bool = False) -> None:
        self.allow_root = allow_root
        blocks = open_blocks(path, allow_root=allow_root)
        if not blocks.index:
            blocks.close()
            raise NoKeyframeError(f"{path}: no complete keyframe in it")
        try:
            self._set_blocks(path, blocks, None)
        except BaseException:
            blocks.close()
            raise

    def _set_blocks(self, path: str, blocks: Blocks, header: Header | None) -> None:
        """Use these blocks. ``header`` is valid at the first block; if None, it is read from the first line."""
        self.path = path
        self._blocks = blocks
        self._headers: dict[int, Header] = {}
        self.header = self._header() if header is None else header

    def _header(self) -> Header:
        try:
            first = next(self._blocks.lines(self._blocks.index[0]), b"")
            header = Decoder().read(first)
        except InputError as error:
            raise InputError(f"{self.path}: line 1: {error}") from None
        if not isinstance(header, Header):
            raise InputError(f"{self.path}: line 1 is not a header")
        return header

    @property
    def cut_bytes(self) -> int:
        """The number of bytes after the last complete block of a packed file that was truncated; otherwise 0."""
        return self._blocks.cut_bytes

    @property
    def blocks(self) -> list[Block]:
        """The blocks that are indexed so far, in order."""
        return self._blocks.index

    def raw_lines(self, block: Block) -> Iterator[bytes]:
        """The lines of a block without decoding. Raises InputError."""
        return self._blocks.lines(block)

    def refresh(self) -> bool:
        """Index the appended part; return whether there was one.

        Raises InputError if the file has no keyframe any more.
        """
        try:
            return self._blocks.refresh()
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None

    def first(self) -> Block:
        """The first block after the pre-roll, or the first block if there is only pre-roll."""
        return next((b for b in self.blocks if not b.pre), self.blocks[0])

    def entry(self, session: int, at_ns: int) -> Entry:
        """The position at which reading begins in order to show a time.

        History begins about a minute, and at least one block, before the keyframe at which the fold begins, if the
        session has that much.
        """
        blocks = self.blocks
        low = bisect.bisect_left(blocks, session, key=lambda block: block.session)
        high = bisect.bisect_right(blocks, session, key=lambda block: block.session)
        fold = self._last_at(low, high, at_ns)
        warming = self.stamp_of(fold) != stamp()
        if warming:
            fold = self._last_at(low, high, at_ns - int(WARM_UP_S * 1e9))
        fold_ns = blocks[fold].at_ns
        # If the interval is long, a minute may contain too few Samples, but the block before always contains enough.
        history = min(self._last_at(low, high, fold_ns - int((HISTORY_S - SPACING_S) * 1e9)), max(low, fold - 1))
        return Entry(history, fold_ns, warming)

    def _last_at(self, low: int, high: int, at_ns: int) -> int:
        """The index of the last block in [low, high) that begins at or before at_ns; ``low`` if none does."""
        return max(low, bisect.bisect_right(self.blocks, at_ns, low, high, key=lambda b: b.at_ns) - 1)

    def stamp_of(self, index: int) -> str:
        """The stamp (version) of the rules that made the recorded verdicts and fold states of a block."""
        return self.header_of(index).stamp

    def header_of(self, index: int) -> Header:
        """The header that is valid at a block; it is in the first block of the session. Raises InputError."""
        blocks = self.blocks
        first = bisect.bisect_left(blocks, blocks[index].session, key=lambda block: block.session)
        if first not in self._headers:
            try:
                line = next(self._blocks.lines(blocks[first]), b"") if first else b""
                header = Decoder().read(line) if line.startswith(HEADER) else None
            except InputError as error:
                raise InputError(f"{self.path}: {self._blocks.place(blocks[first], 1)}: {error}") from None
            self._headers[first] = header if isinstance(header, Header) else self.header
        return self._headers[first]

    def lines(self, first: int = 0, last: int | None = None, budget: ReaderBudget | None = None) -> Iterator[Item]:
        """The decoded lines of the blocks [first, last), without unknown kinds; ``budget`` is passed to Decoder."""
        decoder = Decoder(budget, own_rules=self.stamp_of(first) == stamp())
        for block in self.blocks[first:last]:
            number = 0
            try:
                for number, line in enumerate(self._blocks.lines(block), 1):  # noqa: B007 - for the error
                    item = decoder.read(line) if line else None
                    if item is not None:
                        yield item
            except InputError as error:
                raise InputError(f"{self.path}: {self._blocks.place(block, number)}: {error}") from None

    def items(
        self, first: int = 0, adopt: bool = True, fold_ns: int | None = None, last: int | None = None
    ) -> Iterator[Snapshot | Keyframe]:
        """The content of the blocks [first, last) as input of ``pipeline.frames``.

        It includes the pre-roll, from which ``pipeline.frames`` makes no Frame.

        adopt: whether to use the recorded fold state if its stamp matches
        fold_ns: the time at which the fold begins; earlier Snapshots of the first session are history and do not yield
            a Frame
        """
        own_stamp = stamp()
        current = self.stamp_of(first)
        new_session = False
        for item in self.lines(first, last):
            if isinstance(item, Header):
                current = item.stamp
                new_session = not item.continues
            elif isinstance(item, SnapLine):
                if fold_ns is not None and item.snapshot.at_ns < fold_ns:
                    yield Keyframe(item.snapshot, None, item.last, item.gap, new_session, pre=True, folds=False)
                    new_session = False
                    continue
                fold_ns = None
                if item.key:
                    carry = item.carry if adopt and current == own_stamp else None
                    yield Keyframe(item.snapshot, carry, item.last, item.gap, new_session, item.pre)
                    new_session = False
                else:
                    yield Keyframe(item.snapshot, None, None, pre=True) if item.pre else item.snapshot

    def place(self, block: Block, number: int) -> str:
        """The position of a block's line, for messages."""
        return self._blocks.place(block, number)

    def events(self) -> Iterator[Event]:
        """The events of the file."""
        return (item for item in self.lines() if isinstance(item, Event))

    def closed(self) -> bool:
        """Whether the file was closed properly."""
        last = None
        for item in self.lines(len(self.blocks) - 1):
            last = item
        return isinstance(last, EndLine)

    def snapshots(self, from_ns: int, to_ns: int | None = None) -> Iterator[Snapshot]:
        """The Snapshots of the last session with from_ns <= at_ns <= to_ns, oldest first."""
        session = self.blocks[-1].session
        low = next(i for i, block in enumerate(self.blocks) if block.session == session)
        for item in self.items(self._last_at(low, len(self.blocks), from_ns)):
            snapshot = item.snapshot if isinstance(item, Keyframe) else item
            if to_ns is not None and snapshot.at_ns > to_ns:
                return
            if snapshot.at_ns >= from_ns:
                yield snapshot

    def fileno(self) -> int:
        """The descriptor of the open file, which stays the same when the file is renamed."""
        return self._blocks.fileno()

    def close(self) -> None:
        """Close the file."""
        self._blocks.close()
