"""The forecast in words."""

from __future__ import annotations

import pytest

from iotop_ai.model.preflight.dataset import Dataset, Decoding, Demand, Supply, forecast
from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.report import Report
from iotop_ai.present.preflight.dataset import dataset_text, forecast_text


@pytest.mark.parametrize(
    ("workers", "cores", "words"),
    [
        (8, 4.0, "decoding on 4 cores gives 400 samples/s"),
        (2, 8.0, "decoding on 2 cores gives 200 samples/s"),
        (0, 8.0, "decoding on 1 core gives 100 samples/s"),
        (4, 0.5, "decoding on 0.5 cores gives 50 samples/s"),
    ],
)
def test_the_cores_that_decode_are_named(workers: int, cores: float, words: str) -> None:
    demand = Demand(1000, workers, 1 << 20, cores)
    found = forecast(demand, Supply(500, 5000, decode_s=0.01, cached=1.0, memory_s=1e-6), fits=False)
    (line, *_) = forecast_text(Report(Place("/data"), 0, demand=demand, forecast=found))
    assert words in line


@pytest.mark.parametrize(
    ("cold", "words"),
    [
        (0, "its files are in memory, so they were read past the page cache"),
        (1, "only 1 sampled file is not in memory, so the others were read past the page cache"),
        (15, "only 15 sampled files are not in memory, so the others were read past the page cache"),
    ],
)
def test_reads_past_the_page_cache_are_reported(cold: int, words: str) -> None:
    dataset = Dataset(40, 40 << 20, complete=True, sampled=40, cold=cold, past=True)
    assert words in dataset_text(Report(Place("/data"), 0, dataset=dataset))


@pytest.mark.parametrize(
    ("decoding", "words"),
    [
        (Decoding(), "expect 50 % of the GPU"),
        (Decoding("Pillow 11.0.0", files=3, failed=1, cpu_s=0.0), "expect 50 % of the GPU"),
        (Decoding(why="decoding took more than 15 s"), "expect at most 50 % of the GPU"),
        (Decoding("Pillow 11.0.0", failed=3), "expect at most 50 % of the GPU"),
    ],
)
def test_without_the_time_of_decoding_the_forecast_is_an_upper_limit(decoding: Decoding, words: str) -> None:
    demand = Demand(1000, 8, 1 << 20, 8.0)
    found = forecast(demand, Supply(500, 500), fits=False)
    (line, *_) = forecast_text(Report(Place("/data"), 0, decoding=decoding, demand=demand, forecast=found))
    assert words in line


@pytest.mark.parametrize(
    ("supply", "words"),
    [
        (Supply(100, 100, memory_s=1 / 400), "this storage gives 100 MB/s: expect 10 % of the GPU"),
        (Supply(100, 100, cached=0.5, memory_s=1 / 400), "storage and memory give 160 MB/s: expect 16 % of the GPU"),
        (Supply(100, 100, cached=1.0, memory_s=1 / 400), "memory gives 400 MB/s: expect 40 % of the GPU"),
        (Supply(100, 100, cached=0.5), "this storage gives 100 MB/s: expect at least 10 % of the GPU"),
    ],
)
def test_the_source_of_the_samples_is_named(supply: Supply, words: str) -> None:
    demand = Demand(1000, 8, 1 << 20, 8.0)
    lines = forecast_text(Report(Place("/data"), 0, demand=demand, forecast=forecast(demand, supply, fits=None)))
    assert lines[0].endswith(words)
    assert ("reading from memory was not measured" in lines[-1]) is ("at least" in words)


def test_a_dataset_that_does_not_fit_has_a_lower_and_an_upper_limit() -> None:
    demand = Demand(1000, 8, 1 << 20, 8.0)
    found = forecast(demand, Supply(100, 100, cached=0.5, memory_s=1 / 400), fits=False)
    line, note = forecast_text(Report(Place("/data"), 0, demand=demand, forecast=found))
    assert line.endswith("this storage gives 100 MB/s: expect at least 10 % of the GPU")
    assert note.startswith(
        "the dataset does not fit into memory: the forecast counts nothing as cached; at most 16 %, "
    )


def test_with_an_upper_and_a_lower_limit_the_forecast_is_unknown() -> None:
    demand = Demand(1000, 8, 1 << 20, 8.0)
    found = forecast(demand, Supply(100, 100, cached=0.5), fits=False)
    decoding = Decoding(why="decoding took more than 15 s")
    (line, *_) = forecast_text(Report(Place("/data"), 0, decoding=decoding, demand=demand, forecast=found))
    assert line.endswith("expect ? % of the GPU")
