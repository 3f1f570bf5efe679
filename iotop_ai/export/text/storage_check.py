"""A storage check as text: a table of its figures, the curve over the queue depth, and the problems."""

from __future__ import annotations

from math import log2

from iotop_ai.export.text.charts import chart
from iotop_ai.export.text.table import number, table
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import CREATE, KIB, RANDOM, STAT, WRITE, Measured
from iotop_ai.present.preflight.storage import (
    earlier_text,
    findings_text,
    is_floor,
    legend_text,
    phase_title,
    place_text,
    target_text,
)
from iotop_ai.present.preflight.supply import supply_text

_TITLES = ("", "depth", "MB/s", "per s", "p50 ms", "p99 ms", "max ms", "")
_HEIGHT = 12
_LEAST_POINTS = 3
"""_HEIGHT: the rows of the chart. _LEAST_POINTS: the fewest points of a curve that is drawn."""


def storage_check_text(report: Report, width: int, ascii_only: bool = False) -> str:
    """The check as text, without a final newline."""
    lines = [place_text(report.place)]
    if report.target is not None:
        lines.append(target_text(report.target, report.engine))
    if report.results:
        lines += ["", *table(_TITLES, [_row(result) for result in report.results]), *legend_text(report.results)]
        curve = depth_curve(report.results, width, ascii_only)
        lines += ["", curve] if curve else []
    notes = [*findings_text(report), *filter(None, [earlier_text(report)]), *supply_text(report)]
    return "\n".join([*lines, "", *notes] if notes else lines)


def _row(result: Measured) -> tuple[str, ...]:
    bytes_per_s, latency = result.bytes_per_s, result.latency
    has_bytes = result.name not in (CREATE, STAT)
    rate = number(None if bytes_per_s is None else bytes_per_s / KIB**2, 1) if has_bytes else "-"
    per_s = number(result.ops_per_s, 0 if (result.ops_per_s or 0) >= 100 else 1)
    times = [latency.p50_ms, latency.p99_ms, latency.most_ms] if latency is not None and result.name != WRITE else []
    time_cells = [number(value, 2 if (value or 0) >= 1 else 3) for value in times] or ["-"] * 3
    at_least_mark = "+" if is_floor(result) else ""
    return (
        phase_title(result).replace(" ", "\N{NO-BREAK SPACE}"),
        str(result.depth),
        rate,
        per_s,
        *time_cells,
        at_least_mark,
    )


def depth_curve(results: tuple[Measured, ...], width: int, ascii_only: bool = False) -> str:
    """Random 4 KiB reads per second over the number of reads in flight.

    "" with fewer than three points, or if no chart can be drawn.
    """
    reads = [read for read in results if read.name == RANDOM and read.block_bytes == 4 * KIB]
    if len(reads) < _LEAST_POINTS:
        return ""
    points = [(log2(read.depth), read.ops_per_s) for read in reads]
    labels = [str(read.depth) for read in reads]
    try:
        return chart("random 4 KB reads per second, by reads in flight", points, width, _HEIGHT, ascii_only, labels)
    except UnknownError:
        return ""
