"""Finds the order of day and month in the dates of a log. The locale of the logging program determines this order."""

from __future__ import annotations

from datetime import date, tzinfo
from typing import NamedTuple

from iotop_ai.model.errors import InputError
from iotop_ai.sources.imports.common import LoggedTime, logged_time_ns

_DAY_NS = 86_400 * 1_000_000_000
_MONTHS = 12


class DateOrder(NamedTuple):
    """The order of day and month in a log.

    day_first: whether the log writes 21/11/2026 rather than 11/21/2026
    why_assumed: why this order is assumed; "" if the dates prove it or are the same in both orders
    """

    day_first: bool
    why_assumed: str


class DateOrderFinder:
    """Finds the order of day and month from the dates of a log, which are passed to ``add`` one by one."""

    def __init__(self) -> None:
        self._last: LoggedTime | None = None
        self._day_is_first: bool | None = None
        """Whether the day is first; None while no date proves the order."""
        self._differs = False
        """Whether any date means another day when its day and month are swapped."""
        self._days = {True: 0, False: 0}
        """The sum of the days between successive dates, by whether the dates are read with the day first."""

    def add(self, logged_time: LoggedTime | None) -> None:
        """Take the next date of the log into account."""
        if logged_time is None or logged_time.year_first or logged_time.surely_day_first:
            return
        first, second, _ = logged_time.numbers
        if first > _MONTHS or second > _MONTHS:
            # A date that can only have the day first outweighs those that can only have the month first.
            self._day_is_first = self._day_is_first or first > _MONTHS
        self._differs = self._differs or first != second
        last, self._last = self._last, logged_time
        if last is not None and last.numbers != logged_time.numbers:
            for day_first in self._days:
                self._days[day_first] += _days_between(last, logged_time, day_first)

    def find(self, written_ns: int, zone: tzinfo | None) -> DateOrder:
        """Return the order. written_ns: the Unix time in ns at which the file was written."""
        if self._day_is_first is not None:
            return DateOrder(self._day_is_first, "")
        if not self._differs or self._last is None:
            return DateOrder(False, "")
        if self._days[True] != self._days[False]:
            return DateOrder(self._days[True] < self._days[False], "in this order, the days are consecutive")
        is_near = {day_first: self._is_near(written_ns, day_first, zone) for day_first in (True, False)}
        if is_near[True] != is_near[False]:
            return DateOrder(is_near[True], "the last date then matches the file's date")
        return DateOrder(False, "nothing in the log shows the order")

    def _is_near(self, written_ns: int, day_first: bool, zone: tzinfo | None) -> bool:
        """Whether the last date, if read in this order, is close to the date of the file."""
        assert self._last is not None  # ``find`` has checked this
        try:
            day_ns = logged_time_ns(self._last._replace(seconds=0), day_first, zone)
        except InputError:
            return False
        return -_DAY_NS <= written_ns - day_ns <= 2 * _DAY_NS


def _days_between(a: LoggedTime, b: LoggedTime, day_first: bool) -> int:
    return abs(_ordinal(b, day_first) - _ordinal(a, day_first))


def _ordinal(logged_time: LoggedTime, day_first: bool) -> int:
    first, second, year = logged_time.numbers
    month, day = (second, first) if day_first else (first, second)
    try:
        return date(year + 2000 if year < 100 else year, month, day).toordinal()
    except ValueError:
        return 0
