"""Alerts in words: the note beside the mode while rules fire, and the message when a rule begins or stops firing."""

from __future__ import annotations

from iotop_ai.model.finding import Severity
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Span, cut

_MOST_NAME_CELLS = 16
_SEVERITIES = tuple(Severity)
_TOKENS = {Severity.CRITICAL: "bad", Severity.WARNING: "warn"}


def firing_spans(view: View) -> list[Span]:
    """The most severe rule that fires, and the number of others: ``ALERT gpu_hot +1``; [] if no rule fires."""
    if not view.firing:
        return []
    worst = max(view.firing, key=lambda alert: _SEVERITIES.index(alert.severity))
    more = f" +{len(view.firing) - 1}" if len(view.firing) > 1 else ""
    return [Span(f"ALERT {cut(worst.rule, _MOST_NAME_CELLS)}{more}  ", _TOKENS.get(worst.severity, "text"))]


def alert_text(rule: str, state: str, figures: str, more: int) -> str:
    """The message beside the keys: "alert: gpu_hot firing, gpus.0.temperature_celsius 91 C". figures: the metrics and
    their values. more: the number of other rules that began or stopped firing.
    """
    return f"alert: {rule} {state}, {figures}" + (f"; {more} more" if more else "")
