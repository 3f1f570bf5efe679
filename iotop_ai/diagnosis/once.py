"""What is worked out once of a Sample, which is in as many windows as they are long: a cache, never a memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from iotop_ai.model.sample import Sample
from iotop_ai.model.typed import Generic, TypeVar

T = TypeVar("T")
_KEPT = 128
"""Samples: a history of two."""


class OfSample(Generic[T]):
    """An answer about each of the newest Samples, by identity; from any thread. kept: of how many."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._known: OrderedDict[int, tuple[Sample, tuple[object, ...], T]] = OrderedDict()
        self._newest: tuple[tuple[Sample, ...], tuple[object, ...], tuple[T, ...]] = ((), (), ())

    def of(self, sample: Sample, told: tuple[object, ...], make: Callable[[Sample], T]) -> T:
        """The answer; made where the Sample is new. told: what else it hangs on, each compared by identity first."""
        known = self._known.get(id(sample))
        if known is not None and known[0] is sample and known[1] == told:
            return known[2]
        made = make(sample)
        self._known[id(sample)] = sample, told, made
        while len(self._known) > self._kept:
            with suppress(KeyError):  # another thread was first
                self._known.popitem(last=False)
        return made

    def each(self, samples: tuple[Sample, ...], told: tuple[object, ...], make: Callable[[Sample], T]) -> tuple[T, ...]:
        """The answers about a window: those that the window asked about before shares with it are taken over."""
        before, same, answers = self._newest
        went = next((i for i, one in enumerate(before) if one is samples[0]), len(before)) if samples else 0
        shared = min(len(before) - went, len(samples))
        if not shared or same != told or before[went : went + shared] != samples[:shared]:
            went, shared = len(before), 0
        fresh = [self.of(sample, told, make) for sample in samples[shared:]]
        found = (*answers[went : went + shared], *fresh)
        self._newest = samples, told, found
        return found
