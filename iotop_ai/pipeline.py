"""Snapshots in, Frames out: the only place where pairs are formed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iotop_ai.diagnosis.engine import fold
from iotop_ai.model.carry import Carry
from iotop_ai.model.frame import HISTORY_S, Frame
from iotop_ai.model.sample import Sample, between, is_pair
from iotop_ai.model.snapshot import Snapshot


def frames(
    snapshots: Iterable[Snapshot],
    *,
    before: Snapshot | None = None,
    last: Sample | None = None,
    history: tuple[Sample, ...] = (),
    carry: Carry | None = None,
) -> Iterator[Frame]:
    """One Frame per Snapshot, live, replayed or from a list.

    before, last, history, carry: where to go on from (after a seek). A Snapshot of another boot starts a new
    session: no pair, no history, an empty carry.
    """
    carry = carry or Carry()
    for snapshot in snapshots:
        if before is not None and not is_pair(before, snapshot):
            before, last, history, carry = None, None, (), Carry()
        sample = between(before, snapshot, last)
        oldest = snapshot.at_ns - int(HISTORY_S * 1e9)
        history = (*(s for s in history if s.at_ns > oldest), sample)
        carry, verdict = fold(carry, snapshot, history)
        yield Frame(snapshot, sample, history, carry, verdict)
        before, last = snapshot, sample
