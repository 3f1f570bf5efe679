"""The rows of a dialog: a labelled sentence is shown as a whole."""

import pytest

from iotop_ai.present.screen.dialog import LABEL_CELLS, labelled_rows
from iotop_ai.present.text.line import spans_cells


@pytest.mark.parametrize("folder", ["/mnt/data/a", "".join(chr(0x4E00 + i) for i in range(60))], ids=["ascii", "wide"])
@pytest.mark.parametrize("width", [40, 64])
def test_a_labelled_sentence_is_broken_by_its_columns(folder: str, width: int) -> None:
    rows = labelled_rows("runs", f"train --data {folder}/END --epochs 90", width)
    assert all(spans_cells(spans) <= width for spans in rows)
    shown = " ".join("".join(span.text for span in spans)[LABEL_CELLS:] for spans in rows)
    assert "".join(shown.split()) == f"train--data{folder}/END--epochs90"
