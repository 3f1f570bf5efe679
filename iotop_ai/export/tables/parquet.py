"""A table as Arrow and Parquet: typed columns and UTC timestamps, with units and meanings in the fields' metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from iotop_ai.export.tables.columns import Cell, Column, Row, Table
from iotop_ai.model.errors import UsageError

GROUP_ROWS = 50_000
"""The number of rows that are collected before they are written."""
_INT64_LIMIT = 2**63
"""One more than the largest signed integer of 64 bits."""


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'iotop-ai[parquet]'") from None
    return pyarrow


def _value(cell: Cell, column: Column) -> Cell:
    if isinstance(cell, int) and not -_INT64_LIMIT <= cell < _INT64_LIMIT:
        return None
    return float(cell) if cell is not None and column.kind == "real" else cell


def arrow_schema(columns: Sequence[Column]) -> Any:
    """The columns as a pyarrow.Schema. Raises UsageError without pyarrow."""
    arrow = _arrow()
    kinds = {
        "time": arrow.timestamp("ns", tz="UTC"),
        "text": arrow.string(),
        "real": arrow.float64(),
        "int": arrow.int64(),
        "bool": arrow.bool_(),
    }
    fields = [arrow.field(c.name, kinds[c.kind], metadata={"unit": c.unit, "meaning": c.text}) for c in columns]
    return arrow.schema(fields)


def arrow_table(columns: Sequence[Column], rows: Sequence[Row], schema: Any = None) -> Any:
    """The rows as a pyarrow.Table; an integer that does not fit into signed 64 bits is null.

    Raises UsageError without pyarrow.
    """
    arrow = _arrow()
    schema = arrow_schema(columns) if schema is None else schema
    cells = zip(*rows, strict=True) if rows else ((),) * len(columns)
    arrays = [
        arrow.array([_value(cell, column) for cell in column_cells], type=field.type)
        for column_cells, column, field in zip(cells, columns, schema, strict=True)
    ]
    return arrow.Table.from_arrays(arrays, schema=schema)


class ParquetOut:
    """Writes one table. Each group of rows but the last has at least GROUP_ROWS. Raises UsageError without pyarrow."""

    def __init__(self, stream: BinaryIO, table: Table) -> None:
        self._schema = arrow_schema(table.columns)
        self._stream = stream
        self._columns = table.columns
        self._rows: list[Row] = []
        self._writer = _arrow().parquet.ParquetWriter(stream, self._schema, compression="zstd")

    def add(self, table: Table, rows: Iterable[Row]) -> None:
        """Append rows of the table."""
        self._rows.extend(rows)
        if len(self._rows) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(arrow_table(self._columns, self._rows, self._schema))
        self._rows = []

    def finish(self, about: Mapping[str, str]) -> None:
        """Write the remaining rows and the footer, with ``about`` as its metadata."""
        if self._rows:
            self._flush()
        self._writer.add_key_value_metadata(dict(about))
        self._writer.close()
        self._stream.flush()

    def close(self) -> None:
        """Close the file, whether it is complete or not."""
        self._writer.close()
