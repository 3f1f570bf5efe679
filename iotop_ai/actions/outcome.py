"""What came of an action, and the rule that none is taken which the audit log does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from iotop_ai.actions.audit import Audit


class Outcome(NamedTuple):
    """Whether it was done, in words, and what would mend a refusal."""

    done: bool
    text: str
    remedy: str = ""

    @property
    def told(self) -> str:
        """Both in one line."""
        return self.text + (f" ({self.remedy})" if self.remedy else "")


def audited(audit: Audit, action: str, target: str, act: Callable[[], Outcome]) -> Outcome:
    """Write "asked", act, write what came of it. Where "asked" cannot be written, nothing is done."""
    try:
        audit.write(action, target, "asked")
    except OSError as error:
        return Outcome(False, f"not done: the audit log {audit.path} cannot be written: {error.strerror}")
    outcome = act()
    try:
        audit.write(action, target, outcome.text)
    except OSError as error:
        return outcome._replace(text=f"{outcome.text}; the audit log cannot be written: {error.strerror}")
    return outcome
