"""The storage's supply and its limit in words, for a check without a training run's demand."""

from __future__ import annotations

from iotop_ai.model.preflight.dataset import DATASET
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import (
    FILES,
    KIB,
    MIB,
    RANDOM,
    SEQUENTIAL,
    Measured,
    fastest_read,
    most_files_per_s,
)
from iotop_ai.present.preflight.dataset import speed
from iotop_ai.present.text.units import amount, count

_FEW_READS = 4
"""If no small files were read, samples of 4 KiB are judged by random reads with at most this many in flight."""
_BANDWIDTH_RATIO = 0.7
"""The bandwidth is the limit if files are read at this share of the fastest sequential rate or more."""
_SCALING_RATIO = 1.5
"""If several readers read at least this multiple of the files per second of one reader, the storage is not at its
limit.
"""


def supply_text(report: Report) -> list[str]:
    """The storage's highest rate, its limit, the samples per second that it feeds, and the command-line options for a
    run's demand.

    [] if the demand is known, or if the check has no figures.
    """
    fastest = fastest_read(report.results)
    if report.demand is not None or report.hung_s or report.failed or fastest is None:
        return []
    files = [result for result in report.results if result.name == FILES]
    sample_texts = [
        f"{count(rate)} of {amount(size)}" for size, rate in sorted(_samples_per_s(report, files, fastest).items())
    ]
    samples = " or ".join(filter(None, [", ".join(sample_texts[:-1]), sample_texts[-1]]))
    reads = [result.bytes_per_s or 0.0 for result in report.results if result.name in (SEQUENTIAL, RANDOM, FILES)]
    out = [f"this storage gives at most {speed(max(reads))}"]
    if limit := _limit(report, files, fastest):
        out[0] += f"; what limits files of {amount(files[-1].block_bytes)}: {limit}"
    out.append(f"samples/s that it feeds, before decoding: {samples}")
    if any(result.name == DATASET for result in report.results):
        out.append(f"of the dataset's own files: {count(most_files_per_s(report.results, report.dataset))}/s")
    if not report.thresholds:
        size = "" if report.dataset is not None else " --sample-size 128k (or --dataset)"
        out.append(f"to compare it with a training run: --samples-per-s RATE{size}")
    return out


def _samples_per_s(report: Report, files: list[Measured], fastest: float) -> dict[int, float]:
    """The samples per second that the storage feeds, by the size of a sample in bytes."""
    readers = files[-1].depth if files else _FEW_READS
    small = [result for result in report.results if result.name == RANDOM and result.block_bytes == 4 * KIB]
    rates = [rate for result in small if result.depth <= readers and (rate := result.ops_per_s) is not None]
    out = {4 * KIB: max(rates)} if rates else {}
    out[MIB] = fastest / MIB
    rates = [rate for result in files if (rate := result.ops_per_s) is not None]
    return {**out, files[-1].block_bytes: max(rates)} if rates else out


def _limit(report: Report, files: list[Measured], fastest: float) -> str:
    """The limit on reading small files; "" unless they were read by one reader and by several."""
    if len(files) < 2:
        return ""
    alone, together = files[0], files[-1]
    if report.place.limits:
        return "this process's cgroup"
    if together.cpu_bound:
        return "the CPU, not the storage"
    if (together.bytes_per_s or 0.0) >= _BANDWIDTH_RATIO * fastest:
        return "its bandwidth"
    if (together.ops_per_s or 0.0) >= _SCALING_RATIO * (alone.ops_per_s or 0.0):
        return "the wait for each read; more readers may read more"
    return "its reads per second; more readers do not help"
