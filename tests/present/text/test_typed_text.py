"""A typed text is edited at its cursor, and the part around the cursor is shown."""

from __future__ import annotations

from unicodedata import normalize

import pytest

from iotop_ai.present.text.line import cells
from iotop_ai.present.text.typed_text import TypedText

MIDDLE = TypedText("read > 10M", 4)
"""The cursor is on the blank before 10M."""


@pytest.mark.parametrize(
    ("key", "character", "text", "right"),
    [
        ("x", "x", "read >x 10M", 4),
        ("backspace", "\x7f", "read  10M", 4),
        ("delete", None, "read >10M", 3),
        ("ctrl+u", None, " 10M", 4),
        ("ctrl+k", None, "read >", 0),
        ("ctrl+w", None, "read  10M", 4),
        ("left", None, "read > 10M", 5),
        ("right", None, "read > 10M", 3),
        ("home", None, "read > 10M", 10),
        ("ctrl+a", "\x01", "read > 10M", 10),
        ("end", None, "read > 10M", 0),
        ("ctrl+e", "\x05", "read > 10M", 0),
        ("f5", None, "read > 10M", 4),
        ("ctrl+g", "\x07", "read > 10M", 4),
    ],
)
def test_a_key_edits_the_text_at_the_cursor(key: str, character: str | None, text: str, right: int) -> None:
    assert MIDDLE.after(key, character, 512) == (text, right)


@pytest.mark.parametrize("key", ["left", "backspace", "ctrl+w", "ctrl+u", "home"])
def test_left_of_the_first_character_there_is_nothing(key: str) -> None:
    assert TypedText("ab", 2).after(key, None, 512) == ("ab", 2)


@pytest.mark.parametrize("key", ["right", "delete", "ctrl+k", "end"])
def test_right_of_the_last_character_there_is_nothing(key: str) -> None:
    assert TypedText("ab").after(key, None, 512) == ("ab", 0)


def test_a_word_is_removed_with_the_blanks_behind_it() -> None:
    assert TypedText("user = alice  ").after("ctrl+w", None, 512) == ("user = ", 0)


def test_a_text_is_not_longer_than_allowed() -> None:
    assert TypedText("abcd", 1).after("x", "x", 4) == ("abcd", 1)
    assert TypedText("abc", 1).with_inserted("12345", 5) == ("ab12c", 1)


def test_the_offset_of_a_cursor_beyond_the_text_is_its_beginning() -> None:
    """The text may become shorter elsewhere."""
    assert TypedText("ab", 9).after("x", "x", 9) == ("xab", 2)


@pytest.mark.parametrize("text", ["0123456789" * 3, "\u6f22\u5b57" * 12])
@pytest.mark.parametrize("room", [5, 12, 20])
def test_the_cursor_is_always_visible(text: str, room: int) -> None:
    for right in range(len(text) + 1):
        spans = TypedText(text, right).spans(room, "text")
        (cursor,) = (span for span in spans if span.token == "cursor")
        assert cursor.text == (text[len(text) - right] if right else " ")
        assert sum(cells(span.text) for span in spans) <= room
        assert "".join(span.text for span in spans).rstrip() in text


def test_a_character_without_a_width_is_not_drawn() -> None:
    spans = TypedText("a\ufe0fbc", 1).spans(40, "text")
    assert [span.text for span in spans] == ["ab", "c"]


@pytest.mark.parametrize("right", [1, 2, 3, 4])
def test_a_combining_accent_stays_with_its_letter(right: int) -> None:
    spans = TypedText("ae\u0301x", right).spans(40, "text")
    (cursor,) = (span for span in spans if span.token == "cursor")
    assert cells(cursor.text) == 1
    assert normalize("NFC", "".join(span.text for span in spans)).rstrip() == "a\u00e9x"
