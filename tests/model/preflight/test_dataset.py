from __future__ import annotations

import pytest

from iotop_ai.model.preflight.dataset import Dataset, Demand, Supply, forecast

MB = 1 << 20


def demand(samples_per_s: float, workers: int, cores: float = 8.0) -> Demand:
    return Demand(samples_per_s, workers, MB, cores)


def test_a_disk_at_its_limit_keeps_the_gpu_busy_for_part_of_the_time() -> None:
    found = forecast(demand(400, 8), Supply(alone=60, together=96), fits=False)
    assert found.first == pytest.approx(0.24)
    assert (found.bound, found.later, found.workers) == ("storage", None, None)


def test_more_workers_hide_the_latency() -> None:
    found = forecast(demand(200, 2), Supply(alone=50, together=100), fits=None)
    assert found.first == pytest.approx(0.5)
    assert found.workers == 4
    # Forty times as many workers would be too far from what was measured.
    assert forecast(demand(4000, 2), Supply(50, 100), fits=None).workers is None
    # Judged by the time that each takes for a sample, four workers suffice, so no larger number is named.
    assert forecast(demand(395, 4), Supply(100, 380), fits=None).workers is None


def test_more_workers_are_named_if_the_measured_rate_suffices_for_them() -> None:
    # A worker takes 101 ms for a sample, and the disk gives four readers 2000 samples/s.
    assert forecast(demand(50, 4), Supply(alone=1000, together=2000, decode_s=0.1), fits=None).workers == 6
    # One reader does not show that three would be faster.
    assert forecast(demand(300, 1), Supply(alone=100, together=100), fits=None).workers is None
    assert forecast(demand(15, 1), Supply(alone=1000, together=1000, decode_s=0.1), fits=None).workers == 2


def test_a_fast_disk_keeps_the_gpu_busy() -> None:
    found = forecast(demand(100, 4), Supply(alone=300, together=900, memory_s=0.0001), fits=True)
    assert (found.first, found.later, found.bound, found.workers) == (1.0, 1.0, "gpu", None)


def test_decoding_is_limited_by_the_cores() -> None:
    supply = Supply(alone=5000, together=9000, decode_s=0.01, memory_s=0.0001)
    found = forecast(demand(1000, 8, cores=2), supply, fits=True)
    assert found.first == pytest.approx(0.2)
    assert found.later == pytest.approx(0.2)
    assert found.bound == "decode"


def test_a_worker_reads_and_decodes_in_turn() -> None:
    # A worker reads for 10 ms and decodes for 10 ms, which makes 50 samples/s.
    found = forecast(demand(400, 4), Supply(alone=100, together=400, decode_s=0.01), fits=False)
    assert found.samples_per_s == pytest.approx(200)
    assert found.first == pytest.approx(0.5)


@pytest.mark.parametrize(("decode_s", "bound"), [(0.1, "decode"), (0.0001, "storage")])
def test_the_longer_part_of_a_workers_turn_is_the_limit(decode_s: float, bound: str) -> None:
    found = forecast(demand(100_000, 4), Supply(alone=1000, together=4000, decode_s=decode_s), fits=False)
    assert found.bound == bound


def test_without_workers_the_gpu_waits_for_each_sample() -> None:
    found = forecast(demand(100, 0), Supply(alone=50, together=50, memory_s=0.0001), fits=True)
    assert found.first == pytest.approx(0.01 / 0.03)
    assert found.later == pytest.approx(0.01 / 0.0101)
    assert found.bound == "storage"


def test_files_in_memory_cost_the_time_of_reading_memory() -> None:
    half = forecast(demand(400, 8), Supply(60, 100, cached=0.5, memory_s=0.0001), fits=None)
    assert half.first == pytest.approx(1 / (0.5 / 100 + 0.5 * 0.0001) / 400)
    assert (half.bound, half.cached) == ("storage", 0.5)
    all_of_it = forecast(demand(400, 8), Supply(60, 100, cached=1.0, memory_s=0.0001), fits=True)
    assert (all_of_it.first, all_of_it.bound, all_of_it.samples_per_s) == (1.0, "gpu", pytest.approx(10_000))
    too_much = forecast(demand(40_000, 8), Supply(60, 100, cached=1.0, memory_s=0.0001), fits=True)
    assert (too_much.first, too_much.later, too_much.bound) == (pytest.approx(0.25), pytest.approx(0.25), "memory")


@pytest.mark.parametrize("workers", [0, 1, 4, 256])
@pytest.mark.parametrize("cached", [0.0, 0.001, 0.5, 0.75, 0.9997, 0.999999999, 1.0])
@pytest.mark.parametrize("memory_s", [0.0001, None])
def test_a_forecast_is_at_most_what_was_measured(workers: int, cached: float, memory_s: float | None) -> None:
    for wanted in (1.0, 200.0, 1e6):
        found = forecast(demand(wanted, workers), Supply(60, 100, cached=cached, memory_s=memory_s), fits=True)
        assert found.samples_per_s <= (100.001 if memory_s is None else 10_000.001)
        assert 0 < found.first <= 1.0
        assert found.later is None or found.first <= found.later <= 1.0


def test_without_the_rate_of_memory_the_forecast_of_a_cached_dataset_is_a_lower_limit() -> None:
    unknown = forecast(demand(400, 8), Supply(60, 100, cached=0.75), fits=True)
    assert (unknown.first, unknown.at_least, unknown.later) == (pytest.approx(0.25), True, None)
    assert not forecast(demand(50, 8), Supply(60, 100, cached=0.75), fits=True).at_least
    assert not forecast(demand(400, 8), Supply(60, 100, cached=0.001), fits=True).at_least


@pytest.mark.parametrize("workers", [0, 8])
def test_nothing_counts_as_cached_if_the_dataset_does_not_fit(workers: int) -> None:
    supply = Supply(60, 100, cached=0.5, memory_s=0.0001)
    asked = demand(400, workers)
    cold, half = (forecast(asked, supply._replace(cached=cached), fits=None) for cached in (0.0, 0.5))
    assert forecast(asked, supply, fits=False) == cold._replace(at_least=True, most=half.first)
    # If all of it is cached, nothing is read that could push it out. If the GPU is always busy, the forecast is exact.
    assert not forecast(asked, supply._replace(cached=1.0), fits=False).at_least
    assert not forecast(asked, supply._replace(cached=0.0), fits=False).at_least
    busy = forecast(demand(50, 8), supply, fits=False)
    assert (busy.first, busy.at_least, busy.most) == (1.0, False, None)


def test_whether_a_partly_scanned_dataset_fits_is_unknown_unless_it_is_too_large_already() -> None:
    whole = Dataset(10, 100 * MB, complete=True)
    part = whole._replace(complete=False)
    assert whole.fits(200 * MB) is True
    assert part.fits(200 * MB) is None
    assert part.fits(50 * MB) is False
    assert whole.fits(None) is None


def test_without_files_the_mean_is_zero_and_the_share_is_unknown() -> None:
    assert Dataset(0, 0, complete=True).mean_bytes == 0.0
    assert Dataset(0, 0, complete=True).resident_ratio is None
