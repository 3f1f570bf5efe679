"""The timeline: states, words, marks, gaps and the position, in one row of any width."""

from __future__ import annotations

import pytest

from iotop_ai.present.screen.timeline import timeline_rows
from iotop_ai.present.screen.view import Timeline, View
from iotop_ai.present.text.line import cells
from tests.tui.scene import made_frames

SECOND = 1_000_000_000
FRAME = made_frames(2)[-1]
NOW = FRAME.snapshot.wall_ns
BEGIN = NOW - 300 * SECOND
LINE = Timeline(
    BEGIN,
    BEGIN + 600 * SECOND,
    BEGIN + 600 * SECOND,
    ((BEGIN, "OK"), (BEGIN + 60 * SECOND, "STARVED"), (BEGIN + 240 * SECOND, "OK"), (BEGIN + 420 * SECOND, "UNSURE")),
)


def drawn(line: Timeline, width: int = 80, **view: object) -> tuple[str, dict[str, str]]:
    """The text of the row, and the part of the text that has each style."""
    (row,) = timeline_rows(FRAME, View(timeline=line, utc_offset_s=0, **view), width, 1)
    tokens: dict[str, str] = {}
    for span in row.spans:
        tokens[span.token] = tokens.get(span.token, "") + span.text
    return row.text, tokens


@pytest.mark.parametrize("width", [12, 40, 60, 80, 160, 250])
def test_the_timeline_fills_the_width(width: int) -> None:
    assert cells(drawn(LINE, width)[0]) == width


def test_states_have_the_width_of_their_share_and_their_colour() -> None:
    text, tokens = drawn(LINE)
    assert text.startswith(" 08:48:21 ─")
    assert text.endswith("╌ 08:58:21 ")
    assert "STARVED 180 s" not in text
    assert "━STARVED 3 min━" in text
    assert len(tokens["bad"]) == pytest.approx(60 * 180 / 600, abs=1)
    assert set(tokens["unsure"]) == {"╌"}
    assert len(tokens["cursor"]) == 1
    assert text.index(tokens["ok"][0]) == 10


def test_the_part_that_was_not_read_yet_has_no_state() -> None:
    half = LINE._replace(known_ns=BEGIN + 300 * SECOND)
    text, tokens = drawn(half)
    assert "unsure" not in tokens
    assert len(tokens["faint"]) == pytest.approx(30, abs=2)
    assert drawn(LINE._replace(known_ns=BEGIN))[1]["faint"].count("·") == 59
    assert "STARVED" in text


def test_a_short_stall_in_a_long_day_is_visible() -> None:
    day = Timeline(
        BEGIN,
        BEGIN + 86_400 * SECOND,
        BEGIN + 86_400 * SECOND,
        ((BEGIN, "OK"), (BEGIN + 40_000 * SECOND, "BLOCKED"), (BEGIN + 40_020 * SECOND, "OK")),
    )
    text, tokens = drawn(day)
    assert tokens["bad"] == "━"
    assert text.startswith(" Thu 08:48 ")


def test_marks_and_gaps_are_drawn() -> None:
    text, tokens = drawn(
        LINE._replace(marks=((BEGIN + 500 * SECOND, "epoch 3"),), gaps=((BEGIN + 430 * SECOND, BEGIN + 490 * SECOND),))
    )
    assert tokens["strong"] == "'"
    assert "╌     " in text
    assert text.index("'") > text.rindex("     ")


def test_ends_are_drawn_and_a_failure_takes_precedence_in_its_cell() -> None:
    at = BEGIN + 500 * SECOND
    text, tokens = drawn(LINE._replace(changes=((BEGIN, "OK"),), ends=((at, "trainer", False),)))
    assert (text.count("×"), tokens["strong"]) == (1, "×")
    both = LINE._replace(changes=((BEGIN, "OK"),), marks=((at, "x"),), ends=((at, "w", True), (at, "t", False)))
    text, tokens = drawn(both)
    assert (text.count("×"), tokens["bad"], "'" in text) == (1, "×", False)


def test_a_critical_alert_takes_precedence_over_a_good_end() -> None:
    at = BEGIN + 500 * SECOND
    text, tokens = drawn(LINE._replace(changes=((BEGIN, "OK"),), alerts=((at, "a", True),), ends=((at, "t", False),)))
    assert (tokens["bad"], "×" in text) == ("!", False)


def test_the_line_ends_with_now_at_an_earlier_moment_of_a_live_machine() -> None:
    assert drawn(LINE, mode="back")[0].endswith(" now ")


def test_focus_colours_the_labels_and_the_ascii_form_has_only_ascii() -> None:
    assert "08:48:21" in drawn(LINE, focus="timeline")[1]["title-focus"]
    assert drawn(LINE, ascii_only=True)[0].isascii()


def test_without_a_recording_there_is_no_timeline() -> None:
    assert timeline_rows(FRAME, View(), 80, 1) == []


def test_an_alert_has_its_sign_and_the_colour_of_its_severity() -> None:
    hot, failing = (BEGIN + 60 * SECOND, "gpu_hot firing", False), (BEGIN + 480 * SECOND, "failing_disk firing", True)
    text, tokens = drawn(LINE._replace(changes=((BEGIN, "OK"),), alerts=(hot, failing)))
    assert text.count("!") == 2
    assert tokens["warn"] == tokens["bad"] == "!"


def test_the_word_of_a_state_is_not_repeated_after_a_sign() -> None:
    marked = LINE._replace(marks=((BEGIN + 150 * SECOND, "look"),))
    text, _ = drawn(marked, 160)
    assert text.count("STARVED") == 1
    with_gap = LINE._replace(gaps=((BEGIN + 120 * SECOND, BEGIN + 180 * SECOND),))
    assert drawn(with_gap, 160)[0].count("STARVED") == 2
