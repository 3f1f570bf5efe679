from __future__ import annotations

import pytest

from iotop_ai.export.text.charts import chart, runs, scale_top
from iotop_ai.export.text.trend import Trend
from iotop_ai.model.errors import UnknownError
from iotop_ai.pipeline import frames
from tests.export.make import pair


def test_an_unknown_value_is_a_gap() -> None:
    assert runs([(0, 1.0), (1, None), (2, 3.0), (3, 4.0)]) == [[(0, 1.0)], [(2, 3.0), (3, 4.0)]]
    assert runs([(0, None)]) == []


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 1), (0.3, 0.5), (1, 1), (1.1, 2), (9, 10), (10, 10), (87, 100), (101, 200), (1e37, 1e37)]
)
def test_the_scale_ends_at_a_round_number_above_the_highest_value(highest: float, top: float) -> None:
    assert scale_top(highest) == pytest.approx(top)


def test_a_chart_fits_its_width_and_is_plain_text() -> None:
    text = chart("sda await, ms", [(float(i), float(i % 9)) for i in range(40)], 70, 12)
    lines = text.splitlines()
    assert "sda await, ms" in lines[0]
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 70
    assert all(line.isprintable() for line in lines)
    assert any("⠀" < c <= "⣿" for c in text)


def test_an_ascii_chart_has_only_ascii() -> None:
    text = chart("sda", [(0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 1.0)], 60, 10, ascii_only=True)
    assert text.isascii()
    assert "*" in text


def test_without_a_known_value_there_is_no_chart() -> None:
    with pytest.raises(UnknownError, match="no known value"):
        chart("sda", [(0.0, None)], 60, 10)


def test_the_busiest_device_is_drawn() -> None:
    trend = Trend()
    for frame in frames(pair()):
        trend.add(frame)
    assert len(trend) == 1
    assert trend.drawn_devices() == ("sda",)
    text = trend.render(80, 45)
    assert "read + write, MiB/s" in text
    assert "CPU busy, %, all cores: no data" in text


def test_a_named_device_without_requests_is_reported() -> None:
    trend = Trend(("loop0",))
    for frame in frames(pair()):
        trend.add(frame)
    assert "loop0 await, ms: no data" in trend.render(80, 45)
