"""A recording as the recorded totals of its blocks, where they can be used, and Snapshots to fold for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iotop_ai.diagnosis.rules_version import stamp
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.read.block_contents import BlockContents, Depth, block_contents
from iotop_ai.store.read.file import FileRecording

Items = Iterator[Snapshot | Keyframe]
"""Input of ``pipeline.frames``; pre-roll in it yields no Frame."""


class ShownBlock(NamedTuple):
    """A block outside the pre-roll. begin_ns: wall time of its keyframe. until_ns: of the next, None at the end."""

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

    A fold state of other rules was not handed on to the next, so only the whole recording can be folded anew.
    """
    own_stamp = stamp()
    return all(part.stamp_of(block) == own_stamp for part in parts for block in range(len(part.blocks)))


def blocks_or_totals(
    parts: list[FileRecording],
    begin_ns: int | None,
    end_ns: int | None,
    depth: Depth = Depth.TOTALS,
    each: int = 1,
) -> Iterator[SummedBlock | Items]:
    """The blocks of the wall time from begin to end (both included, None: all), in order: summed, or Items to fold.

    Call it where ``same_rules``. Items reach beyond both times; the last yielded are always Items. depth: of the blocks
    that are not folded. each: of KEYFRAME, of so many blocks one has its keyframe, the others their events only. The
    first and the last block of what was recorded without a gap always have it, and blocks with a job that the keyframe
    before lacks.
    """
    blocks = shown_blocks(parts, begin_ns, end_ns)
    run: list[ShownBlock] = []
    waiting: tuple[ShownBlock, SummedBlock] | None = None
    """A block without its keyframe, until it is known whether the next follows it without a gap."""
    thin = 0
    jobs: frozenset[ProcessKey] = frozenset()
    """Of the newest keyframe."""
    for before, block in zip([None, *blocks], blocks, strict=False):
        contents = totals = None
        joins = _same_session(parts, before, block)
        if block is not blocks[-1] and (begin_ns is None or block.begin_ns >= begin_ns):
            thin = (thin + 1) % each if joins else 0
            contents = block_contents(parts[block.part], block.block, Depth.EVENTS if thin else depth)
            totals = contents.totals
            if thin and totals is not None and any(job.key not in jobs for job in totals.tally.jobs):
                contents = block_contents(parts[block.part], block.block, depth)
            jobs = _jobs_of(contents) or jobs
        if waiting is not None:
            gap = not joins or contents is None or any(line.gap for line in contents.snapshots)
            yield _with_keyframe(parts, *waiting) if gap else waiting[1]
            waiting = None
        if contents is None or totals is None or (end_ns is not None and totals.wall_ns > end_ns):
            if run and not _adjacent(parts, run[-1], block):
                yield _items(parts, run)
                run = []
            run.append(block)
            continue
        if run:
            yield _items(parts, run)
            run = []
        summed = SummedBlock(contents, not joins)
        if thin and not contents.snapshots:
            waiting = (block, summed)
        else:
            yield summed
    if run:
        yield _items(parts, run)


def _jobs_of(contents: BlockContents) -> frozenset[ProcessKey]:
    table = contents.snapshots[-1].snapshot.jobs.value if contents.snapshots else None
    return frozenset(() if table is None else table.jobs)


def _with_keyframe(parts: list[FileRecording], block: ShownBlock, summed: SummedBlock) -> SummedBlock:
    return summed._replace(contents=block_contents(parts[block.part], block.block, Depth.KEYFRAME))


def _same_session(parts: list[FileRecording], before: ShownBlock | None, after: ShownBlock) -> bool:
    """Whether two blocks that follow each other are of one session."""
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


def shown_blocks(parts: list[FileRecording], begin_ns: int | None, end_ns: int | None) -> list[ShownBlock]:
    """The blocks outside the pre-roll that reach into this wall time, in order."""
    shown = [
        (p, b, block.wall_ns) for p, part in enumerate(parts) for b, block in enumerate(part.blocks) if not block.pre
    ]
    ends: list[int | None] = [*(wall_ns for _, _, wall_ns in shown[1:]), None]
    blocks = [ShownBlock(*block, until_ns) for block, until_ns in zip(shown, ends, strict=True)]
    return [block for block in blocks if _within(block, begin_ns, end_ns)]


def _within(block: ShownBlock, begin_ns: int | None, end_ns: int | None) -> bool:
    late = end_ns is not None and block.begin_ns > end_ns
    early = begin_ns is not None and block.until_ns is not None and block.until_ns <= begin_ns
    return not late and not early


def _items(parts: list[FileRecording], run: list[ShownBlock]) -> Items:
    """Adjacent blocks, with the history before them as pre-roll."""
    part, first = parts[run[0].part], run[0].block
    block = part.blocks[first]
    entry = part.entry(block.session, block.at_ns)
    return part.items(entry.block, folds_ns=block.at_ns, last=run[-1].block + 1)
