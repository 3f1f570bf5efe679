"""The answers that a recorder gives to the training process that started it."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from iotop_ai.model.clean import clean

_TEXTS = ("state", "class", "text", "because", "do")
LONGEST = 4096
"""The maximum number of characters of a text in a verdict."""
_FORM_ERRORS = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""The errors raised by an answer in an unknown form, which a recorder of another version may send. Such an answer
is ignored."""
SHARES = (
    "compute", "collective", "transfer", "data_disk", "data_network", "data_cpu", "data_other", "host", "checkpoint",
    "startup", "compile", "stopped", "hung", "unexplained",
)  # fmt: skip
"""The shares of a job's time (docs/metrics.md, TimeShares). model/job/time_shares.py has them too, but needs a newer
Python."""
DATA = ("data_disk", "data_network", "data_cpu", "data_other")
"""The shares in which the job waits for data."""


class Verdict(NamedTuple):
    """The verdict on the training: whether it is slow, and why. ``str()`` returns one line.

    state: STARVED, BLOCKED, SLOWED, FAILING, WASTED, STARTING, OK, CALM, BUSY or UNSURE.

    class_id: the cause, as named in docs/rules.md. text, because, advice: the sentences of the verdict. lost_ratio: the
    share of time that is lost; None if it is unknown. confidence: from 0 to 1. measuring: whether no rule has a full
    window yet. finding: the whole finding, in the form of ``iotop-ai diagnose --json``.
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
    def of(cls, verdict: Any) -> Verdict | None:
        """Return the verdict from the recorder's object; None if the object holds no verdict."""
        try:
            state, class_id, text, because, advice = (clean(verdict[name], LONGEST) for name in _TEXTS)
            lost, confidence = _number(verdict["lost_ratio"]), float(verdict["confidence"])
            return cls(state, class_id, text, because, advice, lost, confidence, bool(verdict["measuring"]), verdict)
        except _FORM_ERRORS:
            return None

    def __str__(self) -> str:
        parts = [f"{self.state}: {self.text}"]
        parts += [f"because {self.because}"] if self.because else []
        parts += [f"do: {self.advice}"] if self.advice else []
        return "; ".join(parts)


class Breakdown(NamedTuple):
    """The shares of a job's time, as seen from outside the job. ``str()`` returns one line.

    shares: the parts of the time, which add up to 1, by name (docs/metrics.md, TimeShares). seconds: the time for which
    the job was watched. data_wait: the sum of the shares in which the job waits for data. measured_data_wait: the share
    of time in which the training loop waits for data, by its own measurement; None if nothing measures it. difference:
    data_wait minus measured_data_wait, over the time in which both are known (the job is recognised a little after its
    start); None if either is unknown.
    """

    shares: dict[str, float]
    seconds: float
    data_wait: float
    measured_data_wait: float | None
    difference: float | None

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Breakdown | None:
        """Return the breakdown from the recorder's answer; None if the job's time is not counted yet."""
        if not status.get("time"):
            return None
        try:
            shares = {clean(name): float(share) for name, share in status["time"].items()}
            seconds = sum(map(float, (status.get("time_s") or {}).values()))
            measured = status.get("measured") or {}
            measured_wait = _number(measured.get("data_wait_ratio"))
            difference = _number(measured.get("data_difference_ratio"))
            return cls(shares, seconds, sum(shares[name] for name in DATA), measured_wait, difference)
        except _FORM_ERRORS:
            return None

    def __str__(self) -> str:
        largest = sorted(self.shares.items(), key=lambda item: -item[1])
        parts = [f"{name.replace('_', ' ')} {share * 100:.0f} %" for name, share in largest if share >= 0.005]
        if self.measured_data_wait is not None:
            parts.append(f"measured data wait {self.measured_data_wait * 100:.0f} %")
        return ", ".join(parts)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
