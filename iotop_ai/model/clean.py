"""Outside text is hostile: ``clean`` is applied to every string where it enters."""

from __future__ import annotations

REPLACEMENT = "�"
LONGEST = 512


MOST_MARKS = 4
"""Combining marks on one letter: no script in use needs more, and a pile of them covers the lines around it."""
_FIRST_MARK = "\u0300"
_INVISIBLE = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180F, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x180E),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Printable characters without a visible form: the rest of Default_Ignorable_Code_Point, and an empty Braille cell.
Two names that differ in these alone look the same."""


def clean(text: str, longest: int = LONGEST) -> str:
    """The text with every non-printable character replaced by U+FFFD, cut to ``longest`` characters.

    Non-printable as in ``str.isprintable``: C0, DEL, C1, bidi controls, zero-width, surrogates, line ends; also
    invisible characters (fillers, variation selectors), and combining marks without a letter or beyond
    MOST_MARKS. The result does not move a terminal's cursor; it may still look like markup, so widgets get it only as
    Text or Content.
    """
    if len(text) > longest:
        text = text[:longest]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else REPLACEMENT for c in text)
    if text.isascii() or max(text) < _FIRST_MARK:
        return text
    return _marked(text)


def _marked(text: str) -> str:
    """Replaces invisible characters, and in each pile of marks all beyond MOST_MARKS by one U+FFFD."""
    # Imported for the first name that is not Latin.
    from unicodedata import category

    out: list[str] = []
    marks = MOST_MARKS  # the first character has no letter before it
    for c in text:
        if c < _FIRST_MARK:
            marks = 0
        elif c in _INVISIBLE:
            c, marks = REPLACEMENT, 0
        # Vowels and finals of a Hangul syllable are letters without a cell of their own, like marks.
        elif category(c)[0] == "M" or "\u1161" <= c <= "\u11ff" or "\ud7b0" <= c <= "\ud7fb":
            marks += 1
            if marks > MOST_MARKS + 1:
                continue
            if marks > MOST_MARKS:
                c = REPLACEMENT
        else:
            marks = 0
        out.append(c)
    return "".join(out)


def clean_bytes(raw: bytes, longest: int = LONGEST) -> str:
    """``clean`` of bytes that are usually UTF-8; invalid ones become U+FFFD."""
    return clean(raw[: longest * 4].decode("utf-8", "replace"), longest)
