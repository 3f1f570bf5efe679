"""Delivers alerts on a thread, so that the sampling thread never waits for a command or a server."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from iotop_ai.alerts.rules import Alert
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.lazy_thread import LazyThread

MOST_WAITING = 64
"""The maximum number of alerts that wait for delivery. Any further alert is lost, and a line reports the loss."""
HOUR_NS = 3_600_000_000_000
TRIES_AFTER_S = (2.0, 10.0)
"""The waits in seconds before the second and the third attempt to send a message."""
LONGEST_WAIT_S = 30.0
"""If a server asks for a longer wait before the next attempt, the wait is this many seconds."""
TRIED_PER_SENT = 4
"""The maximum number of messages tried per hour is ``at_most`` times this; ``at_most`` limits only those sent.
A message counts once, however many attempts it takes.
"""
TIMEOUTS_PER_DELIVERY = 6
"""The time limit of one email, or of one message to a service, is this many times the timeout of the delivery. Such a
message needs several steps, each with its own timeout.
"""


class NotDelivered(Exception):  # noqa: N818 - the outcome of an attempt
    """The reason why a message was not delivered, in one line.

    retry: whether another attempt may succeed. after_s: the seconds that the server asks to wait before another
    attempt.
    """

    def __init__(self, why: str, *, retry: bool = False, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.retry, self.after_s = retry, after_s


class Delivery(Protocol):
    """A way to deliver alerts, from a section [deliver.NAME] of the file."""

    @property
    def name(self) -> str:
        """The name of the delivery in the file."""
        ...

    @property
    def at_most(self) -> int:
        """The maximum number of messages per hour."""
        ...

    @property
    def per_object(self) -> bool:
        """Whether an alert about several objects is sent as one message for each object.

        A program needs one message for each object; people need only one message for all.
        """
        ...

    def send(self, alert: Alert, stop: threading.Event) -> None:
        """Send one message; stop early when ``stop`` is set. Raises NotDelivered."""
        ...

    def describe(self) -> str:
        """Return the destination in a few words, without secrets."""
        ...


def try_to_send(delivery: Delivery, alert: Alert, stop: threading.Event) -> None:
    """Send a message; raise any failure as NotDelivered.

    Another exception would end the thread, and with it the delivery of all later alerts.
    """
    try:
        delivery.send(alert, stop)
    except NotDelivered:
        raise
    except Exception as error:  # the error's text may contain a secret, such as the path of a webhook
        raise NotDelivered(f"an unexpected {type(error).__name__}") from None


class Outbox:
    """Delivers alerts on its own thread, which the first alert starts. say: prints a line."""

    def __init__(self, deliveries: Sequence[Delivery], say: Callable[[str], None]) -> None:
        self._deliveries = tuple(deliveries)
        self._say = say
        self._clock = Clock()
        self._sent = {delivery.name: _LastHour() for delivery in deliveries}
        self._tried = {delivery.name: _LastHour() for delivery in deliveries}
        self._queue: queue.Queue[Alert | None] = queue.Queue(MOST_WAITING)
        self._stop = threading.Event()
        self._unsent: list[tuple[Delivery, Alert]] = []
        """The messages that the current alert still needs, beginning with the one that is being sent."""
        self._is_closed = False
        """Set before ``close`` reports the messages in ``_unsent``, so that a later failure is not reported again."""
        self._thread = LazyThread("alerts", self._run)

    def put(self, alert: Alert) -> None:
        """Queue an alert without waiting. Print a line if the queue is full or the thread cannot start."""
        try:
            self._queue.put_nowait(alert)
            self._thread.start()
        except queue.Full:
            self._say(f"alert {alert.rule} is not delivered: {MOST_WAITING} alerts are waiting")
        except RuntimeError as error:
            self._say(f"alert {alert.rule} stays queued until the next alert: {error}")

    def close(self, seconds: float, end_s: float = 5.0) -> None:
        """Deliver the queued alerts for up to ``seconds``, then end the thread.

        A command that runs longer is killed, which may take ``end_s``. A request that waits longer for its server
        cannot be stopped, and is reported as not sent.
        """
        end_ns = self._clock.monotonic_ns() + int(seconds * 1e9)
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
        self._thread.join(max(0.0, (end_ns - self._clock.monotonic_ns()) / 1e9))
        self._stop.set()
        self._thread.join(end_s)
        self._is_closed = True
        # An alert about several objects gets one line, however many of its messages are unsent.
        for rule, name in dict.fromkeys((alert.rule, delivery.name) for delivery, alert in self._unsent):
            self._say(f"alert {rule} is not sent to {name}: the monitor ended")
        if lost := self._drain():
            self._say(f"{lost} alert{'s are' if lost > 1 else ' is'} not delivered: the monitor ended")

    def _drain(self) -> int:
        """Empty the queue; return the number of removed alerts that were to be sent somewhere."""
        lost = 0
        while True:
            try:
                alert = self._queue.get_nowait()
            except queue.Empty:
                return lost
            lost += alert is not None and bool(self._deliveries_of(alert))

    def _deliveries_of(self, alert: Alert) -> list[Delivery]:
        return [delivery for delivery in self._deliveries if not alert.deliver or delivery.name in alert.deliver]

    def _run(self) -> None:
        while not self._stop.is_set():
            alert = self._queue.get()
            if alert is None:
                return
            messages = [
                (delivery, part)
                for delivery in self._deliveries_of(alert)
                for part in (delivery.per_object and alert.each) or (alert,)
            ]
            for number, (delivery, part) in enumerate(messages):
                self._unsent = messages[number:]
                if self._stop.is_set():
                    return
                self._deliver(delivery, part)
            self._unsent = []

    def _deliver(self, delivery: Delivery, alert: Alert) -> None:
        now_ns, at_most = self._clock.monotonic_ns(), delivery.at_most
        sent, tried = self._sent[delivery.name], self._tried[delivery.name]
        why = f"{at_most} messages were sent in the last hour" if sent.count(now_ns) >= at_most else ""
        if not why and tried.count(now_ns) >= TRIED_PER_SENT * at_most:
            why = f"{TRIED_PER_SENT * at_most} messages were tried in the last hour"
        if why:
            self._say(f"alert {alert.rule} is not sent to {delivery.name}: {why}")
            return
        tried.add(now_ns)
        for wait_s in (*TRIES_AFTER_S, None):
            try:
                try_to_send(delivery, alert, self._stop)
            except NotDelivered as error:
                # A longer wait would delay the other deliveries.
                least_s = min(error.after_s, LONGEST_WAIT_S)
                if error.retry and wait_s is not None and not self._stop.wait(max(wait_s, least_s)):
                    continue
                if not self._is_closed:
                    self._say(f"alert {alert.rule} is not sent to {delivery.name}: {error}")
            else:
                sent.add(self._clock.monotonic_ns())
            return


class _LastHour:
    """Counts the events of the last hour."""

    def __init__(self) -> None:
        self._at_ns: deque[int] = deque()

    def add(self, now_ns: int) -> None:
        self._at_ns.append(now_ns)

    def count(self, now_ns: int) -> int:
        while self._at_ns and now_ns - self._at_ns[0] >= HOUR_NS:
            self._at_ns.popleft()
        return len(self._at_ns)
