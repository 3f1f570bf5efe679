"""Metric families: their names, units and help texts, from the declarations in ``model/``, and their samples."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from iotop_ai.model.metric import exported_of, metrics_of

COUNTER, GAUGE, INFO = "counter", "gauge", "info"
LONGEST_LABEL = 128
"""The most characters of a label's value; serial numbers, script names and mounts are shorter."""
_MOST_CACHED_TEXTS = 8192
"""The most label texts that are cached."""


class Base(NamedTuple):
    """The base unit of a declared unit.

    times, by: a value in the declared unit is value * times / by in the base unit. word: the base unit at the end of a
    metric's name; "" for a plain number.
    """

    word: str
    times: int = 1
    by: int = 1


BASE_UNITS: Mapping[str, Base] = {
    "count": Base(""),
    "tasks": Base(""),
    "ratio": Base("ratio"),
    "%": Base("ratio", by=100),
    "celsius": Base("celsius"),
    "B": Base("bytes"),
    "KiB": Base("bytes", 1024),
    "sectors": Base("bytes", 512),
    "pages": Base("bytes", 4096),
    "B/s": Base("bytes_per_second"),
    "1/s": Base("per_second"),
    "s": Base("seconds"),
    "ms": Base("seconds", by=1000),
    "us": Base("seconds", by=1_000_000),
    "ns": Base("seconds", by=1_000_000_000),
    "min": Base("seconds", 60),
    "h": Base("seconds", 3600),
    "W": Base("watts"),
    "mJ": Base("joules", by=1000),
    "MHz": Base("hertz", 1_000_000),
}
_UNIT_AT_END = re.compile(
    r"_(bytes_per_s|per_s|bytes|ratio|percent|celsius|watts|mhz|mw|mj|ms|us|ns|kib|pages|s|hours|minutes)$"
)
Labels = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One series with its value. labels: the text of its labels, "{device=...}"; "" for none."""

    labels: str
    value: float


class Family(NamedTuple):
    """All series of one name.

    name: without ``_total`` and ``_info``. kind: counter, gauge or info. text: the help text.
    """

    name: str
    kind: str
    unit: str
    text: str
    samples: tuple[Sample, ...]


class Column(NamedTuple):
    """A field of a record that is exported as a family. at: the index of the field in the record."""

    field: str
    at: int
    name: str
    kind: str
    unit: str
    text: str
    times: int
    by: int


@lru_cache(_MOST_CACHED_TEXTS)
def label_text(labels: Labels) -> str:
    """Labels in the syntax of the text formats; an empty value is left out, and a long one is shortened."""
    parts = [f'{name}="{_escaped(_shortened(value))}"' for name, value in labels if value]
    return "{" + ",".join(parts) + "}" if parts else ""


def _shortened(value: str) -> str:
    """The value; a long one is cut and ends in a hash, because Prometheus refuses two series with the same labels."""
    if len(value) <= LONGEST_LABEL:
        return value
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{value[: LONGEST_LABEL - len(digest) - 1]}~{digest}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def exported_name(prefix: str, field: str, unit: str) -> str:
    """The metric's name for a field: "iotop_disk" and "read_await_ms" (ms) give "iotop_disk_read_await_seconds"."""
    word = BASE_UNITS[unit].word
    bare = _UNIT_AT_END.sub("", field)
    return f"{prefix}_{bare}_{word}" if word else f"{prefix}_{field}"


@cache
def columns_of(prefix: str, record: type, left_out: frozenset[str] = frozenset()) -> tuple[Column, ...]:
    """The exported fields of a record class: derived figures and levels are gauges, recorded counts are counters.

    left_out: the fields that are not exported.
    """
    fields = [(field, metric.unit, metric.text, "", True) for field, metric in metrics_of(record).items()]
    fields += [
        (field, metric.unit, metric.text, metric.name, metric.level) for field, metric in exported_of(record).items()
    ]
    order = list(record._fields)  # type: ignore[attr-defined]
    out = []
    for field, unit, text, name, level in fields:
        if field in left_out:
            continue
        base = BASE_UNITS[unit]
        full = (
            f"{prefix}_{name}" + (f"_{base.word}" if base.word else "") if name else exported_name(prefix, field, unit)
        )
        kind = GAUGE if level else COUNTER
        out.append(Column(field, order.index(field), full, kind, base.word, text, base.times, base.by))
    return tuple(out)


def families_of(columns: Iterable[Column], rows: Iterable[tuple[str, Any]]) -> list[Family]:
    """One family per column, with the samples of all rows. rows: (text of the labels, record).

    An unknown value has no series.
    """
    records = list(rows)
    out = []
    for column in columns:
        at, times, by = column.at, column.times, column.by
        samples = [
            Sample(labels, value * times if by == 1 else value * times / by)
            for labels, record in records
            if (value := record[at]) is not None
        ]
        out.append(Family(column.name, column.kind, column.unit, column.text, tuple(samples)))
    return out


def family(name: str, kind: str, text: str, samples: Iterable[tuple[Labels, float | None]], unit: str = "") -> Family:
    """A family with a given name. An unknown value has no series."""
    known = tuple(Sample(label_text(labels), value) for labels, value in samples if value is not None)
    return Family(name, kind, unit, text, known)
