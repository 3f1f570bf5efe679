"""A tidy table as CSV (RFC 4180, UTF-8): unknown is an empty cell, times are RFC 3339 in UTC, flags are 0 and 1."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import TextIO

from iotop_ai.export.snapshot_json import rfc3339
from iotop_ai.export.tidy_column import Cell, Column, Row, Table
from iotop_ai.model.clean import clean

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DIGITS = 12
_LONGEST = 1 << 16


def guarded(text: str) -> str:
    """Text that no spreadsheet takes for a formula (CWE-1236): one that could be gets a leading apostrophe."""
    return "'" + text if text.startswith(_FORMULA) else text


def cell_text(cell: Cell, column: Column, raw: bool) -> str:
    """One cell. A number is never touched by the guard."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        text = clean(cell, _LONGEST)  # a line end within a cell ends the row for half of all readers
        return text if raw else guarded(text)
    if column.kind == "time":
        return rfc3339(int(cell))
    if isinstance(cell, bool):
        return "1" if cell else "0"
    if isinstance(cell, float):
        return f"{cell:.{_DIGITS}g}"
    return str(cell)


class CsvOut:
    """Writes one table. raw: without the guard against formulas."""

    def __init__(self, file: TextIO, table: Table, *, raw: bool = False) -> None:
        self._file = file
        self._columns = table.columns
        self._raw = raw
        self._writer = csv.writer(file, lineterminator="\n")
        self._titled = False

    def _title(self) -> None:
        """The header, once there is something: a recording that turns out to be none leaves no line."""
        if not self._titled:
            self._writer.writerow([column.name for column in self._columns])
            self._titled = True

    def add(self, table: Table, rows: Iterable[Row]) -> None:
        """Append rows of the table."""
        self._title()
        columns, raw = self._columns, self._raw
        self._writer.writerows(
            [cell_text(cell, column, raw) for cell, column in zip(row, columns, strict=True)] for row in rows
        )

    def finish(self, about: Mapping[str, str]) -> None:
        """Have it written; this format has no place for what the recording is."""
        self._title()
        self._file.flush()
