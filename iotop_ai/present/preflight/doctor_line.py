"""A dim row of the live screen with the problems found by ``iotop-ai doctor`` that affect a running job."""

from __future__ import annotations

from collections.abc import Iterable

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.present.screen.keymap import first_key
from iotop_ai.present.screen.view import Problem, View
from iotop_ai.present.text.line import Line, Span, plain, row, spans_cells
from iotop_ai.present.text.panel import panel
from iotop_ai.present.text.phrases import whole_clauses

DISMISS = "doctor.dismiss"
_AREAS = ("container", "limits", "machine")
"""The areas whose failures affect a running job."""
_MACHINE_WARNINGS = ("link", "accounting", "clock")
"""The last words in the names of the warnings that concern every job. Warnings about swap, scheduler and read-ahead
concern only some jobs.
"""


class _Rank(NamedTuple):
    """The sort key of a problem: failures come before warnings; otherwise, doctor's order is kept."""

    warning: bool
    position: int


def problems_of(checks: Iterable[Check]) -> tuple[Problem, ...]:
    """The problems that affect a running job, the worst first: the failures in _AREAS, and the warnings that slow the
    whole machine.

    Warnings that most healthy machines have are left to ``iotop-ai doctor``.
    """
    ranked: list[tuple[_Rank, Problem]] = []
    for position, check in enumerate(checks):
        fails = check.state is State.FAIL and check.area in _AREAS
        slows = check.state is State.WARN and check.area == "machine" and check.name.endswith(_MACHINE_WARNINGS)
        if fails or slows:
            ranked.append((_Rank(slows, position), Problem(check.name, plain(check.text))))
    return tuple(problem for _, problem in sorted(ranked, key=lambda entry: entry[0]))


@panel
def doctor_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The worst problem, the number of others, and the key that dismisses the row; [] if there are no problems."""
    if not view.problems:
        return []
    key = first_key(DISMISS, view.keymap)
    others = len(view.problems) - 1
    right = [Span(f"+{others} ", "dim")] if others else []
    right += [Span(key, "key"), Span(":dismiss ", "dim")] if key else []
    room = width - 9 - spans_cells(right) - 1
    return [row(width, [Span(f" doctor  {whole_clauses(view.problems[0].text, room)}", "dim")], right)]
