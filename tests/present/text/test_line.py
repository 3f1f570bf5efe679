from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from iotop_ai.present.text.glyphs import ascii_line, ascii_text
from iotop_ai.present.text.line import Cell, Line, Span, blank, cells, cut, cut_middle, cut_spans, place, plain, row

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn")), max_size=30)
SIMPLE = st.text(st.sampled_from("ab ─›训é…"), max_size=20)


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    assert cells("训练") == 4
    assert cells("e\u0301") == 1
    assert plain("e\u0301") == "é"
    assert cut("训练.py", 5) == "训练…"
    assert cut("训练.py", 4) == "训…"
    assert cut("训练", 1) == "…"
    assert cut("abcdef", 4) == "abc…"
    assert cut("abc", 0) == ""


def test_widths_are_those_of_the_terminal_library() -> None:
    for text in ("pt_data_worker", "训练 x64", "─━▌›●○×►◄╌╍", "⠀⣶⣿", "ｆｕｌｌ", "日本語", "\ufffd"):
        assert cells(text) == cell_len(text)


def test_place_aligns_cells_to_the_left_and_to_the_right() -> None:
    line = place(20, Cell(1, "sda", "bad"), Cell(9, "735", right=True), Cell(12, "ok", "dim"), key="disk:sda")
    assert line.text == " sda   735  ok      "
    assert line.key == "disk:sda"
    assert [s.token for s in line.spans] == ["text", "bad", "text", "text", "dim"] or line.spans[1].text == "sda"


def test_a_gap_gets_the_style_of_the_span_before_it_unless_that_is_a_graph() -> None:
    assert place(6, Cell(0, "ab", "dim"), Cell(4, "c")).spans == (Span("ab  ", "dim"), Span("c ", "text"))
    assert place(6, Cell(0, "⣶", "graph")).spans == (Span("⣶", "graph"), Span("     "))


def test_an_overlapping_cell_begins_after_the_previous_one() -> None:
    assert place(8, Cell(0, "abcd"), Cell(2, "xyz")).text == "abcdz   "
    assert place(4, Cell(0, "训练员")).text == "训练"
    assert place(3, Cell(0, "训练")).text == "训 "


def test_row_cuts_its_left_part_to_fit_the_right_one() -> None:
    assert row(10, [Span("abcdefgh")], [Span("xyz")]).text == "abcde… xyz"
    assert row(5, [Span("ab")]).text == "ab   "
    assert cut_spans([Span("ab"), Span("cd")], 3) == [Span("ab"), Span("…")]


@given(st.integers(1, 60), st.lists(st.tuples(st.integers(-3, 70), SIMPLE, st.booleans()), max_size=6))
def test_place_always_gives_the_exact_width(width: int, given_cells: list[tuple[int, str, bool]]) -> None:
    line = place(width, *(Cell(max(0, c), t, "text", r) for c, t, r in given_cells))
    assert cells(line.text) == width


@given(TEXT, st.integers(0, 40))
def test_cut_never_exceeds_its_width(text: str, width: int) -> None:
    assert cells(cut(text, width)) <= width
    assert cells(cut_middle(text, width)) <= width
    assert cells(cut_middle(text, width, tail=8)) <= width


def test_a_long_message_keeps_its_reason() -> None:
    assert cut_middle("/a/very/long/path: no answer", 20) == "/a/very/l… no answer"
    assert cut_middle("/a: no answer", 20) == "/a: no answer"
    assert cut_middle("to /home/alice/a-long-name.iotop.jsonl", 30, tail=24) == "to /h…/a-long-name.iotop.jsonl"
    assert cut_middle("to /home/alice/a-long-name.iotop.jsonl", 20, tail=24) == "to /home/…otop.jsonl"


@given(TEXT)
def test_ascii_keeps_the_number_of_columns(text: str) -> None:
    made = ascii_text(plain(text))
    assert made.isascii()
    assert len(made) == cells(plain(text))


def test_glyphs_have_ascii_forms() -> None:
    assert ascii_text("── ▌ › ● × ► ╌") == "-- | > * x > ?"
    assert ascii_text("┄⣀") == " :"
    assert ascii_text("⣿⣀⠀") == "@: "
    line = Line((Span("─", "rule"), Span("a")), "sel", "disk:a")
    assert ascii_line(line) == Line((Span("-", "rule"), Span("a")), "sel", "disk:a")
    assert blank(3).text == "   "
