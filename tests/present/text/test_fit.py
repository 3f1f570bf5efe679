"""A sentence is shortened to a width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import Span, spans_cells
from iotop_ai.present.verdict.headline import text_of

SPANS = st.lists(
    st.sampled_from([Span("; "), Span(", "), Span("disk"), Span(" sda 87 ms "), Span("ディスク x")]), max_size=9
)


@given(SPANS, st.integers(0, 40))
def test_a_fitted_sentence_is_never_too_wide_and_has_no_new_words(spans: list[Span], width: int) -> None:
    cut = fit(spans, width)
    assert text_of(spans).startswith(text_of(cut))
    assert sum(len(s.text) + sum(c > "ÿ" for c in s.text) for s in cut) <= width
    if spans_cells(spans) <= width:
        assert cut == spans


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        ("renice -n 19 -p 4242 (make), or keep it off these cores", " (taskset, cpuset)"),
        ("cool GPU 2 (88 C, 655 of 700 W): fans, airflow, room", "; or nvidia-smi -pl for a steady clock"),
        ("one long sentence that has no place at all at which it could be", " ended sooner"),
    ],
)
def test_a_sentence_that_does_not_fit_ends_at_a_clause(begin: str, rest: str) -> None:
    assert text_of(fit([Span(begin + rest)], 66)) == begin


@pytest.mark.parametrize(
    ("parts", "width", "begin"),
    [
        (["the GPU waits for data ", "57 %", " of the time"], 30, "the GPU waits for data 57 %"),
        (["the GPU waits for data ", "57 %", " of the time"], 20, "the GPU waits"),
        (
            ["copy /data (at most 64 MB", ", ", "~16 s) to /dev/shm (memory)", ", ", "then"],
            40,
            "copy /data to /dev/shm, then",
        ),
        (
            ["copy /data (at most 64 MB", ", ", "~16 s) to /dev/shm (memory)", ", ", "then"],
            24,
            "copy /data to /dev/shm",
        ),
        (["cool GPU 2 (88 C", ", ", "655 W)", ": ", "fans", ", ", "room"], 30, "cool GPU 2 (88 C, 655 W): fans"),
    ],
)
def test_shortened_words_do_not_end_in_brackets_or_with_a_preposition(parts: list[str], width: int, begin: str) -> None:
    assert text_of(fit([Span(text) for text in parts], width)) == begin


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (80, "copy /data (at most 160 MB and ~26 s) to /dev/shm (memory, 20 GB of room)"),
        (60, "copy /data (at most 160 MB and ~26 s) to /dev/shm"),
        (40, "copy /data to /dev/shm"),
        (18, "copy /data"),
    ],
)
def test_text_in_brackets_is_cut_before_the_words_that_it_explains(width: int, text: str) -> None:
    spans = [Span("copy /data (at most 160 MB and ~26 s) to "), Span("/dev/shm"), Span(" (memory, 20 GB of room)")]
    assert text_of(fit(spans, width)) == text
