"""The alerts of the screen, without the app: a hang or a failure while the rules are read delays nothing."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from textual.message import Message

from iotop_ai.alerts.config import AlertConfig
from iotop_ai.alerts.deliveries.webhook import WebhookDelivery
from iotop_ai.alerts.rules import Rule
from iotop_ai.alerts.running import RunningAlerts
from iotop_ai.model.condition.grammar import parse_condition
from iotop_ai.model.errors import UsageError
from iotop_ai.model.finding import Severity
from iotop_ai.present.screen.view import FiringAlert
from iotop_ai.tui.threads.alerts import AlertsChanged, LiveAlerts
from tests.alerts.test_rules import frame_at
from tests.rigs.prometheus import wait_for

RULES = (
    Rule("hot", parse_condition("gpus.0.temperature_celsius > 85"), clear_s=5.0),
    Rule("very_hot", parse_condition("gpus.0.temperature_celsius > 90"), Severity.CRITICAL),
)


class FakeApp:
    """An app that keeps the messages it gets."""

    def __init__(self) -> None:
        self.held: list[AlertsChanged] = []
        self.received = threading.Event()

    def post_message(self, message: Message) -> bool:
        assert isinstance(message, AlertsChanged)
        self.held.append(message)
        self.received.set()
        return True


def alerts_with_rules(app: FakeApp, notes: list[str], *, bell: bool = True) -> LiveAlerts:
    """Alerts whose rules have been read."""
    ready = threading.Event()

    def begin(say: object) -> RunningAlerts:
        ready.set()
        return RunningAlerts(AlertConfig("", RULES, (), bell), lambda kind, text: notes.append(text), print)

    alerts = LiveAlerts(begin, app)
    alerts.start()
    assert ready.wait(10)
    while alerts._running is None:
        ready.wait(0.01)
    return alerts


def test_a_rule_gives_a_message_and_an_event_when_it_fires_and_when_it_ends() -> None:
    app, notes = FakeApp(), list[str]()
    alerts = alerts_with_rules(app, notes)
    for second in range(30):
        alerts.put(frame_at(second, 88.0 if second < 10 else 70.0))
    alerts.close(1.0)
    fired, ended = app.held
    assert (fired.bell, fired.firing) == (True, (FiringAlert("hot", Severity.WARNING),))
    assert fired.answer == "alert: hot firing, gpus.0.temperature_celsius 88 C"
    assert (ended.bell, ended.firing) == (False, ())
    assert ended.answer.startswith("alert: hot resolved")
    assert [note.split(":")[0] for note in notes] == ["warning hot firing", "warning hot resolved"]


def test_two_alerts_at_once_ring_once_and_never_with_the_bell_off() -> None:
    app = FakeApp()
    alerts_with_rules(app, []).put(frame_at(0, 95.0))
    assert [message.bell for message in app.held] == [True]
    assert [one.rule for one in app.held[0].firing] == ["hot", "very_hot"]
    quiet = FakeApp()
    alerts_with_rules(quiet, [], bell=False).put(frame_at(0, 95.0))
    assert [message.bell for message in quiet.held] == [False]


class SlowApp(FakeApp):
    """An app in which the message of a failure waits for another message, for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.fails, self.other = threading.Event(), threading.Event()

    def post_message(self, message: Message) -> bool:
        if isinstance(message, AlertsChanged) and message.answer.startswith("failed"):
            self.fails.set()
            self.other.wait(0.5)
        else:
            self.other.set()
        return super().post_message(message)


def test_the_last_message_has_the_rules_that_fire_although_a_delivery_fails_meanwhile() -> None:
    app = SlowApp()
    alerts = alerts_with_rules(app, [])
    failing = threading.Thread(target=alerts._report_failure, args=("mail: no server",))
    failing.start()
    assert app.fails.wait(10)
    alerts.put(frame_at(0, 88.0))
    failing.join()
    assert [one.answer[:6] for one in app.held] == ["failed", "alert:"]
    assert [one.rule for one in app.held[-1].firing] == ["hot"]


def test_an_alert_that_is_not_sent_when_the_screen_ends_is_kept_for_the_caller() -> None:
    app = FakeApp()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/hook"
        config = AlertConfig("", RULES[:1], (WebhookDelivery("web", url, "json", 60.0, 12),))
        alerts = LiveAlerts(lambda say: RunningAlerts(config, lambda kind, text: None, say), app)
        alerts.start()
        wait_for(lambda: alerts._running is not None, "the rules")
        alerts.put(frame_at(0, 88.0))
        alerts.close(0.2)
    time.sleep(0.1)  # the server's end makes the request fail, which is not a second message
    assert alerts.late_failures == ["alert hot is not sent to web: the monitor ended"]
    assert [message.answer[:6] for message in app.held] == ["alert:"]


def test_rules_whose_reading_hangs_delay_nothing() -> None:
    app, released = FakeApp(), threading.Event()

    def begin(say: object) -> None:
        released.wait(60)

    alerts = LiveAlerts(begin, app)
    alerts.start()
    alerts.put(frame_at(0, 95.0))
    alerts.close(0.1)
    assert app.held == []
    released.set()


def test_an_invalid_file_is_reported() -> None:
    app = FakeApp()

    def begin(say: object) -> None:
        raise UsageError("alerts.toml: not TOML")

    alerts = LiveAlerts(begin, app)
    alerts.start()
    assert app.received.wait(10)
    alerts.put(frame_at(0, 95.0))
    assert [message.answer for message in app.held] == ["failed: alerts are off: alerts.toml: not TOML"]


def test_alerts_whose_thread_cannot_start_are_off_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    app = FakeApp()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    LiveAlerts(lambda failed: None, app).start()
    assert [one.answer for one in app.held] == ["failed: alerts are off: can't start new thread"]
