"""The GPU-hours of a run and their cost: ``--gpu-hour-price``."""

from __future__ import annotations

import re
from typing import NamedTuple

from iotop_ai.export.report.story import JobStory
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UsageError

_PRICE = re.compile(r"([^\d\s.,+-]{0,4})\s?(\d{1,9}(?:\.\d{1,6})?)\s?([^\d\s.,+-]{0,4})")


class Price(NamedTuple):
    """The price of a GPU-hour. before, after: the currency sign, on the side of the number where the user typed it."""

    value: float
    before: str = ""
    after: str = ""

    def text(self, hours: float) -> str:
        """The cost of GPU-hours, such as "$20.75" or "20.75 EUR"."""
        cost = self.value * hours
        figure = f"{cost:,.2f}" if cost < 99.995 else f"{cost:,.0f}"
        return f"{self.before}{figure}{' ' if self.after else ''}{self.after}"


def parse_price(text: str) -> Price:
    """Parse a price such as "2.50", "$2.50" or "2.50 EUR". Raises UsageError if the text is not a price."""
    match = _PRICE.fullmatch(text.strip())
    if match is None or (match[1] and match[3]):
        raise UsageError(f"{text!r} is not a price; write 2.50, $2.50 or '2.50 EUR'")
    return Price(float(match[2]), clean(match[1]), clean(match[3]))


class GpuTime(NamedTuple):
    """The GPU-hours of all jobs that have a GPU and a known time.

    lost: those lost for a known reason. unexplained: those whose use is unknown.
    """

    used: float
    lost: float
    unexplained: float

    @property
    def lost_ratio(self) -> float:
        """The share of the GPU-hours that was lost for a known reason."""
        return self.lost / self.used if self.used else 0.0


def gpu_time(jobs: tuple[JobStory, ...]) -> GpuTime | None:
    """The GPU-hours of the jobs; None if no job has a GPU and a known time."""
    known = [job for job in jobs if job.gpus and job.has_time]
    if not known:
        return None

    def hours(milliseconds: list[int]) -> float:
        return sum(job.gpu_hours(job_ms) or 0.0 for job, job_ms in zip(known, milliseconds, strict=True))

    return GpuTime(
        hours([job.counts.whole_ms for job in known]),
        hours([job.counts.lost_ms for job in known]),
        hours([job.counts.unexplained for job in known]),
    )
