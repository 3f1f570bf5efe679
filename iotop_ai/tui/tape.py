"""A recording as Frames that can be stepped through in both directions, whatever it is kept in.

Used by one thread only; nothing here knows the screen.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol

from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import Frame
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.reading import Rated
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.store.blocks import Block
from iotop_ai.store.file import Entry

_HEAD = re.compile(rb'\{"k":"snap",(?:"pre":true,)?"m":\d{1,19},"t":(-?\d{1,19})[,}]')
KEEP = 256
"""Frames kept beside the one that is shown; unchanged records are shared between them."""


class Reel(Protocol):
    """A stretch of recording: a file, a part of a rotated one, or the last hour in memory."""

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks so far, in order."""
        ...

    def refresh(self) -> bool:
        """Look for what was appended; whether there is more."""
        ...

    def entry(self, session: int, at_ns: int) -> Entry:
        """Where to begin for a moment."""
        ...

    def items(self, first: int = 0, adopt: bool = True, folds_ns: int | None = None) -> Iterator[Snapshot | Keyframe]:
        """What ``pipeline.frames`` takes, from a block on. folds_ns: what is earlier is history and gives no Frame."""
        ...

    def raw_lines(self, block: Block) -> Iterator[bytes]:
        """The lines of a block."""
        ...

    def stamp_of(self, index: int) -> str:
        """The stamp of the rules in force at a block."""
        ...


class _Place(NamedTuple):
    """A block that is shown. reel, block: indexes."""

    reel: int
    block: int


class Cancelled(Exception):  # noqa: N818 - no error: something newer is wanted
    """The work was given up; the tape stands where it stood, or nowhere."""


def never() -> bool:
    """Nothing newer is wanted."""
    return False


class Tape:
    """Reels one after the other. Positions are wall times, because people and rotated files know no other.

    follow: asked at the end for the reel that goes on after the last one (a rotation), None while there is none.
    shown_from_ns: monotonic; of the first session's blocks those before it only build history.
    Raises InputError where a reel does, or when it holds nothing to show.
    """

    def __init__(
        self, reels: Sequence[Reel], follow: Callable[[], Reel | None] = lambda: None, shown_from_ns: int = 0
    ) -> None:
        self._reels = list(reels)
        self._shown_from_ns = shown_from_ns
        self._follow = follow
        self._places: list[_Place] = []
        self._walls: list[int] = []
        self._stream: Iterator[Frame] | None = None
        self._stream_reel = 0
        self._frames: list[Frame] = []
        self._at = -1
        self.grown = False
        """Set when ``refresh`` has found more; whoever has seen it takes it back."""
        self.judged_anew = False
        """Whether the verdicts shown are folded from a few minutes before, because other rules recorded them."""
        self._index()
        if not self._places:
            raise InputError("nothing but a pre-roll in this recording")

    @property
    def reels(self) -> Sequence[Reel]:
        """What it is made of."""
        return self._reels

    @property
    def begin_wall_ns(self) -> int:
        """Wall time of the first Snapshot that is shown."""
        return self._walls[0]

    @property
    def frame(self) -> Frame | None:
        """The Frame it stands at."""
        return self._frames[self._at] if self._at >= 0 else None

    def end_wall_ns(self) -> int:
        """Wall time of the newest Snapshot."""
        place = self._places[-1]
        reel = self._reels[place.reel]
        heads = (_HEAD.match(line) for line in reel.raw_lines(reel.blocks[place.block]))
        return max([self._walls[-1], *(int(head[1]) for head in heads if head is not None)])

    def refresh(self) -> bool:
        """Look for what was appended, and for the reel after the last; whether there is more."""
        grown = self._reels[-1].refresh()
        if not grown and (another := self._follow()) is not None:
            self._reels.append(another)
            grown = True
        if grown:
            self.grown = True
            self._index()
        return grown

    def _index(self) -> None:
        first = self._reels[0].blocks[0].session
        self._places = [
            _Place(r, b)
            for r, reel in enumerate(self._reels)
            for b, block in enumerate(reel.blocks)
            if not block.pre and not (block.session == first and block.at_ns < self._shown_from_ns)
        ]
        # A clock that was set back must not hide what came after it.
        self._walls = list(accumulate((self._block(p).wall_ns for p in self._places), max))

    def _block(self, place: _Place) -> Block:
        return self._reels[place.reel].blocks[place.block]

    def go(
        self,
        wall_ns: int,
        early: Callable[[Frame], None] | None = None,
        cancelled: Callable[[], bool] = never,
    ) -> Frame:
        """The last Frame at or before a wall time; the first when none is.

        early: gets the keyframe before it, with its recorded numbers, at once where there is more to decode.
        Raises Cancelled.
        """
        shown = self._frames
        if shown and shown[0].snapshot.wall_ns <= wall_ns < shown[-1].snapshot.wall_ns:
            self._at = bisect_right(shown, wall_ns, key=lambda f: f.snapshot.wall_ns) - 1
            return shown[self._at]
        wanted = max(0, bisect_right(self._walls, wall_ns) - 1)
        have = self._place_of(shown[-1]) if shown else -2
        if not (shown and shown[0].snapshot.wall_ns <= wall_ns and have <= wanted <= have + 1):
            self._load(wanted, early, cancelled)
        else:
            self._at = len(shown) - 1
        while (after := self.peek()) is not None and after.snapshot.wall_ns <= wall_ns:
            self.forward()
            if cancelled():
                raise Cancelled
        return self._frames[self._at]

    def _place_of(self, frame: Frame) -> int:
        return max(0, bisect_right(self._walls, frame.snapshot.wall_ns) - 1)

    def _load(
        self, number: int, early: Callable[[Frame], None] | None = None, cancelled: Callable[[], bool] = never
    ) -> None:
        """Stand at the first Frame of a place, with the memory that it had."""
        place = self._places[number]
        reel, block = self._reels[place.reel], self._block(place)
        entry = reel.entry(block.session, block.at_ns)
        if early is not None:
            key = next(reel.items(place.block), None)
            if isinstance(key, Keyframe):
                for frame in frames([key._replace(session=True)]):
                    early(frame)
        stream = frames(reel.items(entry.block, folds_ns=None if entry.warming else entry.fold_ns))
        for frame in stream:
            if cancelled():
                raise Cancelled
            if frame.snapshot.at_ns >= block.at_ns and frame.snapshot.wall_ns >= block.wall_ns:
                self._frames, self._at = [frame], 0
                self._stream, self._stream_reel = stream, place.reel
                self.judged_anew = entry.warming
                return
        raise InputError("the recording has changed while it was read")

    def peek(self) -> Frame | None:
        """The Frame after this one; None at the end, for now."""
        if self._at + 1 < len(self._frames):
            return self._frames[self._at + 1]
        after = self._next()
        if after is not None:
            self._frames.append(after)
            if len(self._frames) > KEEP:
                drop = min(len(self._frames) - KEEP, self._at)
                del self._frames[:drop]
                self._at -= drop
        return after

    def _next(self) -> Frame | None:
        if self._stream is None:
            return None
        after = next(self._stream, None)
        if after is None and self._frames:
            newest = self._frames[-1]
            reel = self._reels[self._stream_reel]
            if self._stream_reel + 1 == len(self._reels) and self.refresh():
                reel = self._reels[self._stream_reel]
            self._stream = frames(
                _behind(reel, newest.snapshot),
                before=newest.snapshot,
                last=newest.sample,
                history=newest.history,
                carry=newest.carry,
            )
            after = next(self._stream, None)
            if after is None and self._stream_reel + 1 < len(self._reels):
                self._stream_reel += 1
                self._stream = self._from_start(self._stream_reel)
                after = next(self._stream, None)
        return after

    def _from_start(self, reel: int) -> Iterator[Frame]:
        """The Frames of a further reel: it begins with what its own first Frame needs."""
        first = next((p for p in self._places if p.reel == reel), None)
        if first is None:
            return iter(())
        at_ns = self._block(first).at_ns
        return (f for f in frames(self._reels[reel].items(0)) if f.snapshot.at_ns >= at_ns)

    def forward(self) -> Frame | None:
        """One Frame on; None, and it stays, at the end."""
        after = self.peek()
        if after is not None:
            self._at += 1
        return after

    def back(self, cancelled: Callable[[], bool] = never) -> Frame | None:
        """One Frame back; None, and it stays, at the start. Raises Cancelled."""
        if self._at > 0:
            self._at -= 1
            return self._frames[self._at]
        if not self._frames:
            return None
        first = self._frames[0]
        number = self._place_of(first)
        if _same(self._block(self._places[number]), first.snapshot):
            number -= 1
        if number < 0:
            return None
        self._load(number, cancelled=cancelled)
        while (after := self.peek()) is not None and after.snapshot.wall_ns < first.snapshot.wall_ns:
            self.forward()
            if cancelled():
                raise Cancelled
        return self._frames[self._at]

    def past(self, frame: Frame, slots: int, cancelled: Callable[[], bool] = never) -> tuple[Sample, ...]:
        """Samples before the Frame's history, at most ``slots`` intervals back and of its session, oldest first.

        Without their processes. Raises Cancelled.
        """
        first_ns = frame.history[0].at_ns
        number = self._place_of(frame)
        place, block = self._places[number], self._block(self._places[number])
        reel = self._reels[place.reel]
        from_ns = frame.snapshot.at_ns - int(slots * frame.snapshot.interval_s * 1e9)
        start = place.block
        while start > 0 and reel.blocks[start - 1].session == block.session and reel.blocks[start].at_ns > from_ns:
            start -= 1
        out: list[Sample] = []
        for item in frames(reel.items(start)):
            if cancelled():
                raise Cancelled
            if item.snapshot.host.boot_id != frame.snapshot.host.boot_id or item.snapshot.at_ns >= first_ns:
                break
            out.append(item.sample._replace(processes=Rated()))
        return tuple(out[-slots:])


def _snapshot(item: Snapshot | Keyframe) -> Snapshot:
    return item.snapshot if isinstance(item, Keyframe) else item


def _same(block: Block, snapshot: Snapshot) -> bool:
    return (block.at_ns, block.wall_ns) == (snapshot.at_ns, snapshot.wall_ns)


def _behind(reel: Reel, newest: Snapshot) -> Iterator[Snapshot | Keyframe]:
    """What a reel holds behind a Snapshot."""
    first = max(
        (i for i, b in enumerate(reel.blocks) if b.at_ns <= newest.at_ns and b.wall_ns <= newest.wall_ns), default=0
    )
    items = reel.items(first)
    for item in items:
        found = _snapshot(item)
        if found.at_ns == newest.at_ns and found.host.boot_id == newest.host.boot_id:
            break
    return items
