"""Writes the keys of mappings as text, and reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from iotop_ai.model.clean import clean
from iotop_ai.store.format.scalars import ShapeError, checked_int

_MOST_CACHED = 4096
_LONGEST_CACHED = 64


class KeyText:
    """The text form of a type's keys: a string is unchanged, an int is decimal, a record's fields are joined with "/".

    The text of a record is split from the right. A plain tuple (a finding's class and subject) is split from the left,
    because the subject may be a path.
    """

    def __init__(self, dump: Callable[[Any], str], load: Callable[[str], Any]) -> None:
        self.dump = dump
        self._load = load
        self._cached: dict[str, Any] = {}

    def load(self, text: Any) -> Any:
        """The key for a text. Raises ShapeError.

        A small cache makes most equal keys the same object.
        """
        if type(text) is not str:
            raise ShapeError("a key expected")
        key = self._cached.get(text)
        if key is not None:
            return key
        try:
            key = self._load(text)
        except (ValueError, TypeError):
            raise ShapeError("not a key") from None
        if len(self._cached) >= _MOST_CACHED:
            self._cached = {}
        if len(text) <= _LONGEST_CACHED:
            self._cached[text] = key
        return key


def key_text(hint: Any) -> KeyText:
    """The text form for keys of a type: str, int, a NamedTuple or a tuple of str and int."""
    if hint is str:
        return KeyText(str, clean)
    if hint is int:
        return KeyText(str, checked_int)
    kinds = list(get_type_hints(hint).values()) if hasattr(hint, "_fields") else list(get_args(hint))
    reads = [clean if kind is str else checked_int if kind is int else kind for kind in kinds]
    make, split = (hint, str.rsplit) if hasattr(hint, "_fields") else (lambda *parts: tuple(parts), str.split)

    def load(text: str) -> Any:
        parts = split(text, "/", len(kinds) - 1)
        return make(*(read(part) for read, part in zip(reads, parts, strict=True)))

    # Most keys have two parts, and a join takes over twice as long.
    if len(kinds) == 2 and all(kind in (str, int) for kind in kinds):
        return KeyText(lambda key: f"{key[0]}/{key[1]}", load)
    return KeyText(lambda key: "/".join(map(str, key)), load)
