"""The meaning of a figure, declared once, in the annotation of its field."""

from __future__ import annotations

from functools import cache
from typing import TypeVar, get_type_hints

from iotop_ai.lazy.namedtuple import NamedTuple

T = TypeVar("T")

_UNITS = (
    ("_bytes_per_s", "B/s"),
    ("_per_s", "1/s"),
    ("_bytes", "B"),
    ("_ratio", "ratio"),
    ("_percent", "%"),
    ("_celsius", "celsius"),
    ("_watts", "W"),
    ("_mhz", "MHz"),
    ("_mw", "mW"),
    ("_mj", "mJ"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_hours", "h"),
    ("_minutes", "min"),
    ("_rpm", "1/min"),
)


class Metric(NamedTuple):
    """The meaning of a field.

    unit: the unit in which the value is stored ("B/s", "1/s", "ratio", "ms", "B", "count")
    text: one sentence for help, HELP lines and docs/metrics.md
    term: the standard term for the figure ("r_await"), used as column title and JSON key; "" without one
    """

    unit: str
    text: str
    term: str = ""


@cache
def metrics_of(record: type) -> dict[str, Metric]:
    """The Metric of each field of a record class, in field order; fields without a Metric are left out."""
    return _annotations_of_kind(record, Metric)


def _annotations_of_kind(record: type, kind: type[T]) -> dict[str, T]:
    out = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        for annotation in getattr(hint, "__metadata__", ()):
            if isinstance(annotation, kind):
                out[name] = annotation
    return out


def unit_of(name: str) -> str:
    """The unit that a field's name ends with; "" if it ends with none."""
    return next((unit for suffix, unit in _UNITS if name.endswith(suffix)), "")


class Exported(NamedTuple):
    """The meaning of a recorded value that is exported unchanged.

    unit: the unit in which the value is stored ("sectors", "ms", "count")
    text: one sentence for HELP lines
    name: the name in exports, without the unit; "" for the name of the field
    level: whether the value is a level (a gauge) instead of a counter
    """

    unit: str
    text: str
    name: str = ""
    level: bool = False


@cache
def exported_of(record: type) -> dict[str, Exported]:
    """The Exported of each field of a record class, in field order; fields without an Exported are left out."""
    return _annotations_of_kind(record, Exported)
