"""Tagged processes: the sign before their rows, and their number.

A tag belongs to a process (pid and start time), not to a row: it survives sorting, filtering and grouping, and ends
with its process.
"""

from __future__ import annotations

from collections.abc import Collection

from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.text.line import cells

Tags = frozenset[ProcessKey]

ALL, SOME = "*", "+"
"""The signs before a row: all of its processes are tagged, or some are."""


def tag_sign(keys: Collection[ProcessKey], tagged: Tags) -> str:
    """The sign before the row of these processes; "" when none is tagged."""
    if not tagged:
        return ""
    count = sum(key in tagged for key in keys)
    return "" if not count else ALL if count == len(keys) else SOME


def toggle_tags(tagged: Tags, keys: Collection[ProcessKey]) -> Tags:
    """The tags with all of these processes, or without them when all of them are tagged."""
    return tagged.difference(keys) if tagged.issuperset(keys) else tagged.union(keys)


def existing_tags(tagged: Tags, *snapshots: Snapshot) -> Tags:
    """The tags of processes in one of the Snapshots; all tags when a process table is unknown.

    While looking back, the shown Snapshot and the newest one differ; a process in either keeps its tag.
    """
    tables = [snapshot.processes.value for snapshot in snapshots]
    infos = [table.info for table in tables if table is not None]
    if not tagged or len(infos) < len(tables):
        return tagged
    existing = frozenset(key for key in tagged if any(key in info for info in infos))
    return tagged if existing == tagged else existing


def tagged_note(tagged: Tags, note: str, room: int) -> str:
    """The note behind a panel's title with the number of tags, shortened to ``room`` columns."""
    if not tagged:
        return note
    number = f"{len(tagged)} tagged"
    return next((text for text in (f"{number}, {note}", number) if cells(text) <= room), f"{len(tagged)}{ALL}")
