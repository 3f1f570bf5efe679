"""The meaning of a click on a row of text: the key shown there, or the column to sort by."""

from __future__ import annotations

import re

from iotop_ai.model.settings import SORT_KEYS
from iotop_ai.present.process.table import COLUMNS
from iotop_ai.present.screen.key_names import parse_key
from iotop_ai.present.text.line import Line, cells

_KEY = "key"
_WORD = re.compile(r"\S+")
_TITLES = {column.title.removesuffix("/s"): column.id for column in COLUMNS if column.id in SORT_KEYS}
"""The sort key of each title of a column."""


def key_at(line: Line, x: int) -> str | None:
    """Textual's name of the key that is shown at this column; None if there is none. The word after a key belongs to
    the key.

    Where two keys share a word (``b/n:disk``), the word belongs to the second.
    """
    at = 0
    printed = ""
    for span in line.spans:
        end = at + cells(span.text)
        if span.token == _KEY:
            printed = span.text.strip()
            begin = at + len(span.text) - len(span.text.lstrip())
            if at <= x < end:
                return _key_in(printed, max(0, x - begin))
        elif at <= x < end:
            is_label = printed and span.text.startswith(":") and x < at + len(span.text.rstrip())
            return _key_in(printed, len(printed) - 1) if is_label else None
        else:
            printed = printed if span.text.startswith(":") else ""
        at = end
    return None


def _key_in(printed: str, x: int) -> str | None:
    """Textual's name of the key at column ``x`` of an entry such as "b/n"; None if there is none."""
    whole = parse_key(printed)
    if whole is not None:
        return whole
    if re.fullmatch(r"\d-\d", printed):  # a range of keys, as in 1-7
        return None
    begin = 0
    for part in re.split(r"([/ ])", printed):
        if begin <= x < begin + len(part):
            return parse_key(part) if part not in ("/", " ") or len(printed) == 1 else None
        begin += len(part)
    return None


def sort_at(line: Line, x: int) -> str:
    """The sort key of the column title at this column of the screen, in the rule of the process panel; "" if there is
    none.
    """
    text, at, titles_at = line.text, 0, 0
    for span in line.spans:
        at += cells(span.text)
        if span.token.startswith("rule"):
            titles_at = at  # dashes separate the panel's title and note from the titles of the columns
    words = ((match[0], cells(text[: match.start()])) for match in _WORD.finditer(text))
    word = next((word for word, start in words if start <= x < start + cells(word)), "")
    if word == "process":
        return "name"
    return _TITLES.get(word.removesuffix("/s"), "") if x >= titles_at else ""
