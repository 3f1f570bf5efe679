"""The order of processes in a tree: each under its parent, the branch that does most first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotop_ai.model.process import ProcessKey, ProcessTable

DEEPEST = 6
"""Deeper ones are indented no further: the name is to be read."""


def parents(table: ProcessTable) -> dict[ProcessKey, ProcessKey]:
    """The parent of each process of the table whose parent is in it, too."""
    by_pid = {key.pid: key for key in table.info}
    out = {}
    for key in table.info:
        stat = table.stat.get(key)
        above = None if stat is None else by_pid.get(stat.ppid)
        if above is not None and above != key:
            out[key] = above
    return out


def with_parents(wanted: Iterable[ProcessKey], above: Mapping[ProcessKey, ProcessKey]) -> set[ProcessKey]:
    """Those wanted and all above them."""
    out: set[ProcessKey] = set()
    for key in wanted:
        here: ProcessKey | None = key
        while here is not None and here not in out:
            out.add(here)
            here = above.get(here)
    return out


def branches(
    measures: Mapping[ProcessKey, tuple[float, ...]], above: Mapping[ProcessKey, ProcessKey]
) -> list[tuple[ProcessKey, str]]:
    """(process, the lines before its name) from top to bottom; what a branch measures is its largest member.

    measures: of those that are shown; larger ones come first, equal ones by pid.
    """
    below: dict[ProcessKey | None, list[ProcessKey]] = {}
    for key in measures:
        here = above.get(key)
        below.setdefault(here if here in measures else None, []).append(key)
    most = dict(measures)
    for key in _deepest_first(below):
        here = above.get(key)
        if here in most:
            most[here] = max(most[here], most[key])
    for children in below.values():
        children.sort(key=lambda key: (*(-value for value in most[key]), key.pid))
    out: list[tuple[ProcessKey, str]] = []
    waiting = [(key, "", "") for key in reversed(below.get(None, ()))]
    while waiting:
        key, mark, rest = waiting.pop()
        out.append((key, mark))
        children = below.get(key, [])
        deeper = len(rest) < 2 * DEEPEST
        for number, child in enumerate(reversed(children)):
            last = number == 0
            waiting.append(
                (child, rest + ("└ " if last else "├ "), rest + ("  " if last else "│ ") if deeper else rest)
            )
    return out


def _deepest_first(below: Mapping[ProcessKey | None, list[ProcessKey]]) -> list[ProcessKey]:
    """Every process of a tree after all below it."""
    out: list[ProcessKey] = []
    waiting = list(below.get(None, ()))
    while waiting:
        key = waiting.pop()
        out.append(key)
        waiting.extend(below.get(key, ()))
    return out[::-1]
