"""Separates an Escape from the key after it.

A fast typist or a slow line can deliver both in one read. Textual's parser takes them for Alt with that key, which is
usually not bound, so both keys would be lost.
"""

from __future__ import annotations

ESCAPE = "\x1b"
HEADS = ("[", "O")
"""After an Escape, one of these characters continues a sequence: a key without a character, or a terminal's report."""


class EscapeSplitter:
    """Splits input into single Escapes and text for the parser. It keeps back the end of the input while that may be
    the beginning of a sequence.
    """

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """The pieces that are certain: a piece that equals ``ESCAPE`` is the key, all others are for the parser."""
        text, self._rest = self._rest + text, ""
        pieces: list[str] = []
        while text:
            before, escape, after = text.partition(ESCAPE)
            if before:
                pieces.append(before)
            text = escape + after
            if escape and after in ("", *HEADS):
                self._rest, text = text, ""
            elif escape and after.startswith(HEADS):
                end = text.find(ESCAPE, 1)
                end = len(text) if end < 0 else end
                pieces.append(text[:end])
                text = text[end:]
            elif escape:
                pieces.append(ESCAPE)
                text = after
        return pieces

    def flush(self) -> list[str]:
        """The end that was kept back, as single keys. Called when nothing has followed it in time."""
        rest, self._rest = self._rest, ""
        return list(rest)
