from __future__ import annotations

from iotop_ai.diagnosis.once import OfSample
from iotop_ai.model.sample import OwnRates, Sample


def _sample(at_ns: int) -> Sample:
    return Sample(at_ns, at_ns, 1.0, gap=False, own=OwnRates(None, None, None, None))


def test_an_answer_is_made_once_for_a_sample_and_what_it_hangs_on() -> None:
    asked: list[int] = []

    def make(sample: Sample) -> int:
        asked.append(sample.at_ns)
        return len(asked)

    known: OfSample[int] = OfSample()
    one, other = _sample(1), _sample(1)
    assert [known.of(one, ("a",), make), known.of(one, ("a",), make)] == [1, 1]
    # Equal is not the same: another machine's sample may be equal, and the object is what is looked up.
    assert known.of(other, ("a",), make) == 2
    assert known.of(one, ("b",), make) == 3
    assert known.of(one, ("b",), make) == 3
    assert asked == [1, 1, 1]


def test_only_the_newest_are_kept() -> None:
    known: OfSample[int] = OfSample()
    samples = [_sample(at) for at in range(300)]
    for sample in samples:
        known.of(sample, (), lambda one: one.at_ns)
    again: list[int] = []
    for sample in samples:
        known.of(sample, (), lambda one: again.append(one.at_ns) or 0)
    assert again == list(range(300))
    again.clear()
    known.of(samples[-1], (), lambda one: again.append(one.at_ns) or 0)
    assert again == []


def test_a_window_asks_only_for_what_the_one_before_did_not_hold() -> None:
    asked: list[int] = []

    def make(sample: Sample) -> int:
        asked.append(sample.at_ns)
        return sample.at_ns

    known: OfSample[int] = OfSample(2)
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
