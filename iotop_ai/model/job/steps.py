"""The steps and the waits for data that training processes report.

Source: the messages that ``iotop_ai.train`` sends to a monitor. All counts are totals since the process began to
report, so a lost message does not lose any count. The names and meanings of the loader's settings are those of
torch/utils/data/dataloader.py, class DataLoader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, quotient
from iotop_ai.model.metric import Metric
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Rated, Reading

MOST_COUNT = 2**62
MOST_RANK = 10**6
"""The largest count, and the largest rank, world size or setting of a loader, that a message may contain."""


class LoaderSettings(NamedTuple):
    """The settings of a DataLoader; None for a setting that is not reported.

    workers: num_workers. prefetch: prefetch_factor, the batches that each worker prepares ahead. pinned: pin_memory.
    persistent: persistent_workers.
    """

    workers: int | None = None
    prefetch: int | None = None
    pinned: bool | None = None
    persistent: bool | None = None


def settings_of(value: Any) -> LoaderSettings | None:
    """The settings in a message from another process; None without any valid one."""
    if not isinstance(value, Mapping):
        return None
    settings = LoaderSettings(
        _whole_number(value, "num_workers", MOST_RANK),
        _whole_number(value, "prefetch_factor", MOST_RANK),
        _flag(value.get("pin_memory")),
        _flag(value.get("persistent_workers")),
    )
    return None if settings == LoaderSettings() else settings


class StepCounts(NamedTuple):
    """The totals of one process.

    at_ns: the monotonic time of the totals
    steps: the finished training steps; None before the process counts any
    batches: the batches that the training loop fetched
    data_ns: how long the training loop waited for these batches; None if the loop cannot separate the wait from the
        step
    rank, local_rank, world_size: as in distributed training; None without it
    loader: the settings of the DataLoader that gives the batches; None for another loader
    """

    at_ns: int
    steps: int | None
    batches: int
    data_ns: int | None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    loader: LoaderSettings | None = None

    @property
    def progress(self) -> int:
        """The number of steps or, if the process does not count steps, of batches."""
        return self.batches if self.steps is None else self.steps


class StepRates(NamedTuple):
    """The counts and rates of one process between two of its messages, ``span_ns`` apart.

    steps: the finished steps or, if the process does not count steps, the batches
    """

    steps: int | None
    data_ns: int | None
    span_ns: int | None
    rank: int | None
    steps_per_s: Annotated[
        float | None,
        Metric("1/s", "Training steps per second; batches if the process does not count steps."),
    ]
    data_wait_ms: Annotated[float | None, Metric("ms", "Mean wait of a step for its data, as the process measures it.")]
    data_wait_ratio: Annotated[
        float | None,
        Metric("ratio", "Share of time in which the training loop waits for data, as the process measures it."),
    ]


UNKNOWN_RATES = StepRates(None, None, None, None, None, None, None)
StepTable = Mapping[ProcessKey, StepCounts]


def step_rates(before: StepCounts | None, after: StepCounts) -> StepRates:
    """The rates between two messages of one process; unknown without an earlier message, and for a count that fell.

    All rates are unknown if only one of the messages counts steps.
    """
    if before is None or after.at_ns <= before.at_ns or (before.steps is None) != (after.steps is None):
        return UNKNOWN_RATES._replace(rank=after.rank)
    span_ns = after.at_ns - before.at_ns
    steps = delta(before.progress, after.progress)
    data_ns = delta(before.data_ns, after.data_ns)
    return rates_of(steps, data_ns, span_ns, after.rank)


def rates_of(steps: int | None, data_ns: int | None, span_ns: int, rank: int | None) -> StepRates:
    """The rates if the counts grew by ``steps`` and ``data_ns`` within ``span_ns``."""
    share = None if data_ns is None else min(1.0, data_ns / span_ns)
    wait_ms = None if data_ns is None else quotient(data_ns / 1e6, steps)
    return StepRates(steps, data_ns, span_ns, rank, None if steps is None else steps * 1e9 / span_ns, wait_ms, share)


def rated_steps(
    before: Reading[StepTable] | None, after: Reading[StepTable], last: Rated[Mapping[ProcessKey, StepRates]] | None
) -> Rated[Mapping[ProcessKey, StepRates]]:
    """The rates of each process between its last two messages; without a new message, the previous rates."""
    if after.value is None:
        return Rated(None, after.at_ns)
    # A late message, for example of a second rank, changes the table but not its newest time.
    same_table = before is not None and before.at_ns == after.at_ns and before.value == after.value
    if same_table and last is not None and last.value is not None:
        return last._replace(renewed=False) if last.renewed else last
    old = {} if before is None or before.value is None else before.value
    kept = {} if last is None or last.value is None else last.value
    rates = {}
    for key, counts in after.value.items():
        earlier = old.get(key)
        same = earlier is not None and earlier.at_ns == counts.at_ns and key in kept
        rates[key] = kept[key] if same else step_rates(earlier, counts)
    seconds = None
    if before is not None and before.at_ns is not None and after.at_ns is not None and after.at_ns > before.at_ns:
        seconds = (after.at_ns - before.at_ns) / 1e9
    return Rated(rates, after.at_ns, seconds, renewed=True)


def step_counts_of(message: Mapping[str, Any], now_ns: int, oldest_ns: int) -> StepCounts | None:
    """The counts in a message from another process; None if its time or its batches are missing or invalid.

    Any other count that is missing or invalid is None. A time outside ``oldest_ns`` to ``now_ns`` comes from another
    clock and is replaced by ``now_ns``.
    """
    at_ns, batches = _whole_number(message, "at_ns", MOST_COUNT), _whole_number(message, "batches", MOST_COUNT)
    if at_ns is None or batches is None:
        return None
    return StepCounts(
        at_ns if oldest_ns <= at_ns <= now_ns else now_ns,
        _whole_number(message, "steps", MOST_COUNT),
        batches,
        _whole_number(message, "data_ns", MOST_COUNT),
        _whole_number(message, "rank", MOST_RANK),
        _whole_number(message, "local_rank", MOST_RANK),
        _whole_number(message, "world_size", MOST_RANK),
        settings_of(message.get("loader")),
    )


def _whole_number(message: Mapping[str, Any], name: str, most: int) -> int | None:
    """The whole number called ``name``, from 0 to ``most``; None for any other value."""
    value = message.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
