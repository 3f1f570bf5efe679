"""Labelled texts of a disk's page."""

from __future__ import annotations

from iotop_ai.present.health.table import wrapped_rows


def test_a_text_of_wide_characters_is_shown_whole() -> None:
    path = "/home/" + "日本" * 20 + "/end"
    rows = [line.text for line in wrapped_rows(40, "note", f"not kept: {path}")]
    text = "".join("".join(rows).replace("note", "", 1).split())
    assert text == f"notkept:{path}"
