"""Rates with the names and units of iostat, pidstat and nvidia-smi. Each field's Metric declares its standard name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.metric import Metric, metrics_of

KIB = 1024
_SCALE = {"B/s": 1 / KIB, "B": 1 / KIB, "ratio": 100.0}
"""Factors from base units to the units of these tools: their kB is 1024 B, and their ratios are percentages."""
SIGNIFICANT_DIGITS = 6

IOSTAT_KEYS = (
    *("r/s", "w/s", "d/s", "f/s", "rkB/s", "wkB/s", "dkB/s", "rrqm/s", "wrqm/s", "drqm/s", "rrqm", "wrqm", "drqm"),
    *("r_await", "w_await", "d_await", "f_await", "rareq-sz", "wareq-sz", "dareq-sz", "aqu-sz", "util"),
    *("await", "areq-sz", "in_flight"),
)
"""The keys of ``iostat -x -o JSON`` in its order, then the combined figures of ``-s`` and the requests in flight."""

IOSTAT_COLUMNS = (
    *("r/s", "rkB/s", "rrqm/s", "rrqm", "r_await", "rareq-sz"),
    *("w/s", "wkB/s", "wrqm/s", "wrqm", "w_await", "wareq-sz"),
    *("d/s", "dkB/s", "drqm/s", "drqm", "d_await", "dareq-sz"),
    *("f/s", "f_await", "aqu-sz", "util"),
)
"""The columns of ``iostat -x`` in its order, without the % that iostat puts before a ratio's name."""


class Term(NamedTuple):
    """A field with its standard name. scale: the factor from the stored unit to the unit that goes with the name."""

    field: str
    metric: Metric
    scale: float

    @property
    def title(self) -> str:
        """The column's title, such as "%util" for iostat's JSON key "util"."""
        term = self.metric.term
        return f"%{term}" if self.metric.unit == "ratio" and not term.startswith("%") else term

    def of(self, record: tuple[object, ...]) -> float | None:
        """The value of the field in a record, in the unit of the standard name; None if unknown or undefined."""
        value = getattr(record, self.field)
        return None if value is None else value * self.scale


def terms_of(record: type) -> dict[str, Term]:
    """The Terms of a record class, by standard name."""
    return {
        metric.term: Term(field, metric, _SCALE.get(metric.unit, 1))
        for field, metric in metrics_of(record).items()
        if metric.term
    }


def device_terms() -> dict[str, Term]:
    """The Terms of a block device's rates, which include all IOSTAT_KEYS and IOSTAT_COLUMNS."""
    return terms_of(BlockRates)


def rounded(value: float | None) -> float | int | None:
    """A float rounded to SIGNIFICANT_DIGITS; an integer or None is unchanged.

    JSON then has no floating-point noise, and a small rate does not become 0.
    """
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def iostat_object(rates: BlockRates) -> dict[str, float | int | None]:
    """A device's figures under iostat's JSON keys. A figure is None if unknown or undefined (no request completed)."""
    terms = device_terms()
    return {key: rounded(terms[key].of(rates)) for key in IOSTAT_KEYS}


def rates_object(rates: tuple[object, ...]) -> dict[str, float | int | None]:
    """The fields of a rates record that have a Metric, by name, in base units, ratios 0..1."""
    return {name: rounded(getattr(rates, name)) for name in metrics_of(type(rates))}


def merged(*parts: Mapping[str, object]) -> dict[str, object]:
    """The mappings as one dict, in which later mappings override earlier ones."""
    out: dict[str, object] = {}
    for part in parts:
        out.update(part)
    return out
