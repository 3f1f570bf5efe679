"""A recording in a file: entered at any keyframe, stepped through, followed while it grows."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator

from iotop_ai.diagnosis.stamp import stamp
from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import HISTORY_S
from iotop_ai.model.keyframe import SPACING_S, Keyframe
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.store.blocks import Block, Blocks, open_blocks
from iotop_ai.store.codec import TALLY_LINE, Closed, Decoder, Header, Item, Snap, Tallied, Told

_SNAP = b'{"k":"snap",'
WARM_UP_S = 300.0
"""How far before a moment the fold starts when the recorded memory was made by other rules."""


class Entry(NamedTuple):
    """Where to begin reading for a moment. block: index of the first block; fold_ns: time of the keyframe from which
    the fold matters (before it only history is built); warming: the memory must be folded anew."""

    block: int
    fold_ns: int
    warming: bool


class FileRecording:
    """One file. Times are monotonic ns within a session (a boot, a resume); sessions follow each other in wall time.

    Raises InputError on opening or reading what is no recording, with a line number and never its content.
    """

    def __init__(self, path: str) -> None:
        blocks = open_blocks(path)
        if not blocks.found:
            blocks.close()
            raise InputError(f"{path}: no whole keyframe in it")
        try:
            self._hold(path, blocks, None)
        except BaseException:
            blocks.close()
            raise

    def _hold(self, path: str, blocks: Blocks, header: Header | None) -> None:
        """Take blocks that are there. header: the one in force at the first; None: its first line."""
        self.path = path
        self._blocks = blocks
        self._headers: dict[int, Header] = {}
        self.header = self._header() if header is None else header

    def _header(self) -> Header:
        try:
            first = next(self._blocks.lines(self._blocks.found[0]), b"")
            header = Decoder().read(first)
        except InputError as error:
            raise InputError(f"{self.path}: line 1: {error}") from None
        if not isinstance(header, Header):
            raise InputError(f"{self.path}: line 1 is no header")
        return header

    @property
    def blocks(self) -> list[Block]:
        """The blocks so far, in order."""
        return self._blocks.found

    def raw_lines(self, block: Block) -> Iterator[bytes]:
        """The lines of a block as they stand in the file. Raises InputError."""
        return self._blocks.lines(block)

    def refresh(self) -> bool:
        """Look for what was appended; whether there is more."""
        return self._blocks.refresh()

    def first(self) -> Block:
        """The first block that is shown: behind the pre-roll, if there is more than that."""
        return next((b for b in self.blocks if not b.pre), self.blocks[0])

    def entry(self, session: int, at_ns: int) -> Entry:
        """Where to begin for a moment: history from the last keyframe a minute before the one that holds the memory."""
        blocks = self.blocks
        low = next((i for i, b in enumerate(blocks) if b.session == session), 0)
        high = next((i for i, b in enumerate(blocks) if b.session > session), len(blocks))
        fold = self._last_at(low, high, at_ns)
        warming = self.stamp_of(fold) != stamp()
        if warming:
            fold = self._last_at(low, high, at_ns - int(WARM_UP_S * 1e9))
        fold_ns = blocks[fold].at_ns
        # At long intervals a minute may hold few Samples: the block before always holds enough.
        history = min(self._last_at(low, high, fold_ns - int((HISTORY_S - SPACING_S) * 1e9)), max(low, fold - 1))
        return Entry(history, fold_ns, warming)

    def _last_at(self, low: int, high: int, at_ns: int) -> int:
        """Index of the last block of [low, high) that begins at or before at_ns; the first when none does."""
        return max(low, bisect.bisect_right(self.blocks, at_ns, low, high, key=lambda b: b.at_ns) - 1)

    def stamp_of(self, index: int) -> str:
        """The stamp in force at a block: of its session's header, which stands in the session's first block."""
        blocks = self.blocks
        first = bisect.bisect_left(blocks, blocks[index].session, key=lambda block: block.session)
        if first not in self._headers:
            line = next(self._blocks.lines(blocks[first]), b"") if first else b""
            header = Decoder().read(line) if line.startswith(b'{"k":"hdr"') else None
            self._headers[first] = header if isinstance(header, Header) else self.header
        return self._headers[first].stamp

    def lines(self, first: int = 0, last: int | None = None) -> Iterator[Item]:
        """Everything in the blocks [first, last), decoded. Unknown kinds are left out."""
        decoder = Decoder()
        for block in self.blocks[first:last]:
            number = 0
            try:
                for number, line in enumerate(self._blocks.lines(block), 1):  # noqa: B007 - told when it fails
                    item = decoder.read(line) if line else None
                    if item is not None:
                        yield item
            except InputError as error:
                raise InputError(f"{self.path}: {self._blocks.place(block, number)}: {error}") from None

    def items(
        self, first: int = 0, adopt: bool = True, folds_ns: int | None = None, last: int | None = None
    ) -> Iterator[Snapshot | Keyframe]:
        """What ``pipeline.frames`` takes, of the blocks [first, last).

        adopt: hand out the recorded memory where its stamp matches. folds_ns: up to this time of the first block's
        session there is only history, which gives no Frame: the fold begins there. The pre-roll comes too: whoever
        shows Frames leaves out those before ``first().at_ns``.
        """
        match = stamp()
        current = self.stamp_of(first)
        fresh = False
        for item in self.lines(first, last):
            if isinstance(item, Header):
                current = item.stamp
                fresh = not item.continues
            elif isinstance(item, Snap):
                if folds_ns is not None and item.snapshot.at_ns < folds_ns:
                    yield Keyframe(item.snapshot, None, item.last, item.gap, fresh, pre=True, folds=False)
                    fresh = False
                    continue
                folds_ns = None
                if item.key:
                    carry = item.carry if adopt and current == match else None
                    yield Keyframe(item.snapshot, carry, item.last, item.gap, fresh)
                    fresh = False
                else:
                    yield item.snapshot

    def tally(self, index: int) -> Tallied | None:
        """What was counted of a block when it was written; None where it was not. Its stamp is not looked at."""
        block, found, number = self.blocks[index], b"", 0
        for at, line in enumerate(self._blocks.lines(block), 1):
            if line.startswith(TALLY_LINE):
                found, number = line, at
            elif line.startswith(_SNAP):
                found = b""
        try:
            item = Decoder().read(found) if found else None
        except InputError as error:
            raise InputError(f"{self.path}: {self._blocks.place(block, number)}: {error}") from None
        return item if isinstance(item, Tallied) else None

    def told(self) -> Iterator[Told]:
        """The verdict lines: a cache for the time line."""
        return (item for item in self.lines() if isinstance(item, Told))

    def events(self) -> Iterator[Event]:
        """The event lines."""
        return (item for item in self.lines() if isinstance(item, Event))

    def closed(self) -> bool:
        """Whether the file was closed properly."""
        last = None
        for item in self.lines(len(self.blocks) - 1):
            last = item
        return isinstance(last, Closed)

    def span(self) -> tuple[int, int] | None:
        """(first, last) at_ns of the last session."""
        session = self.blocks[-1].session
        mine = [b for b in self.blocks if b.session == session and not b.pre]
        if not mine:
            return None
        last = mine[-1].at_ns
        for item in self.lines(len(self.blocks) - 1):
            if isinstance(item, Snap):
                last = item.snapshot.at_ns
        return mine[0].at_ns, last

    def keyframe(self, at_ns: int) -> int | None:
        """at_ns of the last keyframe at or before, in the last session."""
        session = self.blocks[-1].session
        return max((b.at_ns for b in self.blocks if b.session == session and b.at_ns <= at_ns), default=None)

    def snapshots(self, from_ns: int, to_ns: int | None = None) -> Iterator[Snapshot]:
        """Snapshots of the last session with from_ns <= at_ns <= to_ns, oldest first."""
        session = self.blocks[-1].session
        low = next(i for i, block in enumerate(self.blocks) if block.session == session)
        for item in self.items(self._last_at(low, len(self.blocks), from_ns)):
            snapshot = item.snapshot if isinstance(item, Keyframe) else item
            if to_ns is not None and snapshot.at_ns > to_ns:
                return
            if snapshot.at_ns >= from_ns:
                yield snapshot

    def series(self, value: Callable[[Snapshot], float | None], from_ns: int) -> list[tuple[int, float | None]]:
        """(at_ns, value) of each Snapshot since from_ns."""
        return [(s.at_ns, value(s)) for s in self.snapshots(from_ns)]

    def fileno(self) -> int:
        """The descriptor of the open file, which stays itself when its name is given to another."""
        return self._blocks.fileno()

    def close(self) -> None:
        """Give the file back."""
        self._blocks.close()
