"""The rows of a dialog: a labelled sentence is shown as a whole, and no row is wider than the screen."""

import pytest

from iotop_ai.present.screen.dialog import LABEL_CELLS, dialog_rows, labelled_rows
from iotop_ai.present.text.line import Line, Span, cells, spans_cells


@pytest.mark.parametrize("folder", ["/mnt/data/a", "".join(chr(0x4E00 + i) for i in range(60))], ids=["ascii", "wide"])
@pytest.mark.parametrize("width", [40, 64])
def test_a_labelled_sentence_is_broken_by_its_columns(folder: str, width: int) -> None:
    rows = labelled_rows("runs", f"train --data {folder}/END --epochs 90", width)
    assert all(spans_cells(spans) <= width for spans in rows)
    shown = " ".join("".join(span.text for span in spans)[LABEL_CELLS:] for spans in rows)
    assert "".join(shown.split()) == f"train--data{folder}/END--epochs90"


@pytest.mark.parametrize("width", [1, 5, 9, 10, 11, 12, 13, 14, 80])
def test_every_row_is_as_wide_as_the_screen(width: int) -> None:
    below = [Line((Span("x" * width),))] * 9
    rows = dialog_rows(below, "TITLE", "", [[Span("the effect")]], [[Span("the choice")]], (width, 9))
    assert [cells(line.text) for line in rows] == [width] * 9
