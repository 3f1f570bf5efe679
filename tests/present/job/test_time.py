"""Where the time of a job goes, on the screen: the bar, the job's page, the reasoning page, and the text to paste."""

from __future__ import annotations

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import SHARES
from iotop_ai.model.verdict_class import State
from iotop_ai.pipeline import frames
from iotop_ai.present.job.screen import jobs_screen_rows
from iotop_ai.present.job.time_bar import LETTERS, bar_spans, time_rows
from iotop_ai.present.job.time_words import parts_for_table, parts_of, time_is_counted, time_sentence
from iotop_ai.present.screen.layout import plan, screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Span, cells
from iotop_ai.present.text.theme import TOKENS
from iotop_ai.present.verdict.plain_text import verdict_block
from iotop_ai.present.verdict.screen import reasoning_rows
from tests.job_times import growing, not_counted, slow_disk

UTC = View(utc_offset_s=0)
MIXED = {"compute": 410, "data_disk": 520, "unexplained": 70}
SIZES = [(60, 15), (80, 24), (100, 30), (160, 48), (250, 70)]


def bar(frame: Frame, width: int = 80, view: View = UTC) -> str:
    (line,) = time_rows(frame, view, width, 1)
    assert cells(line.text) == width
    assert {span.token for span in line.spans} <= set(TOKENS)
    return line.text.rstrip()


def tokens(state: State, **shares: float) -> dict[str, str]:
    """The words and letters of the bar, each with the style of the line after it."""
    spans = bar_spans([shares.get(name, 0.0) for name in SHARES], 100, state)
    return {word.text.strip(): line.token for word, line in zip(spans[1::3], spans[2::3], strict=True)}


def test_the_bar_fits_80_columns() -> None:
    assert bar(growing(**MIXED)[-1]) == (
        " time     data: disk 52 %     compute 41 %        ─ compute ──━━━━ disk ━━━━━╌╌"
    )


@pytest.mark.parametrize(
    ("compute", "unexplained", "named"),
    [(200, 190, "compute 20 %"), (190, 200, "compute 19 %"), (100, 290, "unexplained 29 %")],
)
def test_computing_is_named_before_unexplained_time_of_a_similar_share(
    compute: int, unexplained: int, named: str
) -> None:
    text = bar(growing(compute=compute, data_disk=610, unexplained=unexplained)[-1])
    assert text.startswith(f" time     data: disk 61 %     {named} ")


def test_the_bar_fits_160_columns() -> None:
    text = bar(growing(**MIXED)[-1], 160)
    assert text.startswith(" time     data: disk 52 %     compute 41 %        ──")
    assert text.count("─") + len(" compute ") == pytest.approx(0.41 * 109, abs=1)
    assert text.count("━") + len(" disk ") == pytest.approx(0.52 * 109, abs=1)
    assert text.endswith("╌╌╌?╌╌╌╌")


def test_the_bar_may_be_ascii_or_narrow() -> None:
    assert bar(growing(**MIXED)[-1], 80, UTC._replace(ascii_only=True)) == (
        " time     data: disk 52 %     compute 41 %        - compute --==== disk =====??"
    )
    assert bar(growing(**MIXED)[-1], 60) == " time     data: disk 52 %     compute 41 %        ─c──━d━━╌"
    assert bar(growing(**MIXED)[-1], 40) == " time     data: disk 52 %     compute 41"


def test_a_part_without_room_for_its_word_has_its_letter() -> None:
    texts = [span.text for span in bar_spans([30, 0, 0, 4, *[0] * 10], 34, State.OK)]
    assert texts == ["─" * 10, " compute ", "─" * 11, "━", "d", "━━"]
    assert bar_spans([0] * 14, 10, State.OK) == []
    assert sum(len(span.text) for span in bar_spans([1] * 14, 29, State.OK)) == 29


def test_each_letter_occurs_in_its_word_and_stands_for_one_part_only() -> None:
    assert tuple(LETTERS) == SHARES
    assert len(set(LETTERS.values())) == len(SHARES)
    words = [{"data_cpu": "cpu"}.get(share, share.removeprefix("data_")) for share in SHARES]
    assert [word for word, letter in zip(words, LETTERS.values(), strict=True) if letter not in word] == ["unexplained"]


def test_the_largest_loss_has_the_colour_of_the_state() -> None:
    starved = tokens(State.STARVED, compute=0.3, data_disk=0.4, host=0.15, unexplained=0.15)
    assert starved == {"compute": "ok", "disk": "hot", "host": "graph", "unexplained": "dim"}
    assert tokens(State.SLOWED, compute=0.6, host=0.4) == {"compute": "ok", "host": "warn"}
    assert tokens(State.OK, compute=0.8, data_disk=0.2) == {"compute": "ok", "disk": "graph"}


def test_figures_are_rounded_separately_but_in_a_table_they_add_up_to_100() -> None:
    thirds = [1, 1, 1, *[0] * 11]
    assert [part.figure for part in parts_of(thirds)] == ["33", "33", "33"]
    assert [part.figure for part in parts_for_table(thirds)] == ["33.4", "33.3", "33.3"]
    small = [99_990, 6, *[0] * 11, 4]
    names = [(part.name, part.figure) for part in parts_of(small)]
    assert names == [("compute", "100"), ("collective", "<1"), ("unexplained", "<1")]
    assert [part.figure for part in parts_for_table(small)] == ["100.0", "<0.1", "<0.1"]
    assert parts_of([0] * 14) == parts_for_table([0] * 14) == ()


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_the_screen_has_the_bar_under_the_banner_at_any_size(size: tuple[int, int]) -> None:
    slots = plan(*size, slow_disk()[-1], UTC)
    assert [slot.panel for slot in slots][:3] == ["banner", "time", "path"]
    assert slots[1].y == slots[0].height
    lines = screen_rows(*size, slow_disk()[-1], UTC)
    assert len(lines) == size[1]
    assert lines[slots[1].y].text.startswith(" time     data: disk ")


def test_at_80x24_the_bar_removes_no_other_panel() -> None:
    with_bar = {slot.panel: slot.height for slot in plan(80, 24, slow_disk()[-1], UTC)}
    without = {slot.panel: slot.height for slot in plan(80, 24, not_counted()[-1], UTC)}
    assert with_bar.pop("time") == 1
    assert "time" not in without
    assert without.pop("process") - with_bar.pop("process") == 1
    assert with_bar == without


def test_there_is_no_bar_if_job_times_or_jobs_are_missing_or_the_banner_is_hidden() -> None:
    assert time_rows(not_counted()[-1], UTC, 80, 1) == []
    snapshot = slow_disk()[-1].snapshot
    none = next(iter(frames([snapshot._replace(jobs=snapshot.jobs._replace(value=None))])))
    assert time_rows(none, UTC, 80, 1) == []
    assert "time" not in [slot.panel for slot in plan(80, 24, none, UTC)]
    hidden = UTC._replace(hidden=frozenset({"banner"}))
    assert "time" not in [slot.panel for slot in plan(80, 24, slow_disk()[-1], hidden)]


def test_the_first_frame_has_the_row_of_the_bar() -> None:
    first = next(frame for frame in slow_disk() if time_is_counted(frame))
    assert bar(first._replace(history=first.history[-1:])) == " time     measuring"
    assert bar(slow_disk()[-1], view=UTC._replace(silent_s=12.0)).startswith(" time     data: disk")
    (old,) = time_rows(slow_disk()[-1], UTC._replace(silent_s=12.0), 80, 1)
    assert {span.token for span in old.spans} == {"dim"}


def test_the_job_page_has_a_row_for_each_share_of_the_whole_run() -> None:
    shown = growing(compute=90_000, data_disk=200_000, checkpoint=10_000)[-1]
    rows = [line.text.rstrip() for line in jobs_screen_rows(shown, UTC, 80, 24, 0)]
    at = next(i for i, row in enumerate(rows) if row.startswith(" time"))
    assert rows[at : at + 3] == [
        " time     data: disk       67 %     2:26:40  ━━━━━━━━━━━━━━━━━━━━━━━",
        "          compute          30 %     1:06:00  ━━━━━━━━━━",
        "          checkpoint        3 %     0:07:20  ━",
    ]
    wide = [line for line in jobs_screen_rows(shown, UTC, 160, 48, 0) if "data: disk" in line.text]
    assert [span for span in wide[0].spans if span.token == "hot"] == [Span("━" * 76, "hot")]


def test_the_job_page_shows_that_job_times_were_not_recorded() -> None:
    rows = [line.text.rstrip() for line in jobs_screen_rows(not_counted()[-1], UTC, 80, 24, 0)]
    assert " time     not recorded" in rows
    assert any("of its time since a loss was first reported" in line for line in rows if line.startswith(" lost "))


def test_the_reasoning_page_and_the_text_to_paste_have_one_line_about_time() -> None:
    shown = growing(**MIXED)[-1]
    sentence = "data disk 52 %, compute 41 %, unexplained 7 %"
    assert time_sentence(shown) == sentence
    assert f"   time: {sentence}" in [line.text.rstrip() for line in reasoning_rows(shown, UTC, 80, 24)]
    assert f"time      {sentence}" in verdict_block(shown, UTC)
    old = not_counted()[-1]
    assert "   time: not recorded" in [line.text.rstrip() for line in reasoning_rows(old, UTC, 80, 24)]
    assert not [line for line in verdict_block(old, UTC) if line.startswith("time")]
