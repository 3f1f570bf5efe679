"""What is worked out once of a Sample, which is in as many windows as they are long: a cache, never a memory."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import Sample
from iotop_ai.model.typed import Generic, TypeVar

T = TypeVar("T")


class _Asked(NamedTuple, Generic[T]):
    """A window's Samples, what else the answers hang on, and an answer about each."""

    samples: tuple[Sample, ...]
    told: tuple[object, ...]
    answers: tuple[T, ...]


class OfSample(Generic[T]):
    """An answer about each Sample of a window: a window shares all but its newest ones with the window before.

    Two windows are remembered, that of the live machine and that of somebody who looks back; from any thread.
    """

    def __init__(self) -> None:
        nothing: _Asked[T] = _Asked((), (), ())
        self._asked = nothing, nothing

    def each(self, samples: tuple[Sample, ...], told: tuple[object, ...], make: Callable[[Sample], T]) -> tuple[T, ...]:
        """The answers; made where a Sample is new. told: what else they hang on, each compared by identity first."""
        if not samples:
            return ()
        last, other = self._asked
        shared = _shared(last, samples, told)
        if not shared:
            last, other = other, last
            shared = _shared(last, samples, told)
        found = (*shared, *[make(sample) for sample in samples[len(shared) :]])
        # Where neither was of use the older one goes, which is the one that was looked at last.
        self._asked = _Asked(samples, told, found), other
        return found


def _shared(before: _Asked[T], samples: tuple[Sample, ...], told: tuple[object, ...]) -> tuple[T, ...]:
    """The answers that are known of the first of ``samples``: of as many as the window before holds in a row."""
    known, same, answers = before
    went, first = 0, samples[0]
    for one in known:
        if one is first:
            break
        went += 1
    many = min(len(known) - went, len(samples))
    if not many or same != told or known[went : went + many] != samples[:many]:
        return ()
    return answers[went : went + many]
