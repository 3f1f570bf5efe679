"""A recording as Frames that can be stepped through in both directions. For use by one thread.

A block is a keyframe (a whole Snapshot with the state of the rules) and the Snapshots up to the next keyframe. The
pre-roll consists of Snapshots from before the recording was started; it only gives the first Frames their history.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, dropwhile
from typing import Protocol

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import Frame
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.reading import Rated
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames, samples
from iotop_ai.store.format.codec import Header
from iotop_ai.store.format.line_head import parse_head
from iotop_ai.store.read.blocks import Block
from iotop_ai.store.read.file import Entry

FRAMES_KEPT = 256
"""About this many Frames are kept for stepping back and forth; they share unchanged records."""
MOST_STEPS = 40
"""The maximum number of steps taken to reach the first verdict that names a class."""
_LASTING_NS = 5 * 10**9
"""How long the first verdict must last, in nanoseconds. A verdict of another class within this time replaces it: the
rules about a healthy job decide sooner than some other rules."""


class RecordingPart(Protocol):
    """A part of a recording: its only file, one file of a rotated recording, or the last hour in memory."""

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks indexed so far, in order."""
        ...

    def refresh(self) -> bool:
        """Index the blocks that were appended since the last call; return whether there were any."""
        ...

    def entry(self, session: int, at_ns: int) -> Entry:
        """The entry at which decoding must begin to show the Frame at a time."""
        ...

    def items(
        self, first: int = 0, adopt: bool = True, fold_ns: int | None = None, last: int | None = None
    ) -> Iterator[Snapshot | Keyframe]:
        """The blocks [first, last) as input of ``pipeline.frames``.

        adopt: whether to use the recorded state of the rules if the same rules recorded it. fold_ns: Snapshots before
        this time only build the history and yield no Frame.
        """
        ...

    def raw_lines(self, block: Block) -> Iterator[bytes]:
        """The lines of a block."""
        ...

    def header_of(self, index: int) -> Header:
        """The header that is valid at a block. Raises InputError."""
        ...


class _BlockPlace(NamedTuple):
    """The place of a block: the index of its part, and the index of the block in that part."""

    part: int
    block: int


class Cancelled(Exception):  # noqa: N818 - not an error: there is a newer request
    """The caller has cancelled a seek. The position stays where the seek stopped."""


def never() -> bool:
    """Return False: the default of ``cancelled``, for a request that is never cancelled."""
    return False


class FrameCursor:
    """A position in the Frames of one or several parts of a recording.

    Positions are wall times, because users and rotated files use wall times. Raises InputError if a part raises it, or
    if there is nothing to show.

    follow: called at the end of the last part; returns the part that a rotation has added, or None. shown_from_ns: a
    monotonic time; earlier blocks of the first session only build the history.
    """

    def __init__(
        self,
        parts: Sequence[RecordingPart],
        follow: Callable[[], RecordingPart | None] = lambda: None,
        shown_from_ns: int = 0,
    ) -> None:
        self._parts = list(parts)
        self._shown_from_ns = shown_from_ns
        self._follow = follow
        self._shown_blocks: list[_BlockPlace] = []
        self._wall_times: list[int] = []
        self._stream: Iterator[Frame] | None = None
        """The Frames after the newest kept one, from the part with the index ``_stream_part``."""
        self._stream_part = 0
        self._frames: list[Frame] = []
        """The kept Frames, oldest first; ``_position`` is the index of the current one, or -1 before the first seek."""
        self._block_indexes: list[int] = []
        """For each kept Frame, its block as an index into ``_shown_blocks``. The index is kept because two blocks can
        have the same wall time, after the clock was set back."""
        self._position = -1
        self.grown = False
        """Whether ``refresh`` has found more to read since the caller last reset this attribute."""
        self.judged_anew = False
        """Whether the verdicts are decided anew, because the recording was made with other rules. The rules then begin
        WARM_UP_S (store.read.file) before the block that was loaded."""
        self._index()
        if not self._shown_blocks:
            raise InputError("this recording contains only a pre-roll")

    @property
    def parts(self) -> Sequence[RecordingPart]:
        """The parts, in order."""
        return self._parts

    @property
    def begin_wall_ns(self) -> int:
        """The wall time of the first Snapshot that is shown."""
        return self._wall_times[0]

    @property
    def frame(self) -> Frame | None:
        """The current Frame; None before the first seek."""
        return self._frames[self._position] if self._position >= 0 else None

    def end_wall_ns(self) -> int:
        """The wall time of the newest Snapshot."""
        place = self._shown_blocks[-1]
        part = self._parts[place.part]
        heads = filter(None, map(parse_head, part.raw_lines(part.blocks[place.block])))
        return max([self._wall_times[-1], *(h.wall_ns for h in heads if h.is_snap and h.wall_ns is not None)])

    def refresh(self) -> bool:
        """Index appended blocks or, if there are none, add the next part. Return whether the recording has grown."""
        has_grown = self._parts[-1].refresh()
        if not has_grown and (another := self._follow()) is not None:
            self._parts.append(another)
            has_grown = True
        if has_grown:
            self.grown = True
            self._index()
        return has_grown

    def _index(self) -> None:
        first = self._parts[0].blocks[0].session
        self._shown_blocks = [
            _BlockPlace(p, b)
            for p, part in enumerate(self._parts)
            for b, block in enumerate(part.blocks)
            if not block.pre and not (block.session == first and block.at_ns < self._shown_from_ns)
        ]
        # The wall times never decrease, so that a clock that was set back does not hide later blocks.
        self._wall_times = list(accumulate((self._block(p).wall_ns for p in self._shown_blocks), max))

    def _block(self, place: _BlockPlace) -> Block:
        return self._parts[place.part].blocks[place.block]

    def seek(
        self,
        wall_ns: int,
        early: Callable[[Frame], None] | None = None,
        cancelled: Callable[[], bool] = never,
    ) -> Frame:
        """Go to the last Frame at or before a wall time, or to the first Frame if all are later.

        early: if blocks must be decoded, called first with a preliminary Frame, made from the preceding keyframe and
        its recorded rates. Raises Cancelled.
        """
        kept = self._frames
        if kept and kept[0].snapshot.wall_ns <= wall_ns < kept[-1].snapshot.wall_ns:
            self._position = max(i for i, frame in enumerate(kept) if frame.snapshot.wall_ns <= wall_ns)
            return kept[self._position]
        index = max(0, bisect_right(self._wall_times, wall_ns) - 1)
        if kept and kept[0].snapshot.wall_ns <= wall_ns and 0 <= index - self._block_indexes[-1] <= 1:
            self._position = len(kept) - 1
        else:
            self._load(index, early, cancelled)
        while (after := self.peek()) is not None and after.snapshot.wall_ns <= wall_ns:
            self.forward()
            if cancelled():
                raise Cancelled
        return self._frames[self._position]

    def seek_before(
        self, at_ns: int, early: Callable[[Frame], None] | None = None, cancelled: Callable[[], bool] = never
    ) -> Frame:
        """Go to the last Frame before a monotonic time of the newest session, or to its first Frame if all are later.

        Unlike ``seek``, this works even if the wall clock was set back. early, cancelled: as in ``seek``. Raises
        Cancelled.
        """
        blocks = [self._block(place) for place in self._shown_blocks]
        index = len(blocks) - 1
        while index > 0 and blocks[index].at_ns >= at_ns and blocks[index - 1].session == blocks[index].session:
            index -= 1
        self._load(index, early, cancelled)
        while (after := self.peek()) is not None and after.snapshot.at_ns < at_ns:
            self.forward()
            if cancelled():
                raise Cancelled
        return self._frames[self._position]

    def _block_index_of(self, frame: Frame) -> int:
        """The index of a Frame's block in ``_shown_blocks``."""
        for kept, index in zip(self._frames, self._block_indexes, strict=True):
            if kept is frame:
                return index
        return max(0, bisect_right(self._wall_times, frame.snapshot.wall_ns) - 1)

    def _load(
        self, index: int, early: Callable[[Frame], None] | None = None, cancelled: Callable[[], bool] = never
    ) -> None:
        """Go to the first Frame of a shown block and restore the rules' state there."""
        place = self._shown_blocks[index]
        part, block = self._parts[place.part], self._block(place)
        entry = part.entry(block.session, block.at_ns)
        if early is not None:
            keyframe = next(part.items(place.block), None)
            if isinstance(keyframe, Keyframe):
                for frame in frames([keyframe._replace(session=True)]):
                    early(frame)
        stream = frames(part.items(entry.block, fold_ns=None if entry.warming else entry.fold_ns))
        for frame in stream:
            if cancelled():
                raise Cancelled
            if frame.snapshot.at_ns >= block.at_ns and frame.snapshot.wall_ns >= block.wall_ns:
                self._frames, self._block_indexes, self._position = [frame], [index], 0
                self._stream, self._stream_part = stream, place.part
                self.judged_anew = entry.warming
                return
        raise InputError("no snapshot could be read there; the recording is damaged, or changed while it was read")

    def peek(self) -> Frame | None:
        """The next Frame, without moving to it; None at the current end of the recording."""
        if self._position + 1 < len(self._frames):
            return self._frames[self._position + 1]
        after = self._next()
        if after is not None:
            index, following = self._block_indexes[-1], self._block_indexes[-1] + 1
            if following < len(self._shown_blocks):
                block = self._block(self._shown_blocks[following])
                index += _is_keyframe_of(block, after.snapshot)
            self._frames.append(after)
            self._block_indexes.append(index)
            if len(self._frames) > FRAMES_KEPT:
                drop = min(len(self._frames) - FRAMES_KEPT, self._position)
                del self._frames[:drop], self._block_indexes[:drop]
                self._position -= drop
        return after

    def _next(self) -> Frame | None:
        """Read the Frame after the newest kept one, also from appended blocks or the next part; None at the end."""
        if self._stream is None:
            return None
        after = next(self._stream, None)
        if after is None and self._frames:
            newest, place = self._frames[-1], self._shown_blocks[self._block_indexes[-1]]
            part = self._parts[self._stream_part]
            if self._stream_part + 1 == len(self._parts) and self.refresh():
                part = self._parts[self._stream_part]
            self._stream = frames(
                _items_after(part, newest.snapshot, place.block if place.part == self._stream_part else 0),
                before=newest.snapshot,
                last=newest.sample,
                history=newest.history,
                carry=newest.carry,
            )
            after = next(self._stream, None)
            if after is None and self._stream_part + 1 < len(self._parts):
                self._stream_part += 1
                self._stream = self._from_start(self._stream_part)
                after = next(self._stream, None)
        return after

    def _from_start(self, part: int) -> Iterator[Frame]:
        """The Frames of a later part, without those of the pre-roll that its first Frame needs.

        Frames after the first shown one may have earlier times: after a reboot, the monotonic clock begins again.
        """
        first = next((p for p in self._shown_blocks if p.part == part), None)
        if first is None:
            return iter(())
        at_ns = self._block(first).at_ns
        return dropwhile(lambda frame: frame.snapshot.at_ns < at_ns, frames(self._parts[part].items(0)))

    def forward(self) -> Frame | None:
        """Step to the next Frame; None at the end."""
        after = self.peek()
        if after is not None:
            self._position += 1
        return after

    def first_verdict(self) -> Frame:
        """Step to the first Frame whose verdict names a class and lasts, and return it.

        At the beginning of a recording the rates are unknown and the rules do not have enough data for a verdict. The
        search ends after MOST_STEPS steps, at a gap and at the end; without such a verdict, return the Frame there.
        """
        frame, named, steps = self._frames[self._position], None, 0
        while steps < MOST_STEPS:
            class_id = frame.verdict.primary.class_id
            named_class_id = "" if named is None else named.verdict.primary.class_id
            if not frame.verdict.measuring and class_id not in ("unknown", named_class_id):
                named = frame
            after = self.forward()
            if after is None or after.sample.gap:
                break
            if named is not None and after.snapshot.at_ns - named.snapshot.at_ns > _LASTING_NS:
                break
            frame, steps = after, steps + 1
        if named is not None:
            self._position = next(i for i, one in enumerate(self._frames) if one is named)
        return self._frames[self._position]

    def back(self, cancelled: Callable[[], bool] = never) -> Frame | None:
        """Step to the previous Frame; None at the start. Raises Cancelled."""
        if self._position > 0:
            self._position -= 1
            return self._frames[self._position]
        if not self._frames:
            return None
        first, first_index = self._frames[0].snapshot, self._block_indexes[0]
        index = first_index
        if _is_keyframe_of(self._block(self._shown_blocks[index]), first):
            index -= 1
        if index < 0:
            return None
        self._load(index, cancelled=cancelled)
        while (after := self.peek()) is not None and not _is_same(after.snapshot, first):
            if self._block_indexes[self._position + 1] > first_index:
                break
            self.forward()
            if cancelled():
                raise Cancelled
        return self._frames[self._position]

    def past(self, frame: Frame, slots: int, cancelled: Callable[[], bool] = never) -> tuple[Sample, ...]:
        """The Samples of the Frame's session that precede its history, oldest first, without processes.

        slots: the number of intervals to go back. Raises Cancelled.
        """
        first_ns = frame.history[0].at_ns
        place: _BlockPlace | None = self._shown_blocks[self._block_index_of(frame)]
        from_ns = frame.snapshot.at_ns - int(slots * frame.snapshot.interval_s * 1e9)
        first_blocks: dict[int, int] = {}
        while place is not None:
            first_blocks[place.part] = place.block
            place = self._place_before(place) if self._block(place).at_ns > from_ns else None
        items = chain.from_iterable(self._parts[part].items(first) for part, first in sorted(first_blocks.items()))
        out: list[Sample] = []
        for snapshot, sample in samples(items, recorded=True):
            if cancelled():
                raise Cancelled
            if snapshot.host.boot_id != frame.snapshot.host.boot_id or snapshot.at_ns >= first_ns:
                break
            out.append(sample._replace(processes=Rated()))
        return tuple(out[-slots:])

    def _place_before(self, place: _BlockPlace) -> _BlockPlace | None:
        """The place of the block before this one in the same session, also across a rotation; None if there is none."""
        part = self._parts[place.part]
        earlier = part.blocks[: place.block]
        if earlier and not earlier[-1].pre:
            same_session = earlier[-1].session == part.blocks[place.block].session
            return _BlockPlace(place.part, place.block - 1) if same_session else None
        if place.part == 0 or not all(block.pre for block in earlier):
            return None
        before, last = self._parts[place.part - 1], len(self._parts[place.part - 1].blocks) - 1
        header = part.header_of(place.block)
        if not header.continues or header.boot_id != before.header_of(last).boot_id or before.blocks[last].pre:
            return None
        return _BlockPlace(place.part - 1, last)


def _snapshot(item: Snapshot | Keyframe) -> Snapshot:
    return item.snapshot if isinstance(item, Keyframe) else item


def _is_keyframe_of(block: Block, snapshot: Snapshot) -> bool:
    return (block.at_ns, block.wall_ns) == (snapshot.at_ns, snapshot.wall_ns)


def _is_same(one: Snapshot, other: Snapshot) -> bool:
    return one.at_ns == other.at_ns and one.host.boot_id == other.host.boot_id


def _items_after(part: RecordingPart, newest: Snapshot, first: int) -> Iterator[Snapshot | Keyframe]:
    """The Snapshots and keyframes that follow a Snapshot in a part. first: the index of the Snapshot's block.

    A damaged file may contain the Snapshot twice. Only what follows the last copy in the block is returned, because the
    reader would otherwise return to the same Snapshot forever.
    """
    items = part.items(first)
    following: list[Snapshot | Keyframe] = []
    is_after = False
    for item in items:
        if is_after and isinstance(item, Keyframe):
            return chain(following, (item,), items)
        if _is_same(_snapshot(item), newest):
            following, is_after = [], True
        elif is_after:
            following.append(item)
    return iter(following)
