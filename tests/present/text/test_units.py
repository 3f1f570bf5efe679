from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.present.text import units

ANY = st.one_of(st.none(), st.floats(0, 1e18, allow_nan=False), st.integers(0, 10**18))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "?"), (0, "0"), (0.04, "<0.1"), (0.05, "0.1"), (3.2, "3.2"), (87, "87.0"), (99.94, "99.9")),
        *((99.96, "100"), (735.4, "735"), (1701, "1701"), (9999.6, "10k"), (13_400, "13k"), (2_640_000, "2.6M")),
        (2e18, "2e+18"),
    ],
)
def test_a_figure_is_short(value: float | None, text: str) -> None:
    assert units.figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "?"), (0, "0"), (0.01, "<0.1"), (0.4, "0.4"), (1.4, "1"), (735.2, "735"), (13_400, "13k")],
)
def test_a_count_is_short(value: float | None, text: str) -> None:
    assert units.count(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(None, "?"), (0, "0"), (0.001, "<1"), (0.006, "1"), (0.38, "38"), (1, "100"), (12.5, "1250")]
)
def test_a_ratio_becomes_a_percentage(ratio: float | None, text: str) -> None:
    assert units.percent(ratio) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        *((None, "?"), (0, "0"), (1, "1"), (512, "512"), (4608, "4.5K"), (131072, "128K"), (1023 * 1024, "1M")),
        *((61 * units.GIB, "61G"), (1.3 * 1024 * units.GIB, "1.3T")),
    ],
)
def test_a_size_is_short(size: float | None, text: str) -> None:
    assert units.size(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, ("?", "")), (0, ("0", "")), (20, ("<0.1", "K")), (2048, ("2.0", "K")), (91.8 * units.MIB, ("91.8", "M"))],
)
def test_a_rate_has_its_prefix(size: float | None, text: tuple[str, str]) -> None:
    assert units.scaled(size) == text


def test_a_rate_keeps_its_unit_up_to_a_gibibyte() -> None:
    assert units.rate(92 * units.MIB) == ("92.0", "MB/s")
    assert units.rate(1.7 * units.GIB) == ("1.7", "GB/s")
    assert units.rate(None) == ("?", "MB/s")


def test_times_and_sizes_are_written_with_their_units() -> None:
    assert [units.duration(s) for s in (None, 41, 600, 7500, 7200, 180_000)] == [
        *("?", "41 s", "10 min", "2 h 5 min", "2 h", "2 d 2 h"),
    ]
    assert [units.capacity(b) for b in (3.84e12, 512e9, 999.7e9)] == ["3.84 TB", "512 GB", "1 TB"]
    assert [units.link_speed(b) for b in (None, 1e9, 2.5e9, 4e11, 1e7)] == ["?", "1G", "2.5G", "400G", "10M"]
    assert units.clock(1_794_884_000 * 10**9, 0) == "02:53:20"


@given(ANY)
def test_figures_are_short_and_only_a_zero_is_written_as_zero(value: float | None) -> None:
    for write in (units.figure, units.count, units.brief):
        text = write(value)
        assert 1 <= len(text) <= 6
        assert (text == "?") == (value is None)
        assert (text == "0") == (value == 0)
    figure, letter = units.scaled(value)
    assert len(figure) <= 5
    assert len(letter) <= 1
    assert (figure == "0") == (value == 0)
    assert (units.percent(value) == "0") == (value == 0)
    assert (units.size(value) == "0") == (value == 0)


@given(st.floats(0, 9999), st.floats(0, 9999))
def test_a_larger_value_is_never_written_as_a_smaller_one(a: float, b: float) -> None:
    low, high = sorted((a, b))

    def back(text: str) -> float:
        return 0.05 if text == "<0.1" else float(text.replace("10k", "10000"))

    assert back(units.figure(low)) <= back(units.figure(high))


@given(st.floats(0.001, 1e15))
def test_a_written_size_is_exact_to_its_digits(value: float) -> None:
    text = units.size(value)
    scale = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}.get(text[-1], 1)
    shown = float(text.rstrip("KMGTP")) * scale
    assert shown == pytest.approx(value, rel=0.06, abs=1)


@pytest.fixture
def decimal() -> Iterator[None]:
    units.use_units("decimal")
    yield
    units.use_units("binary")


@pytest.mark.usefixtures("decimal")
def test_rates_can_use_powers_of_1000() -> None:
    assert units.mib(92_000_000) == "92.0"
    assert units.rate(92_000_000) == ("92.0", "MB/s")
    assert units.rate(1_700_000_000) == ("1.7", "GB/s")
    assert [units.scaled(size) for size in (2_000, 91_800_000, 40)] == [("2.0", "K"), ("91.8", "M"), ("<0.1", "K")]
    assert units.rate_unit(1e9) == ("GB/s", 10**9)
    assert units.size(128 * 1024) == "128K"  # sizes of blocks and memory keep the powers of 1024 that the kernel uses


def test_rates_can_use_powers_of_1024() -> None:
    assert units.mib(92_000_000) == "87.7"
    assert units.rate(1_700_000_000) == ("1.6", "GB/s")
    assert [units.scaled(size) for size in (2_000, 91_800_000, 40)] == [("2.0", "K"), ("87.5", "M"), ("<0.1", "K")]
    assert units.rate_unit(1e9) == ("MB/s", 1024**2)
