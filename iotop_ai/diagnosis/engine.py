"""Runs the rules over the window and ranks what they find."""

from __future__ import annotations

from iotop_ai.model.carry import Carry
from iotop_ai.model.finding import Verdict
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot


def fold(carry: Carry, snapshot: Snapshot, history: tuple[Sample, ...]) -> tuple[Carry, Verdict]:
    """The next carry and the verdict at ``snapshot``."""
    raise NotImplementedError
