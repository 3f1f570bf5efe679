"""Tables in one SQLite file, with a table of the columns' units and meanings.

Times are RFC 3339 text in UTC, which SQLite's date functions accept; unknown is NULL; flags are 0 and 1.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO
from urllib.parse import quote

from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.export.tables.columns import Cell, Column, Row, Table
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError

_TYPES = {"time": "TEXT", "text": "TEXT", "real": "REAL", "int": "INTEGER", "bool": "INTEGER"}
_INT64_LIMIT = 2**63
"""One more than the largest signed integer of 64 bits."""


def _quoted(name: str) -> str:
    """The name in quotes, because iostat's names contain special characters."""
    return '"' + name.replace('"', '""') + '"'


def _value(cell: Cell, column: Column) -> Cell:
    """The cell as SQLite stores it; an integer that does not fit into signed 64 bits becomes a float."""
    if cell is not None and column.kind == "time":
        return rfc3339(int(cell))
    if isinstance(cell, int) and not -_INT64_LIMIT <= cell < _INT64_LIMIT:
        return float(cell)
    return cell


class SqliteOut:
    """Writes tables to an SQLite file.

    stream: the open, empty file. path: the path at which SQLite opens the same file; "" if another user could make the
    path lead to another file. Without a path, the database is built in a private temporary folder and then copied.
    """

    def __init__(self, stream: BinaryIO, tables: Sequence[Table], path: str = "") -> None:
        self._stream = stream
        self._temporary: BinaryIO | None = None
        if _is_path_of(stream, path):
            self._error_path, self._db = path, _connect(path)
        else:
            self._error_path = tempfile.gettempdir()
            # The open file outlives its folder, and its space is freed when this process ends, even by a signal.
            with tempfile.TemporaryDirectory(prefix="iotop-ai-export-") as folder:
                path = os.path.join(folder, "tables.sqlite")
                self._temporary, self._db = open(path, "x+b"), _connect(path)  # noqa: SIM115
        self._insert: dict[str, str] = {}
        with self._errors_with_path():
            # The file gets its name only when it is complete, so it needs no journal.
            self._db.execute("PRAGMA journal_mode = OFF")
            self._db.execute("PRAGMA synchronous = OFF")
            self._db.execute("BEGIN")
            self._db.execute("CREATE TABLE recording (name TEXT PRIMARY KEY, value TEXT)")
            self._db.execute('CREATE TABLE columns ("table" TEXT, number INTEGER, name TEXT, unit TEXT, meaning TEXT)')
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
        values = ([_value(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in rows)
        with self._errors_with_path():
            self._db.executemany(self._insert[table.name], values)

    def finish(self, about: Mapping[str, str]) -> None:
        """Complete the file. about: the rows of the table ``recording``."""
        with self._errors_with_path():
            self._db.executemany("INSERT INTO recording VALUES (?, ?)", about.items())
            self._db.execute("COMMIT")
        self._db.close()
        if self._temporary is not None:
            shutil.copyfileobj(self._temporary, self._stream, 1 << 20)
            self._stream.flush()

    @contextlib.contextmanager
    def _errors_with_path(self) -> Iterator[None]:
        """Turn an error of SQLite into an InputError that names the file or the temporary folder."""
        try:
            yield
        except sqlite3.OperationalError as error:  # such as "database or disk is full"
            raise InputError(f"{clean(self._error_path)}: {error}") from None

    def close(self) -> None:
        """Close the database."""
        self._db.close()
        if self._temporary is not None:
            self._temporary.close()


def _connect(path: str) -> sqlite3.Connection:
    # After "file:", two slashes would begin the name of a host.
    uri_path = quote(b"/" + os.fsencode(os.path.abspath(path)).lstrip(b"/"))
    # SQLite's locks are off: on NFS, SQLite would wait for the lock that this program holds on the file.
    return sqlite3.connect(f"file:{uri_path}?vfs=unix-none", isolation_level=None, uri=True)


def _is_path_of(stream: BinaryIO, path: str) -> bool:
    """Whether the path leads to this open file."""
    try:
        return bool(path) and os.path.samestat(os.lstat(path), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False
