"""Follows a condition from Frame to Frame: whether it is met now, and for how long."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockKey
from iotop_ai.model.condition.figures import disks_measured, values
from iotop_ai.model.condition.grammar import Clause, Condition
from iotop_ai.model.frame import Frame

_OF_DISKS = ("disks", "smart")
"""The families of figures whose objects are disks."""


class ClauseResult(NamedTuple):
    """The result of one clause.

    met: whether the clause is met; None if unknown
    name: the object that meets the clause or, if none does, the object that comes nearest; for a finding, its class and
        subject
    value: the value of that object; None for a finding, and if the value is unknown
    held_s: how long the clause, without its "for", has been true without a break; in a result about a whole recording,
        how long the finding was active
    meeting_names: the names of all objects that meet the clause; empty unless a ClauseWatch made the result
    holds: whether an object meets the clause now, its "for" aside; False unless a ClauseWatch made the result
    why: why the value is unknown, as the words after the figure's name; "" if it was not recorded
    """

    clause: Clause
    met: bool | None = None
    name: str = ""
    value: float | None = None
    held_s: float = 0.0
    meeting_names: tuple[str, ...] = ()
    holds: bool = False
    why: str = ""


def identity_of(clause: Clause, name: str, frame: Frame) -> str:
    """A text that distinguishes a disk from a later disk of the same name; "" if unknown, or if no disk is named.

    For a figure, the result is the diskseq. For a finding, it is the serial number, because a finding may stay active
    when its disk is connected again.
    """
    if clause.figure is None:
        reading = (frame.snapshot.smart.value or {}).get(name.partition(" ")[2])
        return "" if reading is None or reading.value is None else reading.value.serial
    if clause.figure.family not in _OF_DISKS:
        return ""
    return next((str(key.diskseq) for key in frame.snapshot.block.value or () if key.name == name), "")


class ClauseWatch:
    """Follows one clause; a single object must meet the clause for the whole time that "for" requires."""

    def __init__(self, clause: Clause) -> None:
        self.clause = clause
        self._since: dict[str, int] = {}
        """For each object that meets the clause, its "for" aside: the monotonic time in ns since which it does."""
        self._newest: dict[str, float | None] = {}
        """The newest value of each object; None if unknown."""
        self._was_known = False
        """Whether a value has been known in any Frame."""
        self._disks: dict[str, BlockKey] = {}
        """The disks in the newest Frame that lists them, by kernel name."""
        self._serials: dict[str, str] = {}
        """For each active finding that the clause names, the serial number of its disk; "" while unknown."""

    def add(self, frame: Frame) -> ClauseResult:
        """Take in a Frame and return the clause's result.

        The time for which an object meets the clause starts again after a gap, an unknown value, the object's
        disappearance, or another disk with its name. It goes on in Frames that have no new reading of the object. The
        result is unknown if every value is unknown. It is "not met" if values were known and all objects have since
        disappeared.
        """
        now_ns, begin_ns = frame.snapshot.at_ns, frame.snapshot.at_ns
        if frame.sample.gap or frame.sample.seconds is None:
            # This interval is the gap, so the time for which the clause is met starts now.
            self._since.clear()
        else:
            begin_ns -= round(frame.sample.seconds * 1e9)
            if frame.after_gap:
                self._since.clear()
        self._forget_replaced_disks(frame)
        is_known = (
            self._take_findings(frame, begin_ns) if self.clause.figure is None else self._take_values(frame, begin_ns)
        )
        held = {name: (now_ns - since) / 1e9 for name, since in self._since.items()}
        met = {name: seconds for name, seconds in held.items() if seconds >= self.clause.hold_s}
        best = max(met or held, key=lambda name: held[name], default=None)
        if best is not None:
            return ClauseResult(self.clause, bool(met), best, self._newest.get(best), held[best], tuple(met), True)
        return (
            ClauseResult(self.clause, False, *nearest(self.clause, self._newest.items()))
            if is_known
            else ClauseResult(self.clause)
        )

    def about(self, name: str, result: ClauseResult, now_ns: int) -> ClauseResult:
        """The result with the newest value and ``held_s`` of the object ``name``, which may not meet the clause now."""
        held_s = (now_ns - self._since.get(name, now_ns)) / 1e9
        return result._replace(name=name, value=self._newest.get(name), held_s=held_s)

    def _forget_replaced_disks(self, frame: Frame) -> None:
        """Forget how long a disk has met the clause if another disk now has its name."""
        table = frame.snapshot.block.value
        if table is None or self.clause.figure is None or self.clause.figure.family not in _OF_DISKS:
            return
        disks = {key.name: key for key in table}
        for name in [name for name in self._since if self._disks.get(name, disks.get(name)) != disks.get(name)]:
            del self._since[name]
        self._disks = disks

    def _take_findings(self, frame: Frame, begin_ns: int) -> bool:
        """Take in the Frame's findings. Return False while the rules have no full window and so give no verdict."""
        verdict = frame.verdict
        if verdict.unjudged:
            self._since.clear()
            return False
        named = {
            f"{finding.class_id} {finding.subject}".rstrip()
            for finding in verdict.findings
            if self.clause.names(finding.class_id, finding.state.value)
        }
        serials = {name: identity_of(self.clause, name, frame) or self._serials.get(name, "") for name in named}
        for name in named & self._serials.keys():
            if self._serials[name] not in ("", serials[name]):
                self._since.pop(name, None)
        self._since = {name: self._since.get(name, begin_ns) for name in named}
        self._serials = serials
        return True

    def _take_values(self, frame: Frame, begin_ns: int) -> bool:
        """Take in the Frame's values.

        Returns True if a value is known, or if values were known before and all objects have disappeared.
        """
        assert self.clause.figure is not None
        since, self._since, self._newest = self._since, {}, {}
        for name, value, _, renewed in values(self.clause.figure, frame):
            self._newest[name] = value
            if value is None or not self.clause.met_by(value):
                continue
            if name in since or renewed:
                self._since[name] = since.get(name, begin_ns)
        known = any(value is not None for value in self._newest.values())
        if self.clause.figure.family == "disks":  # without a read, r_await is undefined, which is not unknown
            known = known or any(disks_measured(self.clause.figure, frame).values())
        self._was_known |= known
        return known or (self._was_known and not self._newest)


def nearest(clause: Clause, known: Iterable[tuple[str, float | None]]) -> tuple[str, float | None]:
    """The object and value that come nearest to meeting a clause; ("", None) if no value is known."""
    pairs = [(name, value) for name, value in known if value is not None]
    if not pairs:
        return "", None
    return (max if clause.operator.startswith(">") else min)(pairs, key=lambda pair: pair[1])


class ConditionWatch:
    """Follows a condition for alerts. The condition is met while all its clauses are met."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self._clauses = [ClauseWatch(clause) for clause in condition.clauses]

    def add(self, frame: Frame) -> tuple[ClauseResult, ...]:
        """Take in a Frame and return one result per clause."""
        return tuple(clause.add(frame) for clause in self._clauses)

    def about(self, name: str, results: tuple[ClauseResult, ...], now_ns: int) -> tuple[ClauseResult, ...]:
        """The results, the first of them with the newest figures of the object ``name`` (see ``ClauseWatch.about``)."""
        return self._clauses[0].about(name, results[0], now_ns), *results[1:]


def all_clauses_met(results: Iterable[ClauseResult]) -> bool | None:
    """Whether every clause is met: False if one is not met, otherwise None if one is unknown."""
    met = [result.met for result in results]
    return False if False in met else None if None in met else True
