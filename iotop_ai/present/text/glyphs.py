"""The glyphs of the screen that are not ASCII, and their ASCII substitutes."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.present.text.line import Line, Span, char_cells

_TABLE = str.maketrans(
    {
        "─": "-",
        "━": "=",
        "▌": "|",
        "›": ">",
        "●": "*",
        "○": "o",
        "×": "x",
        "►": ">",
        "▼": "v",
        "▲": "^",
        "◄": "<",
        "╌": "?",
        "┄": " ",
        "╍": "~",
        "…": "~",
        "█": "#",
        "·": ".",
        "≥": ">",
        "≤": "<",
        "–": "-",
        "│": "|",
        "├": "|",
        "└": "`",
        "┌": "+",
        "┐": "+",
        "┘": "'",
    }
    | dict.fromkeys("▁▂▃▄▅▆▇", "#")
)
_RAMP = " .:-=+*#@"
"""The substitute for a braille character, by its number of dots."""


def ascii_text(text: str) -> str:
    """The text in ASCII, in as many columns. A braille character becomes an ASCII character of similar density; a
    character without a substitute becomes ``?``.
    """
    if text.isascii():
        return text
    out = []
    for char in text.translate(_TABLE):
        if char.isascii():
            out.append(char)
        elif 0x2800 <= ord(char) <= 0x28FF:
            out.append(_RAMP[(ord(char) - 0x2800).bit_count()])
        else:
            out.append("?" * char_cells(char))
    return "".join(out)


def in_ascii(lines: Iterable[Line], wanted: bool) -> list[Line]:
    """The lines, in ASCII if ``wanted``."""
    return [ascii_line(line) for line in lines] if wanted else list(lines)


def ascii_line(line: Line) -> Line:
    """The line in ASCII, with its tokens, background and key unchanged."""
    return line._replace(spans=tuple(Span(ascii_text(s.text), s.token) for s in line.spans))
