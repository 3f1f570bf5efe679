"""A CSV log of the disks: one line per disk and interval."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.export.field_names import device_terms
from iotop_ai.export.json.snapshot import rfc3339
from iotop_ai.model.block.counters import is_leaf
from iotop_ai.model.frame import Frame

TERMS = (
    *("util", "rkB/s", "wkB/s", "await", "r_await", "w_await", "aqu-sz"),
    *("r/s", "w/s", "rareq-sz", "wareq-sz", "f/s", "f_await", "in_flight"),
)
"""The figures of a line under iostat's names, in iostat's units: percent, kB (1024 B), ms."""
HEADER = ",".join(("timestamp", "device", *("util%" if term == "util" else term for term in TERMS)))


def disk_log_lines(frame: Frame, devices: Sequence[str] = ()) -> list[str]:
    """The lines of one interval; an unknown or undefined figure is an empty field.

    devices: kernel names; () for the disks that count in the machine's totals. [] if there is no earlier Snapshot, or
    if the disks were not read again since then.
    """
    rates = frame.sample.block.value
    if rates is None or frame.sample.block.seconds is None or not frame.sample.block.renewed:
        return []
    infos = frame.snapshot.disks.value or {}
    names = devices or [name for name, info in infos.items() if is_leaf(info)]
    terms = device_terms()
    when = rfc3339(frame.snapshot.wall_ns)
    return [
        ",".join((when, _text(key.name), *(_number(terms[term].of(row)) for term in TERMS)))
        for key, row in rates.items()
        if key.name in names
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def _text(name: str) -> str:
    """A kernel name as a CSV field: quoted if needed, and with an apostrophe if it looks like a formula."""
    name = f"'{name}" if name[:1] in "=+-@" else name
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',"') else name
