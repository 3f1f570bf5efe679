from __future__ import annotations

from iotop_ai.diagnosis.once import OfSample
from iotop_ai.model.sample import OwnRates, Sample


def _sample(at_ns: int) -> Sample:
    return Sample(at_ns, at_ns, 1.0, gap=False, own=OwnRates(None, None, None, None))


def test_a_window_asks_only_for_what_the_one_before_did_not_hold() -> None:
    asked: list[int] = []

    def make(sample: Sample) -> int:
        asked.append(sample.at_ns)
        return sample.at_ns

    known: OfSample[int] = OfSample()
    samples = tuple(_sample(at) for at in range(12))
    assert known.each((), (), make) == ()
    assert known.each(samples[:6], (), make) == (0, 1, 2, 3, 4, 5)
    assert known.each(samples[1:7], (), make) == (1, 2, 3, 4, 5, 6)
    assert asked == [*range(7)]
    # Shorter, the same, and one that lies apart.
    assert known.each(samples[3:6], (), make) == (3, 4, 5)
    assert known.each(samples[3:6], (), make) == (3, 4, 5)
    assert asked == [*range(7)]
    assert known.each(samples[8:12], (), make) == (8, 9, 10, 11)
    # Another question, or another machine's equal samples, are asked anew.
    asked.clear()
    assert known.each(samples[9:12], ("b",), make) == (9, 10, 11)
    assert known.each(tuple(_sample(at) for at in range(9, 12)), ("b",), make) == (9, 10, 11)
    assert asked == [9, 10, 11, 9, 10, 11]


def test_a_window_with_a_hole_is_asked_behind_it() -> None:
    known: OfSample[int] = OfSample()
    samples = tuple(_sample(at) for at in range(6))
    known.each(samples, (), lambda one: one.at_ns)
    holed = (*samples[1:3], *samples[4:])
    assert known.each(holed, (), lambda one: one.at_ns) == (1, 2, 4, 5)


def test_two_histories_are_looked_at_in_turns_without_asking_twice() -> None:
    """The live machine's and that of somebody who looks back; a third one takes the place of one of them."""
    asked: list[int] = []
    known: OfSample[int] = OfSample()
    live, back = (tuple(_sample(at) for at in range(first, first + 9)) for first in (100, 200))
    for i in range(4):
        for history in (live, back):
            found = known.each(history[i : i + 5], (), lambda one: asked.append(one.at_ns) or one.at_ns)
            assert found == tuple(one.at_ns for one in history[i : i + 5])
    assert sorted(asked) == [*range(100, 108), *range(200, 208)]
    assert known.each((_sample(1),), (), lambda one: 7) == (7,)
    assert known.each(back[3:8], (), lambda one: 8) == (203, 204, 205, 206, 207)
