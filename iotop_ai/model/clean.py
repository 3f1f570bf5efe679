"""Outside text is hostile: one function on every string where it enters."""

from __future__ import annotations

REPLACEMENT = "�"
LONGEST = 512


def clean(text: str, longest: int = LONGEST) -> str:
    """The text with every non-printable character replaced by U+FFFD, cut to ``longest`` characters.

    Non-printable as in ``str.isprintable``: C0, DEL, C1, bidi controls, zero-width, surrogates, line ends. What
    comes back can be written to a terminal without moving the cursor; it may still look like markup, so widgets
    get it only as Text or Content.
    """
    if len(text) > longest:
        text = text[:longest]
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else REPLACEMENT for c in text)


def clean_bytes(raw: bytes, longest: int = LONGEST) -> str:
    """``clean`` of bytes that are usually UTF-8; what is not becomes U+FFFD."""
    return clean(raw[: longest * 4].decode("utf-8", "replace"), longest)
