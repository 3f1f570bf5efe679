"""Decides from a sequence of Frames when a rule fires.

A rule fires when its condition becomes true. It is resolved when the condition, without its "for", has been false for
``clear_s`` without a break, so that a condition that changes often fires once. Until it is resolved, each further
object that meets the first clause is reported once. Objects that are reported in the same Frame share a message. A
resolved rule fires again only if at least ``cooldown_s`` have passed since it last began to fire. While the condition
is unknown, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from iotop_ai.model.condition.grammar import Condition, parse_condition
from iotop_ai.model.condition.over_run import ConditionResult
from iotop_ai.model.condition.watch import ClauseResult, ConditionWatch, all_clauses_met, identity_of
from iotop_ai.model.finding import Severity
from iotop_ai.model.frame import Frame
from iotop_ai.present.verdict.condition_words import measurements_text, outcome_text, value_text

CLEAR_S, COOLDOWN_S = 60.0, 600.0
"""The defaults of ``clear_after`` and ``cooldown``, in seconds."""
MOST_NAMED = 10
"""The maximum number of objects that a message names."""
FIRING, RESOLVED, TEST = "firing", "resolved", "test"


class Rule(NamedTuple):
    """One rule.

    deliver: the names of its deliveries; () for all. resolved: whether the end of an alert is delivered too.
    """

    name: str
    when: Condition
    severity: Severity = Severity.WARNING
    enabled: bool = True
    clear_s: float = CLEAR_S
    cooldown_s: float = COOLDOWN_S
    deliver: tuple[str, ...] = ()
    resolved: bool = False


def _default(name: str, when: str, severity: Severity = Severity.WARNING) -> Rule:
    return Rule(name, parse_condition(when), severity, enabled=False)


def default_rules() -> tuple[Rule, ...]:
    """Return the predefined rules, which a file enables by name."""
    return (
        _default("gpu_hot", "gpus.*.temperature_celsius >= 85 for 30s"),
        _default("failing_disk", "finding failing_disk", Severity.CRITICAL),
        _default("data_wait", "jobs.*.data_wait >= 20% for 2m"),
        _default("disk_busy", "disks.*.busy_ratio >= 98% for 10m"),
    )


class Alert(NamedTuple):
    """One message about a rule.

    state: FIRING, RESOLVED or TEST. when: the text of the rule's condition. text: one line with the figures.
    measurements: the figures alone, as text. subject, value, unit: the object and the figure of the condition's first
    clause; subject is "" and value None at the end of an alert about several objects. verdict: its state and the class
    of its primary finding; "" for a test message. deliver: as in Rule. each: one message for each object, if this
    message is about several objects.
    """

    rule: str
    state: str
    severity: str
    when: str
    text: str
    subject: str
    value: float | None
    unit: str
    host: str
    verdict: str
    wall_ns: int
    deliver: tuple[str, ...] = ()
    measurements: str = ""
    each: tuple[Alert, ...] = ()

    @property
    def fires(self) -> bool:
        """Whether the message reports that the rule begins to fire, or fires for another object."""
        return self.state == FIRING


class _RuleWatch:
    """The state of one rule from Frame to Frame: whether it fires, and for which objects."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._watch = ConditionWatch(rule.when)
        self._firing = False
        self._reported: dict[str, str] = {}
        """The objects of the first clause reported since the rule began to fire: identity ("" if unknown) by name."""
        self._fired_ns: int | None = None
        """When the rule last began to fire."""
        self._unmet_ns: int | None = None
        """When the condition, without its "for", became false; None while it is true."""

    def add(self, frame: Frame) -> Alert | None:
        """Add a Frame; return the alert that fires or is resolved with it, or None."""
        rule, now_ns = self.rule, frame.snapshot.at_ns
        results = self._watch.add(frame)
        met = all_clauses_met(results)
        if met is None:
            return None
        if met:
            self._unmet_ns = None
            if not self._firing:
                if self._fired_ns is not None and now_ns - self._fired_ns < rule.cooldown_s * 1e9:
                    return None
                self._firing, self._fired_ns = True, now_ns
            names = self._note_reported((results[0].name, *sorted(results[0].meeting_names)), frame)
            return _merge([alert_of(rule, FIRING, self._watch.about(name, results, now_ns), frame) for name in names])
        if self._firing and all(result.met or result.holds for result in results):
            self._unmet_ns = None
            return None
        if self._unmet_ns is None:
            self._unmet_ns = now_ns
        if self._firing and now_ns - self._unmet_ns >= rule.clear_s * 1e9:
            self._firing = False
            reported, self._reported = list(self._reported), {}
            if len(reported) == 1:
                # The receiver uses the subject to find the alert that ends.
                results = self._watch.about(reported[0], results, now_ns)
            ended = alert_of(rule, RESOLVED, results, frame)
            if len(reported) > 1:
                # The object of the result is the one nearest to the limit, which may never have fired.
                ended = ended._replace(subject="", value=None)
            has_names = any(reported)
            return _with_more(ended, f"it fired for {_join_names(reported, MOST_NAMED)}") if has_names else ended
        return None

    def _note_reported(self, names: Iterable[str], frame: Frame) -> list[str]:
        """Note the objects as reported; return those that were not reported before.

        Another disk with the name of a reported disk counts as not reported.
        """
        new = []
        for name in dict.fromkeys(names):
            before, identity = self._reported.get(name), identity_of(self.rule.when.clauses[0], name, frame)
            self._reported[name] = identity or before or ""
            if before is None or (before and identity and before != identity):
                new.append(name)
        return new


def _merge(alerts: Sequence[Alert]) -> Alert | None:
    """Merge messages, each about a single object, into one message; None if ``alerts`` is empty."""
    if len(alerts) < 2:
        return alerts[0] if alerts else None
    others = [alert.subject for alert in alerts[1:]]
    return _with_more(alerts[0], f"also {_join_names(others, MOST_NAMED - 1)}")._replace(each=tuple(alerts))


def _with_more(alert: Alert, more: str) -> Alert:
    return alert._replace(text=f"{alert.text}; {more}", measurements=f"{alert.measurements}; {more}")


def _join_names(names: Sequence[str], most: int) -> str:
    """Return the first ``most`` names, and the number of the others: "sda, sdb and 3 more"."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


class AlertRules:
    """Checks all enabled rules."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._watches = [_RuleWatch(rule) for rule in rules if rule.enabled]

    def add(self, frame: Frame) -> list[tuple[Rule, Alert]]:
        """Add a Frame; return the alerts that fire or are resolved with it."""
        alerts = [(watch.rule, watch.add(frame)) for watch in self._watches]
        return [(rule, alert) for rule, alert in alerts if alert is not None]


def alert_of(rule: Rule, state: str, results: tuple[ClauseResult, ...], frame: Frame) -> Alert:
    """Return the message about a rule that fires or is resolved."""
    if state == RESOLVED:
        # The message about a resolved rule shows the current value, not how long the clause was true.
        results = tuple(result._replace(clause=result.clause._replace(hold_s=0.0)) for result in results)
    first = results[0]
    figure = first.clause.figure
    text = outcome_text(ConditionResult(rule.when, state == FIRING, results))
    if state == FIRING and figure is not None and first.clause.hold_s and first.value is not None:
        text += f", now {value_text(figure, first.value)}"
    return Alert(
        rule.name,
        state,
        rule.severity.value,
        rule.when.text,
        f"{rule.name} {state}: {text}",
        first.name,
        first.value,
        "" if figure is None else figure.unit,
        frame.snapshot.host.name,
        f"{frame.verdict.state.value} {frame.verdict.primary.class_id}",
        frame.snapshot.wall_ns,
        rule.deliver,
        measurements_text(results),
    )
