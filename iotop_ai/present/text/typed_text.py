"""A text that the user types, with its cursor."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.present.text.line import Span, cells, plain


class TypedText(NamedTuple):
    """A text and its cursor. right: the number of characters to the right of the cursor; 0 at the end of the text."""

    text: str = ""
    right: int = 0

    def after(self, key: str, character: str | None, longest: int) -> TypedText:
        """The text after another key, as in a shell. Characters beyond ``longest`` are not accepted.

        ctrl+u removes the text before the cursor, ctrl+k the text after it, ctrl+w the word before it.
        """
        before, rest = self._halves()
        match key:
            case "backspace":
                before = before[:-1]
            case "delete":
                rest = rest[1:]
            case "ctrl+u":
                before = ""
            case "ctrl+k":
                rest = ""
            case "ctrl+w":
                word = before.rstrip()
                before = word[: word.rfind(" ") + 1]
            case "left":
                before, rest = before[:-1], before[-1:] + rest
            case "right":
                before, rest = before + rest[:1], rest[1:]
            case "home" | "ctrl+a":
                before, rest = "", self.text
            case "end" | "ctrl+e":
                before, rest = self.text, ""
            case _ if character and character.isprintable():
                return self.with_inserted(character, longest)
        return TypedText(before + rest, len(rest))

    def with_inserted(self, text: str, longest: int) -> TypedText:
        """The text with another text at the cursor, of which at most ``longest`` characters in all are accepted."""
        before, rest = self._halves()
        return TypedText(before + text[: max(0, longest - len(self.text))] + rest, len(rest))

    def spans(self, room: int, token: str) -> list[Span]:
        """The text with its cursor, in at most ``room`` columns around the cursor. token: the style of the text."""
        before, rest = map(plain, self._halves())
        # A character without a width, such as a combining accent, belongs to the one before it.
        while before and rest and not cells(rest[0]):
            before, rest = before[:-1], before[-1] + rest
        end = 1
        while end < len(rest) and not cells(rest[end]):
            end += 1
        under, after = rest[:end] or " ", rest[end:]
        while (before or after) and cells(before + under + after) > room:
            if after and cells(before) <= room // 2:
                after = after[:-1]
            else:
                before = before[1:]
        return [span for span in (Span(before, token), Span(under, "cursor"), Span(after, token)) if span.text]

    def _halves(self) -> tuple[str, str]:
        """The text before the cursor, and the text from it on."""
        at = max(0, len(self.text) - self.right)
        return self.text[:at], self.text[at:]
