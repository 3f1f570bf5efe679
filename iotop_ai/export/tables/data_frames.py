"""A table as a DataFrame of pandas or polars; the type of each column can represent unknown values."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from iotop_ai.export.tables.columns import Cell, Column, Row
from iotop_ai.model.errors import UsageError

_PANDAS = {"text": "string", "real": "Float64", "int": "Int64", "bool": "boolean"}
_PANDAS_TIME = "datetime64[ns, UTC]"
_INT64_LIMIT = 2**63
"""One more than the largest signed integer of 64 bits."""


def pandas_frame(columns: Sequence[Column], rows: Sequence[Row]) -> Any:
    """A pandas.DataFrame with times in UTC; unknown is NA. Raises UsageError without pandas."""
    pandas = _library("pandas")
    return pandas.DataFrame(
        {
            column.name: pandas.to_datetime(cells, unit="ns", utc=True).astype(_PANDAS_TIME)
            if column.kind == "time"
            else pandas.array(cells, dtype=_PANDAS[column.kind])
            for column, cells in _by_column(columns, rows)
        }
    )


def polars_frame(columns: Sequence[Column], rows: Sequence[Row]) -> Any:
    """A polars.DataFrame with times in UTC; unknown is null. Raises UsageError without polars."""
    polars = _library("polars")
    kinds = {"text": polars.String, "real": polars.Float64, "int": polars.Int64, "bool": polars.Boolean}
    series = []
    for column, cells in _by_column(columns, rows):
        kind = polars.Int64 if column.kind == "time" else kinds[column.kind]
        values = polars.Series(column.name, cells, dtype=kind, strict=False)
        in_utc = polars.Datetime("ns", "UTC")
        series.append(
            values.cast(polars.Datetime("ns")).dt.replace_time_zone("UTC").cast(in_utc)
            if column.kind == "time"
            else values
        )
    return polars.DataFrame(series)


def _by_column(columns: Sequence[Column], rows: Sequence[Row]) -> list[tuple[Column, list[Any]]]:
    """Each column with its cells; an integer that does not fit into signed 64 bits is None."""
    return [(column, [_value(row[i], column) for row in rows]) for i, column in enumerate(columns)]


def _value(cell: Cell, column: Column) -> Cell:
    fits = column.kind != "int" or not isinstance(cell, int) or -_INT64_LIMIT <= cell < _INT64_LIMIT
    return cell if fits else None


def _library(name: str) -> Any:
    """A library from the user's environment; it is not a dependency of this program. Raises UsageError without it."""
    try:
        return import_module(name)
    except ImportError:
        raise UsageError(f"{name} is not installed in this environment: pip install {name}") from None
