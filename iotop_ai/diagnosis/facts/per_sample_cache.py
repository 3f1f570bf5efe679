"""Caches a value per Sample, so that it is computed once although the Sample belongs to many windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from iotop_ai.model.sample import Sample

T = TypeVar("T")


class PerSampleCache(Generic[T]):
    """One value for each Sample of a window. A window shares all but its newest Samples with the previous window."""

    def __init__(self) -> None:
        self._samples: tuple[Sample, ...] = ()
        self._depends_on: tuple[object, ...] = ()
        self._values: tuple[T, ...] = ()

    def each(
        self, samples: tuple[Sample, ...], depends_on: tuple[object, ...], make: Callable[[Sample], T]
    ) -> tuple[T, ...]:
        """The value of each Sample.

        depends_on: further inputs of ``make``; the cached values are dropped if they changed.
        """
        if not samples:
            return ()
        shared = self._shared(samples, depends_on)
        values = (*shared, *[make(sample) for sample in samples[len(shared) :]])
        self._samples, self._depends_on, self._values = samples, depends_on, values
        return values

    def _shared(self, samples: tuple[Sample, ...], depends_on: tuple[object, ...]) -> tuple[T, ...]:
        """The cached values of those leading ``samples`` that the previous window also has."""
        before, start, oldest = self._samples, 0, samples[0]
        for sample in before:
            if sample is oldest:
                break
            start += 1
        count = min(len(before) - start, len(samples))
        if not count or self._depends_on != depends_on or before[start : start + count] != samples[:count]:
            return ()
        return self._values[start : start + count]
