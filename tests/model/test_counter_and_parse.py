"""Arithmetic of counters, cleaning of text, and the parsers of users' input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.clean import MOST_MARKS, clean, clean_bytes
from iotop_ai.model.counter import U32, delta, delta_u32, per_second, quotient, total
from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_duration_s, parse_names, parse_size_bytes


def test_the_delta_of_a_fallen_counter_is_unknown() -> None:
    assert delta(5, 9) == 4
    assert delta(9, 5) is None
    assert delta(None, 5) is None
    assert delta(5, None) is None


def test_delta_u32_is_exact_across_the_wrap() -> None:
    assert delta_u32(U32 - 10, 5) == 15
    assert delta_u32(7, 7) == 0


@given(st.integers(0, U32 - 1), st.integers(0, U32 - 1))
def test_delta_u32_is_never_negative_and_adds_up(before: int, grown: int) -> None:
    assert delta_u32(before, (before + grown) % U32) == grown


def test_an_undefined_ratio_is_none() -> None:
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


def test_clean_keeps_harmless_text() -> None:
    assert clean("train.py [/x] naïve 学習") == "train.py [/x] naïve 学習"
    assert clean("\x1b]0;owned\x07") == "�]0;owned�"
    assert clean("a\u202eb\u200bc") == "a�b�c"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("e" + "\u0301" * 400 + "x", "e" + "\u0301" * MOST_MARKS + "�x"),
        ("\u0301train", "�train"),
        ("\u1112" + "\u1161" * 400, "\u1112" + "\u1161" * MOST_MARKS + "�"),
        ("a\u0488" * 3, "a\u0488" * 3),
        *((f"a{c}b", "a�b") for c in "\u115f\u1160\u3164\uffa0\u034f\u17b4\u180b\u180f\ufe0f\U000e0100\u2800"),
        *((f"a{c}b", "a�b") for c in "\u00ad\u061c\u180e\u200b\u2060\u2065\ufeff\ufff0\U000e0001\U000e0fff"),
        *(
            (name, name)
            for name in (
                "naïve",
                "Việt Nam",
                "Vie\u0323\u0302t",
                "हिन्दी",
                "ภาษาไทย",
                "שָׁלוֹם",
                "한국어",
                "\u1112\u1161\u11a8",
                "བརྒྱུད",
            )
        ),
    ],
)
def test_clean_limits_marks_and_replaces_invisible_characters(text: str, shown: str) -> None:
    assert clean(text) == shown
    assert clean(shown) == shown or shown[-1] == "�"


def test_no_character_that_unicode_calls_ignorable_passes() -> None:
    """Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode 15.1, whatever version this Python has."""
    ranges = (
        *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
        *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
    )
    passed = [hex(n) for first, last in ranges for n in range(first, last + 1) if clean(f"a{chr(n)}b") != "a�b"]
    assert passed == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2),
        ("0.5", 0.5),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("7d", 604800),
        ("250ms", 0.25),
        ("10min", 600),
    ],
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "1x", "nan", "inf", "1h-2m", "1h30", "9" * 400, "9" * 305])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration_s(text)


def test_sizes_and_names_are_parsed() -> None:
    assert parse_size_bytes("512M") == 512 << 20
    assert parse_size_bytes("1.5GiB") == 3 << 29
    assert parse_names("sda, nvme0n1,sda") == ("sda", "nvme0n1")
    for text in ("big", "9" * 308 + "P"):
        with pytest.raises(UsageError):
            parse_size_bytes(text)
