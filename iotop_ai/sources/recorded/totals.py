"""Reads a recording fast: the recorded totals of each block or, if these cannot be used, the Snapshots to fold.

A block is a keyframe with the Snapshots up to the next keyframe. Its totals are sums over its verdicts. To fold
Snapshots is to run the rules on them, one after the other; a keyframe contains the state of the rules (the fold state).
The pre-roll consists of Snapshots that only give the rules their history; it is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.model.verdict_totals import VerdictSpan
from iotop_ai.sources.recorded.corrected_times import (
    AS_RECORDED,
    TOLERANCE_NS,
    Anchor,
    ClockCorrector,
    CorrectedTimes,
    with_corrected_times,
)
from iotop_ai.store.format.codec import TotalsLine
from iotop_ai.store.read.block_contents import BlockContents, Depth, block_contents
from iotop_ai.store.read.file import FileRecording

Items = Iterator[Snapshot | Keyframe]
"""The input of ``pipeline.frames``, including pre-roll."""


class ShownBlock(NamedTuple):
    """A block outside the pre-roll. Its wall times are corrected (corrected_times.py).

    part: the index of its file in the recording; block: its index in that file
    begin_ns: the wall time of its keyframe
    until_ns: the wall time of the next block's keyframe; None for the last block
    """

    part: int
    block: int
    begin_ns: int
    until_ns: int | None


class SummedBlock(NamedTuple):
    """A block with totals. new_session: whether the block begins a session."""

    contents: BlockContents
    new_session: bool


def same_rules(parts: list[FileRecording]) -> bool:
    """Whether this program's rules made all fold states and totals of a recording.

    If other rules made them, they cannot be used, and the whole recording has to be folded again.
    """
    own_stamp = stamp()
    return all(part.stamp_of(block) == own_stamp for part in parts for block in range(len(part.blocks)))


def blocks_or_totals(
    parts: list[FileRecording],
    begin_ns: int | None,
    end_ns: int | None,
    depth: Depth = Depth.TOTALS,
    keyframe_every: int = 1,
    times: CorrectedTimes = AS_RECORDED,
) -> Iterator[SummedBlock | Items]:
    """Yield the blocks from begin to end in order: each with its totals, or as Items to fold.

    The last block is always among the Items. Call this function only if ``same_rules`` is True.

    begin_ns, end_ns: the first and the last wall time; None for no limit. Items may extend beyond these times
    depth: how much is read of a block with totals
    keyframe_every: at depth KEYFRAME, one block in this many is read with its keyframe, and the others only with their
        events. The first and the last block between two gaps, and a block with a new job, always have their keyframe
    times: the corrected times of the parts
    """
    reader = _Reader(parts, times)
    blocks = shown_blocks(parts, begin_ns, end_ns, times)
    run: list[ShownBlock] = []
    waiting: tuple[ShownBlock, SummedBlock] | None = None
    """A block without its keyframe, held back until it is known whether there is a gap before the next block."""
    since_keyframe = 0
    """The number of blocks since the newest one whose keyframe was due."""
    jobs: frozenset[ProcessKey] = frozenset()
    """The jobs in the newest keyframe."""
    for before, block in zip([None, *blocks], blocks, strict=False):
        contents = totals = None
        same_session = _same_session(parts, before, block)
        if block is not blocks[-1] and (begin_ns is None or block.begin_ns >= begin_ns):
            since_keyframe = (since_keyframe + 1) % keyframe_every if same_session else 0
            contents = reader.contents(block, Depth.EVENTS if since_keyframe else depth)
            totals = contents.totals
            if since_keyframe and totals is not None and any(job.key not in jobs for job in totals.tally.jobs):
                contents = reader.contents(block, depth)
            jobs = _jobs_of(contents) or jobs
        if waiting is not None:
            gap = not same_session or contents is None or any(line.gap for line in contents.snapshots)
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
        summed = SummedBlock(contents, not same_session)
        if since_keyframe and not contents.snapshots:
            waiting = (block, summed)
        else:
            yield summed
    if run:
        yield reader.items(run)


def _jobs_of(contents: BlockContents) -> frozenset[ProcessKey]:
    table = contents.snapshots[-1].snapshot.jobs.value if contents.snapshots else None
    return frozenset(() if table is None else table.jobs)


def _same_session(parts: list[FileRecording], before: ShownBlock | None, after: ShownBlock) -> bool:
    """Whether two successive blocks belong to the same session."""
    if before is None:
        return False
    if before.part != after.part:
        return parts[after.part].header.continues
    blocks = parts[before.part].blocks
    return blocks[before.block].session == blocks[after.block].session


def _adjacent(parts: list[FileRecording], before: ShownBlock, after: ShownBlock) -> bool:
    """Whether ``after`` is the next block of the same session and file."""
    blocks = parts[before.part].blocks
    return (before.part, before.block + 1) == (after.part, after.block) and (
        blocks[before.block].session == blocks[after.block].session
    )


def shown_blocks(
    parts: list[FileRecording], begin_ns: int | None, end_ns: int | None, times: CorrectedTimes = AS_RECORDED
) -> list[ShownBlock]:
    """Return the blocks outside the pre-roll that overlap the wall times from begin to end, in order."""
    begins = [
        (p, b, times.begin_ns(part, b))
        for p, part in enumerate(parts)
        for b, block in enumerate(part.blocks)
        if not block.pre
    ]
    ends: list[int | None] = [*(wall_ns for _, _, wall_ns in begins[1:]), None]
    blocks = [ShownBlock(*block, until_ns) for block, until_ns in zip(begins, ends, strict=True)]
    return [block for block in blocks if _within(block, begin_ns, end_ns)]


def _within(block: ShownBlock, begin_ns: int | None, end_ns: int | None) -> bool:
    late = end_ns is not None and block.begin_ns > end_ns
    early = begin_ns is not None and block.until_ns is not None and block.until_ns <= begin_ns
    return not late and not early


class _Reader:
    """Reads blocks, and corrects their wall times by ``times``."""

    def __init__(self, parts: list[FileRecording], times: CorrectedTimes) -> None:
        self._parts = parts
        self._times = times

    def contents(self, block: ShownBlock, depth: Depth) -> BlockContents:
        """Read the totals, the keyframe or the Snapshots of a block, depending on the depth."""
        part = self._parts[block.part]
        recorded, anchor = block_contents(part, block.block, depth), self._times.anchor(part, block.block)
        if anchor is None:
            return recorded
        clock = ClockCorrector(self._times)
        clock.add(*anchor[:3], key=True)
        snapshots = tuple(
            line._replace(snapshot=clock.snapshot(line.snapshot, key=line.key)) for line in recorded.snapshots
        )
        events = [clock.event(event, block.until_ns) for event in recorded.events]
        events += self._times.set_backs.get((block.part, block.block), ())
        return BlockContents(_corrected_totals(recorded.totals, anchor), snapshots, tuple(events))

    def with_keyframe(self, block: ShownBlock, summed: SummedBlock) -> SummedBlock:
        """Read the keyframe of a block of which only the events have been read, and return the block with it."""
        return summed._replace(contents=self.contents(block, Depth.KEYFRAME))

    def items(self, run: list[ShownBlock]) -> Items:
        """Return the Items of adjacent blocks, with the history before them as pre-roll."""
        part, first = self._parts[run[0].part], run[0].block
        block = part.blocks[first]
        entry = part.entry(block.session, block.at_ns)
        return with_corrected_times(part.items(entry.block, fold_ns=block.at_ns, last=run[-1].block + 1), self._times)


def _corrected_totals(line: TotalsLine | None, anchor: Anchor) -> TotalsLine | None:
    """Return a block's totals with corrected wall times, so that the spans of its verdicts do not overlap."""
    if line is None:
        return None
    spans = list[VerdictSpan]()
    for span in line.tally.spans:
        earliest_ns = spans[-1].wall_ns + spans[-1].duration_ns if spans else anchor.corrected_ns - span.duration_ns
        wall_ns = span.wall_ns
        if wall_ns < earliest_ns - TOLERANCE_NS:
            wall_ns = max(earliest_ns, wall_ns + anchor.corrected_ns - anchor.wall_ns)
        spans.append(span._replace(wall_ns=wall_ns))
    tally = line.tally._replace(spans=tuple(spans))
    return line._replace(wall_ns=anchor.corrected(line.at_ns, line.wall_ns), tally=tally)
