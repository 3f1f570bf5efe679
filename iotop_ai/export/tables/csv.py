"""A table as CSV (RFC 4180, UTF-8): unknown is an empty cell, times are RFC 3339 in UTC, flags are 0 and 1."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import TextIO

from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.export.tables.columns import Cell, Column, Row, Table
from iotop_ai.model.clean import clean

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DIGITS = 12
"""The significant digits of a number."""
_MOST_CHARACTERS = 1 << 16
"""The most characters of a text."""


def guarded(text: str) -> str:
    """The text with a leading apostrophe if a spreadsheet could take it for a formula (CWE-1236)."""
    return "'" + text if text.startswith(_FORMULA) else text


def cell_text(cell: Cell, column: Column, raw: bool) -> str:
    """The text of one cell. raw: whether text is written without ``guarded``, which never applies to numbers."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        text = clean(cell, _MOST_CHARACTERS)  # many readers end the row at a newline within a cell
        return text if raw else guarded(text)
    if column.kind == "time":
        return rfc3339(int(cell))
    if isinstance(cell, bool):
        return "1" if cell else "0"
    if isinstance(cell, float):
        return f"{cell:.{_DIGITS}g}"
    return str(cell)


class CsvOut:
    """Writes one table. raw: whether text is written without the guard against formulas."""

    def __init__(self, file: TextIO, table: Table, *, raw: bool = False) -> None:
        self._file = file
        self._columns = table.columns
        self._raw = raw
        self._writer = csv.writer(file, lineterminator="\n")
        self._has_header = False

    def _write_header(self) -> None:
        """Write the header once: before the first rows or, without rows, at the end.

        An invalid recording leaves no header.
        """
        if not self._has_header:
            self._writer.writerow([column.name for column in self._columns])
            self._has_header = True

    def add(self, table: Table, rows: Iterable[Row]) -> None:
        """Append rows of the table."""
        self._write_header()
        columns, raw = self._columns, self._raw
        self._writer.writerows(
            [cell_text(cell, column, raw) for cell, column in zip(row, columns, strict=True)] for row in rows
        )

    def finish(self, about: Mapping[str, str]) -> None:
        """Write the header if there were no rows, and flush the file. CSV has no place for ``about``."""
        self._write_header()
        self._file.flush()
