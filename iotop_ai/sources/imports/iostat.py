"""Imports logs of ``iostat -x`` as Snapshots whose counters give the same rates as the log.

The logs may be text or ``-o JSON`` of sysstat 10.1 to 12, with or without -t, -k, -m, -N, -p, -y and -z. Source:
iostat.c of https://github.com/sysstat/sysstat.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo
from typing import NamedTuple

from iotop_ai.model.block.counters import SECTOR_BYTES, BlockCounters, BlockInfo, BlockKey
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.sources.imports.common import (
    MOST_DEVICES,
    ImportOptions,
    LoggedTime,
    device_info,
    host_of,
    logged_time_ns,
    snapshot,
)
from iotop_ai.sources.imports.date_order import DateOrderFinder
from iotop_ai.sources.imports.iostat_log import Report, iostat_reports

ORIGIN = "iostat"
_NS = 1_000_000_000
_DAY_NS = 86_400 * _NS
_MICRO = 1_000_000
_MS_WRAP = 2**32
"""The value at which the counters of milliseconds in /proc/diskstats begin again at 0."""
_KIB = 1024
MOST_NAMES = 65_536
"""The most device names in all runs of a log together."""
_BYTES = {"kB/s": _KIB, "MB/s": _KIB * _KIB, "sec/s": SECTOR_BYTES}
"""The bytes of each unit in the names of the columns of throughput."""


class LogSummary(NamedTuple):
    """Facts about a whole log that are needed before the first Snapshot. A run is one start of iostat.

    reports: the number of reports
    interval_s: the user's interval, or else the most frequent one; None if the log has no times or does not show it
    run_intervals_s: the most frequent interval by run, where the log shows it; {} if the user gives an interval
    timed: whether every report has a time
    dates: the finder for the order of day and month
    sparse: the runs whose reports leave out idle devices (``-z``), so that a missing device did nothing
    names, columns: the device names and the columns, by run
    day: the date in the first banner; None if it cannot be read
    has_unread_times: whether a report has a time that cannot be read
    """

    reports: int
    interval_s: float | None
    timed: bool
    dates: DateOrderFinder
    sparse: frozenset[int]
    names: dict[int, tuple[str, ...]]
    columns: dict[int, frozenset[str]]
    run_intervals_s: dict[int, float]
    day: LoggedTime | None = None
    has_unread_times: bool = False


def summarize(reports: Iterable[Report], options: ImportOptions) -> LogSummary:
    """Read a log once and return its facts. Raises InputError for a log without a report."""
    count, name_count, timed, has_unread_times = 0, 0, True, False
    runs_with_idle: set[int] = set()
    runs_with_missing: set[int] = set()
    dates = DateOrderFinder()
    intervals_s: dict[int, Counter[int]] = {}
    names: dict[int, dict[str, None]] = {}
    columns: dict[int, frozenset[str]] = {}
    last: Report | None = None
    day: LoggedTime | None = None
    for report in reports:
        if last is None:
            day = report.day
        dates.add(report.day)
        dates.add(report.logged_time)
        count += 1
        timed = timed and report.logged_time is not None
        has_unread_times = has_unread_times or report.has_unread_time
        columns[report.run] = columns.get(report.run, frozenset()) | report.columns
        run_names = names.setdefault(report.run, {})
        if any(name not in report.devices for name in run_names):
            runs_with_missing.add(report.run)
        new_count = len(report.devices.keys() - run_names.keys())
        name_count += new_count
        if name_count > MOST_NAMES or len(run_names) + new_count > MOST_DEVICES:
            raise InputError(f"more than {MOST_DEVICES} devices in a run of iostat, or {MOST_NAMES} in all")
        run_names.update(dict.fromkeys(report.devices))
        if any(not any(row.values()) for row in report.devices.values()):
            runs_with_idle.add(report.run)
        if (
            last is not None
            and last.run == report.run
            and last.logged_time is not None
            and report.logged_time is not None
        ):
            interval_s = (report.logged_time.seconds - last.logged_time.seconds) % 86400
            intervals_s.setdefault(report.run, Counter())[interval_s] += 1
        last = report
    if not count:
        raise InputError("no report of iostat -x")
    all_intervals_s: Counter[int] = Counter()
    for counts in intervals_s.values():
        all_intervals_s.update(counts)
    usual_s = options.interval_s or _most_frequent(all_intervals_s)
    run_intervals_s = {run: _most_frequent(counts) for run, counts in intervals_s.items()}
    known_s = {} if options.interval_s else {run: seconds for run, seconds in run_intervals_s.items() if seconds}
    sparse = frozenset(runs_with_missing - runs_with_idle)
    names_by_run = {run: tuple(run_names) for run, run_names in names.items()}
    return LogSummary(count, usual_s, timed, dates, sparse, names_by_run, columns, known_s, day, has_unread_times)


def _most_frequent(intervals_s: Counter[int]) -> float | None:
    """Return the most frequent interval in seconds; None if there is none, or if it is 0."""
    return (float(intervals_s.most_common(1)[0][0]) if intervals_s else None) or None


class CounterBuilder:
    """Sums up the counters of one device from the logged rates.

    Fractions are carried over to the next interval, so that nothing is lost in a long log. The times of requests are
    computed from the requests counted in whole numbers, so that the mean times are those of the log.
    """

    def __init__(self) -> None:
        self._whole: dict[str, int] = {}
        self._rest: dict[str, int] = {}

    def add(self, name: str, amount: float | None) -> int | None:
        """Increase a counter. Return by how many whole units it grew; None if the log does not have the value."""
        if amount is None:
            return None
        # Amounts are counted in millionths, so that floats printed with two decimals add up exactly. The growth is
        # rounded to whole units, because iostat sometimes prints 1 as 0.99. The rest may therefore be negative, but a
        # counter never falls.
        due = self._rest.get(name, 0) + round(amount * _MICRO)
        growth = (due + _MICRO // 2) // _MICRO
        self._rest[name] = due - growth * _MICRO
        self._whole[name] = self._whole.get(name, 0) + growth
        return growth

    def add_kind(self, letter: str, rates: dict[str, float], seconds: float) -> None:
        """Add to the four counters of reads (r), writes (w) or discards (d)."""
        request_count = self.add(letter + "ios", _product(rates.get(f"{letter}/s"), seconds))
        self.add(letter + "merges", _product(rates.get(f"{letter}rqm/s"), seconds))
        bytes_per_s = next(
            (rates[letter + unit] * scale for unit, scale in _BYTES.items() if letter + unit in rates), None
        )
        self.add(letter + "sectors", None if bytes_per_s is None else bytes_per_s * seconds / SECTOR_BYTES)
        self.add(letter + "ms", _product(rates.get(f"{letter}_await"), request_count))

    def add_interval(self, rates: dict[str, float], seconds: float) -> None:
        """Add one interval of logged rates. seconds: the length of the interval."""
        for letter in "rwd":
            self.add_kind(letter, rates, seconds)
        flush_count = self.add("fios", _product(rates.get("f/s"), seconds))
        self.add("fms", _product(rates.get("f_await"), flush_count))
        self.add("queue", _product(rates.get("aqu-sz"), seconds * 1000))
        # The column is in percent of the time, and the counter in ms: 1 % of a second is 10 ms.
        self.add("busy", _product(rates.get("util"), seconds * 10))

    def counters(self, columns: frozenset[str]) -> BlockCounters:
        """Return the counters as in /proc/diskstats.

        None for requests in flight, and for discards and flushes if the log does not have them.
        """

        def four_counters(letter: str) -> tuple[int, int, int, int]:
            ios, merges, sectors, ms = (self._whole.get(letter + n, 0) for n in ("ios", "merges", "sectors", "ms"))
            return ios, merges, sectors, ms % _MS_WRAP

        discards = four_counters("d") if "d/s" in columns else (None,) * 4
        flushes = (
            (self._whole.get("fios", 0), self._whole.get("fms", 0) % _MS_WRAP) if "f/s" in columns else (None, None)
        )
        times_ms = (self._whole.get("busy", 0) % _MS_WRAP, self._whole.get("queue", 0) % _MS_WRAP)
        return BlockCounters(*four_counters("r"), *four_counters("w"), None, *times_ms, *discards, *flushes)


def _product(rate: float | None, factor: float | None) -> float | None:
    return None if rate is None or factor is None else rate * factor


def assumed_start(
    summary: LogSummary, interval_s: float, written_ns: int, zone: tzinfo | None, day_first: bool
) -> tuple[int, str]:
    """Return (the start in Unix ns of a log without times, how it was found).

    The last report is assumed to be as old as the file. If the date in the banner contradicts this, the log is assumed
    to begin at midnight of that date.
    """
    start_ns = written_ns - round((summary.reports - 1) * interval_s * _NS)
    if summary.day is None:
        return start_ns, "it is assumed to end when the file was last written"
    day_ns = logged_time_ns(summary.day, day_first, zone)
    if -_DAY_NS <= start_ns - day_ns <= 2 * _DAY_NS:
        return start_ns, "it is assumed to end when the file was last written"
    return day_ns, "it is assumed to begin at 00:00 on the date in its header, because the file has another date"


def iostat_snapshots(
    path: str, options: ImportOptions, say: Callable[[str], None] = lambda text: None
) -> Iterator[Snapshot]:
    """Return the Snapshots of a log, oldest first.

    Each run gives one Snapshot before its first interval and one for each interval. The first report of a run has
    iostat's mean since boot; it is left out unless ``keep_first`` is set. Raises InputError for another kind of file,
    and UsageError if the length of an interval is unknown.

    say: called with a sentence about each assumption
    """
    try:
        summary = summarize(iostat_reports(path, allow_root=options.allow_root), options)
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(path) else f"{path}: {error}") from None
    if summary.interval_s is None:
        if summary.has_unread_times:
            raise UsageError("its times cannot be read; log with S_TIME_FORMAT=ISO, or give --interval")
        why = "this log does not show" if summary.timed else "a log without times (iostat -t) does not show"
        raise UsageError(f"{why} the length of an interval; give --interval")
    written_ns = os.stat(path).st_mtime_ns
    day_first, why_assumed = summary.dates.find(written_ns, options.zone)
    if why_assumed and (summary.timed or options.start_ns is None):
        say(f"its dates are read as {'day/month' if day_first else 'month/day'}/year: {why_assumed}")
    if not summary.timed and options.start_ns is None:
        try:
            start_ns, how = assumed_start(summary, summary.interval_s, written_ns, options.zone, day_first)
        except InputError as error:
            raise InputError(f"{path}: its header has {error}; give --start") from None
        options = options._replace(start_ns=start_ns)
        unread = summary.has_unread_times
        missing = "its times cannot be read (log with S_TIME_FORMAT=ISO)" if unread else "the log has no times"
        say(f"{missing}: {how} (set its start with --start T)")
    return _Import(path, options, summary, summary.interval_s, day_first).snapshots()


def _info_in(name: str, names: frozenset[str]) -> BlockInfo:
    """Return the record of a device in a run with these devices.

    A partition or a path counts as a disk if the run does not list its disk, so that its I/O is shown.
    """
    info = device_info(name)
    return info._replace(kind="disk", parent="") if info.parent and info.parent not in names else info


class _Import:
    """Makes the Snapshots of a log whose summary is known."""

    def __init__(
        self, path: str, options: ImportOptions, summary: LogSummary, interval_s: float, day_first: bool
    ) -> None:
        self._path = path
        self._options = options
        self._summary = summary
        self._log_interval_s = interval_s
        """The usual interval of the whole log."""
        self._interval_s = interval_s
        """The usual interval of this run."""
        self._drift_s = 0.0
        """The sum, in this run, of the usual intervals minus the logged intervals that they replaced."""
        self._day_first = day_first
        self._shift_ns: int | None = None
        self._logged_ns: int | None = None
        """The newest time as logged, without the shift."""
        self._run = -1
        self._seq = 0
        self._at_ns = 0
        self._wall_ns = 0
        self._builders: dict[BlockKey, CounterBuilder] = {}
        self._generations: dict[str, int] = {}
        """How often each device has disappeared from the reports, by name."""
        self._columns: frozenset[str] = frozenset()
        self._names: frozenset[str] = frozenset()
        """The names of all devices of this run."""

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield all Snapshots of the log."""
        for number, report in enumerate(iostat_reports(self._path, allow_root=self._options.allow_root), 1):
            try:
                report_ns = self._report_time(report)
            except InputError as error:
                raise InputError(f"{self._path}: report {number}: {error}") from None
            if report.run != self._run:
                yield self._begin(report, report_ns)
                if not self._options.keep_first:
                    continue
            seconds = self._elapsed_s(report_ns)
            self._at_ns += round(seconds * _NS)
            self._wall_ns = self._at_ns if report_ns is None else report_ns
            yield self._end_interval(report, seconds)

    def _report_time(self, report: Report) -> int | None:
        """Return the report's time, shifted to the user's start time; None if the log has no times."""
        if not self._summary.timed or report.logged_time is None:
            return None
        logged_ns = logged_time_ns(report.logged_time, self._day_first, self._options.zone, self._logged_ns)
        self._logged_ns = logged_ns
        if self._shift_ns is None:
            self._shift_ns = 0 if self._options.start_ns is None else self._options.start_ns - logged_ns
        return logged_ns + self._shift_ns

    def _begin(self, report: Report, report_ns: int | None) -> Snapshot:
        """Return the Snapshot before the first interval of a run."""
        self._interval_s = self._summary.run_intervals_s.get(report.run, self._log_interval_s)
        self._drift_s = 0.0
        start_ns = report_ns
        if start_ns is None:
            start_ns = (self._options.start_ns or 0) if self._run < 0 else self._at_ns + round(self._interval_s * _NS)
        if self._options.keep_first:
            start_ns -= round(self._interval_s * _NS)
        self._run = report.run
        self._at_ns = self._wall_ns = start_ns
        self._columns = self._summary.columns[report.run]
        self._names = frozenset(self._summary.names[report.run])
        names = self._summary.names[report.run] if report.run in self._summary.sparse else report.devices
        self._generations = {}
        self._builders = {self._key(name): CounterBuilder() for name in names}
        return self._snapshot(report)

    def _elapsed_s(self, report_ns: int | None) -> float:
        """Return the length in seconds of the interval that ends now.

        Logged times are whole seconds, so a difference of 1 s from the usual interval is due to rounding, as long as
        such differences do not add up to more than 1 s.
        """
        usual_s = self._interval_s
        if report_ns is None:
            return usual_s
        logged_s = (report_ns - self._wall_ns) / _NS
        if logged_s < 0:  # the clock was set back
            return usual_s
        drift_s = self._drift_s + usual_s - logged_s
        if logged_s and (abs(logged_s - usual_s) > 1 or abs(drift_s) > 1):
            return logged_s
        self._drift_s = drift_s
        return usual_s

    def _key(self, name: str) -> BlockKey:
        """Return the key of a device. A device that was missing in a report has a new key afterwards."""
        return BlockKey(name, self._generations.setdefault(name, 0))

    def _end_interval(self, report: Report, seconds: float) -> Snapshot:
        if report.run not in self._summary.sparse:
            for key in [k for k in self._builders if k.name not in report.devices]:
                del self._builders[key]
                self._generations[key.name] += 1
        for name, rates in report.devices.items():
            self._builders.setdefault(self._key(name), CounterBuilder()).add_interval(rates, seconds)
        return self._snapshot(report)

    def _snapshot(self, report: Report) -> Snapshot:
        self._seq += 1
        table = {key: builder.counters(self._columns) for key, builder in self._builders.items()}
        infos = {key.name: _info_in(key.name, self._names) for key in table}
        return snapshot(
            ORIGIN,
            self._seq,
            self._at_ns,
            self._wall_ns,
            self._interval_s,
            host_of(ORIGIN, self._run, report.host or self._options.host, report.kernel),
            block=Reading(table, Status.OK, "", "", self._at_ns),
            disks=Reading(infos, Status.OK, "derived from the device names in the log", "", self._at_ns),
        )
