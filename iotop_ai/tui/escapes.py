"""An Escape and the key behind it, taken apart.

Somebody types fast, or a slow line sends both in one go: the pair then looks like Alt with that key, and Textual's
parser makes one key of it that nobody has bound. Both would be lost.
"""

from __future__ import annotations

ESCAPE = "\x1b"
HEADS = ("[", "O")
"""What comes behind the Escape of a sequence that a terminal sends by itself or for a key without a character."""


class Escapes:
    """Cuts what was read into single Escapes and text for the parser; an end that may go on is held back."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> list[str]:
        """The pieces that are certain: ``ESCAPE`` alone is that key, all others are the parser's."""
        text, self._held = self._held + text, ""
        pieces: list[str] = []
        while text:
            before, escape, after = text.partition(ESCAPE)
            if before:
                pieces.append(before)
            text = escape + after
            if escape and after in ("", *HEADS):
                self._held, text = text, ""
            elif escape and after.startswith(HEADS):
                end = text.find(ESCAPE, 1)
                end = len(text) if end < 0 else end
                pieces.append(text[:end])
                text = text[end:]
            elif escape:
                pieces.append(ESCAPE)
                text = after
        return pieces

    def late(self) -> list[str]:
        """What was held back when nothing more has come: keys, each for itself."""
        held, self._held = self._held, ""
        return list(held)
