"""The answers of a recorder to the training process that started it."""

from __future__ import annotations

from typing import Any, NamedTuple

DATA = ("data_disk", "data_network", "data_cpu", "data_other")


class Verdict(NamedTuple):
    """Why the training is slow. ``str()`` gives one line.

    state: STARVED, BLOCKED, SLOWED, FAILING, WASTED, STARTING, OK, CALM, BUSY, UNSURE. class_id: as in docs/rules.md.
    text, because, advice: its sentences. lost_ratio: share of time lost, None where unknown. confidence: 0..1.
    finding: the whole finding as in ``iotop-ai diagnose --json``.
    """

    state: str
    class_id: str
    text: str
    because: str
    advice: str
    lost_ratio: float | None
    confidence: float
    measuring: bool
    finding: dict[str, Any]

    @classmethod
    def of(cls, found: dict[str, Any] | None) -> Verdict | None:
        """The verdict from the recorder's object; None without one."""
        if not found:
            return None
        return cls(
            found["state"],
            found["class"],
            found["text"],
            found["because"],
            found["do"],
            found["lost_ratio"],
            found["confidence"],
            found["measuring"],
            found,
        )

    def __str__(self) -> str:
        parts = [f"{self.state}: {self.text}"]
        parts += [f"because {self.because}"] if self.because else []
        parts += [f"do: {self.advice}"] if self.advice else []
        return "; ".join(parts)


class Breakdown(NamedTuple):
    """Where the time of a job went, seen from outside. ``str()`` gives one line.

    shares: parts of the time that add up to 1, by name (docs/metrics.md, TimeShares). seconds: how long the job was
    watched. data_wait: the share without data. measured_data_wait: the share in which the training loop itself measured
    that it waits; None where nothing measures it. difference: data_wait less measured_data_wait, over the time in which
    both are known (the job is recognised a little after its start).
    """

    shares: dict[str, float]
    seconds: float
    data_wait: float
    measured_data_wait: float | None
    difference: float | None

    @classmethod
    def of(cls, status: dict[str, Any]) -> Breakdown | None:
        """The breakdown from the recorder's answer; None where the job's time is not counted yet."""
        shares = status.get("time")
        if not shares:
            return None
        measured = status.get("measured") or {}
        return cls(
            shares,
            sum((status.get("time_s") or {}).values()),
            sum(shares[name] for name in DATA),
            measured.get("data_wait_ratio"),
            measured.get("data_difference_ratio"),
        )

    def __str__(self) -> str:
        largest = sorted(self.shares.items(), key=lambda item: -item[1])
        parts = [f"{name.replace('_', ' ')} {share * 100:.0f} %" for name, share in largest if share >= 0.005]
        if self.measured_data_wait is not None:
            parts.append(f"measured data wait {self.measured_data_wait * 100:.0f} %")
        return ", ".join(parts)
