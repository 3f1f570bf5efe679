"""Imports logs of ``nvidia-smi --query-gpu=… --format=csv`` as Snapshots. Such a log looks like this:

    timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], power.draw [W]
    2026/11/21 09:32:17.123, 0, GPU-6ffb…, NVIDIA H100 80GB HBM3, 87 %, 71234 MiB, 512.33 W

Source: ``nvidia-smi --help-query-gpu``, https://docs.nvidia.com/deploy/nvidia-smi/.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from itertools import count, islice, pairwise
from typing import Any

from iotop_ai.model.clean import clean
from iotop_ai.model.counter import MOST_INT
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.sources.imports.common import (
    MOST_COLUMNS,
    ImportOptions,
    host_of,
    log_lines,
    logged_time_ns,
    parse_logged_time,
    snapshot,
)
from iotop_ai.sources.imports.nvidia_smi_rounds import Row, rounds

ORIGIN = "nvidia-smi"
_NS = 1_000_000_000
_MIB = 1 << 20
_MOST_GPUS = 256
_LARGEST_VALUE, _LARGEST_MJ = 1e12, 1e15
"""Larger values show that the log is damaged. The second limit is for energy in mJ, the first for all other values.

Energy adds up, so its limit is higher: 700 W are 1e12 mJ in 17 days.
"""
_SAMPLED_ROUNDS = 50
"""The number of rounds at the beginning of a log from which its interval is found."""
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*(?:%|MiB|W|MHz|C|mJ))?")
_LOST = re.compile(r"\[?(GPU is lost|GPU requires reset|Unknown Error)\]?", re.IGNORECASE)

_ERROR_LINE = re.compile(
    r"Unable to determine the device handle|Failed to initialize NVML|NVML library version:|NVIDIA-SMI has failed|"
    r"No devices were found"
)
"""The beginnings of the lines in which nvidia-smi reports an error of the driver or of a GPU."""


def number(text: str, most: float = _LARGEST_VALUE) -> float | None:
    """Parse a number with or without a unit; None for texts such as [N/A] and [Not Supported].

    Raises ValueError for any other text, and for a number of ``most`` or more.
    """
    match = _NUMBER.fullmatch(text)
    if match is not None and abs(value := float(match[1])) < most:
        return value
    if not text or (text[0] == "[" and text[-1] == "]") or text == "N/A" or _LOST.fullmatch(text):
        return None
    raise ValueError


def _scaled(scale: int, most: float = _LARGEST_VALUE) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        value = number(text, most)
        return None if value is None else round(value * scale)

    return read


def _mask(text: str) -> int | None:
    if not text.lower().startswith("0x"):
        return _scaled(1)(text)
    mask = int(text, 16)
    if mask > MOST_INT:
        raise ValueError
    return mask


def _performance(text: str) -> int | None:
    return int(text[1:]) if re.fullmatch(r"P\d{1,2}", text) else _scaled(1)(text)


def _enabled(text: str) -> bool | None:
    return {"enabled": True, "disabled": False}.get(text.lower())


_WHOLE, _BYTES, _MILLI = _scaled(1), _scaled(_MIB), _scaled(1000)
_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "utilization.gpu": ("utilization_percent", _WHOLE),
    "utilization.memory": ("memory_activity_percent", _WHOLE),
    "memory.total": ("memory_total_bytes", _BYTES),
    "memory.used": ("memory_used_bytes", _BYTES),
    "memory.reserved": ("memory_reserved_bytes", _BYTES),
    "temperature.gpu": ("temperature_celsius", _WHOLE),
    "power.draw": ("power_mw", _MILLI),
    "power.draw.average": ("power_mw", _MILLI),
    "power.draw.instant": ("power_mw", _MILLI),
    "power.limit": ("power_limit_mw", _MILLI),
    "enforced.power.limit": ("power_limit_mw", _MILLI),
    "total_energy_consumption": ("energy_mj", _scaled(1, _LARGEST_MJ)),
    "clocks.sm": ("sm_mhz", _WHOLE),
    "clocks.current.sm": ("sm_mhz", _WHOLE),
    "clocks.max.sm": ("sm_max_mhz", _WHOLE),
    "clocks.mem": ("memory_mhz", _WHOLE),
    "clocks.current.memory": ("memory_mhz", _WHOLE),
    "fan.speed": ("fan_percent", _WHOLE),
    "pstate": ("performance_state", _performance),
    "clocks_throttle_reasons.active": ("clock_reasons", _mask),
    "clocks_event_reasons.active": ("clock_reasons", _mask),
    "pcie.link.gen.current": ("pcie_generation", _WHOLE),
    "pcie.link.gen.gpucurrent": ("pcie_generation", _WHOLE),
    "pcie.link.width.current": ("pcie_width", _WHOLE),
    "pcie.link.gen.max": ("pcie_max_generation", _WHOLE),
    "pcie.link.width.max": ("pcie_max_width", _WHOLE),
    "mig.mode.current": ("mig", _enabled),
}
"""By nvidia-smi's column name: the field of GpuState, and the parser of its value.

If a log has several columns for one field, the first of them in this table that has a value counts.
"""
_IDENTITY = (("uuid", "gpu_uuid"), ("pci.bus_id", "gpu_bus_id", "pci.bus"), ("index",), ("serial", "gpu_serial"))
"""The names of each column that identifies a GPU, the best column first."""


def nvidia_smi_rows(
    path: str, options: ImportOptions, on_error_line: Callable[[], object] = lambda: None
) -> Iterator[Row]:
    """Yield the rows of a log.

    A last row that is incomplete or invalid is left out. Raises InputError with the file, the line and a reason, but
    never with the content of the file.

    on_error_line: called for each line in which nvidia-smi reports an error; such a line is left out
    """
    names: list[str] = []
    positions: dict[str, int] = {}
    follows_header, before, row_error = True, None, None
    for line_number, line in log_lines(path, torn=False, allow_root=options.allow_root):
        if _ERROR_LINE.match(line):
            on_error_line()
            continue
        cells = _cells(path, line_number, line)
        if not any(cells):
            continue
        if row_error is not None:
            raise row_error
        heads = [cell.rpartition("[")[0].rstrip() if cell.endswith("]") else cell for cell in cells]
        if not names:
            names = _check_header(path, line_number, heads)
        elif heads == names:
            follows_header = True
        else:
            by_name, is_complete = dict(zip(names, cells, strict=False)), len(cells) == len(names)
            before_ns = None if before is None else before.logged_ns
            try:
                row = _row(path, line_number, by_name, is_complete, positions, options, before_ns)
            except InputError as error:
                if before is None:
                    raise
                row_error = error
                continue
            before = row
            yield row._replace(follows_header=follows_header)
            follows_header = False
    if not names:
        raise InputError(f"{path}: an empty file")


def _cells(path: str, line_number: int, line: str) -> list[str]:
    try:
        cells = [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    except csv.Error:
        raise InputError(f"{path}: line {line_number}: not a line of CSV") from None
    if len(cells) > MOST_COLUMNS:
        raise InputError(f"{path}: line {line_number}: more than {MOST_COLUMNS} columns")
    return cells


def _check_header(path: str, line_number: int, names: list[str]) -> list[str]:
    if not any(name in _FIELDS for name in names):
        raise InputError(f"{path}: line {line_number}: not a header of nvidia-smi --query-gpu (log without noheader)")
    return names


def _row(
    path: str,
    line: int,
    cells: dict[str, str],
    is_complete: bool,
    positions: dict[str, int],
    options: ImportOptions,
    before_ns: int | None,
) -> Row:
    try:
        if not is_complete:
            raise ValueError
        columns = [name for group in _IDENTITY for name in group if name in cells]
        identity = clean(next((cells[name] for name in columns if _identifies(cells[name])), "GPU")) if columns else ""
        positions.setdefault(identity, len(positions))
        if len(positions) > _MOST_GPUS:
            raise ValueError
        logged_ns = None
        if "timestamp" in cells:
            logged_time = parse_logged_time(cells["timestamp"])
            if logged_time is None:
                raise ValueError
            logged_ns = logged_time_ns(logged_time, False, options.zone, before_ns)
        return Row(identity, logged_ns, _state(identity, positions[identity], cells), _lost(cells))
    except InputError as error:
        raise InputError(f"{path}: line {line}: {error}") from None
    except ValueError:
        raise InputError(f"{path}: line {line}: not a row of nvidia-smi --query-gpu") from None


def _identifies(text: str | None) -> bool:
    return bool(text) and not str(text).startswith("[")


def _state(identity: str, position: int, cells: dict[str, str]) -> GpuState:
    figures: dict[str, Any] = {}
    for column, (field, read) in _FIELDS.items():
        if column in cells and figures.get(field) is None:
            figures[field] = read(cells[column])
    index = number(cells["index"]) if "index" in cells else None
    name = cells.get("name") or cells.get("gpu_name") or ""
    bus = cells.get("pci.bus_id") or cells.get("gpu_bus_id") or ""
    return GpuState(identity, position if index is None else int(index), clean(name), bus_id=clean(bus), **figures)


def _lost(cells: dict[str, str]) -> str:
    """Return why most values of a GPU are missing; "" if most are present."""
    reasons = [match[1] for cell in cells.values() if (match := _LOST.fullmatch(cell)) is not None]
    return reasons[0] if len(reasons) * 2 > len(cells) else ""


def nvidia_smi_snapshots(
    path: str, options: ImportOptions, say: Callable[[str], None] = lambda text: None
) -> Iterator[Snapshot]:
    """Return the Snapshots of a log, one for each round (the rows of one query). A GPU's Reading has its row's time.

    Raises InputError for another kind of file, and UsageError if its times or its interval are unknown.

    say: called with a sentence about lines that are left out
    """
    sample = list(islice(rounds(path, nvidia_smi_rows(path, options)), _SAMPLED_ROUNDS))
    if not sample:
        raise InputError(f"{path}: no rows after the header")
    times = [round_[0].logged_ns for round_ in sample]
    timed = all(ns is not None for ns in times)
    if not timed and options.start_ns is None:
        raise UsageError("the log has no timestamp column; give --start and --interval")
    intervals_ns = sorted(b - a for a, b in pairwise(times) if a is not None and b is not None and b > a)
    interval_s = options.interval_s or (intervals_ns[len(intervals_ns) // 2] / _NS if intervals_ns else None)
    if interval_s is None:
        raise UsageError("this log does not show the length of an interval; give --interval")
    return _snapshots(path, options, interval_s, say)


def _snapshots(path: str, options: ImportOptions, interval_s: float, say: Callable[[str], None]) -> Iterator[Snapshot]:
    shift_ns: int | None = None
    run, last_ns = 1, None
    error_lines = count()
    all_rows = nvidia_smi_rows(path, options, lambda: next(error_lines))
    for seq, rows in enumerate(rounds(path, all_rows), 1):
        # Each GPU's row has its own time; the Snapshot gets the latest of them.
        logged = [row.logged_ns for row in rows if row.logged_ns is not None]
        if shift_ns is None:
            shift_ns = 0 if options.start_ns is None else options.start_ns - (rows[0].logged_ns or 0)
        at_ns = shift_ns + (max(logged) if logged else round((seq - 1) * interval_s * _NS))
        if last_ns is not None and at_ns <= last_ns:
            # The clock was set back, or another log begins here, so a new session begins.
            run += 1
        last_ns = at_ns
        table = {}
        for row in rows:
            row_ns = at_ns if row.logged_ns is None else shift_ns + row.logged_ns
            table[row.identity] = (
                Reading(None, Status.FAILED, row.lost.lower(), "", row_ns)
                if row.lost
                else Reading(row.state, Status.OK, "", "", row_ns)
            )
        host = host_of(ORIGIN, run, options.host)
        reading: Reading[Any] = Reading(table, Status.OK, "", "", at_ns)
        yield snapshot(ORIGIN, seq, at_ns, at_ns, interval_s, host, gpu=reading)
    if lines := next(error_lines):
        say(f"{lines} line{'' if lines == 1 else 's'} with an error message of nvidia-smi left out")
