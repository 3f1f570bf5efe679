from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.sample import Sample
from iotop_ai.present.text.braille import GAP, Series, area, nice_top, series, series_spans
from tests.present.make import frame, snapshots
from tests.present.scenes import _small_second

SAMPLE = frame(snapshots(_small_second, 2)).sample


def samples(*given_: tuple[float, float | None, bool]) -> list[Sample]:
    """Samples given as (seconds, value, gap); the value is stored in own.cpu_ratio."""
    return [
        SAMPLE._replace(seconds=s, gap=g, own=SAMPLE.own._replace(cpu_ratio=v), at_ns=i)
        for i, (s, v, g) in enumerate(given_)
    ]


def shown(*given_: tuple[float, float | None, bool], slots: int = 6, interval: float = 1.0) -> Series:
    return series(samples(*given_), lambda s: s.own.cpu_ratio, slots, interval)


def test_a_sample_takes_one_slot_whatever_its_jitter() -> None:
    assert shown((1.2, 1, False), (0.8, 2, False), (1.01, 3, False)) == Series((None, None, None, 1, 2, 3), 3)


def test_a_longer_interval_fills_several_slots_and_short_ones_share_one() -> None:
    assert shown((3.0, 5, False), (1.0, 1, False)).values == (None, None, 5, 5, 5, 1)
    assert shown((0.2, 1, False), (0.2, 7, False), (0.2, 2, False), (0.2, 1, False), (0.2, 1, False)).values[-1] == 7


def test_a_gap_is_unknown_over_its_whole_length() -> None:
    assert shown((1, 4, False), (3, 9, True), (1, 1, False)).values == (None, 4, None, None, None, 1)


def test_only_the_newest_slots_are_kept() -> None:
    assert shown(*((1.0, float(i), False) for i in range(9)), slots=4).values == (5, 6, 7, 8)


@pytest.mark.parametrize(
    ("value", "top"),
    [(None, 1), (0, 1), (0.03, 0.05), (0.9, 1), (1, 1), (1.1, 2), (5, 5), (92, 100), (480, 500), (1701, 2000)],
)
def test_the_scale_has_steps_of_one_two_and_five(value: float | None, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


def test_an_infinite_value_fills_a_finite_scale() -> None:
    top = nice_top(float("inf"))
    assert top == pytest.approx(1e300)
    assert area([float("inf"), 1.0], top) == area([1e300, 1.0], top) == ["⣆"]


def test_an_area_leaves_the_top_row_of_dots_free() -> None:
    assert area([1.0, 1.0], 1.0) == ["⣶"]
    assert area([1.0, 1.0], 1.0, 2) == ["⣶", "⣿"]
    assert area([0, 0, 0.001, 0], 1.0) == [" ⡀"]
    assert area([None, None, None, 1.0], 1.0) == [GAP + "⢰"]
    assert area([None, None], 1.0, 2) == [" ", GAP]


def test_values_above_the_limit_are_hot_and_earlier_times_are_faint() -> None:
    data = Series((None, None, None, None, 1.0, 1.0, 5.0, 1.0, None, None), 6)
    spans = series_spans(area(data.values, 5.0)[0], data, 3.0)
    assert [(s.token, len(s.text)) for s in spans] == [("faint", 2), ("graph", 1), ("hot", 1), ("dim", 1)]


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=2, max_size=40), st.integers(1, 2))
def test_any_value_above_zero_has_a_dot(values: list[float | None], rows: int) -> None:
    values = values[: len(values) // 2 * 2]
    drawn = area(values, nice_top(max((v for v in values if v is not None), default=0)), rows)
    assert [len(line) for line in drawn] == [len(values) // 2] * rows
    for i in range(0, len(values), 2):
        pair = values[i : i + 2]
        bottom = drawn[-1][i // 2]
        assert (bottom == GAP) == (pair == [None, None])
        assert (0x2800 < ord(bottom) <= 0x28FF) == any(v is not None and v > 0 for v in pair)
