"""A Snapshot from which a fold can go on: with the memory and the rates that stood at it."""

from __future__ import annotations

from iotop_ai.model.carry import Carry
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

SPACING_S = 0.05
"""No two Snapshots of a recording lie closer. The fold goes on with the Snapshot behind a keyframe, whose window begins
that much later; without this a whole block more would be read where one lasts 59.999 s."""


class Keyframe(NamedTuple):
    """carry: after the fold at this Snapshot; None when it was made by other rules and must be folded again.

    last: the Snapshot's own Sample. gap: Snapshots before it were dropped, so no pair reaches across.
    session: the first of a session: what came before does not belong to it.
    pre: of the pre-roll (with or without memory): it builds history and gives no Frame. folds: False where nobody needs
    what it would fold to, because the memory is adopted later: only its Sample counts.
    """

    snapshot: Snapshot
    carry: Carry | None
    last: Sample | None
    gap: bool = False
    session: bool = False
    pre: bool = False
    folds: bool = True
