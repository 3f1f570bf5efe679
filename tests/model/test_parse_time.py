"""Times that users type, which may be relative to the span of a recording."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_moment_ns, parse_time_ns

S = 1_000_000_000
ZONE = timezone(timedelta(hours=2))


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * S


BEGIN, END = at("2026-11-20T22:00:00"), at("2026-11-21T10:00:00")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0%", BEGIN),
        ("45%", BEGIN + (END - BEGIN) * 45 // 100),
        ("start", BEGIN),
        (" Begin ", BEGIN),
        ("end", END),
        ("100%", END),
        ("-3m", END - 180 * S),
        ("-1h30m", END - 5400 * S),
        ("+2", BEGIN + 2 * S),
        ("-0", END),
        ("23:30", at("2026-11-20T21:30:00")),
        ("09:15:07.250", at("2026-11-21T07:15:07") + 250_000_000),
        ("11:59", at("2026-11-21T09:59:00")),
        ("12:30", at("2026-11-21T10:30:00")),
        ("2026-11-21T08:00:00Z", at("2026-11-21T08:00:00")),
        ("2026-11-21T08:00:00+01:00", at("2026-11-21T07:00:00")),
        ("2026-11-21 08:00", at("2026-11-21T06:00:00")),
        ("2026-11-21T08:00:00.000001Z", at("2026-11-21T08:00:00") + 1000),
    ],
)
def test_a_moment_of_a_recording_is_parsed(text: str, wanted: int) -> None:
    assert parse_time_ns(text, BEGIN, END, ZONE) == wanted


def test_in_a_long_recording_a_time_of_day_is_its_last_occurrence() -> None:
    begin, end = at("2026-11-18T00:00:00"), at("2026-11-21T10:00:00")
    assert parse_time_ns("09:00", begin, end, UTC) == at("2026-11-21T09:00:00")
    assert parse_time_ns("11:00", begin, end, UTC) == at("2026-11-20T11:00:00")


@pytest.mark.parametrize("minutes", [0, 60], ids=["summer time", "winter time"])
def test_an_hour_that_comes_twice_is_the_one_within_the_recording(minutes: int) -> None:
    begin = at("2026-11-01T05:10:00") + minutes * 60 * S  # 01:10 in New York, where summer time ends at 02:00
    wanted = at("2026-11-01T05:30:00") + minutes * 60 * S
    assert parse_time_ns("01:30", begin, begin + 1800 * S, ZoneInfo("America/New_York")) == wanted


def test_without_a_time_zone_that_of_the_machine_applies() -> None:
    typed = "2026-11-21T08:00:00"
    assert parse_moment_ns(typed) == int(datetime.fromisoformat(typed).astimezone().timestamp()) * S
    assert parse_time_ns("00:00:01", BEGIN, END) in range(BEGIN - 86400 * S, END + 86400 * S)


@pytest.mark.parametrize(
    "text", ["", "x", "25:00", "12:60", "101%", "-", "-x", "45 %%", "9999-01-01", "1899-01-01", "12"]
)
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="time"):
        parse_time_ns(text, BEGIN, END, ZONE)


def test_the_reason_for_an_invalid_time_fits_a_narrow_terminal() -> None:
    assert parsed("3 min") == "'3 min' is not a time: try 14:32, -3m, +3m, 45%, start or end"


def parsed(text: str) -> int | str:
    try:
        return parse_time_ns(text, BEGIN, END, ZONE)
    except UsageError as error:
        return str(error)


@given(st.text(max_size=20))
def test_any_text_is_a_time_or_a_one_line_error(text: str) -> None:
    answer = parsed(text)
    assert isinstance(answer, int) or answer.isprintable()
