"""Mappings that remember what was changed since the one before, so that nobody compares ten thousand records to find
the ten that are new.

A Followed is a dict like any other; who made it from another one wrote down the keys that were put or dropped since.
``changed`` and ``gone`` ask for the difference of two mappings and look through those keys only where the two are
known to follow each other, else through all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import compress
from operator import is_not

from iotop_ai.model.typed import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Followed(dict[K, V]):
    """One state of a mapping that changes by and by; not to be changed once it was handed out.

    mark: its successor knows it by that. before: the mark of the one it was made from, None where all is to be
    compared. touched: the keys that were put or dropped since then, new ones in their order. flagged: the keys whose
    values the ledger's question is true of, None where it has none.
    """

    __slots__ = ("before", "flagged", "mark", "touched")

    def __init__(self, older: Followed[K, V] | None = None) -> None:
        super().__init__(older or ())
        self.mark = object()
        self.before = None if older is None else older.mark
        self.touched: dict[K, None] = {}
        self.flagged: dict[K, None] | None = None if older is None or older.flagged is None else dict(older.flagged)


class Ledger(Generic[K, V]):
    """Where a mapping is changed. now: its newest state, the same object until something changes after a ``turn``.

    Values are never None. flag: the question whose answers ``flagged`` holds.
    """

    def __init__(self, flag: Callable[[V], bool] | None = None) -> None:
        self.now: Followed[K, V] = Followed()
        self._flag = flag
        if flag is not None:
            self.now.flagged = {}
        self._handed = False

    def turn(self) -> None:
        """What ``now`` is was handed out: the next change is made in a copy."""
        self._handed = True

    def put(self, key: K, value: V) -> None:
        """Set a key's value."""
        now = self._own()
        if key in now.touched and key not in now:
            # It went and came back: it has another place among the keys, which nothing here tells.
            now.before, now.touched = None, {}
        if now.before is not None:
            now.touched[key] = None
        now[key] = value
        if self._flag is not None and now.flagged is not None:
            if self._flag(value):
                now.flagged[key] = None
            else:
                now.flagged.pop(key, None)

    def drop(self, key: K) -> V | None:
        """Take a key out; its value, None where there is none."""
        if key not in self.now:
            return None
        now = self._own()
        if now.before is not None:
            now.touched[key] = None
        if now.flagged is not None:
            now.flagged.pop(key, None)
        return now.pop(key)

    def _own(self) -> Followed[K, V]:
        if self._handed:
            self.now, self._handed = Followed(self.now), False
        return self.now


def follows(new: Mapping[K, V], old: Mapping[K, V]) -> bool:
    """Whether what changed between the two is written down."""
    return isinstance(new, Followed) and isinstance(old, Followed) and new.before is old.mark


def changed(new: Mapping[K, V], old: Mapping[K, V]) -> Collection[K]:
    """The keys of ``new`` that ``old`` has not, or with another object as their value. Values are never None."""
    if new is old:
        return ()
    if isinstance(new, Followed) and follows(new, old):
        return [key for key in new.touched if key in new and new[key] is not old.get(key)]
    return list(compress(new, map(is_not, new.values(), counterparts(new, old))))


def counterparts(new: Mapping[K, V], old: Mapping[K, V]) -> Iterable[V | None]:
    """What ``old`` has for each key of ``new``, None for a key that it has not."""
    # The same keys in the same order need no look-up of each.
    return old.values() if len(new) == len(old) and list(new) == list(old) else map(old.get, new)


def gone(new: Mapping[K, V], old: Mapping[K, V]) -> Collection[K]:
    """The keys of ``old`` that ``new`` has not."""
    if new is old:
        return ()
    if isinstance(new, Followed) and follows(new, old):
        return [key for key in new.touched if key not in new and key in old]
    # As many keys, all of them among the others: none went, and C says so.
    if len(new) == len(old) and new.keys() == old.keys():
        return ()
    return [key for key in old if key not in new]
