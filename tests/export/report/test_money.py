"""GPU-hours and their price."""

from __future__ import annotations

import pytest

from iotop_ai.export.report.money import Price, gpu_time, parse_price
from iotop_ai.model.errors import UsageError
from iotop_ai.model.job.time_shares import TimeCounts
from tests.export.report.stories import slow_story


@pytest.mark.parametrize(
    ("text", "price", "of_ten"),
    [
        ("2.50", Price(2.5), "25.00"),
        ("$2.50", Price(2.5, "$"), "$25.00"),
        ("2.5 EUR", Price(2.5, "", "EUR"), "25.00 EUR"),
        ("€30", Price(30.0, "€"), "€300"),
    ],
)
def test_prices_are_parsed(text: str, price: Price, of_ten: str) -> None:
    assert parse_price(text) == price
    assert price.text(10) == of_ten


@pytest.mark.parametrize("text", ["", "$", "-2", "2,50", "2.50 dollars", "$2 EUR", "1e9", "\x1b[31m2"])
def test_an_invalid_price_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a price"):
        parse_price(text)


def test_eight_gpus_for_an_hour_are_eight_gpu_hours() -> None:
    job = (
        slow_story()
        .jobs[0]
        ._replace(
            gpus=8,
            mean_gpus=8.0,
            counts=TimeCounts(compute=1_800_000, data_disk=900_000, host=180_000, unexplained=720_000),
        )
    )
    assert job.counts.lost_ms == 1_080_000
    found = gpu_time((job, job._replace(gpus=0)))
    assert found is not None
    assert (found.used, found.lost, found.unexplained) == pytest.approx((8.0, 2.4, 1.6))
    assert found.lost_ratio == pytest.approx(0.3)


def test_without_a_gpu_or_a_known_time_the_cost_is_unknown() -> None:
    job = slow_story().jobs[0]
    assert gpu_time((job._replace(gpus=0), job._replace(counts=TimeCounts()))) is None
