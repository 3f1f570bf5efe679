"""The forecast of a storage check: compares the measured rates with the rate that the training needs."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.preflight.dataset import DATASET, Dataset, Demand, Supply, forecast
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import CACHED, FILES, STAT, Measured, files_per_s


def with_forecast(report: Report, samples_per_s: float, workers: int, sample_bytes: int | None, cores: float) -> Report:
    """Return the report with demand and forecast. The forecast is missing if reads that it needs were not measured.

    samples_per_s, workers, cores: as in Demand. sample_bytes: the size of one sample; None if each file is a sample.
    """
    dataset = report.dataset
    size = float(sample_bytes or (dataset.mean_bytes if dataset is not None else 0.0))
    demand = Demand(samples_per_s, workers, size, cores)
    report = report._replace(demand=demand)
    read_results = [result for result in report.results if result.name == (FILES if dataset is None else DATASET)]
    # The second result has a reader for each worker, or one for each file if there are fewer files.
    used_results = read_results[:1] if workers < 2 else read_results[:2]
    rates = [rate for result in used_results if (rate := _samples_per_s(result, dataset, sample_bytes)) is not None]
    cached = 0.0 if dataset is None else dataset.resident_ratio or 0.0
    fits = None if dataset is None else dataset.fits(report.room_bytes)
    memory_s = _memory_s(report.results, size, opens=not sample_bytes)
    if cached == 1.0 and memory_s is not None:
        rates = [float("inf")]  # nothing is read from the storage, so its rate does not matter
    elif not rates or read_results[0].depth != 1 or len(rates) < min(2, workers):
        return report
    # The time to decode a whole file says nothing about the time to decode a part of it.
    decode_s = 0.0 if sample_bytes else report.decoding.file_s or 0.0
    supply = Supply(rates[0], rates[-1], decode_s, cached, memory_s)
    return report._replace(forecast=forecast(demand, supply, fits))


def _memory_s(results: Sequence[Measured], sample_bytes: float, *, opens: bool) -> float | None:
    """Return the seconds in which a reader reads a sample from the page cache; None if this was not measured.

    opens: whether each sample is a file, which the reader opens first.
    """
    by_name = {result.name: result for result in results if result.name in (CACHED, STAT)}
    bytes_per_s = by_name[CACHED].bytes_per_s if CACHED in by_name else None
    opens_per_s = by_name[STAT].ops_per_s if STAT in by_name and opens else None
    if not bytes_per_s:
        return None
    return sample_bytes / bytes_per_s + (1.0 / opens_per_s if opens_per_s else 0.0)


def _samples_per_s(result: Measured, dataset: Dataset | None, sample_bytes: int | None) -> float | None:
    if sample_bytes and dataset is not None:
        return None if result.bytes_per_s is None else result.bytes_per_s / sample_bytes
    return files_per_s(result, dataset)
