"""Patterns that are compiled when they are first used: a start has dozens of them and needs few."""

from __future__ import annotations

import re

from iotop_ai.model.typed import Any, TypeVar, cast

AnyText = TypeVar("AnyText", str, bytes)


class _Later:
    """Stands for a pattern; each of its methods is the pattern's own from its second use on."""

    def __init__(self, text: Any, flags: int) -> None:
        self._how = (text, flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(re.compile(*self._how), name)
        setattr(self, name, found)
        return found


def pattern(text: AnyText, flags: int = 0) -> re.Pattern[AnyText]:
    """As ``re.compile``, at the first use; a wrong pattern is then an error, so each is used in a test."""
    return cast("re.Pattern[AnyText]", _Later(text, flags))
