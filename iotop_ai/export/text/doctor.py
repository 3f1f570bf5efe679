"""A diagnosis of the environment as text: a line for each check, and its remedy if the check is not ok."""

from __future__ import annotations

from collections import Counter

from iotop_ai.export.text.table import UNDEFINED
from iotop_ai.model.preflight.environment.check import Check, State
from iotop_ai.model.preflight.environment.report import Diagnosis, Difference

WORDS = {State.OK: "ok", State.WARN: "warn", State.FAIL: "fail", State.UNKNOWN: "cannot tell"}
_STATE_WIDTH, _NAME_WIDTH = 11, 16


def doctor_text(diagnosis: Diagnosis, quiet: bool = False) -> str:
    """The checks and their totals, without a final newline. quiet: without totals, only the checks that are not ok."""
    checks = [check for check in diagnosis.checks if not (quiet and check.state is State.OK)]
    lines = [line for check in checks for line in _lines(check)]
    return "\n".join(lines if quiet else [*lines, "", totals_text(diagnosis)])


def _lines(check: Check) -> list[str]:
    lines = [f"{WORDS[check.state]:{_STATE_WIDTH}} {check.name:{_NAME_WIDTH}} {check.text}"]
    if check.remedy and check.state is not State.OK:
        lines.append(f"{'':{_STATE_WIDTH}} {'  do':{_NAME_WIDTH}} {check.remedy}")
    return lines


def totals_text(diagnosis: Diagnosis) -> str:
    """The number of checks of each kind, such as "24 ok, 2 warn, 1 fail"; kinds without a check are left out."""
    counts = Counter(check.state for check in diagnosis.checks)
    return ", ".join(f"{counts[state]} {word}" for state, word in WORDS.items() if counts[state])


def differences_text(differences: list[Difference], names: tuple[str, str]) -> str:
    """The titles, then a row for each difference, by section. names: the titles of the two compared files."""
    if not differences:
        return "no difference"
    rows = [
        ("", *names),
        *(
            (f"{difference.section}.{difference.name}", difference.first, difference.second)
            for difference in differences
        ),
    ]
    cells = [tuple(UNDEFINED if cell is None else cell for cell in row) for row in rows]
    widths = [min(60, max(len(row[at]) for row in cells)) for at in (0, 1)]
    return "\n".join(f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}".rstrip() for row in cells)
