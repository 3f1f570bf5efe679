"""A recording in pieces: what was counted of a block when it was written, and the blocks that must be folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iotop_ai.diagnosis.stamp import stamp
from iotop_ai.model.keyframe import Keyframe
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.codec import Tallied
from iotop_ai.store.file import FileRecording

Items = Iterator[Snapshot | Keyframe]
"""What ``pipeline.frames`` takes; only what is not of a pre-roll gives Frames."""


class Place(NamedTuple):
    """A block that is shown. begin_ns: wall time of its keyframe; until_ns: of the next block's, None of the last."""

    part: int
    block: int
    begin_ns: int
    until_ns: int | None


def same_rules(parts: list[FileRecording]) -> bool:
    """Whether the rules of today made all that was kept: else one memory was never handed on to the next, and only
    the whole can be folded anew.
    """
    known = stamp()
    return all(part.stamp_of(block) == known for part in parts for block in range(len(part.blocks)))


def pieces(parts: list[FileRecording], begin_ns: int | None, end_ns: int | None) -> Iterator[Tallied | Items]:
    """The stretch of wall time from begin to end, both included (None: all), in order.

    The parts must be of the same rules. Items reach beyond both times; the last piece is always of Items.
    """
    places = [p for p in _places(parts) if _within(p, begin_ns, end_ns)]
    run: list[Place] = []
    for place in places:
        counted = None
        if place is not places[-1] and (begin_ns is None or place.begin_ns >= begin_ns):
            counted = parts[place.part].tally(place.block)
        if counted is None or (end_ns is not None and counted.wall_ns > end_ns):
            if run and not _follows(parts, run[-1], place):
                yield _folded(parts, run)
                run = []
            run.append(place)
            continue
        if run:
            yield _folded(parts, run)
            run = []
        yield counted
    if run:
        yield _folded(parts, run)


def _follows(parts: list[FileRecording], before: Place, after: Place) -> bool:
    """Whether a block stands right behind another one of its session in the same file."""
    blocks = parts[before.part].blocks
    return (before.part, before.block + 1) == (after.part, after.block) and (
        blocks[before.block].session == blocks[after.block].session
    )


def _places(parts: list[FileRecording]) -> list[Place]:
    shown = [
        (p, b, block.wall_ns) for p, part in enumerate(parts) for b, block in enumerate(part.blocks) if not block.pre
    ]
    ends: list[int | None] = [*(wall_ns for _, _, wall_ns in shown[1:]), None]
    return [Place(*place, until_ns) for place, until_ns in zip(shown, ends, strict=True)]


def _within(place: Place, begin_ns: int | None, end_ns: int | None) -> bool:
    late = end_ns is not None and place.begin_ns > end_ns
    early = begin_ns is not None and place.until_ns is not None and place.until_ns <= begin_ns
    return not late and not early


def _folded(parts: list[FileRecording], run: list[Place]) -> Items:
    """Blocks that follow each other, with the history before them as pre-roll."""
    part, first = parts[run[0].part], run[0].block
    block = part.blocks[first]
    entry = part.entry(block.session, block.at_ns)
    return part.items(entry.block, folds_ns=block.at_ns, last=run[-1].block + 1)
