"""The shares of a job's time over the most recent seconds; by default over the verdict's window."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.diagnosis.facts.time_window import window_shares
from iotop_ai.diagnosis.facts.window import recent_window
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.job.time_shares import TimeShares
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.sample import Sample


def shares_over(
    history: Sequence[Sample], now_ns: int, key: ProcessKey, seconds: float = LIMITS.window_s
) -> TimeShares | None:
    """The job's time shares over the last ``seconds``; None if its time was not counted."""
    return window_shares(recent_window(history, now_ns, seconds, ("jobs",), LIMITS), key)
