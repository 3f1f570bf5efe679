"""An alert as a JSON object and as one line of text."""

from __future__ import annotations

from datetime import UTC, datetime

from iotop_ai.alerts.rules import Alert


def alert_object(alert: Alert) -> dict[str, object]:
    """Return the alert as a JSON object. Its time is in UTC, to the second."""
    return {
        "time": datetime.fromtimestamp(alert.wall_ns // 10**9, UTC).isoformat().replace("+00:00", "Z"),
        "host": alert.host,
        "rule": alert.rule,
        "state": alert.state,
        "severity": alert.severity,
        "when": alert.when,
        "text": alert.text,
        "subject": alert.subject,
        "value": alert.value,
        "unit": alert.unit,
        "verdict": alert.verdict,
    }


def title(alert: Alert) -> str:
    """Return the alert in one line."""
    verdict = f" ({alert.verdict})" if alert.verdict else ""  # a test message has no verdict
    return f"[{alert.severity}] {alert.host}: {alert.text}{verdict}"
