"""Alerts that are not delivered yet when the monitor ends."""

from __future__ import annotations

import socket
import threading

from iotop_ai.alerts.deliveries.outbox import MOST_WAITING, NotDelivered, Outbox
from iotop_ai.alerts.deliveries.webhook import WebhookDelivery
from iotop_ai.alerts.rules import Alert
from tests.alerts.test_deliveries import alert


class BlockedDelivery:
    """A delivery whose first message waits until ``released`` is set."""

    name, at_most = "blocked", 1000
    per_object = True

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self.sent = 0

    def send(self, alert: Alert, stop: threading.Event) -> None:
        self.begun.set()
        while not self.released.wait(0.02):
            if stop.is_set():
                raise NotDelivered("ended")
        self.sent += 1

    def describe(self) -> str:
        return ""


def full_outbox(blocked: BlockedDelivery, messages: list[str]) -> Outbox:
    """An outbox whose queue is full while its delivery still sends the first message."""
    outbox = Outbox([blocked], messages.append)
    outbox.put(alert())
    assert blocked.begun.wait(30)
    for _ in range(MOST_WAITING):
        outbox.put(alert())
    return outbox


def test_alerts_that_still_wait_when_the_monitor_ends_are_counted() -> None:
    blocked, messages = BlockedDelivery(), list[str]()
    full_outbox(blocked, messages).close(0.2)
    assert messages == ["alert disk is not sent to blocked: ended", "64 alerts are not delivered: the monitor ended"]


def test_a_full_queue_is_delivered_before_the_monitor_ends() -> None:
    blocked, messages = BlockedDelivery(), list[str]()
    outbox = full_outbox(blocked, messages)
    threading.Timer(0.3, blocked.released.set).start()
    outbox.close(60.0)
    assert (blocked.sent, messages) == (MOST_WAITING + 1, [])


def test_each_delivery_that_the_end_of_the_monitor_prevents_is_reported() -> None:
    blocked, messages = BlockedDelivery(), list[str]()
    outbox = Outbox([blocked, WebhookDelivery("faulty", "http://127.0.0.1:9/", "json", 5.0, 12)], messages.append)
    outbox.put(alert())
    outbox.close(0.2)
    assert messages[1:] == ["alert disk is not sent to faulty: the monitor ended"]


def test_an_alert_that_still_waits_for_its_server_when_the_monitor_ends_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        messages: list[str] = []
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/hook"
        outbox = Outbox([WebhookDelivery("silent", url, "json", 60.0, 12), BlockedDelivery()], messages.append)
        outbox.put(alert())
        outbox.close(0.2, 0.2)
    assert messages == [f"alert disk is not sent to {name}: the monitor ended" for name in ("silent", "blocked")]
