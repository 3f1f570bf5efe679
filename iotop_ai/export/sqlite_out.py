"""Tidy tables in one SQLite file: a fixed schema, bound parameters, and what the columns mean.

Times are RFC 3339 text in UTC, which SQLite's date functions read; unknown is NULL; flags are 0 and 1.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from iotop_ai.export.snapshot_json import rfc3339
from iotop_ai.export.tidy_column import Cell, Column, Row, Table

_TYPES = {"time": "TEXT", "text": "TEXT", "real": "REAL", "int": "INTEGER", "bool": "INTEGER"}
_LARGEST = 2**63


def _quoted(name: str) -> str:
    """A name from our own declarations; the quotes are for iostat's signs in it."""
    return '"' + name.replace('"', '""') + '"'


def _value(cell: Cell, column: Column) -> Cell:
    if cell is not None and column.kind == "time":
        return rfc3339(int(cell))
    if isinstance(cell, int) and not -_LARGEST <= cell < _LARGEST:
        return float(cell)
    return cell


class SqliteOut:
    """Writes any tables to a file that is empty or does not exist."""

    def __init__(self, path: str, tables: Sequence[Table]) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        # The file gets its name only when it is whole, so nothing in it needs a journal.
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("BEGIN")
        self._db.execute("CREATE TABLE recording (name TEXT PRIMARY KEY, value TEXT)")
        self._db.execute('CREATE TABLE columns ("table" TEXT, number INTEGER, name TEXT, unit TEXT, meaning TEXT)')
        self._insert: dict[str, str] = {}
        for table in tables:
            self._create(table)

    def _create(self, table: Table) -> None:
        name = _quoted(table.name)
        columns = ", ".join(f"{_quoted(c.name)} {_TYPES[c.kind]}" for c in table.columns)
        self._db.execute(f"CREATE TABLE {name} ({columns})")
        self._insert[table.name] = f"INSERT INTO {name} VALUES ({', '.join('?' * len(table.columns))})"
        told = [(table.name, i, c.name, c.unit, c.text) for i, c in enumerate(table.columns)]
        self._db.executemany("INSERT INTO columns VALUES (?, ?, ?, ?, ?)", told)

    def add(self, table: Table, rows: Iterable[Row]) -> None:
        """Append rows of a table."""
        self._db.executemany(
            self._insert[table.name],
            ([_value(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in rows),
        )

    def finish(self, about: Mapping[str, str]) -> None:
        """Write out and close. about: what the recording is, for the table ``recording``."""
        self._db.executemany("INSERT INTO recording VALUES (?, ?)", about.items())
        self._db.execute("COMMIT")
        self._db.close()

    def close(self) -> None:
        """Give the file back, whole or not."""
        self._db.close()
