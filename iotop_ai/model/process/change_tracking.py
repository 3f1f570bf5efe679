"""Dicts that record which keys changed since their previous state.

They serve to find ten changes among ten thousand records without comparing all records. ``changed`` and ``removed``
return the difference of two mappings. If one mapping is the state directly after the other, they compare only the
recorded keys; otherwise they compare all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import compress
from operator import is_not
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TrackedDict(dict[K, V]):
    """One state of a mapping that changes over time; a published state must not be changed.

    mark: an object that identifies this state for the next one
    before: the mark of the previous state; None if ``touched`` cannot be used and all keys have to be compared
    touched: the keys that were set or removed since the previous state, in the order of the changes
    flagged: the keys of the values that the builder's ``flag`` selects; None without a flag
    """

    __slots__ = ("before", "flagged", "mark", "touched")

    def __init__(self, older: TrackedDict[K, V] | None = None) -> None:
        super().__init__(older or ())
        self.mark = object()
        self.before = None if older is None else older.mark
        self.touched: dict[K, None] = {}
        self.flagged: dict[K, None] | None = None if older is None or older.flagged is None else dict(older.flagged)


class TrackedDictBuilder(Generic[K, V]):
    """Builds the states of a mapping. Values are never None.

    now: the newest state; the first change after ``mark_published`` replaces it by a copy
    flag: a predicate on values; the state's ``flagged`` holds the keys of the values that meet it
    """

    def __init__(self, flag: Callable[[V], bool] | None = None) -> None:
        self.now: TrackedDict[K, V] = TrackedDict()
        self._flag = flag
        if flag is not None:
            self.now.flagged = {}
        self._published = False

    def mark_published(self) -> None:
        """Note that ``now`` has been published, so that the next change is made to a copy."""
        self._published = True

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        now = self._writable()
        if key in now.touched and key not in now:
            # A key that was removed and set again is now last in the order, which ``touched`` does not show.
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
        """Remove a key and return its value; None if the key is missing."""
        if key not in self.now:
            return None
        now = self._writable()
        if now.before is not None:
            now.touched[key] = None
        if now.flagged is not None:
            now.flagged.pop(key, None)
        return now.pop(key)

    def _writable(self) -> TrackedDict[K, V]:
        if self._published:
            self.now, self._published = TrackedDict(self.now), False
        return self.now


def follows(new: Mapping[K, V], old: Mapping[K, V]) -> bool:
    """Whether ``new`` is the state directly after ``old`` and records the changes between them."""
    return isinstance(new, TrackedDict) and isinstance(old, TrackedDict) and new.before is old.mark


def changed(new: Mapping[K, V], old: Mapping[K, V]) -> Collection[K]:
    """The keys of ``new`` that ``old`` lacks or maps to another object. Values are never None."""
    if new is old:
        return ()
    if isinstance(new, TrackedDict) and follows(new, old):
        return [key for key in new.touched if key in new and new[key] is not old.get(key)]
    return list(compress(new, map(is_not, new.values(), counterparts(new, old))))


def counterparts(new: Mapping[K, V], old: Mapping[K, V]) -> Iterable[V | None]:
    """The value in ``old`` for each key of ``new``; None for a key that ``old`` lacks."""
    # If the keys and their order are equal, the keys need not be looked up one by one.
    return old.values() if len(new) == len(old) and list(new) == list(old) else map(old.get, new)


def removed(new: Mapping[K, V], old: Mapping[K, V]) -> Collection[K]:
    """The keys of ``old`` that ``new`` lacks."""
    if new is old:
        return ()
    if isinstance(new, TrackedDict) and follows(new, old):
        return [key for key in new.touched if key not in new and key in old]
    # The keys are compared in C. If they are equal, none was removed.
    if len(new) == len(old) and new.keys() == old.keys():
        return ()
    return [key for key in old if key not in new]
