"""The meaning of a number, declared once beside its field."""

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

    unit: the stored value's ("B/s", "1/s", "ratio", "ms", "B", "count").
    text: one sentence for help, HELP lines and docs/metrics.md.
    term: the field's standard term where one exists ("r_await"), used as column title and JSON key.
    """

    unit: str
    text: str
    term: str = ""


@cache
def metrics_of(record: type) -> dict[str, Metric]:
    """Field name to Metric of a record class, in field order; fields without a Metric are left out."""
    return _declared(record, Metric)


def _declared(record: type, kind: type[T]) -> dict[str, T]:
    found = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        for extra in getattr(hint, "__metadata__", ()):
            if isinstance(extra, kind):
                found[name] = extra
    return found


def unit_of(name: str) -> str:
    """The unit by the suffix of a field's name; "" for none."""
    return next((unit for end, unit in _UNITS if name.endswith(end)), "")


class Exported(NamedTuple):
    """The meaning of a recorded value that is exported as it is: a counter, or with ``level`` a level.

    unit: the stored value's ("sectors", "ms", "count"). text: one sentence. name: in exports, without its unit; "" is
    the field's own.
    """

    unit: str
    text: str
    name: str = ""
    level: bool = False


@cache
def exported_of(record: type) -> dict[str, Exported]:
    """Field name to Exported of a record class, in field order; fields without one are left out."""
    return _declared(record, Exported)
