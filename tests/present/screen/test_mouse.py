"""What a click on a row means, which follows from the printed text."""

import pytest

from iotop_ai.present.process.table import process_rows
from iotop_ai.present.screen.key_row import keys_of, keys_rows
from iotop_ai.present.screen.mouse import key_at, sort_at
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line, Span, cells
from tests.present.gpu_scenes import eight
from tests.present.make import Machine, frame, snapshots

FRAME = frame(snapshots(lambda i: Machine(), 3))


def keys_in(line: Line) -> dict[int, str]:
    return {x: key for x in range(len(line.text)) if (key := key_at(line, x))}


def test_a_row_of_keys_can_be_clicked() -> None:
    line = keys_rows(FRAME, View(), 160, 1)[0]
    found = keys_in(line)
    at = line.text.index
    assert found[at(" q ") + 1] == "q"
    assert found[at("b/n")] == "b"
    assert at("b/n") + 1 not in found
    assert found[at("b/n") + 2] == "n"
    assert found[at("disk")] == "n"
    assert found[at("< >")] == "less_than_sign"
    assert found[at("< >") + 2] == "greater_than_sign"
    assert found[at(" /:") + 1] == "slash"
    assert found[at("Tab")] == found[at("panel")] == "tab"
    assert found[at("Space") + 4] == "space"
    assert found[at("[ ]")] == "left_square_bracket"
    assert found[at("+ -") + 2] == "minus"
    assert 159 not in found


def test_every_entry_but_the_one_for_panels_can_be_clicked() -> None:
    line = keys_rows(eight(), View(), 400, 1)[0]
    found = keys_in(line)
    for key in keys_of(View()):
        x = line.text.index(f" {key.keys}{':' if key.word else ' '}{key.word}") + 1
        assert (x in found) == (key.keys != "1-7")


def test_while_a_filter_is_typed_its_keys_can_be_clicked() -> None:
    line = keys_rows(FRAME, View(typing=True, pattern="q ?:x"), 80, 1)[0]
    found = keys_in(line)
    assert found[line.text.index("Esc")] == found[line.text.index("clear")] == "escape"
    assert found[line.text.index("keep")] == "enter"
    assert line.text.index("q ?") not in found
    assert line.text.index("x") not in found


def test_wide_letters_before_a_title_do_not_shift_its_place() -> None:
    line = process_rows(FRAME, View(pattern="\u8a13"), 160, 6)[0]
    assert "\u8a13" in line.text
    assert sort_at(line, cells(line.text[: line.text.index("cpu%")]) + 3) == "cpu"


def test_text_that_looks_like_a_key_cannot_be_clicked() -> None:
    assert key_at(Line((Span(" foo ", "key"),)), 2) is None
    assert key_at(Line((Span(" q", "text"),)), 1) is None
    assert key_at(Line(()), 0) is None


@pytest.mark.parametrize(
    ("title", "sort"),
    [
        ("process", "name"),
        ("user", "user"),
        ("read", "read"),
        ("write", "write"),
        ("IO-wait%", "delay"),
        ("cpu%", "cpu"),
    ],
)
def test_titles_of_the_process_table_can_be_clicked(title: str, sort: str) -> None:
    for view in (View(), View(base=FRAME.snapshot)):
        for width in (80, 160):
            line = process_rows(FRAME, view, width, 6)[0]
            assert sort_at(line, line.text.index(title)) == sort
            assert sort_at(line, line.text.index("──")) == ""


@pytest.mark.parametrize("sort", ["user", "read"])
def test_the_order_after_the_panels_title_is_not_a_title_of_a_column(sort: str) -> None:
    line = process_rows(FRAME, View(sort=sort), 160, 6)[0]
    assert sort_at(line, line.text.index(f" by {sort} ") + len(" by ")) == ""
    assert sort_at(line, line.text.rindex(f" {sort}") + 1) == sort
