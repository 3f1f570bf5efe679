"""The long memory of the fold: small, comparable, kept in every keyframe of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.process import ProcessKey


class Held(NamedTuple):
    """A finding that is on. entered_ns: when it came on; last_true_ns: newest sample in which its condition held."""

    finding: Finding
    entered_ns: int
    last_true_ns: int


class Carry(NamedTuple):
    """What the fold knows beyond the window.

    started_ns: first sample of this session. held: by (class_id, subject). active_ns: newest time at which a device
    that hides when idle (loop, ram, zram, rom) did anything. verdict, decided_ns: the newest decision and its time;
    between two decisions (below a second apart) it stands. states: (at_ns, state word) at each change, oldest first,
    of the last hour. lost: hours that each job has lost so far, by its key. classes: (at_ns, class of the verdict) at
    each change, like ``states``.
    """

    started_ns: int | None = None
    held: Mapping[tuple[str, str], Held] = {}
    active_ns: Mapping[str, int] = {}
    verdict: Verdict | None = None
    decided_ns: int | None = None
    states: tuple[tuple[int, str], ...] = ()
    lost: Mapping[ProcessKey, float] = {}
    classes: tuple[tuple[int, str], ...] = ()
