"""Text broken into lines: nothing is lost, and each line fits in its columns."""

from textwrap import wrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.present.text.line import cells
from iotop_ai.present.text.wrap import wrap_cells

WIDE = "".join(chr(0x4E00 + i) for i in range(20))
TEXTS = st.text(st.sampled_from("ab- /\u4e00\u4e01\uac00e\u0301"), max_size=60)


@given(st.text(st.sampled_from("ab- /é│"), max_size=60), st.integers(1, 20), st.booleans())
def test_text_of_single_columns_is_broken_as_textwrap_breaks_it(text: str, width: int, hyphens: bool) -> None:
    assert wrap_cells(text, width, break_on_hyphens=hyphens) == wrap(text, width, break_on_hyphens=hyphens)


@given(TEXTS, st.integers(2, 20), st.booleans())
def test_each_line_fits_and_no_character_is_lost(text: str, width: int, hyphens: bool) -> None:
    lines = wrap_cells(text, width, break_on_hyphens=hyphens)
    assert all(0 < cells(line) <= width for line in lines if line.strip("\u0301"))
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 10, []),
        (f"cp {WIDE[:3]} {WIDE[:4]} /b", 10, [f"cp {WIDE[:3]}", WIDE[:4], "/b"]),
        (f"cp /{WIDE[:8]}/x", 10, [f"cp /{WIDE[:3]}", WIDE[3:8], "/x"]),
        (f"a  {WIDE[:2]}-{WIDE[2:4]}", 8, [f"a  {WIDE[:2]}-", WIDE[2:4]]),
        (WIDE[:2], 1, [WIDE[0], WIDE[1]]),
        ("e\u0301" * 4, 2, ["e\u0301e\u0301"] * 2),
    ],
)
def test_wide_text_is_broken_by_its_columns(text: str, width: int, lines: list[str]) -> None:
    assert wrap_cells(text, width) == lines
