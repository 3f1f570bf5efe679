"""The part of a recording's block that a reader needs: its totals, its keyframe, or all of it."""

from __future__ import annotations

from enum import Enum

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import InputError
from iotop_ai.model.snapshot import Event
from iotop_ai.store.format.codec import Decoder, SnapLine, TotalsLine
from iotop_ai.store.format.line_head import EVENT, SNAP, TOTALS, has_gap
from iotop_ai.store.format.size_limits import ReaderBudget
from iotop_ai.store.read.file import FileRecording


class Depth(Enum):
    """How much of a block is decoded; for 60 Snapshots, the four depths take times in the ratio 1 : 1 : 5 : 70."""

    TOTALS = "totals"
    EVENTS = "events"
    """The totals and events, and the keyframe if Snapshots before it were dropped."""
    KEYFRAME = "keyframe"
    """The totals, events and keyframe."""
    SNAPSHOTS = "snapshots"
    """Everything."""


class BlockContents(NamedTuple):
    """The contents of a block of a recording.

    totals: the totals of the block; None if it does not contain them
    snapshots: those that the depth asks for, oldest first, without fold states
    events: the events of all ev lines in the block; () at depth TOTALS
    """

    totals: TotalsLine | None
    snapshots: tuple[SnapLine, ...] = ()
    events: tuple[Event, ...] = ()


def block_contents(recording: FileRecording, index: int, depth: Depth) -> BlockContents:
    """Read one block. Raises InputError.

    Totals before its last Snapshot are ignored. Callers must check with ``FileRecording.stamp_of`` that the
    totals were computed by the same rules as this program's.
    """
    block, decoder = recording.blocks[index], Decoder(ReaderBudget(), with_states=False)
    snapshots: list[SnapLine] = []
    events: list[Event] = []
    totals, number, has_snap = None, 0, False
    try:
        for number, line in enumerate(recording.raw_lines(block), 1):  # noqa: B007 - for the error
            if line.startswith(TOTALS):
                totals = decoder.read(line)
            elif line.startswith(SNAP):
                totals = None
                first, has_snap = not has_snap, True
                if depth is Depth.SNAPSHOTS or (first and _keeps_keyframe(depth, line)):
                    item = decoder.read(line)
                    snapshots += [item] if isinstance(item, SnapLine) else []
                else:
                    decoder.skip(line)
            elif line.startswith(EVENT) and depth is not Depth.TOTALS:
                event = decoder.read(line)
                events += [event] if isinstance(event, Event) else []
    except InputError as error:
        raise InputError(f"{recording.path}: {recording.place(block, number)}: {error}") from None
    return BlockContents(totals if isinstance(totals, TotalsLine) else None, tuple(snapshots), tuple(events))


def _keeps_keyframe(depth: Depth, line: bytes) -> bool:
    return depth is Depth.KEYFRAME or (depth is Depth.EVENTS and has_gap(line))
