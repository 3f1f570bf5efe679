"""A Snapshot from which a fold can continue, with the fold's state and the Snapshot's rates."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

SPACING_S = 0.05
"""No two Snapshots of a recording lie closer. The fold continues with the Snapshot after a keyframe, so its window
begins that much later; without this limit a seek reads one more block where a block lasts 59.999 s."""


class Keyframe(NamedTuple):
    """A Snapshot with the state of the fold."""

    snapshot: Snapshot
    carry: FoldState | None
    """The state after this Snapshot; None when other rules decided and the fold must run again."""
    last: Sample | None
    """The Snapshot's own Sample."""
    gap: bool = False
    """Snapshots before it were dropped, so that no pair reaches across."""
    session: bool = False
    """The keyframe begins a session: no Snapshot before it belongs to the session."""
    pre: bool = False
    """The keyframe is pre-roll (with or without a state): it builds history and yields no Frame."""
    folds: bool = True
    """False where the result of the fold is not needed, because a later state is adopted: only its Sample counts."""
