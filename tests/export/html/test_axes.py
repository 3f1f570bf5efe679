"""The time axis of a report's charts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from iotop_ai.export.html.axes import TimeAxis
from iotop_ai.export.html.charts import Line, line_chart
from iotop_ai.export.report.series import Curve

HOUR_NS = 3600 * 10**9


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def labels(day: str, hours: int) -> list[str]:
    begin_ns = round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 10**9
    axis = TimeAxis(begin_ns, begin_ns + hours * HOUR_NS)
    places = [x for x, _ in axis.ticks()]
    assert places == sorted(set(places))
    return [label for _, label in axis.ticks()]


def test_each_day_is_labelled_once_at_the_end_of_summer_time() -> None:
    assert labels("2026-10-22T10:00", 7 * 24) == [f"{day} Oct" for day in range(23, 30)]


def test_half_days_are_labelled_across_the_start_of_summer_time() -> None:
    assert labels("2026-03-28T10:00", 72) == ["12:00", "29 Mar", "12:00", "30 Mar", "12:00", "31 Mar", "12:00"]


def test_a_midnight_tick_shows_the_date() -> None:
    assert labels("2026-06-30T20:00", 5) == ["22:00", "23:00", "01 Jul", "01:00", "02:00", "03:00"]


def test_an_axis_within_one_day_has_only_clock_times() -> None:
    assert labels("2026-06-29T22:00", 8) == [f"{hour:02}:00" for hour in range(9)]


@pytest.mark.parametrize(("begin", "last"), [("2026-10-25T00:10", "02:10"), ("2026-10-25T01:10", "03:10")])
def test_minutes_are_labelled_within_the_repeated_hour(begin: str, last: str) -> None:
    assert labels(begin, 1) == ["02:10", "02:20", "02:30", "02:40", "02:50", f"{last[:3]}00", last]


def test_the_tooltip_knows_when_summer_time_ends() -> None:
    begin_ns = round(datetime.fromisoformat("2026-10-25T00:00").replace(tzinfo=UTC).timestamp()) * 10**9
    curve = Curve(begin_ns, 1800.0, (1.0,) * 6, (1800.0,) * 6)
    chart = line_chart(TimeAxis(begin_ns, begin_ns + 3 * HOUR_NS), [Line("read", curve, "0", "MB/s")])
    assert 'data-zones="0:7200,2:3600"' in chart


def test_large_values_have_no_exponent() -> None:
    curve = Curve(0, 1.0, (0.126, 7012.4), (1.0, 1.0))
    chart = line_chart(TimeAxis(0, 2 * 10**9), [Line("read", curve, "0", "MB/s")])
    assert ">10000 MB/s<" in chart
    assert "0.13,7012" in chart
