"""The mail server that the file of rules names."""

from __future__ import annotations

import smtplib
import threading

import pytest

from iotop_ai.alerts.config import parse_alerts
from iotop_ai.alerts.deliveries.outbox import NotDelivered
from tests.alerts.test_deliveries import alert


@pytest.mark.parametrize(
    ("smtp", "address"),
    [
        ("mail.example.org", ("mail.example.org", 25)),
        ("mail.example.org:587", ("mail.example.org", 587)),
        ("[::1]:587", ("::1", 587)),
        ("[2001:db8::1]", ("2001:db8::1", 25)),
    ],
)
def test_the_server_is_called_by_host_and_port(
    monkeypatch: pytest.MonkeyPatch, smtp: str, address: tuple[str, int]
) -> None:
    called: list[tuple[str, int]] = []

    def refuse(host: str, port: int, timeout: float) -> None:
        called.append((host, port))
        raise ConnectionRefusedError

    monkeypatch.setattr(smtplib, "SMTP", refuse)
    (delivery,) = parse_alerts("alerts.toml", {"deliver": {"one": {"mail": "ops@localhost", "smtp": smtp}}}).deliveries
    with pytest.raises(NotDelivered):
        delivery.send(alert(), threading.Event())
    assert called == [address]
