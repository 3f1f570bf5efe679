"""What a click on a row of text means: a key that is printed there, a column by which to sort."""

from __future__ import annotations

import re

from iotop_ai.model.settings import SORT_KEYS
from iotop_ai.present.keymap import key_named
from iotop_ai.present.line import Line, cells
from iotop_ai.present.process import COLUMNS

_KEY = "key"
_WORD = re.compile(r"\S+")
_TITLES = {column.title.removesuffix("/s"): column.id for column in COLUMNS if column.id in SORT_KEYS}


def key_at(line: Line, x: int) -> str | None:
    """The key, as Textual names it, that is printed at this column, alone or by the word behind it; None elsewhere.

    Of two keys with one word (``b/n:disk``) the word is the second's.
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
            worded = printed and span.text.startswith(":") and x < at + len(span.text.rstrip())
            return _key_in(printed, len(printed) - 1) if worded else None
        else:
            printed = printed if span.text.startswith(":") else ""
        at = end
    return None


def _key_in(printed: str, x: int) -> str | None:
    whole = key_named(printed)
    if whole is not None:
        return whole
    if re.fullmatch(r"\d-\d", printed):
        return None
    begin = 0
    for part in re.split(r"([/ ])", printed):
        if begin <= x < begin + len(part):
            return key_named(part) if part not in ("/", " ") or len(printed) == 1 else None
        begin += len(part)
    return None


def sort_at(line: Line, x: int) -> str:
    """The key by which to sort of the column title at this column of the processes' rule; "" where there is none."""
    word = next((found for found in _WORD.finditer(line.text) if found.start() <= x < found.end()), None)
    if word is None:
        return ""
    return "name" if word[0] == "process" else _TITLES.get(word[0].removesuffix("/s"), "")
