"""``monitor_disk(interval=2, duration=20)`` measures all disks and prints a table of them after each interval."""

from __future__ import annotations

import csv
import os
import sys
import warnings
from datetime import datetime
from typing import Iterable, Iterator, Sequence, TextIO

from iotop_ai.collectors.io.spawn import start_with_blocked_signals
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.train.program import program, program_environment
from iotop_ai.train.recorder import not_ended, wait_or_kill

COLUMNS = ("r/s", "w/s", "rkB/s", "wkB/s", "r_await", "w_await", "aqu-sz", "util%")
"""Columns of ``record --csv``, in iostat's units: 1 kB is 1024 B, and times are in ms."""
_NAME_WIDTH, _FIGURE_WIDTH = 14, 9
_TIME_OF_DAY = slice(11, 19)
"""The position of HH:MM:SS in a timestamp."""


def monitor_disk(
    interval: float = 2,
    duration: float = 20,
    devices: Sequence[str] = (),
    *,
    file: TextIO | None = None,
    program_path: str = "",
) -> None:
    """Print a table of the disks every ``interval`` seconds for ``duration`` seconds, then return.

    devices: the names or patterns of the disks to show, as a list or as one string; all disks by default. file: the
    file to print to, by default standard output. program_path: the path of iotop-ai; "" to find it.

    An unknown figure and a mean over zero requests are printed as "-". The figures come from ``iotop-ai record --csv``
    in a separate process. Raises UnknownError if that process cannot be started or fails, and UsageError if the
    interval is not above 0 or is longer than the duration.
    """
    if not 0 < interval <= duration:
        raise UsageError("the interval must be above 0 and at most the duration")
    import subprocess
    import tempfile

    argv = [*program(program_path, os.environ), "record", "--csv", "-", "-d", f"{interval:g}"]
    argv += ["--duration", f"{duration:f}", "--no-smart"]
    if devices:
        argv += ["--device", devices if isinstance(devices, str) else ",".join(devices)]
    out = sys.stdout if file is None else file
    with tempfile.TemporaryFile() as messages:  # a full pipe would block the program
        try:
            child = start_with_blocked_signals(argv, env=program_environment(), stdout=subprocess.PIPE, stderr=messages)
        except OSError as error:
            raise UnknownError(f"{argv[0]} cannot be started: {error.strerror}") from None
        assert child.stdout is not None
        try:
            text = (line.decode("utf-8", "replace") for line in child.stdout)
            for table in _tables(csv.DictReader(text), interval):
                out.write("\n".join((*table, "", "")))
                out.flush()
            code = child.wait()
        finally:
            if wait_or_kill(child, 0) is None:
                warnings.warn(not_ended("iotop-ai record", child.pid), RuntimeWarning, stacklevel=2)
            child.stdout.close()
        messages.seek(0)
        error_text = messages.read().decode("utf-8", "replace").strip()
    if code:
        raise UnknownError(clean(error_text.rpartition("\n")[2]) or f"iotop-ai ended with exit code {code}")


def _tables(rows: Iterable[dict[str, str]], interval: float) -> Iterator[list[str]]:
    """Yield a table for each interval: a title line, then a line per disk.

    The last interval may be cut short; it is left out if it is shorter than half of ``interval`` (in seconds).
    """
    table: list[str] = []
    at = before = ""
    for row in rows:
        if table and row["timestamp"] != at:
            yield table
            table, before = [], at
        at = row["timestamp"]
        if not table:
            titles = "".join(f"{name:>{_FIGURE_WIDTH}}" for name in COLUMNS)
            table.append(f"{row['timestamp'][_TIME_OF_DAY]} UTC".ljust(_NAME_WIDTH) + titles)
        figures = "".join(f"{_figure(row[name]):>{_FIGURE_WIDTH}}" for name in COLUMNS)
        table.append(f"{clean(row['device'], _NAME_WIDTH - 1):<{_NAME_WIDTH}}{figures}")
    if table and (not before or (_time(at) - _time(before)).total_seconds() >= interval / 2):
        yield table


def _time(timestamp: str) -> datetime:
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%fZ")  # Python 3.8's fromisoformat does not accept the Z


def _figure(text: str) -> str:
    return f"{float(text):.1f}" if text else "-"
