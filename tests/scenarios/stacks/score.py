"""Scores runs: compares the program's verdict with the trainer's true loss, and makes figures of many runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from iotop_ai.model.verdict_class import CLASS_SPECS, LOSING, State
from tests.scenarios.stacks.case import CPU, FINE, MIXED, MIXED_CPU, Cause

Record = Mapping[str, Any]
RIGHT, ACCEPTABLE, WRONG, UNKNOWN = "right", "acceptable", "wrong", "unknown"
LITTLE, SMALL = 0.05, 0.10
"""Below the first share of time lost, a job is healthy; below the second, "healthy" is acceptable too."""
CROWDED = 0.25
"""If other programs take this share of the machine's CPU time, a job that lacks CPU may lack it because of them."""


def true_cause(cause: Cause, truth: Mapping[str, Any]) -> Cause:
    """Return the cause. A job that should be healthy but lost time is taken to have lacked CPU.

    Where reading and decoding are mixed, the half on which the loaders spent more time is the cause.
    """
    halves = truth.get("halves")
    if cause == MIXED and halves and halves["decode"] > halves["read"]:
        return MIXED_CPU
    return CPU if not cause.lost and truth["shares"]["wait"] >= LITTLE else cause


def lost_share(cause: Cause, truth: Mapping[str, Any]) -> float:
    """Return the share of time that the cause cost. For a healthy job it is the share of its waits."""
    return float(truth["shares"][cause.lost or "wait"])


def outcome(cause: Cause, truth: Mapping[str, Any], verdict: str, others: float = 0.0, text: str = "") -> str:
    """Return whether the verdict is right, acceptable, wrong or unknown.

    others: other programs' share of CPU time. text: the verdict's text.
    """
    lost = lost_share(cause, truth)
    if verdict == "unknown":
        return UNKNOWN
    if not cause.lost or lost < LITTLE:
        blamed = (cause.label, *cause.also) if cause.lost else ()
        return RIGHT if verdict in FINE else ACCEPTABLE if verdict in blamed else WRONG
    if verdict == cause.label or (cause.words and verdict in cause.also and cause.words in text):
        return RIGHT
    crowd = ("noisy_neighbour",) if others >= CROWDED and "data_cpu" in cause.parts else ()
    fine = (*cause.also, *crowd, *(FINE if lost < SMALL else ()))
    return ACCEPTABLE if verdict in fine else WRONG


def false_alarm(cause: Cause, truth: Mapping[str, Any], verdict: str) -> bool:
    """Whether the verdict names a problem that does not exist."""
    return lost_share(cause, truth) < LITTLE and outcome(cause, truth, verdict) == WRONG and _state(verdict) in LOSING


def false_ok(cause: Cause, truth: Mapping[str, Any], verdict: str) -> bool:
    """Whether the verdict says that all is well although the job loses time."""
    return lost_share(cause, truth) >= SMALL and _state(verdict) in (State.OK, State.CALM)


def _state(verdict: str) -> State:
    return CLASS_SPECS[verdict].state if verdict in CLASS_SPECS else State.UNSURE


def data_share(account: Mapping[str, float]) -> float:
    """Return the share of time without data in an account."""
    return sum(share for name, share in account.items() if name.startswith("data_"))


def account_outcome(cause: Cause, truth: Mapping[str, Any], account: Mapping[str, float]) -> str:
    """Return whether the largest lost share of the account is right, acceptable, wrong or unknown."""
    named = {name: share for name, share in account.items() if name != "compute"}
    largest = max(named, key=lambda name: named[name])
    if named[largest] < LITTLE:
        largest = ""
    lost = lost_share(cause, truth)
    if largest == "unexplained":
        return UNKNOWN
    if not cause.lost or lost < LITTLE:
        return RIGHT if not largest else ACCEPTABLE if largest in cause.parts else WRONG
    if not largest:
        return ACCEPTABLE if lost < SMALL else WRONG
    return RIGHT if largest == cause.parts[0] else ACCEPTABLE if largest in cause.parts else WRONG


class Scored(NamedTuple):
    """A run and its score. result: the outcome of the verdict.

    account: the outcome of the account's largest lost share; "" without an account.
    """

    record: Record
    cause: Cause
    result: str
    account: str

    @property
    def lost(self) -> float:
        """The share of time that the cause truly cost."""
        return lost_share(self.cause, self.record["truth"])

    @property
    def is_false_alarm(self) -> bool:
        """Whether the verdict is a false alarm."""
        return false_alarm(self.cause, self.record["truth"], self.record["verdict"])

    @property
    def is_false_ok(self) -> bool:
        """Whether the verdict says wrongly that all is well."""
        return false_ok(self.cause, self.record["truth"], self.record["verdict"])


def scored(records: Sequence[Record], causes: Mapping[str, Cause]) -> list[Scored]:
    """Return the score of every run that was made. causes: the cause of each case, by its name."""
    out = []
    for record in records:
        if "verdict" not in record or record["name"] not in causes:
            continue
        truth, account = record["truth"], record["account"]
        cause = true_cause(causes[record["name"]], truth)
        account_result = account_outcome(cause, truth, account) if account else ""
        result = outcome(cause, truth, record["verdict"], record["others"], record.get("text", ""))
        out.append(Scored(record, cause, result, account_result))
    return out


def wilson(hits: int, runs: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share. Source: E. B. Wilson, "Probable inference", JASA 22 (1927)."""
    if not runs:
        return 0.0, 1.0
    share, square = hits / runs, z * z
    middle = share + square / (2 * runs)
    spread = z * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs))
    whole = 1 + square / runs
    return max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)


def rules_of(records: Iterable[Record]) -> str:
    """Return the versions of the rules that judged the runs, such as "version 24" or "versions 20 and 21"."""
    versions = sorted({record["rules"] for record in records})
    return f"version{'s' if len(versions) > 1 else ''} {' and '.join(map(str, versions))}" if versions else "no version"


def errors(runs: Sequence[Scored]) -> list[float]:
    """Return the absolute error of each second's share of data stalls, in ascending order."""
    return sorted(abs(error) for run in runs for error in run.record["errors"])


def account_errors(runs: Sequence[Scored]) -> list[float]:
    """Return the absolute error of the share of data stalls in each run's account, in ascending order."""
    return sorted(
        abs(data_share(run.record["account"]) - run.record["truth"]["shares"]["wait"])
        for run in runs
        if run.record["account"]
    )


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return a quantile of sorted values; None without values."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else None


def median(values: Sequence[float]) -> float | None:
    """Return the median of the values; None without values."""
    return statistics.median(values) if values else None


def count(runs: Sequence[Scored], holds: Callable[[Scored], bool]) -> int:
    """Return the number of runs for which ``holds`` is true."""
    return sum(holds(run) for run in runs)
