from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.export.text.table import field, number, table


@given(st.floats(min_value=0, max_value=1e12), st.integers(min_value=0, max_value=3))
def test_only_a_measured_zero_is_printed_as_zero(value: float, digits: int) -> None:
    assert (float(number(value, digits)) == 0) == (value == 0)


def test_an_unknown_value_is_a_question_mark() -> None:
    assert number(None) == "?"


def test_a_field_contains_no_space() -> None:
    assert field("/my data") == "/my\\040data"
    assert field("") == "-"


def test_columns_are_aligned_and_can_be_split_into_fields() -> None:
    lines = table(["Device", "r/s", "mounted"], [["sda", "12345.00", "/"], ["nvme0n1", "?", "-"]], [4, 6])
    assert lines == ["Device       r/s mounted", "sda     12345.00 /", "nvme0n1        ? -"]
    assert {len(line.split()) for line in lines} == {3}
