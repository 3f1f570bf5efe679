"""Reads a recording fast: the recorded totals of a block if they are usable, else its Snapshots, to be folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_totals import VerdictSpan
from iotop_ai.sources.recorded.rising_time import AS_RECORDED, TOLERANCE_NS, Anchor, RisingClock, RisingTimes, rising
from iotop_ai.store.format.codec import TotalsLine
from iotop_ai.store.read.block_contents import BlockContents, Depth, block_contents
from iotop_ai.store.read.file import FileRecording

Items = Iterator[Snapshot | Keyframe]
"""Input of ``pipeline.frames``; pre-roll in it yields no Frame."""


class ShownBlock(NamedTuple):
    """A block outside the pre-roll. begin_ns: wall time of its keyframe. until_ns: the next block's, None at the end.

    Wall times are those of ``rising_time``.
    """

    part: int
    block: int
    begin_ns: int
    until_ns: int | None


class SummedBlock(NamedTuple):
    """A block with totals. new_session: nothing before it belongs to its session."""

    contents: BlockContents
    new_session: bool


def same_rules(parts: list[FileRecording]) -> bool:
    """Whether this program's rules made all fold states and totals.

    Fold states of other rules cannot be used, so that only the whole recording can be folded anew.
    """
    own_stamp = stamp()
    return all(part.stamp_of(block) == own_stamp for part in parts for block in range(len(part.blocks)))


def blocks_or_totals(
    parts: list[FileRecording],
    begin_ns: int | None,
    end_ns: int | None,
    depth: Depth = Depth.TOTALS,
    each: int = 1,
    times: RisingTimes = AS_RECORDED,
) -> Iterator[SummedBlock | Items]:
    """The blocks of the wall time from begin to end (both included, None: all), in order: summed, or Items to fold.

    Call it only where ``same_rules``. Items may reach beyond both times; the last result is always Items. depth: how
    much of a summed block is read. each: at depth KEYFRAME, one block of this many has its keyframe, the others only
    events; the first and last block between two gaps always have it, as do blocks with a job that is new. times:
    of the parts.
    """
    reader = _Reader(parts, times)
    blocks = shown_blocks(parts, begin_ns, end_ns, times)
    run: list[ShownBlock] = []
    waiting: tuple[ShownBlock, SummedBlock] | None = None
    """A block without its keyframe, until it is known whether the next follows it without a gap."""
    thin = 0
    jobs: frozenset[ProcessKey] = frozenset()
    """The jobs of the newest keyframe."""
    for before, block in zip([None, *blocks], blocks, strict=False):
        contents = totals = None
        joins = _same_session(parts, before, block)
        if block is not blocks[-1] and (begin_ns is None or block.begin_ns >= begin_ns):
            thin = (thin + 1) % each if joins else 0
            contents = reader.contents(block, Depth.EVENTS if thin else depth)
            totals = contents.totals
            if thin and totals is not None and any(job.key not in jobs for job in totals.tally.jobs):
                contents = reader.contents(block, depth)
            jobs = _jobs_of(contents) or jobs
        if waiting is not None:
            gap = not joins or contents is None or any(line.gap for line in contents.snapshots)
            yield reader.with_keyframe(*waiting) if gap else waiting[1]
            waiting = None
        if contents is None or totals is None or (end_ns is not None and totals.wall_ns > end_ns):
            if run and not _adjacent(parts, run[-1], block):
                yield reader.items(run)
                run = []
            run.append(block)
            continue
        if run:
            yield reader.items(run)
            run = []
        summed = SummedBlock(contents, not joins)
        if thin and not contents.snapshots:
            waiting = (block, summed)
        else:
            yield summed
    if run:
        yield reader.items(run)


def _jobs_of(contents: BlockContents) -> frozenset[ProcessKey]:
    table = contents.snapshots[-1].snapshot.jobs.value if contents.snapshots else None
    return frozenset(() if table is None else table.jobs)


def _same_session(parts: list[FileRecording], before: ShownBlock | None, after: ShownBlock) -> bool:
    """Whether two successive blocks are of one session."""
    if before is None:
        return False
    if before.part != after.part:
        return parts[after.part].header.continues
    blocks = parts[before.part].blocks
    return blocks[before.block].session == blocks[after.block].session


def _adjacent(parts: list[FileRecording], before: ShownBlock, after: ShownBlock) -> bool:
    """Whether a block is the next of the same session and file."""
    blocks = parts[before.part].blocks
    return (before.part, before.block + 1) == (after.part, after.block) and (
        blocks[before.block].session == blocks[after.block].session
    )


def shown_blocks(
    parts: list[FileRecording], begin_ns: int | None, end_ns: int | None, times: RisingTimes = AS_RECORDED
) -> list[ShownBlock]:
    """The blocks outside the pre-roll that reach into this wall time, in order."""
    shown = [
        (p, b, times.begin_ns(part, b))
        for p, part in enumerate(parts)
        for b, block in enumerate(part.blocks)
        if not block.pre
    ]
    ends: list[int | None] = [*(wall_ns for _, _, wall_ns in shown[1:]), None]
    blocks = [ShownBlock(*block, until_ns) for block, until_ns in zip(shown, ends, strict=True)]
    return [block for block in blocks if _within(block, begin_ns, end_ns)]


def _within(block: ShownBlock, begin_ns: int | None, end_ns: int | None) -> bool:
    late = end_ns is not None and block.begin_ns > end_ns
    early = begin_ns is not None and block.until_ns is not None and block.until_ns <= begin_ns
    return not late and not early


class _Reader:
    """Reads blocks, with the wall times of ``rising_time``."""

    def __init__(self, parts: list[FileRecording], times: RisingTimes) -> None:
        self._parts = parts
        self._times = times

    def contents(self, block: ShownBlock, depth: Depth) -> BlockContents:
        """The totals, keyframe or Snapshots of a block."""
        part = self._parts[block.part]
        found, anchor = block_contents(part, block.block, depth), self._times.anchor(part, block.block)
        if anchor is None:
            return found
        clock = RisingClock(self._times)
        clock.add(*anchor[:3], key=True)
        snapshots = tuple(
            line._replace(snapshot=clock.snapshot(line.snapshot, key=line.key)) for line in found.snapshots
        )
        events = [clock.event(event, block.until_ns) for event in found.events]
        events += self._times.set_backs.get((block.part, block.block), ())
        return BlockContents(_shown_totals(found.totals, anchor), snapshots, tuple(events))

    def with_keyframe(self, block: ShownBlock, summed: SummedBlock) -> SummedBlock:
        """A block of which only the events were read, with its keyframe."""
        return summed._replace(contents=self.contents(block, Depth.KEYFRAME))

    def items(self, run: list[ShownBlock]) -> Items:
        """Adjacent blocks, with the history before them as pre-roll."""
        part, first = self._parts[run[0].part], run[0].block
        block = part.blocks[first]
        entry = part.entry(block.session, block.at_ns)
        return rising(part.items(entry.block, folds_ns=block.at_ns, last=run[-1].block + 1), self._times)


def _shown_totals(line: TotalsLine | None, anchor: Anchor) -> TotalsLine | None:
    """A block's totals with the wall times to use: a span of a verdict begins where the one before ends, or later."""
    if line is None:
        return None
    spans = list[VerdictSpan]()
    for span in line.tally.spans:
        earliest_ns = spans[-1].wall_ns + spans[-1].duration_ns if spans else anchor.shown_ns - span.duration_ns
        wall_ns = span.wall_ns
        if wall_ns < earliest_ns - TOLERANCE_NS:
            wall_ns = max(earliest_ns, wall_ns + anchor.shown_ns - anchor.wall_ns)
        spans.append(span._replace(wall_ns=wall_ns))
    tally = line.tally._replace(spans=tuple(spans))
    return line._replace(wall_ns=anchor.shown(line.at_ns, line.wall_ns), tally=tally)
