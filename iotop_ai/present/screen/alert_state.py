"""Alerts in words: the note beside the mode while rules fire, and the message when a rule begins or stops firing."""

from __future__ import annotations

from iotop_ai.model.finding import Severity
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Span, cut

_LONGEST = 16
_ORDER = tuple(Severity)
_TOKENS = {Severity.CRITICAL: "bad", Severity.WARNING: "warn"}


def firing_spans(view: View) -> list[Span]:
    """The most severe rule that fires, and the number of others: ``ALERT gpu_hot +1``; [] if no rule fires."""
    if not view.firing:
        return []
    first = max(view.firing, key=lambda one: _ORDER.index(one.severity))
    more = f" +{len(view.firing) - 1}" if len(view.firing) > 1 else ""
    return [Span(f"ALERT {cut(first.rule, _LONGEST)}{more}  ", _TOKENS.get(first.severity, "text"))]


def alert_text(rule: str, state: str, found: str, more: int) -> str:
    """The message beside the keys: "alert: gpu_hot firing, gpus.0.temperature_celsius 91 C". found: the metric and its
    value. more: the number of other rules that began or stopped firing.
    """
    return f"alert: {rule} {state}, {found}" + (f"; {more} more" if more else "")
