"""Reads a recorded run from its beginning to its end: every figure over time, and its verdict.

If the recording was made with the rules of this program, the verdicts come from recorded totals. The figures come from
the counters in every Snapshot of a short run, in the keyframes of a long run (every 60th Snapshot), or in some of the
keyframes of a run of many hours. The means stay exact, because a rate is the mean over the time between two Snapshots.
If the recording was made with other rules, it is folded: every Frame is judged again.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import NamedTuple

from iotop_ai.model.frame import Frame
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.model.verdict_totals import VerdictTotals
from iotop_ai.pipeline import frames, samples
from iotop_ai.playback.selection import RecordedFrames
from iotop_ai.sources.recorded.totals import ShownBlock, SummedBlock, blocks_or_totals, same_rules, shown_blocks
from iotop_ai.store.format.codec import KEYFRAME_EVERY
from iotop_ai.store.read.block_contents import Depth
from iotop_ai.store.read.file import FileRecording

MOST_SNAPSHOTS = 5400
"""Of a run with more Snapshots, only keyframes are read: 24 hours of a busy machine then take seconds, not minutes."""
MOST_KEYFRAMES = 480
"""About this many keyframes are decoded: more than a chart has points, and for 24 hours one every 3 minutes."""


class RatedSnapshot(NamedTuple):
    """A Snapshot and its rates, without a verdict."""

    snapshot: Snapshot
    sample: Sample


class JudgedSpan(NamedTuple):
    """The verdicts over a span of time.

    events: the events of the span; () if its RatedSnapshots hold them. end_ns: the wall time at which the span ends.
    """

    totals: VerdictTotals
    events: tuple[Event, ...] = ()
    end_ns: int = 0


RunItem = Frame | RatedSnapshot | JudgedSpan
"""One item of a run. A Frame has the figures of a RatedSnapshot and also a verdict."""


class RunReader:
    """Iterates over the RunItems of a recording, in order. Use it within ``corrupt_input_as_error``.

    every: whether to decode every Snapshot; None decodes every Snapshot if there are at most MOST_SNAPSHOTS. most:
    about how many keyframes to decode if not every Snapshot is decoded. folded: whether to judge every Frame again,
    instead of using recorded totals; then every Snapshot is decoded in any case.
    """

    def __init__(
        self, recorded: RecordedFrames, *, every: bool | None = None, folded: bool = False, most: int = MOST_KEYFRAMES
    ) -> None:
        self._recorded = recorded
        parts = recorded.source.parts
        self._folds = folded or not parts or not same_rules(parts)
        if every is None:
            every = self._folds or _snapshot_count(recorded) <= MOST_SNAPSHOTS
        self._every = every or self._folds
        self._block_step = 1
        self.spacing_s: float | None = None
        """The approximate seconds between the Snapshots that give the figures; None if every Snapshot is used."""
        if not self._every:
            blocks = shown_blocks(parts, recorded.begin_ns, recorded.end_ns, recorded.source.times)
            self._block_step = max(1, math.ceil(len(blocks) / most))
            self.spacing_s = self._block_step * _keyframe_spacing_s(recorded, blocks)

    def __iter__(self) -> Iterator[RunItem]:
        begin_ns, end_ns = self._recorded.begin_ns, self._recorded.end_ns
        if self._folds:
            yield from self._recorded
            return
        for item in self._items(begin_ns, end_ns):
            wall_ns = None if isinstance(item, JudgedSpan) else item.snapshot.wall_ns
            if wall_ns is None or ((begin_ns is None or wall_ns >= begin_ns) and (end_ns is None or wall_ns <= end_ns)):
                yield item

    def _items(self, begin_ns: int | None, end_ns: int | None) -> Iterator[RunItem]:
        parts = self._recorded.source.parts
        depth = Depth.SNAPSHOTS if self._every else Depth.KEYFRAME
        last: RatedSnapshot | None = None
        try:
            for block in blocks_or_totals(
                parts, begin_ns, end_ns, depth, self._block_step, self._recorded.source.times
            ):
                if isinstance(block, SummedBlock):
                    last = yield from self._summed(block, last)
                    continue
                first = True
                for frame in frames(block):
                    begins = frame.sample.seconds is None or frame.sample.gap or frame.after_gap
                    if first and last is not None and not begins and not self._every:
                        # This RatedSnapshot covers the time since the last one.
                        yield from _rated_snapshots(iter([frame.snapshot]), last, spaced=True)
                    first, last = False, RatedSnapshot(frame.snapshot, frame.sample)
                    yield frame
        finally:
            for part in parts:
                part.close()

    def _summed(self, block: SummedBlock, last: RatedSnapshot | None) -> Generator[RunItem, None, RatedSnapshot | None]:
        """Yield the items of a block; return the last RatedSnapshot."""
        contents = block.contents
        assert contents.totals is not None
        items = (
            Keyframe(line.snapshot, None, None, line.gap, block.new_session and not i) if line.key else line.snapshot
            for i, line in enumerate(contents.snapshots)
        )
        for rated in _rated_snapshots(items, last, spaced=not self._every):
            last = rated
            yield rated
        # If every Snapshot was read, each yielded its own events; keyframes alone lack the events between them.
        totals = contents.totals
        yield JudgedSpan(totals.tally, () if self._every else contents.events, totals.wall_ns)
        return last


def _rated_snapshots(
    items: Iterator[Snapshot | Keyframe], last: RatedSnapshot | None, *, spaced: bool
) -> Iterator[RatedSnapshot]:
    for snapshot, sample in samples(items, *(last or (None, None)), spaced=spaced):
        yield RatedSnapshot(snapshot._replace(events=()) if spaced else snapshot, sample)


def _snapshot_count(recorded: RecordedFrames) -> float:
    """The approximate number of Snapshots in the selected time.

    A block has KEYFRAME_EVERY Snapshots, also in a burst. The last block of a session in a file may have fewer; their
    number is computed from the interval in the header.
    """
    parts, (first_ns, last_ns), number = recorded.source.parts, recorded.source.span(), 0.0
    begin_ns, end_ns = recorded.begin_ns or first_ns, recorded.end_ns or last_ns
    blocks = shown_blocks(parts, begin_ns, end_ns, recorded.source.times)
    for block, after in zip(blocks, [*blocks[1:], None], strict=False):
        until_ns = last_ns if block.until_ns is None else block.until_ns
        selected_ns = max(0, min(until_ns, end_ns) - max(block.begin_ns, begin_ns))
        if after is not None and _continues(parts, block, after):
            number += KEYFRAME_EVERY * selected_ns / max(1, until_ns - block.begin_ns)
        else:
            interval_s = parts[block.part].header_of(block.block).interval_s
            number += min(KEYFRAME_EVERY, selected_ns / 1e9 / max(0.001, interval_s))
    return number


def _keyframe_spacing_s(recorded: RecordedFrames, blocks: list[ShownBlock]) -> float:
    """The mean seconds from one keyframe to the next; bursts shorten this time."""
    parts = recorded.source.parts
    steps_ns = [after.begin_ns - one.begin_ns for one, after in pairwise(blocks) if _continues(parts, one, after)]
    if steps_ns:
        return sum(steps_ns) / len(steps_ns) / 1e9
    return KEYFRAME_EVERY * (1.0 if recorded.header is None else recorded.header.interval_s)


def _continues(parts: list[FileRecording], block: ShownBlock, after: ShownBlock) -> bool:
    """Whether the next block is of the same session in the same file, so that the block before it is a whole one."""
    blocks = parts[block.part].blocks
    return block.part == after.part and blocks[block.block].session == blocks[after.block].session
