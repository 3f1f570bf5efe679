"""What a view gets: the newest Snapshot, its Sample, the Samples of the last minute and the verdict."""

from __future__ import annotations

from iotop_ai.model.carry import Carry
from iotop_ai.model.finding import Verdict
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

HISTORY_S = 60.0
HISTORY_LEAST = 5
"""Samples that a history holds at any interval: a rule needs three and the window's edge."""


class Frame(NamedTuple):
    """history: Samples in (t - 60 s, t] and at least the newest five, oldest first; the last is ``sample``."""

    snapshot: Snapshot
    sample: Sample
    history: tuple[Sample, ...]
    carry: Carry
    verdict: Verdict
