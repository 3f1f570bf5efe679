from __future__ import annotations

import pytest

from iotop_ai.model.health.growth import (
    DAY_S,
    Growth,
    growth,
    left_words,
    nearest,
    past_of,
    recent_of,
    span,
    wear_left_days,
)
from iotop_ai.model.health.smart import HealthPoint, PastPoint, SmartState

NOW = 1_790_000_000
STATE = SmartState("/dev/sda", "ata", "M", "S", "F", "PASS", "ok", (), read_wall_s=NOW)


def test_growth_needs_both_figures_and_some_time_between_them() -> None:
    earlier = HealthPoint(NOW - 3600, pending=2)
    assert growth(STATE._replace(pending=5, earlier=earlier), "pending") == Growth(3, 3600)
    for changes in (
        {"pending": 5},
        {"pending": None, "earlier": earlier},
        {"pending": 5, "earlier": earlier._replace(pending=None)},
        {"pending": 2, "earlier": earlier},
        {"pending": 1, "earlier": earlier},
        {"pending": 5, "earlier": earlier._replace(wall_s=NOW)},
        {"pending": 5, "earlier": earlier, "read_wall_s": None},
    ):
        assert growth(STATE._replace(**changes), "pending") is None  # type: ignore[arg-type]


def test_growth_is_converted_to_a_rate() -> None:
    assert (Growth(6, 60).per_day, Growth(6, 60).per_hour) == (6, 6)
    assert (Growth(6, 3 * DAY_S).per_day, Growth(48, DAY_S).per_hour) == (2, 2)
    assert Growth(1204, 86_100).text == "+1,204 in 24 h"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2, "2 s"), (300, "5 min"), (10_800, "3 h"), (86_400, "24 h"), (10 * DAY_S, "10 d")]
)
def test_spans_are_written_in_words(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_the_earlier_reading_is_the_one_nearest_to_a_day_ago_and_before_now() -> None:
    points = tuple(HealthPoint(NOW + at) for at in (-3 * DAY_S, -25 * 3600, -20 * 3600, -60, 0, 3600))
    assert nearest(points, NOW) == HealthPoint(NOW - 25 * 3600)
    assert nearest((HealthPoint(NOW),), NOW) is None
    assert nearest((), NOW) is None


def test_the_recent_reading_is_about_one_hour_old_and_never_more_than_two() -> None:
    points = tuple(HealthPoint(NOW + at) for at in (-DAY_S, -7000, -3500, -60, 3600))
    assert recent_of(points, NOW) == HealthPoint(NOW - 3500)
    assert recent_of(points[:2], NOW) == HealthPoint(NOW - 7000)
    assert recent_of(points[:1], NOW) is None
    assert recent_of((), NOW) is None


def test_old_readings_are_thinned_evenly_and_the_newest_is_kept() -> None:
    points = tuple(HealthPoint(NOW - 600 * n, temperature_celsius=n) for n in range(1000, -1, -1))
    thin = past_of((*points, HealthPoint(NOW + 5)), NOW, most=64)
    assert 60 <= len(thin) <= 64
    assert thin[-1] == PastPoint(NOW, 0)
    assert past_of(points[-3:], NOW) == tuple(PastPoint(NOW - 600 * n, n) for n in (2, 1, 0))


def test_wear_is_forecast() -> None:
    def worn(days: float, before: int, now: int) -> float | None:
        return wear_left_days(
            STATE._replace(used_percent=now, past=(PastPoint(NOW - int(days * DAY_S), None, before),))
        )

    assert worn(100, 80, 90) == pytest.approx(100)
    assert worn(6, 80, 90) is None
    assert worn(100, 90, 90) is None
    assert worn(100, 95, 101) is None
    assert wear_left_days(STATE._replace(used_percent=90)) is None
    assert [left_words(days) for days in (0.2, 12, 150, 2000)] == [
        "about a day at this rate",
        "about 12 days at this rate",
        "about 5 months at this rate",
        "about 5 years at this rate",
    ]
