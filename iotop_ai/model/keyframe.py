"""A Snapshot from which a reader of a recording can continue, with its rates and the state of the fold.

The fold is ``diagnosis.engine.fold()``, which runs the rules and passes their state from one Sample to the next.
"""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

SPACING_S = 0.05
"""The shortest time in seconds between two Snapshots of a recording. A fold that begins with a keyframe's state
continues with the next Snapshot, so it needs the Samples of only HISTORY_S - SPACING_S before the keyframe. With the
whole HISTORY_S, a seek would read one more block (the lines from one keyframe to the next) whenever a block is slightly
shorter than HISTORY_S, such as 59.999 s."""


class Keyframe(NamedTuple):
    """A Snapshot with the state of the fold."""

    snapshot: Snapshot
    carry: FoldState | None
    """The state after this Snapshot; None if another version of the rules made it, so that the fold must run
    again."""
    last: Sample | None
    """The Sample that ends at this Snapshot; None if it was not recorded."""
    gap: bool = False
    """Whether Snapshots before this one were dropped, so that no pair of Snapshots may span them."""
    session: bool = False
    """Whether the keyframe begins a session: no Snapshot before it belongs to that session."""
    pre: bool = False
    """Whether the keyframe is pre-roll: it gives the fold a history before the first Frame, and yields no Frame."""
    folds: bool = True
    """Whether the fold must run here; False if a later keyframe's state is used and only the Sample is needed."""
