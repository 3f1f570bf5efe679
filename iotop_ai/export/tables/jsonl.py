"""Tables as JSON Lines: one object per row, null for unknown; disks have the keys of iostat's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TextIO

from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.export.tables.columns import Cell, Column, Row, Table

_DIGITS = 12
"""The significant digits of a number."""


def _value(cell: Cell, column: Column) -> Cell:
    if cell is None:
        return None
    if column.kind == "time":
        return rfc3339(int(cell))
    return float(f"{cell:.{_DIGITS}g}") if isinstance(cell, float) else cell


class JsonlOut:
    """Writes tables to one file. with_table: whether each object has the key "table"."""

    def __init__(self, file: TextIO, *, with_table: bool) -> None:
        self._file = file
        self._with_table = with_table

    def add(self, table: Table, rows: Iterable[Row]) -> None:
        """Append rows of a table."""
        keys = [column.json_key for column in table.columns]
        for row in rows:
            cells = (_value(cell, column) for cell, column in zip(row, table.columns, strict=True))
            out: dict[str, Cell] = {"table": table.name} if self._with_table else {}
            out.update(zip(keys, cells, strict=True))
            self._file.write(json.dumps(out, ensure_ascii=False, allow_nan=False) + "\n")

    def finish(self, about: Mapping[str, str]) -> None:
        """Flush the file. JSON Lines has no place for ``about``."""
        self._file.flush()
