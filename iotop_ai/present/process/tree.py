"""The order of processes in a tree: each under its parent, the branch with the largest member first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotop_ai.model.process.records import ProcessKey, ProcessTable

MOST_INDENTS = 6
"""Levels deeper than this are not indented further, so that the names stay readable."""


def parents(table: ProcessTable) -> dict[ProcessKey, ProcessKey]:
    """The parent of each process whose parent is in the table too.

    A stat may be old, because stats are read in turns: its ppid may belong to a process that has ended, or by now to a
    younger process.
    """
    by_pid = {key.pid: key for key in table.info}
    out = {}
    for key in table.info:
        stat = table.stat.get(key)
        parent = None if stat is None else by_pid.get(stat.ppid)
        if parent is not None and parent != key and parent.start_ticks <= key.start_ticks:
            out[key] = parent
    return out


def with_ancestors(keys: Iterable[ProcessKey], parent_of: Mapping[ProcessKey, ProcessKey]) -> set[ProcessKey]:
    """These processes and all their ancestors."""
    out: set[ProcessKey] = set()
    for key in keys:
        process: ProcessKey | None = key
        while process is not None and process not in out:
            out.add(process)
            process = parent_of.get(process)
    return out


def branches(
    measures: Mapping[ProcessKey, tuple[float, ...]], parent_of: Mapping[ProcessKey, ProcessKey]
) -> list[tuple[ProcessKey, str]]:
    """(process, the characters of the tree's branches before its name) from top to bottom. A branch is sorted by its
    largest member.

    measures: the sort values of each process that has a row; larger values come first, equal ones are sorted by pid.
    """
    below: dict[ProcessKey | None, list[ProcessKey]] = {}
    for key in measures:
        parent = parent_of.get(key)
        below.setdefault(parent if parent in measures else None, []).append(key)
    most = dict(measures)
    for key in _deepest_first(below):
        parent = parent_of.get(key)
        if parent in most:
            most[parent] = max(most[parent], most[key])
    for children in below.values():
        children.sort(key=lambda key: (*(-value for value in most[key]), key.pid))
    out: list[tuple[ProcessKey, str]] = []
    stack = [(key, "", "") for key in reversed(below.get(None, ()))]
    while stack:
        key, mark, indent = stack.pop()
        out.append((key, mark))
        children = below.get(key, [])
        for number, child in enumerate(reversed(children)):
            last = number == 0
            deeper = indent + ("  " if last else "│ ") if len(indent) < 2 * MOST_INDENTS else indent
            stack.append((child, indent + ("└ " if last else "├ "), deeper))
    return out


def _deepest_first(below: Mapping[ProcessKey | None, list[ProcessKey]]) -> list[ProcessKey]:
    """The processes of a tree, each after its descendants."""
    out: list[ProcessKey] = []
    stack = list(below.get(None, ()))
    while stack:
        key = stack.pop()
        out.append(key)
        stack.extend(below.get(key, ()))
    return out[::-1]
