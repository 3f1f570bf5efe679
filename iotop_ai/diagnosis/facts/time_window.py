"""The shares of a job's time over a window of samples."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.diagnosis.facts.window import Window, recent_window
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.job.records import JobPlace
from iotop_ai.model.job.time_shares import DATA, LOST, TimeShares, mean_shares
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.sample import Sample

OTHER_CAUSES = tuple(name for name in LOST if name not in DATA)
"""The lost shares of a job's time that are not waits for data."""


def window_shares(window: Window, key: ProcessKey) -> TimeShares | None:
    """The job's time shares over all samples of the window together; None if no sample counted them."""
    parts = [s.jobs.value.times[key] for s in window.samples if s.jobs.value is not None and key in s.jobs.value.times]
    return mean_shares(parts)


def shares_over(
    history: Sequence[Sample], now_ns: int, key: ProcessKey, seconds: float = LIMITS.window_s
) -> TimeShares | None:
    """The job's time shares over the last ``seconds``, by default over the verdict's window; None if its time was not
    counted."""
    return window_shares(recent_window(history, now_ns, seconds, ("jobs",), LIMITS), key)


def file_waits(window: Window, key: ProcessKey, place: JobPlace) -> float:
    """The share of the window's time in waits for files on the job's network mount; 0 if the job reads from none.

    If the samples do not separate files from sockets, the result is the whole wait for the network.
    """
    if place.remote_mount is None:
        return 0.0
    values = [s.jobs.value for s in window.samples if s.jobs.value is not None and key in s.jobs.value.times]
    whole = sum(rates.times[key].whole_ms for rates in values)
    waits = [rates.file_waits.get(key, rates.times[key].data_network) * rates.times[key].whole_ms for rates in values]
    return sum(waits) / whole if whole else 0.0


def handover(shares: TimeShares, min_own_work: float) -> float:
    """The part of ``shares.host`` that counts as a wait for data, in a job whose loader processes compute.

    next() copies and unpickles batches, and competes with the loaders for a core; from outside this looks like the main
    thread's own work. So a ``host`` below ``min_own_work`` counts as a wait for data, if it is at most twice the
    visible wait.
    """
    return shares.host if shares.host < min_own_work and shares.host <= 2 * shares.data else 0.0


def largest_other(shares: TimeShares) -> float:
    """The largest lost share that is not a wait for data."""
    return max(float(getattr(shares, name)) for name in OTHER_CAUSES)
