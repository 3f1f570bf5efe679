"""Where a job's time goes: counters that together grow by one second per second, and the shares of an interval.

Every moment in which a job is watched belongs to exactly one counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.metric import Metric


class TimeCounts(NamedTuple):
    """Milliseconds since the job was first watched, by share. They never fall while the same monitor watches the job.

    compute: the job's GPUs work; without a GPU, its threads compute
    collective: ranks wait for another rank
    transfer: data is copied from the host at the rate of the link
    data_disk, data_network, data_cpu: the trainer waits for data while the processes or threads that load it wait for a
        disk, wait for the network, or compute
    data_other: the trainer waits for data while the processes or threads that load it do something else, such as wait
        for a lock
    host: the main thread or a backward pass runs on the CPU, the GPUs are idle, and nothing is loaded
    checkpoint: the job waits for its own writes
    startup: the time before the first step
    compile: kernels are compiled
    stopped: the job is stopped by a signal, a debugger or a frozen cgroup
    hung: the job has made no progress for a minute
    unexplained: all other time
    """

    compute: int = 0
    collective: int = 0
    transfer: int = 0
    data_disk: int = 0
    data_network: int = 0
    data_cpu: int = 0
    data_other: int = 0
    host: int = 0
    checkpoint: int = 0
    startup: int = 0
    compile: int = 0
    stopped: int = 0
    hung: int = 0
    unexplained: int = 0

    @property
    def whole_ms(self) -> int:
        """How long the job has been watched, in ms."""
        return sum(self)

    @property
    def lost_ms(self) -> int:
        """How much time was lost for a known reason, in ms."""
        return self.whole_ms - self.compute - self.unexplained


SHARES = TimeCounts._fields
DATA = ("data_disk", "data_network", "data_cpu", "data_other")
"""The names of the shares in which the job waits for data."""
LOST = tuple(name for name in SHARES if name not in ("compute", "unexplained"))
"""The names of the shares in which time is lost for a known reason."""


class TimeShares(NamedTuple):
    """The shares of an interval, 0 to 1, which add up to 1; ``whole_ms`` is the length of the interval."""

    compute: Annotated[float, Metric("ratio", "Share of time in which the job's GPUs, or its own threads, compute.")]
    collective: Annotated[float, Metric("ratio", "Share of time in which ranks wait for another rank.")]
    transfer: Annotated[
        float,
        Metric(
            "ratio",
            "Share of time in which the GPUs idle while copies from the host run at nearly the full rate of the link.",
        ),
    ]
    data_disk: Annotated[
        float,
        Metric(
            "ratio",
            "Share of time in which the job waits for data while the processes or threads that load it "
            "wait for a local disk.",
        ),
    ]
    data_network: Annotated[
        float,
        Metric(
            "ratio",
            "Share of time in which the job waits for data while the processes or threads that load it "
            "wait for the network.",
        ),
    ]
    data_cpu: Annotated[
        float,
        Metric(
            "ratio",
            "Share of time in which the job waits for data while the processes or threads that load it compute.",
        ),
    ]
    data_other: Annotated[
        float,
        Metric(
            "ratio",
            "Share of time in which the job waits for data while the processes or threads that load it "
            "neither compute nor wait for a disk or the network.",
        ),
    ]
    host: Annotated[
        float, Metric("ratio", "Share of time in which the main thread or a backward pass runs and the GPUs idle.")
    ]
    checkpoint: Annotated[float, Metric("ratio", "Share of time in which the job waits for its own writes.")]
    startup: Annotated[float, Metric("ratio", "Share of time before the first step.")]
    compile: Annotated[float, Metric("ratio", "Share of time in which kernels are compiled.")]
    stopped: Annotated[float, Metric("ratio", "Share of time stopped by a signal, a debugger or a frozen cgroup.")]
    hung: Annotated[
        float, Metric("ratio", "Share of time hung, counted once the job has made no progress for a minute.")
    ]
    unexplained: Annotated[float, Metric("ratio", "Share of time that is not explained.")]
    whole_ms: int = 0

    @property
    def data(self) -> float:
        """The share of time in which the job waits for data."""
        return self.data_disk + self.data_network + self.data_cpu + self.data_other

    @property
    def goodput(self) -> float:
        """The share of time in which the job trains."""
        return self.compute


def shares_of(counts: Sequence[int]) -> TimeShares | None:
    """The shares of milliseconds that are given in the order of SHARES; None if all are 0."""
    whole = sum(counts)
    return TimeShares._make((*(count / whole for count in counts), whole)) if whole > 0 else None


def time_shares(before: TimeCounts | None, after: TimeCounts | None) -> TimeShares | None:
    """The shares between two readings; None if a reading is unknown, nothing was counted, or a counter fell."""
    if before is None or after is None:
        return None
    growth_ms = [b - a for a, b in zip(before, after, strict=True)]
    return None if min(growth_ms) < 0 else shares_of(growth_ms)


def mean_shares(parts: Sequence[TimeShares]) -> TimeShares | None:
    """The shares of several intervals together, each weighted by its length; None if all have the length 0."""
    whole = sum(part.whole_ms for part in parts)
    if whole <= 0:
        return None
    sums = [sum(part[i] * part.whole_ms for part in parts) / whole for i in range(len(SHARES))]
    return TimeShares._make((*sums, whole))


def add_time(counts: TimeCounts, shares: Sequence[float], milliseconds: int) -> TimeCounts:
    """The counters after an interval. Milliseconds lost by rounding down go to the largest remainders."""
    exact = [share * milliseconds for share in shares]
    whole = [int(value) for value in exact]
    left = milliseconds - sum(whole)
    for i in sorted(range(len(exact)), key=lambda i: whole[i] - exact[i])[:left]:
        whole[i] += 1
    return TimeCounts(*(a + b for a, b in zip(counts, whole, strict=True)))
