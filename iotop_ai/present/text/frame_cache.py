"""The cache of a screen's panels: results for the newest Frame, and objects that are kept from Frame to Frame."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from iotop_ai.model.frame import Frame

T = TypeVar("T")
V = TypeVar("V", bound="Caching")
Item = TypeVar("Item")
ItemFunction: TypeAlias = "Callable[[Frame, V, Item], T]"


class FrameCache:
    """The cache of one screen, passed to the panels as a field of the View. Without a cache, the panels make the same
    rows but take longer.
    """

    __slots__ = ("parts", "results")

    def __init__(self) -> None:
        self.results: dict[object, tuple[Frame, object, Any, object, Any]] = {}
        """By function: (Frame, View, result, the other View of this Frame, its result)."""
        self.parts: dict[object, Any] = {}
        """The objects of ``cache_part``, by the function that makes them."""


class Caching(Protocol):
    """The part of a View that the cache needs."""

    @property
    def cache(self) -> FrameCache | None:
        """The screen's cache; None when results are not cached."""


def cached_per_frame(function: Callable[[Frame, V], T]) -> Callable[[Frame, V], T]:
    """Keep the function's results for two Views of the newest Frame in the screen's cache, and return one of them while
    the Frame and View are the same objects. The second View is the one without the user's filter and order.
    """

    @wraps(function)
    def cached(frame: Frame, view: V) -> T:
        if view.cache is None:
            return function(frame, view)
        results = view.cache.results
        kept = results.get(function)
        other, other_result = None, None
        if kept is not None and kept[0] is frame:
            cached_result: T
            if kept[1] is view:
                cached_result = kept[2]
                return cached_result
            if kept[3] is view:
                cached_result = kept[4]
                return cached_result
            other, other_result = kept[1], kept[2]
        result = function(frame, view)
        results[function] = (frame, view, result, other, other_result)
        return result

    return cached


def cached_per_item(key: Callable[[Any], Hashable]) -> Callable[[ItemFunction[V, Item, T]], ItemFunction[V, Item, T]]:
    """Like ``cached_per_frame``, for a function that also takes an item: one result is kept for each ``key`` of an
    item.
    """

    def decorate(function: ItemFunction[V, Item, T]) -> ItemFunction[V, Item, T]:
        @cached_per_frame
        def results(_frame: Frame, _view: V) -> dict[Hashable, T]:
            return {}

        @wraps(function)
        def cached(frame: Frame, view: V, item: Item) -> T:
            if view.cache is None:
                return function(frame, view, item)
            result_by_key, item_key = results(frame, view), key(item)
            if item_key not in result_by_key:
                result_by_key[item_key] = function(frame, view, item)
            return result_by_key[item_key]

        return cached

    return decorate


def cache_part(view: Caching, make: Callable[[], T]) -> T:
    """The object that ``make`` returns. It is made once for each screen, or at each call if the View has no cache."""
    if view.cache is None:
        return make()
    part: T | None = view.cache.parts.get(make)
    if part is None:
        part = view.cache.parts[make] = make()
    return part
