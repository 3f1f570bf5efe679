"""What the storage gives and what limits it, in words, for a check that does not know a training run's need."""

from __future__ import annotations

from iotop_ai.model.preflight.dataset import DATASET
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import FILES, KIB, MIB, RANDOM, SEQUENTIAL, Measured, fastest_read, most_files
from iotop_ai.present.preflight.dataset import speed
from iotop_ai.present.text.units import amount, count

_FEW_READS = 4
"""The most reads in flight for samples of 4 KiB if no small files were read."""
_BANDWIDTH_RATIO = 0.7
"""Files that are read at this share of the fastest sequential read, or more, are limited by the bandwidth."""
_SCALING_RATIO = 1.5
"""If several readers read this many times as many files as one, the limit of the storage is not reached."""


def supply_text(report: Report) -> list[str]:
    """What the storage gives, its limit, the samples per second that it feeds, and the option for a run's need.

    [] if the need is known, or without the figures.
    """
    fastest = fastest_read(report.results)
    if report.demand is not None or report.hung_s or report.failed or fastest is None:
        return []
    files = [one for one in report.results if one.name == FILES]
    fed = [f"{count(rate)} of {amount(size)}" for size, rate in sorted(_fed(report, files, fastest).items())]
    samples = " or ".join(filter(None, [", ".join(fed[:-1]), fed[-1]]))
    reads = [one.bytes_per_s or 0.0 for one in report.results if one.name in (SEQUENTIAL, RANDOM, FILES)]
    out = [f"this storage gives at most {speed(max(reads))}"]
    if limit := _limit(report, files, fastest):
        out[0] += f"; what limits files of {amount(files[-1].block_bytes)}: {limit}"
    out.append(f"samples/s that it feeds, before decoding: {samples}")
    if any(one.name == DATASET for one in report.results):
        out.append(f"of the dataset's own files: {count(most_files(report.results, report.dataset))}/s")
    if not report.thresholds:
        size = "" if report.dataset is not None else " --sample-size 128k (or --dataset)"
        out.append(f"to compare it with a training run: --samples-per-s RATE{size}")
    return out


def _fed(report: Report, files: list[Measured], fastest: float) -> dict[int, float]:
    """The samples per second by the size of a sample in bytes."""
    readers = files[-1].depth if files else _FEW_READS
    small = [one for one in report.results if one.name == RANDOM and one.block_bytes == 4 * KIB]
    rates = [rate for one in small if one.depth <= readers and (rate := one.ops_per_s) is not None]
    out = {4 * KIB: max(rates)} if rates else {}
    out[MIB] = fastest / MIB
    rates = [rate for one in files if (rate := one.ops_per_s) is not None]
    return {**out, files[-1].block_bytes: max(rates)} if rates else out


def _limit(report: Report, files: list[Measured], fastest: float) -> str:
    """What limits the reading of small files; "" if it was not measured with one reader and with several."""
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
