"""Breaks text into lines by its width in columns of the terminal, not by its number of characters."""

from __future__ import annotations

from textwrap import TextWrapper

from iotop_ai.present.text.line import cells, head_of, is_single_width


def wrap_cells(text: str, width: int, *, break_on_hyphens: bool = True) -> list[str]:
    """The text as lines of at most ``width`` columns; [] for blank text. A word is broken only if no line has room
    for it.
    """
    wrapper = TextWrapper if is_single_width(text) else _CellWrapper
    return wrapper(width=width, break_on_hyphens=break_on_hyphens).wrap(text)


class _CellWrapper(TextWrapper):
    """A TextWrapper that counts columns. ``TextWrapper`` counts characters, of which some take two columns or none."""

    def _wrap_chunks(self, chunks: list[str]) -> list[str]:
        """Return the lines made of the chunks, which are words and the blanks between them."""
        lines: list[str] = []
        line, room = "", self.width
        for chunk in chunks:
            if lines and not line and chunk.isspace():
                continue
            while cells(chunk) > room:
                if chunk.isspace():
                    chunk = ""
                elif cells(chunk) > self.width:
                    # A line holds at least one character, even if that is too wide for it.
                    start = head_of(chunk, room) or ("" if line else chunk[:1])
                    line, chunk = line + start, chunk[len(start) :]
                if line.strip():
                    lines.append(line.rstrip())
                line, room = "", self.width
            line, room = line + chunk, room - cells(chunk)
        return [*lines, line.rstrip()] if line.strip() else lines
