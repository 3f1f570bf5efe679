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
