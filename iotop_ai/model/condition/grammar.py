"""Parses a condition: clauses joined by ``and``, each of which compares a figure or names a finding.

data_wait > 10 %
gpus.*.temperature_celsius > 85 for 30s
disks.nvme*.r_await > 5 ms for 1m and data_disk > 20 %
finding failing_disk
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.condition.figures import Figure, figure_of, matches
from iotop_ai.model.errors import UsageError
from iotop_ai.model.parse import parse_duration_s
from iotop_ai.model.verdict_class import CLASS_SPECS, State

LONGEST = 500
"""The greatest length of a condition, in characters."""
_AND = pattern(r"\s+and\s+")
_FINDING = pattern(r"finding\s+([\w*?]+)(?:\s+for\s+(\S+))?")
_COMPARISON = pattern(
    r"([^\s<>=]+)\s*(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(%|/?[A-Za-zµ][A-Za-z/]*)?(?:\s+for\s+(\S+))?"
)
_HELP = "write FIGURE > NUMBER or finding CLASS; add 'for 30s' to require a duration; see docs/conditions.md"
_BINARY = {letter: 1024**power for power, letter in enumerate("kmgt", 1)}
_BITS = pattern("[KMGT]b(/s)?")
"""Matches units of bits, which no figure has."""
_TIMES = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""The seconds in each unit of time that a condition may contain."""
_UNIT_ALIASES = {"c": "celsius", "celsius": "celsius", "w": "W", "mhz": "MHz", "/s": "1/s", "rpm": "1/min"}
_IN_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
"""The seconds in each unit of time that a figure may have."""


class Clause(NamedTuple):
    """One comparison of a figure, or one finding.

    figure: the figure to compare; None if the clause names a finding
    value: the number to compare with, in the figure's unit
    finding: a pattern for the finding's class or state, which may contain ``*`` and ``?``
    hold_s: the seconds for which the clause must hold; 0 without "for"
    """

    text: str
    figure: Figure | None
    operator: str = ""
    value: float = 0.0
    finding: str = ""
    hold_s: float = 0.0

    def met_by(self, value: float) -> bool:
        """Whether a value of the figure makes the comparison true."""
        if self.operator == ">":
            return value > self.value
        if self.operator == ">=":
            return value >= self.value
        return value < self.value if self.operator == "<" else value <= self.value

    def names(self, class_id: str, state: str) -> bool:
        """Whether the clause's pattern matches this class or this state of a finding."""
        return matches(self.finding, class_id) or matches(self.finding, state)


class Condition(NamedTuple):
    """A list of clauses that must all be met."""

    text: str
    clauses: tuple[Clause, ...]


def parse_condition(text: str, extra: Mapping[str, str] | None = None) -> Condition:
    """The condition that a text states. Raises UsageError if the text is not a condition.

    extra: the units of further figures that the caller defines, by name
    """
    typed = " ".join(text.split())
    if not typed or len(typed) > LONGEST:
        raise UsageError(f"not a condition: {_HELP}")
    return Condition(typed, tuple(_clause(part, extra) for part in _AND.split(typed)))


def _clause(text: str, extra: Mapping[str, str] | None) -> Clause:
    named = _FINDING.fullmatch(text)
    if named is not None:
        clause = Clause(text, None, finding=named[1], hold_s=_hold_s(named[2]))
        states = {state.value for state in State}
        if not any(clause.names(name, name) for name in (*CLASS_SPECS, *states)):
            raise UsageError(f"unknown finding {named[1]!r}; docs/rules.md lists the classes")
        return clause
    compared = _COMPARISON.fullmatch(text)
    if compared is None:
        raise UsageError(f"not a condition: {text!r}: {_HELP}")
    name, operator, number, unit, hold = compared.groups()
    figure = figure_of(name, extra)
    return Clause(text, figure, operator, _in_unit(text, float(number), unit or "", figure), "", _hold_s(hold))


def _hold_s(text: str | None) -> float:
    return 0.0 if text is None else parse_duration_s(text)


def _in_unit(text: str, number: float, unit: str, figure: Figure) -> float:
    """Convert a number to the figure's unit; without ``unit``, the number is in that unit already.

    Raises UsageError if ``unit`` measures something else, if the number is not finite, or for a share above 1 without
    "%".
    """
    figure_unit, lower = figure.unit, unit.lower()
    if not math.isfinite(number):
        raise UsageError(f"{text!r}: not a number")
    if not unit:
        if figure_unit == "ratio" and abs(number) > 1:
            raise UsageError(f"{text!r}: a share is at most 1; write {number:g} %")
        return number
    if unit == "%":
        if figure_unit not in ("ratio", "%"):
            raise UsageError(f"{text!r}: {figure.text} is not a share; its unit is {figure_unit}")
        return number / 100 if figure_unit == "ratio" else number
    if figure_unit in _IN_SECONDS and lower in _TIMES and unit != "M":  # M means bytes
        return number * _TIMES[lower] / _IN_SECONDS[figure_unit]
    if figure_unit in ("B", "B/s") and _BITS.fullmatch(unit):
        raise UsageError(f"{text!r}: {unit} means bits; {figure.text} is in bytes: write {unit[0]}B{unit[2:]}")
    if figure_unit in ("B", "B/s") and (factor := _bytes(lower, figure_unit)) is not None:
        return number * factor
    if figure_unit in (unit, _UNIT_ALIASES.get(lower)):
        return number
    if figure_unit == "MHz" and lower == "ghz":
        return number * 1000
    raise UsageError(f"{text!r}: {figure.text} is not measured in {unit}; its unit is {figure_unit}")


def _bytes(unit: str, figure_unit: str) -> float | None:
    """The number of bytes in "mb", "mib/s" or "g", with powers of 1,024 as in iostat -m; None for any other unit."""
    size, _, per = unit.partition("/")
    if per and (per != "s" or figure_unit != "B/s"):
        return None
    letter = size.removesuffix("b").removesuffix("i")
    return 1.0 if size == "b" else _BINARY.get(letter)
