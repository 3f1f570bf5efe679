"""The small arithmetic and the parsers of what people type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.clean import clean, clean_bytes
from iotop_ai.model.counter import U32, delta, delta_u32, per_second, quotient, total
from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_duration_s, parse_names, parse_size_bytes


def test_delta_of_a_fallen_counter_is_unknown() -> None:
    assert delta(5, 9) == 4
    assert delta(9, 5) is None
    assert delta(None, 5) is None
    assert delta(5, None) is None


def test_delta_u32_goes_across_the_wrap() -> None:
    assert delta_u32(U32 - 10, 5) == 15
    assert delta_u32(7, 7) == 0


@given(st.integers(0, U32 - 1), st.integers(0, U32 - 1))
def test_delta_u32_is_never_negative_and_adds_up(before: int, grown: int) -> None:
    assert delta_u32(before, (before + grown) % U32) == grown


def test_undefined_is_none() -> None:
    assert quotient(3, 0) is None
    assert per_second(3, 0) is None
    assert per_second(3, -1) is None
    assert total(1, None) is None
    assert total(1, 2, 3) == 6


@given(st.text())
def test_clean_leaves_only_printable_text(text: str) -> None:
    assert clean(text).isprintable()
    assert len(clean(text)) <= 512


@given(st.binary())
def test_clean_bytes_leaves_only_printable_text(raw: bytes) -> None:
    assert clean_bytes(raw).isprintable()


def test_clean_keeps_what_is_harmless() -> None:
    assert clean("train.py [/x] naïve 学習") == "train.py [/x] naïve 学習"
    assert clean("\x1b]0;owned\x07") == "�]0;owned�"
    assert clean("a\u202eb\u200bc") == "a�b�c"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2", 2), ("0.5", 0.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("7d", 604800), ("250ms", 0.25)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "1x", "nan", "inf", "1h-2m", "9" * 400])
def test_no_durations(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration_s(text)


def test_sizes_and_names() -> None:
    assert parse_size_bytes("512M") == 512 << 20
    assert parse_size_bytes("1.5GiB") == 3 << 29
    assert parse_names("sda, nvme0n1,sda") == ("sda", "nvme0n1")
    with pytest.raises(UsageError):
        parse_size_bytes("big")
