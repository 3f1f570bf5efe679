"""``iotop_ai.load(path)``: the tables of a recording in Python, for pandas, polars and Arrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from iotop_ai.export.tables.columns import Cell, Column, Row, Table
from iotop_ai.export.tables.frames import NAMES, tables
from iotop_ai.model.errors import UsageError
from iotop_ai.playback.selection import RecordedFrames, corrupt_input_as_error

_LARGE = ("processes",)
"""The tables that are read separately, when they are first used. All other tables are read in one pass."""
MARKS = "marks"
"""The name of the table that holds only the events of the kind _MARK."""
_MARK = "mark"


class LoadedTable:
    """One table: ``columns`` and ``rows``; each row is a tuple in the order of the columns.

    Times are Unix nanoseconds in UTC; None is unknown. The columns are those of ``iotop-ai export`` (docs/export.md).
    """

    def __init__(self, name: str, columns: tuple[Column, ...], rows: Sequence[Row]) -> None:
        self.name = name
        self.columns = columns
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        names = [column.name for column in self.columns]
        return (dict(zip(names, row, strict=True)) for row in self.rows)

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.rows)} rows, {len(self.columns)} columns>"

    def to_pandas(self) -> Any:
        """The table as a pandas.DataFrame; unknown is NA. Raises UsageError without pandas."""
        from iotop_ai.export.tables.data_frames import pandas_frame

        return pandas_frame(self.columns, self.rows)

    def to_polars(self) -> Any:
        """The table as a polars.DataFrame; unknown is null. Raises UsageError without polars."""
        from iotop_ai.export.tables.data_frames import polars_frame

        return polars_frame(self.columns, self.rows)

    def to_arrow(self) -> Any:
        """The table as a pyarrow.Table; unknown is null. Raises UsageError without pyarrow (the extra ``parquet``)."""
        from iotop_ai.export.tables.parquet import arrow_table

        return arrow_table(self.columns, self.rows)


class Recording:
    """The tables of a recording as attributes: each of ``NAMES``, and ``marks``.

    A table is read when it is first used: a table in _LARGE alone, and the others together. begin, end: read only the
    part between these times, as in ``iotop-ai export``. cmdline: one of CMDLINE_LEVELS. allow_root: whether root may
    open a file of any owner. ``about``: facts about the recording from its header (host, interval_s, ...); for a
    stream they are known only after a table was read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        begin: str | None = None,
        end: str | None = None,
        cmdline: str = "names",
        allow_root: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self._cmdline = cmdline
        self._loaded: dict[str, LoadedTable] = {}
        self._period = (begin, end)
        self._allow_root = allow_root
        opened = self._open()  # an invalid path or time raises here, and not at the first table
        self.about = opened.about()
        for part in opened.source.parts:
            part.close()

    def __repr__(self) -> str:
        host = f" of {self.about['host']}" if self.about else ""
        return f"<recording {self.path}{host}; tables: {', '.join((*NAMES, MARKS))}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *NAMES, MARKS})

    def __getattr__(self, name: str) -> LoadedTable:
        if name not in NAMES and name != MARKS:
            raise AttributeError(f"a recording has no table {name!r}; tables: {', '.join((*NAMES, MARKS))}")
        return self.table(name)

    def table(self, name: str) -> LoadedTable:
        """The table with this name. Raises UsageError for an unknown name, InputError for a broken file."""
        if name == MARKS:
            events = self.table("events")
            marks = [row for row in events.rows if row[1] == _MARK]  # row[1] is the kind of the event
            return LoadedTable(MARKS, events.columns, marks)
        if name not in NAMES:
            raise UsageError(f"a recording has no table {name!r}; tables: {', '.join((*NAMES, MARKS))}")
        if name not in self._loaded:
            self._read((name,) if name in _LARGE else tuple(other for other in NAMES if other not in _LARGE))
        return self._loaded[name]

    def _open(self) -> RecordedFrames:
        return RecordedFrames(self.path, *self._period, allow_root=self._allow_root)

    def _read(self, names: Sequence[str]) -> None:
        selected: list[tuple[Table, list[Row]]] = [
            (table, []) for table in tables(self._cmdline) if table.name in names
        ]
        recorded = self._open()
        with corrupt_input_as_error(self.path):
            for frame in recorded:
                for table, rows in selected:
                    rows.extend(table.rows(frame))
        self.about = recorded.about()
        self._loaded.update((table.name, LoadedTable(table.name, table.columns, rows)) for table, rows in selected)


def load(path: str | os.PathLike[str], **options: Any) -> Recording:
    """The tables of a recording: ``load("run.iotop.jsonl").devices.to_pandas()``.

    options: the options of ``Recording``.
    """
    return Recording(path, **options)
