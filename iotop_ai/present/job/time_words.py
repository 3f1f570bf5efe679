"""The shares of a job's time in words and figures: "data: disk 52 %"."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import SHARES, TimeShares
from iotop_ai.present.job.current import current_job
from iotop_ai.present.text.units import percent

NOT_RECORDED = "not recorded"
_TENTHS = 1000
"""The number of tenths of a percent in a whole."""
_NAMES = {
    "data_disk": "data: disk",
    "data_network": "data: network",
    "data_cpu": "data: CPU",
    "data_other": "data: other",
}
"""The words for the shares whose own names are not words."""


class Part(NamedTuple):
    """One share of a job's time. value: the ratio, 0..1. figure: the ratio in percent, "<1" if it rounds to 0."""

    share: str
    value: float
    figure: str

    @property
    def name(self) -> str:
        """The share in words: "data: disk"."""
        return _NAMES.get(self.share, self.share)

    @property
    def short_name(self) -> str:
        """The share in words, for use within a sentence: "data disk"."""
        return self.name.replace(":", "")


def parts_of(values: Sequence[float]) -> tuple[Part, ...]:
    """The shares above 0 as parts of their total, the largest first. values: all shares in the order of SHARES, in any
    unit.

    Each figure is rounded by itself, so the figures agree with the verdict's sentence but may not add up to 100.
    """
    total = sum(values)
    order = sorted((i for i, value in enumerate(values) if value > 0), key=lambda i: (-values[i], i))
    return tuple(Part(SHARES[i], values[i] / total, percent(values[i] / total)) for i in order)


def parts_for_table(values: Sequence[float]) -> tuple[Part, ...]:
    """As ``parts_of``, but with one decimal and rounded so that all figures add up to 100; "<0.1" counts as 0."""
    parts = parts_of(values)
    exact = [part.value * _TENTHS for part in parts]
    tenths = [int(value) for value in exact]
    for i in sorted(range(len(exact)), key=lambda i: tenths[i] - exact[i])[: _TENTHS - sum(tenths) if parts else 0]:
        tenths[i] += 1
    return tuple(part._replace(figure=f"{n / 10:.1f}" if n else "<0.1") for part, n in zip(parts, tenths, strict=True))


def time_is_counted(frame: Frame) -> bool:
    """Whether the time of the verdict's job is counted."""
    job, table = current_job(frame), frame.snapshot.jobs.value
    return job is not None and table is not None and job.key in table.times


def window_shares(frame: Frame) -> TimeShares | None:
    """The shares of the verdict's job during the verdict's window; None without a job, or if nothing was counted."""
    job = current_job(frame)
    # The first frame has no interval yet, so it does not need the import.
    if job is None or not any(s.jobs.value is not None and job.key in s.jobs.value.times for s in frame.history):
        return None
    from iotop_ai.diagnosis.facts.time_window import shares_over

    return shares_over(frame.history, frame.snapshot.at_ns, job.key)


def time_sentence(frame: Frame) -> str:
    """The shares during the verdict's window, without those that round to 0 %: "data disk 52 %, compute 41 %,
    unexplained 7 %"; "" when unknown.
    """
    shares = window_shares(frame)
    parts = () if shares is None else parts_of(shares[:-1])  # without whole_ms
    return ", ".join(f"{part.short_name} {part.figure} %" for part in parts if part.figure != "<1")
