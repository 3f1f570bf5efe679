"""Tables in one SQLite file, with a table of the columns' units and meanings.

Times are RFC 3339 text in UTC, which SQLite's date functions accept; unknown is NULL; flags are 0 and 1.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.export.tables.columns import Cell, Column, Row, Table

_TYPES = {"time": "TEXT", "text": "TEXT", "real": "REAL", "int": "INTEGER", "bool": "INTEGER"}
_LARGEST = 2**63


def _quoted(name: str) -> str:
    """A name from our own declarations, quoted because of iostat's special characters."""
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
        # The file gets its name only when complete, so it needs no journal.
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
        rows = [(table.name, i, c.name, c.unit, c.text) for i, c in enumerate(table.columns)]
        self._db.executemany("INSERT INTO columns VALUES (?, ?, ?, ?, ?)", rows)

    def add(self, table: Table, rows: Iterable[Row]) -> None:
        """Append rows of a table."""
        self._db.executemany(
            self._insert[table.name],
            ([_value(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in rows),
        )

    def finish(self, about: Mapping[str, str]) -> None:
        """Commit and close. about: the rows of the table ``recording``."""
        self._db.executemany("INSERT INTO recording VALUES (?, ?)", about.items())
        self._db.execute("COMMIT")
        self._db.close()

    def close(self) -> None:
        """Close the file, complete or not."""
        self._db.close()
