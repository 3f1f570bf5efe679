"""Makes text from outside safe to display. ``clean`` is applied to every such string where it enters the program."""

from __future__ import annotations

REPLACEMENT = "�"
LONGEST = 512
"""The length in characters to which a text is cut unless the caller gives another one."""
MOST_MARKS = 4
"""The most combining marks kept on one letter: no script needs more, and a tall pile of marks covers other lines."""
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
"""Printable characters without a visible form: those of Default_Ignorable_Code_Point that ``isprintable`` accepts, and
the empty Braille cell. Two names that differ only in such characters look equal."""


def clean(text: str, longest: int = LONGEST) -> str:
    """The text with every non-printable character replaced by U+FFFD, cut to ``longest`` characters.

    Characters are non-printable if ``str.isprintable`` is false (C0, DEL, C1, bidi controls, zero-width characters,
    surrogates, line ends) or if they have no visible form (fillers, variation selectors). The combining marks at
    the start of the text become a single U+FFFD; so do those beyond MOST_MARKS on one letter. The result cannot move a
    terminal's cursor, but it may look like markup, so it is passed to widgets only as Text or Content.
    """
    if len(text) > longest:
        text = text[:longest]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else REPLACEMENT for c in text)
    if text.isascii() or max(text) < _FIRST_MARK:
        return text
    return _without_invisible_and_excess_marks(text)


def _without_invisible_and_excess_marks(text: str) -> str:
    """Replace each invisible character by U+FFFD, and all marks beyond MOST_MARKS on one letter by a single U+FFFD."""
    # Imported here, because only names with non-Latin characters need it.
    from unicodedata import category

    out: list[str] = []
    marks = MOST_MARKS  # marks at the start have no letter, so they are excess
    for c in text:
        if c < _FIRST_MARK:
            marks = 0
        elif c in _INVISIBLE:
            c, marks = REPLACEMENT, 0
        # The vowels and final consonants of a Hangul syllable are letters that share its cell, as marks do.
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
    """``clean`` for bytes that are usually UTF-8; invalid bytes become U+FFFD."""
    return clean(raw[: longest * 4].decode("utf-8", "replace"), longest)
