from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.diagnosis.facts.window import (
    Window,
    at_least,
    below,
    both,
    either,
    mean,
    recent_window,
    share,
)
from iotop_ai.model.machine.cpu import UNKNOWN_CORE, CpuRates
from iotop_ai.model.reading import Rated
from iotop_ai.model.sample import OwnRates, Sample

S = 1_000_000_000
RATES = CpuRates(UNKNOWN_CORE, {}, None)


def sample(
    at_s: float, *, every_s: float = 1.0, renewed: bool = True, gap: bool = False, gpu: bool | None = None
) -> Sample:
    at = int(at_s * S)
    cpu = Rated(RATES, at, every_s, renewed)
    out = Sample(at, at, every_s, gap, OwnRates(None, None, 0, 0), cpu=cpu)
    return out if gpu is None else out._replace(gpu=Rated({}, at, 5.0, gpu))


def test_only_the_last_seconds_are_in_the_window() -> None:
    history = [sample(t) for t in range(1, 31)]
    window = recent_window(history, 30 * S, 10, ("cpu",))
    assert [s.at_ns // S for s in window.samples] == list(range(21, 31))
    assert (window.seconds, window.needed) == (10, 3)


def test_a_slow_reading_widens_the_window_to_three_periods() -> None:
    history = [sample(t, every_s=20.0) for t in (20, 40, 60)]
    window = recent_window(history, 60 * S, 10, ("cpu",))
    assert (window.seconds, len(window.samples)) == (60, 3)


def test_two_samples_suffice_if_three_periods_do_not_fit() -> None:
    window = recent_window([sample(t, every_s=30.0) for t in (31, 61)], 61 * S, 10, ("cpu",))
    assert (window.needed, len(window.samples)) == (2, 2)


def test_a_rate_that_was_not_renewed_is_not_a_sample() -> None:
    history = [sample(t, gpu=t % 5 == 0) for t in range(1, 31)]
    window = recent_window(history, 30 * S, 10, ("cpu", "gpu"))
    assert [s.at_ns // S for s in window.samples] == [20, 25, 30]
    assert window.seconds == 15


def test_a_sample_after_a_gap_is_left_out() -> None:
    history = [sample(1), sample(2), sample(9, every_s=7.0, gap=True), sample(10)]
    assert [s.at_ns // S for s in recent_window(history, 10 * S, 10, ("cpu",)).samples] == [1, 2, 10]


def test_without_known_rates_the_window_is_empty() -> None:
    assert recent_window((), 0, 10, ("cpu",)) == Window((), 10, 3)
    first = sample(1)._replace(cpu=Rated(RATES, S, None, True))
    assert recent_window((first,), S, 10, ("cpu",)).samples == ()


VALUES = st.lists(st.one_of(st.none(), st.floats(0, 100)), max_size=20)


@given(VALUES, st.floats(0, 100))
def test_an_unknown_value_never_fulfils_a_condition(values: list[float | None], limit: float) -> None:
    high, low = at_least(values, limit), below(values, limit)
    for value, is_high, is_low in zip(values, high, low, strict=True):
        assert is_high + is_low == (value is not None)
    assert not any(both(high, low))
    assert share(either(high, low)) == (share(tuple(v is not None for v in values)))
    assert 0 <= share(high) <= 1


@given(VALUES)
def test_the_mean_ignores_unknown_values(values: list[float | None]) -> None:
    known = [v for v in values if v is not None]
    got = mean(values)
    assert (got is None) == (not known)
    assert got is None or min(known) - 1e-6 <= got <= max(known) + 1e-6
