"""Rows that the viewer has tagged: which process each is, how it is marked, and all of them as text to paste.

A tag is on a process (pid and start time), not on a row: it stays through sorting, filtering and folding, and goes with
its process.
"""

from __future__ import annotations

from collections.abc import Collection

from iotop_ai.model.process import ProcessKey
from iotop_ai.model.snapshot import Snapshot

Tags = frozenset[ProcessKey]

ALL, SOME = "*", "+"
"""Before a row: each of its processes is tagged; some are. Signs, so that they show without colour."""


def mark_of(keys: Collection[ProcessKey], tagged: Tags) -> str:
    """What stands before the row of these processes; "" when none is tagged."""
    if not tagged:
        return ""
    many = sum(key in tagged for key in keys)
    return "" if not many else ALL if many == len(keys) else SOME


def toggled(tagged: Tags, keys: Collection[ProcessKey]) -> Tags:
    """With each of them tagged, or, when all are, with none of them."""
    return tagged.difference(keys) if tagged.issuperset(keys) else tagged.union(keys)


def still_there(tagged: Tags, *snapshots: Snapshot) -> Tags:
    """Those whose process is in one of the Snapshots; all of them where one cannot tell.

    While looking back the picture and now are two Snapshots, and a tag is kept for either.
    """
    tables = [snapshot.processes.value for snapshot in snapshots]
    known = [table.info for table in tables if table is not None]
    if not tagged or len(known) < len(tables):
        return tagged
    left = frozenset(key for key in tagged if any(key in info for info in known))
    return tagged if left == tagged else left


def counted(tagged: Tags, note: str, room: int) -> str:
    """The note behind a panel's title with how many are tagged, as much of it as ``room`` columns take."""
    if not tagged:
        return note
    said = f"{len(tagged)} tagged"
    return next((text for text in (f"{said}, {note}", said) if len(text) <= room), f"{len(tagged)}{ALL}")
