"""Tables in one SQLite file, with a table of the columns' units and meanings.

Times are RFC 3339 text in UTC, which SQLite's date functions accept; unknown is NULL; flags are 0 and 1.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

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
    """Writes any tables to a stream, once they are complete.

    SQLite opens its file by path, and the owner of the target's folder could lead a path anywhere: the file grows in a
    private temporary folder.
    """

    def __init__(self, stream: BinaryIO, tables: Sequence[Table]) -> None:
        self._stream = stream
        self._folder = tempfile.TemporaryDirectory(prefix="iotop-ai-export-")
        self._path = os.path.join(self._folder.name, "tables.sqlite")
        self._db = sqlite3.connect(self._path, isolation_level=None)
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
        """Commit and write the stream. about: the rows of the table ``recording``."""
        self._db.executemany("INSERT INTO recording VALUES (?, ?)", about.items())
        self._db.execute("COMMIT")
        self._db.close()
        with open(self._path, "rb") as file:
            shutil.copyfileobj(file, self._stream, 1 << 20)
        self._stream.flush()

    def close(self) -> None:
        """Remove the temporary file."""
        self._db.close()
        self._folder.cleanup()
