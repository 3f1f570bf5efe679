"""The steps that a job's processes report over the verdict's window, compared with the monitor's own measurement."""

from __future__ import annotations

from iotop_ai.diagnosis.facts.time_window import shares_over
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.job.steps import LoaderSettings, StepRates, StepTable, rates_of
from iotop_ai.model.job.time_shares import TimeCounts, time_shares
from iotop_ai.model.process.records import ProcessKey


class JobSteps(NamedTuple):
    """The steps that a job's processes report.

    ranks: the reporting processes with their rates, sorted by rank. seen_ratio: the share of time in which the job
    waits for data, as the monitor measures it from outside; None if it is not counted.
    """

    ranks: tuple[tuple[ProcessKey, StepRates], ...]
    seen_ratio: float | None = None

    @property
    def steps_per_s(self) -> float | None:
        """The steps per second of the slowest rank, because all ranks step together; None when unknown."""
        return min((r.steps_per_s for _, r in self.ranks if r.steps_per_s is not None), default=None)

    @property
    def longest_waiting(self) -> StepRates | None:
        """The rates of the rank that waits longest for its data; None if no rank measures its wait."""
        measured = [rates for _, rates in self.ranks if rates.data_wait_ratio is not None]
        return max(measured, key=lambda rates: rates.data_wait_ratio or 0.0, default=None)

    @property
    def data_wait_ratio(self) -> float | None:
        """The share of time in which the rank in ``longest_waiting`` waits for data, as that rank measures it."""
        return None if self.longest_waiting is None else self.longest_waiting.data_wait_ratio

    @property
    def data_wait_ms(self) -> float | None:
        """The mean wait for data per step, in ms, as the rank in ``longest_waiting`` measures it."""
        return None if self.longest_waiting is None else self.longest_waiting.data_wait_ms

    @property
    def difference(self) -> float | None:
        """``seen_ratio`` minus ``data_wait_ratio``; None if one of them is unknown."""
        if self.seen_ratio is None or self.data_wait_ratio is None:
            return None
        return self.seen_ratio - self.data_wait_ratio


def job_steps(frame: Frame, job: Job) -> JobSteps | None:
    """The steps of a job over the window of the verdict; None if none of its processes reports steps."""
    table = frame.snapshot.steps.value
    members = [key for key in table or () if key in job.members]
    if not table or not members:
        return None
    begin_ns = frame.snapshot.at_ns - int(LIMITS.window_s * 1e9)
    ranks = [
        (key, _mean_rates(_rates_in_window(frame, key, begin_ns, table[key].at_ns), table[key].rank)) for key in members
    ]
    ranks.sort(key=lambda row: (row[1].rank is None, row[1].rank or 0, row[0]))
    seen = shares_over(frame.history, frame.snapshot.at_ns, job.key)
    return JobSteps(tuple(ranks), None if seen is None else seen.data)


def loader_settings(table: StepTable | None, job: Job) -> LoaderSettings:
    """The settings of a job's DataLoader, as its first rank that reports any gives them."""
    reported = (table[rank.key].loader for rank in job.ranks if rank.key in table) if table else ()
    return next((settings for settings in reported if settings is not None), LoaderSettings())


def _rates_in_window(frame: Frame, key: ProcessKey, begin_ns: int, newest_ns: int) -> list[StepRates]:
    """The process's rates between its messages in the window, each once; without messages, the last rates before the
    window.

    A process that has sent no message during the window, nor during twice the time between its last two messages, has
    no rates, because it no longer steps. newest_ns: the time of its newest message.
    """
    parts: list[StepRates] = []
    last: StepRates | None = None
    for sample in frame.history:
        rates = (sample.steps.value or {}).get(key)
        # Rates stay the same object until the next message.
        if rates is not None and rates is not last and sample.at_ns > begin_ns:
            parts.append(rates)
        last = rates or last
    now_ns = frame.snapshot.at_ns
    if parts or last is None or now_ns - newest_ns > max(now_ns - begin_ns, 2 * (last.span_ns or 0)):
        return parts
    return [last]


def _mean_rates(parts: list[StepRates], rank: int | None) -> StepRates:
    """The rates over several intervals together; a figure that is unknown in one of them is unknown."""
    known = [part for part in parts if part.span_ns]
    span_ns = sum(part.span_ns or 0 for part in known)
    if not span_ns:
        return StepRates(None, None, None, rank, None, None, None)
    steps = [part.steps for part in known if part.steps is not None]
    waits = [part.data_ns for part in known if part.data_ns is not None]
    return rates_of(
        sum(steps) if len(steps) == len(known) else None,
        sum(waits) if len(waits) == len(known) else None,
        span_ns,
        rank,
    )


class StepComparison:
    """A job's wait for data by its own measurement and by the monitor's, over all the time in which both are known."""

    def __init__(self) -> None:
        self._begin: dict[ProcessKey, tuple[TimeCounts, int, int]] = {}
        """For each process, at its first message: the time counts of its job, the time of the message in ns, and the
        process's wait for data so far in ns."""
        self._ratios: dict[ProcessKey, tuple[float, float]] = {}
        """For each process, the wait that it measures and the wait that the monitor measures, as shares of time."""

    def add(self, frame: Frame) -> None:
        """Add the newest totals of each reporting process whose job is known."""
        jobs, steps = frame.snapshot.jobs.value, frame.snapshot.steps.value
        if jobs is None or not steps:
            return
        for job in jobs.jobs.values():
            times = jobs.times.get(job.key)
            for key in steps.keys() & job.members if times is not None else ():
                counts = steps[key]
                if counts.data_ns is None or times is None:
                    continue
                began, at_ns, data_ns = self._begin.setdefault(key, (times, counts.at_ns, counts.data_ns))
                shares = time_shares(began, times)
                if shares is not None and counts.at_ns > at_ns and counts.data_ns >= data_ns:
                    measured = min(1.0, (counts.data_ns - data_ns) / (counts.at_ns - at_ns))
                    self._ratios[key] = (measured, shares.data)

    def of(self, job: Job) -> tuple[float, float] | None:
        """(wait that the rank measures, wait that the monitor measures) of the rank that waits longest.

        The waits are shares of time. The result is None if no rank has both measurements.
        """
        return max((self._ratios[key] for key in self._ratios.keys() & job.members), default=None)
