"""The line with the states of the last hour."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.verdict_class import LOSING, State
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.state_bar import GAP, MEASURING, Run, run_spans, runs_between
from iotop_ai.present.verdict.banner import banner_rows
from tests.present import scenes

MINUTE = 60_000_000_000
UTC = View(utc_offset_s=0)
NO_GPU = scenes.no_gpu()


def test_states_before_the_span_are_cut() -> None:
    states = [(0, "OK"), (30 * MINUTE, "STARVED"), (50 * MINUTE, "OK")]
    assert runs_between(states, 20 * MINUTE, 60 * MINUTE) == [Run("OK", 600), Run("STARVED", 1200), Run("OK", 600)]
    assert runs_between(states, 51 * MINUTE, 60 * MINUTE) == [Run("OK", 540)]
    assert runs_between([], 0, MINUTE) == []


@given(st.lists(st.tuples(st.sampled_from(list(State)), st.floats(0.1, 4000)), max_size=20), st.integers(0, 200))
def test_the_row_has_the_given_width(runs: list[tuple[str, float]], width: int) -> None:
    text = "".join(span.text for span in run_spans([Run(*run) for run in runs], width))
    assert len(text) == (width if runs else 0)


def test_words_are_within_the_part_of_their_state() -> None:
    text = "".join(s.text for s in run_spans([Run("OK", 19 * 60), Run("STARVED", 41 * 60)], 60))
    assert " OK 19 min " in text
    assert " STARVED 41 min " in text
    assert text.startswith("──")
    assert text.endswith("━━")


def test_only_a_state_that_loses_time_is_thick() -> None:
    for state in State:
        (span,) = run_spans([Run(state, 1)], 4)
        glyph = "━" if state in (*LOSING, State.WASTED) else "╌" if state is State.UNSURE else "─"
        assert span.text == glyph * 4


def test_time_without_a_verdict_is_dots() -> None:
    runs = [Run(MEASURING, 20 * 60), Run("OK", 20 * 60), Run(GAP, 20 * 60)]
    text = "".join(span.text for span in run_spans(runs, 90))
    assert "· measuring 20 min ·" in text[:30]
    assert text[60:] == "·" * 30


def test_the_banner_shows_the_last_hour_unless_there_is_a_second_finding() -> None:
    now = NO_GPU.snapshot.at_ns
    carry = NO_GPU.carry._replace(states=((now - 90 * MINUTE, "OK"), (now - 15 * MINUTE, "CALM")))
    line = banner_rows(NO_GPU._replace(carry=carry), UTC, 80, 4)[2].text
    assert line.startswith("▌hour     01:53 ")
    assert " OK 45 min " in line
    assert " 02:53  " in line
    assert len(line) == 80
    tall = [row.text.rstrip() for row in banner_rows(NO_GPU._replace(carry=carry), UTC, 80, 6)]
    assert tall[2].startswith("▌since    02:53:")
    assert tall[5].startswith("▌hour     01:53 ")


def test_the_bar_names_the_minutes_that_are_known() -> None:
    now = NO_GPU.snapshot.at_ns
    carry = NO_GPU.carry._replace(states=((now - 7 * MINUTE, "CALM"),))
    assert banner_rows(NO_GPU._replace(carry=carry), UTC, 80, 4)[2].text.startswith("▌7 min    02:46 ")
