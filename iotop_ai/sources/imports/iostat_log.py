"""Parses the text and the JSON of ``iostat -x``, report by report. The text looks like this:

Linux 6.1.0 (node7) 	11/21/26 	_x86_64_	(64 CPU)

11/21/26 09:38:05
Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s ...  aqu-sz  %util
nvme0n1        356.66  41032.70    46.91  11.62    2.64   115.05    6.67 ...    1.09  21.61
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sized
from typing import Any, NamedTuple

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import InputError
from iotop_ai.sources.imports.common import (
    MOST_COLUMNS,
    MOST_DEVICES,
    MOST_RUNS,
    LoggedTime,
    check_json_values,
    log_lines,
    open_log,
    parse_logged_time,
)

LARGEST_JSON = 128 << 20
"""The largest JSON that is read, in bytes."""
_MOST_RATE = 1e15
"""Larger values show that the log is damaged: even a petabyte a second is only 1e12 kB/s."""
_TORN_TAIL_BYTES = 4096
"""The number of bytes at the end of a log that a killed writer may have left incomplete: the size of its buffer."""
_BANNER = re.compile(r"Linux (\S+) \((.+?)\)\s+(\S+\s|\S[^\t]{0,60}\t)\s*\S+\s+\(\d+ \S+\)")
"""The first line of a run. A tab ends the date, which has spaces in some locales."""
_CLOCK = re.compile(r"\d{1,2}[:.时時시] ?\d{2}(?:[:.分분] ?\d{2}| [-+]\d{4})")
"""A time of day. The Norwegian form, "kl. 09.38 +0100", has no seconds, so it is found but cannot be read."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_DISKS = re.compile(r'"disk"\s*:')
"""The key of the devices in iostat's JSON; each report has it once."""
_TERMS = {"%util": "util", "avgqu-sz": "aqu-sz"}
"""The keys of iostat's JSON for the column titles that differ from them."""
_REQUIRED_COLUMNS = ("r/s", "w/s", "r_await", "w_await", "util")


class Report(NamedTuple):
    """One report of iostat.

    run: the number of the banner above the report
    logged_time: the time from -t; None if it is missing or cannot be read
    columns: the columns, named like the keys in iostat's JSON
    devices: the rates by device and column
    day: the date in the banner; None if it cannot be read
    has_unread_time: whether the report has a time that cannot be read
    """

    run: int
    host: str
    kernel: str
    logged_time: LoggedTime | None
    columns: frozenset[str]
    devices: dict[str, dict[str, float]]
    day: LoggedTime | None = None
    has_unread_time: bool = False


def iostat_reports(path: str, *, allow_root: bool = False) -> Iterator[Report]:
    """Yield the reports of a log in order.

    Raises InputError with the file, the line or report, and a reason, but never with the content of the file.

    allow_root: whether root may open a log of any owner
    """
    first = next((line for _, line in log_lines(path, allow_root=allow_root) if line.strip()), "")
    if first.lstrip().startswith("{"):
        yield from _json_reports(path, allow_root)
        return
    text = _TextParser(path)
    for number, line in log_lines(path, torn=False, allow_root=allow_root):
        yield from text.line(number, line)
    yield from text.end_run()


def checked_columns(names: list[str]) -> list[str]:
    """Return the column titles as the keys of iostat's JSON. Raises InputError for titles of another program."""
    columns = [_TERMS.get(name, name) for name in names]
    if "tps" in columns:
        raise InputError("not the extended statistics; log with iostat -x, without -s")
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"more than {MOST_COLUMNS} columns")
    missing = [name for name in _REQUIRED_COLUMNS if name not in columns]
    if missing:
        raise InputError(f"no column {missing[0]}: not from iostat -x of sysstat 10.1 or newer, or written with -h")
    return columns


def check_report(devices: Sized, values: Iterable[float]) -> None:
    """Raise InputError for impossible rates and for too many devices."""
    if not all(math.isfinite(value) and 0 <= value < _MOST_RATE for value in values):
        raise InputError("an impossible rate")
    if len(devices) > MOST_DEVICES:
        raise InputError(f"more than {MOST_DEVICES} devices in one report")


class _TextParser:
    """Parses a text log line by line, and keeps its state between the lines."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._run = 0
        self._host = self._kernel = ""
        self._logged_time: LoggedTime | None = None
        self._has_unread_time = False
        self._day: LoggedTime | None = None
        self._columns: list[str] = []
        self._report: Report | None = None
        self._in_table = False
        self._torn_line = 0
        """The number of the line that is incomplete; 0 without one."""

    def line(self, number: int, line: str) -> Iterator[Report]:
        """Parse a line. Yield the previous report if this line ends it."""
        words = line.split()
        # Match only at the last "Linux ": matching at each of many occurrences would take quadratic time.
        # The last line of a killed run has no line end, so the banner of the next run is on the same line.
        banner = _BANNER.match(line, max(0, line.rfind("Linux ")))
        if self._torn_line and banner is None:
            raise InputError(f"{self._path}: line {self._torn_line}: not a line of iostat -x")
        if not words:
            self._in_table = False
        elif banner is not None:
            yield from self.end_run()
            self._run += 1
            if self._run > MOST_RUNS:
                raise InputError(f"{self._path}: line {number}: more than {MOST_RUNS} runs of iostat")
            self._kernel, self._host, self._day = clean(banner[1]), clean(banner[2]), _day(banner[3])
            self._logged_time, self._has_unread_time, self._in_table = None, False, False
        elif "r/s" in words or "tps" in words or words[0].startswith("Device"):
            yield from self._end_report()
            self._header(number, words)
        elif self._in_table:
            self._row(number, words)
        elif _CLOCK.search(line):
            yield from self._end_report()
            self._logged_time = parse_logged_time(line)
            self._has_unread_time = self._logged_time is None

    def _header(self, number: int, words: list[str]) -> None:
        if words[-1] == "Device":
            raise InputError(f"{self._path}: line {number}: human-readable form (-h); log with plain iostat -x")
        try:
            self._columns = checked_columns(words[1:])
        except InputError as error:
            raise InputError(f"{self._path}: line {number}: {error}") from None
        columns = frozenset(self._columns)
        self._report = Report(
            self._run, self._host, self._kernel, self._logged_time, columns, {}, self._day, self._has_unread_time
        )
        self._in_table = True

    def _row(self, number: int, words: list[str]) -> None:
        assert self._report is not None  # a table begins with its header, which sets the report
        numbers = words[1:]
        if len(numbers) != len(self._columns) or not all(map(_NUMBER.fullmatch, numbers)):
            # The last line of a log may be incomplete; anywhere else, such a line is an error.
            self._torn_line = number
            return
        values = [float(text.replace(",", ".")) for text in numbers]
        try:
            self._report.devices[clean(words[0])] = dict(zip(self._columns, values, strict=True))
            check_report(self._report.devices, values)
        except InputError as error:
            raise InputError(f"{self._path}: line {number}: {error}") from None

    def end_run(self) -> Iterator[Report]:
        """Yield the last report of a run, if it is complete: iostat writes an empty line after each table.

        Otherwise, its last line may be incomplete, and devices may be missing after that line.
        """
        if self._in_table:
            self._report = None
        yield from self._end_report()
        self._in_table, self._torn_line = False, 0

    def _end_report(self) -> Iterator[Report]:
        """Yield the report that is still open."""
        if self._report is not None:
            yield self._report
        self._report = None


def _json_reports(path: str, allow_root: bool) -> Iterator[Report]:
    """Yield the reports of ``iostat -x -o JSON``.

    The JSON of a killed iostat is truncated; its complete reports are yielded.
    """
    with open(open_log(path, allow_root=allow_root), "rb") as file:
        if os.fstat(file.fileno()).st_size > LARGEST_JSON:
            raise InputError(f"{path}: more than 128 MiB of JSON; log as text instead")
        text = file.read().decode("utf-8", "replace")
    report_count = 0
    decoder = json.JSONDecoder(parse_constant=_refuse)
    for run, run_text in enumerate(_runs(text), 1):
        if run > MOST_RUNS:
            raise InputError(f"{path}: more than {MOST_RUNS} runs of iostat")
        host = _string(run_text)
        release = re.search(r'"release"\s*:', run_text)
        kernel = "" if release is None else _string(run_text[release.end() :])
        date = re.search(r'"date"\s*:', run_text)
        day = None if date is None else _day(_string(run_text[date.end() :]))
        start = re.search(r'"statistics"\s*:\s*\[', run_text)
        position = len(run_text) if start is None else start.end()
        while position < len(run_text):
            position = _skip_separators(run_text, position)
            report_text = run_text[position : _report_limit(run_text, position)]
            try:
                check_json_values(report_text)
                raw, length = decoder.raw_decode(report_text)
                position += length
                report = _json_report(run, host, kernel, raw)._replace(day=day)
            except InputError as error:
                raise InputError(f"{path}: report {report_count + 1}: {error}") from None
            except json.JSONDecodeError as error:
                if (
                    run_text[position:].lstrip(", \t\r\n").startswith("]")
                    or position + error.pos > len(run_text) - _TORN_TAIL_BYTES
                ):
                    break
                raise InputError(f"{path}: report {report_count + 1}: damaged JSON") from None
            except (ValueError, OverflowError, RecursionError, KeyError, TypeError, AttributeError):
                raise InputError(f"{path}: report {report_count + 1}: not a report of iostat -x") from None
            report_count += 1
            yield report
    if not report_count:
        raise InputError(f"{path}: no JSON of iostat -x")


def _day(text: str) -> LoggedTime | None:
    return parse_logged_time(f"{text} 00:00:00")


def _runs(text: str) -> Iterator[str]:
    """Yield the text after each "nodename", up to the next "nodename"."""
    ends = (match.span() for match in re.finditer(r'"nodename"\s*:', text))
    start = next(ends, (0, 0))[1]
    for begin, end in ends:
        yield text[start:begin]
        start = end
    if start:
        yield text[start:]


def _report_limit(text: str, position: int) -> int:
    """Return an index at or after the end of the report that begins at ``position``.

    This is the index of the next report's key "disk", or the end of the text if no report follows.
    """
    disks = _DISKS.search(text, position)
    next_disks = None if disks is None else _DISKS.search(text, disks.end())
    return len(text) if next_disks is None else next_disks.start()


def _refuse(name: str) -> float:
    """Refuse the constants NaN and Infinity."""
    raise ValueError


def _skip_separators(text: str, position: int) -> int:
    """Return the index after any white space and commas."""
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    return position


def _string(text: str) -> str:
    match = re.match(r'\s*"([^"\\]{0,200})"', text)
    return "" if match is None else clean(match[1])


def _json_report(run: int, host: str, kernel: str, raw: dict[str, Any]) -> Report:
    devices: dict[str, dict[str, float]] = {}
    columns: list[str] = []
    for row in raw["disk"]:
        name = clean(row["disk_device"])
        columns = checked_columns([key for key in row if key != "disk_device"])
        values = [float(row[key]) for key in row if key != "disk_device"]
        devices[name] = dict(zip(columns, values, strict=True))
        check_report(devices, values)
    has_time = "timestamp" in raw
    logged_time = parse_logged_time(raw["timestamp"]) if has_time else None
    has_unread_time = has_time and logged_time is None
    return Report(run, host, kernel, logged_time, frozenset(columns), devices, has_unread_time=has_unread_time)
