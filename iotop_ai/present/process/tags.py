"""Tagged processes: the mark before their rows, and their number.

A tag belongs to a process, identified by pid and start time, not to a row. It survives sorting, filtering and grouping,
and ends with the process.
"""

from __future__ import annotations

from collections.abc import Collection

from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.text.line import cells

Tags = frozenset[ProcessKey]

ALL, SOME = "*", "+"
"""The marks before a row: ALL if all of its processes are tagged, SOME if only some are."""


def tag_sign(keys: Collection[ProcessKey], tagged: Tags) -> str:
    """The mark before the row of these processes; "" if none of them is tagged."""
    if not tagged:
        return ""
    count = sum(key in tagged for key in keys)
    return "" if not count else ALL if count == len(keys) else SOME


def toggle_tags(tagged: Tags, keys: Collection[ProcessKey]) -> Tags:
    """The tags with all of these processes added; if all were tagged already, without them."""
    return tagged.difference(keys) if tagged.issuperset(keys) else tagged.union(keys)


def existing_tags(tagged: Tags, *snapshots: Snapshot) -> Tags:
    """The tags of the processes in any of the Snapshots; all tags if a process table is unknown.

    When the user looks back, the Snapshot shown and the newest one differ. A process that is in either Snapshot keeps
    its tag.
    """
    tables = [snapshot.processes.value for snapshot in snapshots]
    infos = [table.info for table in tables if table is not None]
    if not tagged or len(infos) < len(tables):
        return tagged
    existing = frozenset(key for key in tagged if any(key in info for info in infos))
    return tagged if existing == tagged else existing


def tagged_note(tagged: Tags, note: str, room: int) -> str:
    """The number of tags and the note after a panel's title, shortened to ``room`` columns."""
    if not tagged:
        return note
    number = f"{len(tagged)} tagged"
    return next((text for text in (f"{number}, {note}", number) if cells(text) <= room), f"{len(tagged)}{ALL}")
