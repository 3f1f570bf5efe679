"""Aligned plain-text tables that awk can split, because only the last cell may contain spaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

UNKNOWN = "?"
UNDEFINED = "-"


def number(value: float | None, digits: int = 2) -> str:
    """A figure with ``digits`` decimals; "?" when unknown.

    A figure too small for these decimals gets one significant digit.
    """
    if value is None:
        return UNKNOWN
    text = f"{value:.{digits}f}"
    return text if float(text) or not value else f"{value:.1g}"


def field(text: str) -> str:
    """Text as one field: a space becomes \\040 (as in /proc/mounts), empty text becomes "-"."""
    return text.replace(" ", "\\040") or UNDEFINED


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], least_widths: Sequence[int] = ()) -> list[str]:
    """The titles and rows as lines. The first and last columns are left-aligned, the others right-aligned.

    least_widths: the minimum widths of the columns, so that consecutive blocks of an ordinary machine line up.
    """
    lines = [tuple(titles), *(tuple(row) for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    widths = [max(width, least_widths[i] if i < len(least_widths) else 0) for i, width in enumerate(widths)]
    return [_line(cells, widths) for cells in lines]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    middle = [cell.rjust(width) for cell, width in zip(cells[1:-1], widths[1:-1], strict=True)]
    return " ".join([cells[0].ljust(widths[0]), *middle, cells[-1]]).rstrip()
