"""Loggers of the ``logging`` module, which is imported when something is logged: it is dear, and little is logged."""

from __future__ import annotations

import sys
from collections.abc import Callable

from iotop_ai.model.typed import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import logging

_before_first: list[Callable[[], None]] = []


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import logging

        prepare_now()
        return getattr(logging.getLogger(self._name), method)


def logger(name: str) -> logging.Logger:
    """As ``logging.getLogger``."""
    return cast("logging.Logger", _Later(name))


def before_first_line(prepare: Callable[[], None]) -> None:
    """Call this once, before one of these loggers logs; at once where logging is loaded and others may log as well."""
    if "logging" in sys.modules:
        prepare()
    else:
        _before_first.append(prepare)


def prepare_now() -> None:
    """Do what waits for the first line: for whoever is about to load what logs by itself."""
    while _before_first:
        _before_first.pop()()
