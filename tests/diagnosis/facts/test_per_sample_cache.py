from __future__ import annotations

from iotop_ai.diagnosis.facts.per_sample_cache import PerSampleCache
from iotop_ai.model.sample import OwnRates, Sample


def _sample(at_ns: int) -> Sample:
    return Sample(at_ns, at_ns, 1.0, gap=False, own=OwnRates(None, None, None, None))


def test_only_samples_new_to_the_window_are_computed() -> None:
    computed: list[int] = []

    def make(sample: Sample) -> int:
        computed.append(sample.at_ns)
        return sample.at_ns

    cache: PerSampleCache[int] = PerSampleCache()
    samples = tuple(_sample(at) for at in range(12))
    assert cache.each((), (), make) == ()
    assert cache.each(samples[:6], (), make) == (0, 1, 2, 3, 4, 5)
    assert cache.each(samples[1:7], (), make) == (1, 2, 3, 4, 5, 6)
    assert computed == [*range(7)]
    # a shorter window, the same window, and a window that does not overlap with it
    assert cache.each(samples[3:6], (), make) == (3, 4, 5)
    assert cache.each(samples[3:6], (), make) == (3, 4, 5)
    assert computed == [*range(7)]
    assert cache.each(samples[8:12], (), make) == (8, 9, 10, 11)
    # With other inputs, or for equal samples of another machine, the values are computed again.
    computed.clear()
    assert cache.each(samples[9:12], ("b",), make) == (9, 10, 11)
    assert cache.each(tuple(_sample(at) for at in range(9, 12)), ("b",), make) == (9, 10, 11)
    assert computed == [9, 10, 11, 9, 10, 11]


def test_samples_after_a_missing_one_are_computed_again() -> None:
    cache: PerSampleCache[int] = PerSampleCache()
    samples = tuple(_sample(at) for at in range(6))
    cache.each(samples, (), lambda one: one.at_ns)
    holed = (*samples[1:3], *samples[4:])
    assert cache.each(holed, (), lambda one: one.at_ns) == (1, 2, 4, 5)
