"""Values derived from one Sample, computed once although the Sample is in many windows: a cache, never state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from iotop_ai.model.sample import Sample

T = TypeVar("T")


class PerSampleCache(Generic[T]):
    """One value per Sample of a window, which shares all but its newest Samples with the window before."""

    def __init__(self) -> None:
        self._samples: tuple[Sample, ...] = ()
        self._depends_on: tuple[object, ...] = ()
        self._values: tuple[T, ...] = ()

    def each(
        self, samples: tuple[Sample, ...], depends_on: tuple[object, ...], make: Callable[[Sample], T]
    ) -> tuple[T, ...]:
        """The value of each Sample. depends_on: the other inputs of the values; they are compared."""
        if not samples:
            return ()
        shared = self._shared(samples, depends_on)
        values = (*shared, *[make(sample) for sample in samples[len(shared) :]])
        self._samples, self._depends_on, self._values = samples, depends_on, values
        return values

    def _shared(self, samples: tuple[Sample, ...], depends_on: tuple[object, ...]) -> tuple[T, ...]:
        """The values of the leading ``samples`` that the window before has too."""
        before, start, first = self._samples, 0, samples[0]
        for one in before:
            if one is first:
                break
            start += 1
        count = min(len(before) - start, len(samples))
        if not count or self._depends_on != depends_on or before[start : start + count] != samples[:count]:
            return ()
        return self._values[start : start + count]
