"""The outcome of an action, and the rule that every action must be in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from iotop_ai.actions.audit import Audit


class Outcome(NamedTuple):
    """The outcome of an action.

    done: whether the action was taken. text: a sentence about the outcome. remedy: what to do after a refusal; "" for
    none.
    """

    done: bool
    text: str
    remedy: str = ""

    @property
    def full_text(self) -> str:
        """The text and the remedy, in one line."""
        return self.text + (f" ({self.remedy})" if self.remedy else "")


def audited(audit: Audit, action: str, target: str, act: Callable[[], Outcome]) -> Outcome:
    """Log "asked", run ``act``, log its outcome and return it. If "asked" cannot be logged, ``act`` does not run.

    If the outcome cannot be logged, the text of the returned outcome reports this.
    """
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
