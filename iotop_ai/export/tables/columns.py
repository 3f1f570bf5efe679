"""The columns of the tables: their names, kinds and units, from the Metric that annotates each record's field."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from iotop_ai.export.field_names import Term
from iotop_ai.model.frame import Frame
from iotop_ai.model.metric import metrics_of, unit_of

Cell = str | float | int | bool | None
Row = tuple[Cell, ...]

_KINDS = {bool: "bool", int: "int", float: "real", str: "text"}
_IOSTAT_UNITS = {"B/s": "KiB/s", "B": "KiB", "ratio": "%"}
"""iotop-ai's units, and the units in which iostat shows the same figures."""


class Column(NamedTuple):
    """A column of a table.

    kind: time (Unix time in ns), text, real, int or bool. text: the column's meaning. key: the JSON key, if it differs
    from the name.
    """

    name: str
    kind: str
    unit: str = ""
    text: str = ""
    key: str = ""

    @property
    def json_key(self) -> str:
        """The name of the column in JSON."""
        return self.key or self.name


class Table(NamedTuple):
    """A table and the function that makes its rows.

    rows: makes the rows of one Frame; each row is as long as ``columns``.
    """

    name: str
    columns: tuple[Column, ...]
    rows: Callable[[Frame], Iterable[Row]]


TIME = Column("time", "time", "", "When the interval ended.")
INTERVAL = Column("interval_s", "real", "s", "Seconds between the two readings.")


def texts(*names: str) -> tuple[Column, ...]:
    """Text columns with these names."""
    return tuple(Column(name, "text") for name in names)


def metric_columns(record: type, prefix: str = "") -> tuple[Column, ...]:
    """A column for each field of a rates record that has a Metric, in order."""
    return tuple(Column(prefix + n, "real", m.unit, m.text) for n, m in metrics_of(record).items())


def metric_cells(record: Any, kind: type) -> Row:
    """The cells of ``metric_columns``; all None without a record. kind: the record's class."""
    return tuple(None if record is None else getattr(record, name) for name in metrics_of(kind))


def term_column(term: Term) -> Column:
    """The column of a figure, with the figure's standard name and the unit that goes with the name."""
    unit = _IOSTAT_UNITS.get(term.metric.unit, term.metric.unit)
    return Column(term.title, "real", unit, term.metric.text, term.metric.term)


def scalar_columns(record: type, skip: Collection[str] = ()) -> tuple[Column, ...]:
    """A column for each field of a record that contains one text, number or flag, in order."""
    out = []
    for name, hint in get_type_hints(record).items():
        kinds = [a for a in get_args(hint) if a is not type(None)] if _is_union(hint) else [hint]
        if name not in skip and len(kinds) == 1 and kinds[0] in _KINDS:
            out.append(Column(name, _KINDS[kinds[0]], unit_of(name)))
    return tuple(out)


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def scalar_cells(record: Any, columns: Iterable[Column]) -> Row:
    """The cells of these columns; all None without a record."""
    return tuple(None if record is None else getattr(record, column.name) for column in columns)
