"""A condition that is evaluated over a whole period, such as a recording.

A clause with "for" is met if it was once true for that long. Several such clauses must have been met at the same time.
Any other clause concerns the whole period: a share covers the job's whole time, a finding counts if it was ever active,
and any other figure is a mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.condition.figures import SHARE_NAMES, Figure, disks_measured, matches, share_value, values
from iotop_ai.model.condition.grammar import Clause, Condition
from iotop_ai.model.condition.watch import ClauseResult, ClauseWatch, all_clauses_met, nearest
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.time_shares import shares_of
from iotop_ai.model.reading import Status
from iotop_ai.model.verdict_totals import VerdictTotals

_DISKS, _GPUS = "disks", "gpus"
_READ_PER_OBJECT = {_GPUS: "gpu", "smart": "smart", "filesystems": "filesystems"}
"""The families in which each object has a separate Reading, with the field of a Snapshot that holds the objects."""


class ConditionResult(NamedTuple):
    """The answer to a condition; ``met`` is None if the answer is unknown."""

    condition: Condition
    met: bool | None
    clauses: tuple[ClauseResult, ...]


class ConditionOverRun:
    """Takes in the Frames of a period. If ``needs_frames`` is false, the totals of the period suffice."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self._watches = {i: ClauseWatch(clause) for i, clause in enumerate(condition.clauses) if clause.hold_s}
        self._best: dict[int, ClauseResult] = {}
        """The best result of each clause with "for": from a time when all such clauses were met together or, if they
        never were, from the time when this clause had been true for longest."""
        self._together = False
        """Whether all clauses with "for" were met in one Frame."""
        self._sums: dict[int, dict[str, tuple[float, float]]] = {
            i: {} for i, clause in enumerate(condition.clauses) if i not in self._watches and _is_mean(clause)
        }
        """For each clause about a mean, by object: the weighted sum of the values, and the sum of the weights."""
        self._failed: dict[int, dict[str, bool]] = {
            i: {}
            for i, clause in enumerate(condition.clauses)
            if clause.figure is not None and clause.figure.family in (*_READ_PER_OBJECT, _DISKS)
        }
        """For each clause, by object: whether all readings failed; for a disk, whether it was never measured."""

    @property
    def needs_frames(self) -> bool:
        """Whether a clause cannot be answered from totals alone."""
        return bool(self._watches or self._sums)

    def add(self, frame: Frame) -> None:
        """Take in the next Frame of the period."""
        self._add_means(frame)
        self._add_failed(frame)
        results = {i: watch.add(frame) for i, watch in self._watches.items()}
        together = bool(results) and all(result.met for result in results.values())
        if self._together and not together:
            return
        for i, result in results.items():
            best = self._best.get(i)
            if best is None or together > self._together or _order(result) > _order(best):
                self._best[i] = result
        self._together = together

    def _add_means(self, frame: Frame) -> None:
        seconds = frame.sample.seconds
        if not self._sums or seconds is None or frame.sample.gap:
            return
        for i, sums in self._sums.items():
            figure = self.condition.clauses[i].figure
            assert figure is not None
            for name, value, weight, renewed in values(figure, frame):
                if renewed and value is not None and weight:
                    total, weights = sums.get(name, (0.0, 0.0))
                    sums[name] = (total + value * weight * seconds, weights + weight * seconds)

    def _add_failed(self, frame: Frame) -> None:
        for i, failed in self._failed.items():
            figure = self.condition.clauses[i].figure
            assert figure is not None
            known = disks_measured(figure, frame) if figure.family == _DISKS else _answered(figure, frame)
            failed.update((name, not answered and failed.get(name, True)) for name, answered in known.items())

    def outcome(self, totals: VerdictTotals, extra: Mapping[str, float | None] | None = None) -> ConditionResult:
        """The answer so far; ``totals`` belong to the same period.

        extra: the values of further figures that the caller defines, by name
        """
        results = []
        for i, clause in enumerate(self.condition.clauses):
            if i in self._watches:
                best = self._best.get(i, ClauseResult(clause))
                never_together = best.met and not self._together and len(self._watches) > 1
                results.append(best._replace(met=False) if never_together else best)
            elif i in self._sums:
                means = {name: total / weight for name, (total, weight) in self._sums[i].items()}
                results.append(_comparison_result(clause, means))
            elif clause.figure is None:
                results.append(_finding_result(clause, totals))
            else:
                results.append(_comparison_result(clause, _shares_in_totals(clause, totals, extra or {})))
        results = [self._or_unknown(i, result) for i, result in enumerate(results)]
        return ConditionResult(self.condition, all_clauses_met(results), tuple(results))

    def _or_unknown(self, i: int, result: ClauseResult) -> ClauseResult:
        """The result; "not met" becomes unknown if an object that may meet the clause was never read."""
        name = next((name for name, failed in self._failed.get(i, {}).items() if failed), None)
        return result if result.met is not False or name is None else ClauseResult(result.clause, name=name)


def _answered(figure: Figure, frame: Frame) -> dict[str, bool]:
    """Whether each object has a value.

    An object without a value is included only if its reading failed and the figure may name the object.
    """
    table = getattr(frame.snapshot, _READ_PER_OBJECT[figure.family]).value or {}
    unused: list[str] = []
    if figure.family == _GPUS:  # a GPU that does not answer has one of the indices that no other GPU has
        used = {reading.value.number for reading in table.values() if reading.value is not None}
        unused = [str(number) for number in range(len(table)) if number not in used]
    return {
        name: reading.value is not None
        for name, reading in table.items()
        if reading.value is not None
        or (reading.status is Status.FAILED and any(matches(figure.name, one) for one in unused or [name]))
    }


def _is_mean(clause: Clause) -> bool:
    return clause.figure is not None and clause.figure.family not in ("", "jobs")


def _order(result: ClauseResult) -> tuple[bool, bool, float]:
    """A sort key: an unknown result first, then one that is not met, then one that is met, by the time it held."""
    return result.met is not None, bool(result.met), result.held_s


def _comparison_result(clause: Clause, known: Mapping[str, float]) -> ClauseResult:
    if not known:
        return ClauseResult(clause)
    name, value = nearest(clause, known.items())
    return ClauseResult(clause, value is not None and clause.met_by(value), name, value)


def _shares_in_totals(clause: Clause, totals: VerdictTotals, extra: Mapping[str, float | None]) -> dict[str, float]:
    """The share that a clause names over the whole period, by pid of the job; "" stands for the verdict's job.

    A figure in ``extra`` has the name "" too.
    """
    figure = clause.figure
    assert figure is not None
    if not figure.family:
        if figure.field not in SHARE_NAMES:
            value = extra.get(figure.field)
            return {} if value is None else {"": value}
        shares = shares_of(totals.verdict_job_time)
        return {} if shares is None else {"": share_value(figure.field, shares)}
    out = {}
    for job in totals.jobs:
        shares = shares_of(job.counts)
        if shares is not None and (matches(figure.name, str(job.key.pid)) or matches(figure.name, job.name)):
            out[str(job.key.pid)] = share_value(figure.field, shares)
    return out


def _finding_result(clause: Clause, totals: VerdictTotals) -> ClauseResult:
    """The result of a clause about a finding, which is met if the finding was ever active.

    The result is unknown if the rules gave no verdict in the whole period.
    """
    named = [t for t in totals.finding_totals if clause.names(t.finding.class_id, t.finding.state.value)]
    if not named:
        return ClauseResult(clause, False if totals.finding_totals else None)
    longest = max(named, key=lambda total: total.active_ns)
    subject = f"{longest.finding.class_id} {longest.finding.subject}".rstrip()
    return ClauseResult(clause, True, subject, None, longest.active_ns / 1e9)
