"""A sentence that does not fit loses whole clauses."""

from __future__ import annotations

import pytest

from iotop_ai.present.text.phrases import whole_clauses

SENTENCE = "95 % busy, SM 31 %: small kernels (a guess); 2 jobs"


@pytest.mark.parametrize(
    ("room", "left"),
    [
        (len(SENTENCE), SENTENCE),
        (len(SENTENCE) - 1, "95 % busy, SM 31 %: small kernels (a guess)"),
        (40, "95 % busy, SM 31 %: small kernels"),
        (20, "95 % busy, SM 31 %"),
        (10, "95 % busy"),
        (5, SENTENCE),
    ],
)
def test_a_sentence_that_does_not_fit_loses_its_last_clauses(room: int, left: str) -> None:
    assert whole_clauses(SENTENCE, room) == left


def test_a_sign_at_the_start_does_not_end_a_clause() -> None:
    assert whole_clauses(", and more", 5) == ", and more"


def test_a_clause_does_not_end_within_brackets() -> None:
    assert whole_clauses("PSI is off (boot with psi=1, or ask the administrator)", 40) == "PSI is off"
