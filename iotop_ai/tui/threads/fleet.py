"""The thread that queries Prometheus. The app receives its answers as messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping

from textual.message import Message

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.fleet.answer import BadAnswerError
from iotop_ai.fleet.client import NoAnswerError, Prometheus
from iotop_ai.fleet.refresh import FirstAnswer, ask_fleet, ask_history
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.fleet.records import Fleet, FleetMachine
from iotop_ai.present.fleet.view import HISTORY_WINDOWS, History, Values
from iotop_ai.tui.threads.source import MessageReceiver


class FleetAnswered(Message):
    """The result of a refresh. fleet: the answer; None if the refresh failed. trouble: why it failed; otherwise ""."""

    def __init__(self, fleet: Fleet | None, trouble: str = "") -> None:
        self.fleet = fleet
        self.trouble = trouble
        super().__init__()


class HistoryAnswered(Message):
    """The values for the graphs of a machine."""

    def __init__(self, history: History) -> None:
        self.history = history
        super().__init__()


class _HistoryRequest(NamedTuple):
    """A request for the values of a machine's graphs.

    slots: the number of values of each graph. end_s: the time of the last value, on the server's clock.
    """

    machine: FleetMachine
    slots: int
    end_s: float


class FleetThread:
    """Sends all queries once per interval, and the queries for a machine's graphs in between. It is a daemon thread,
    because an answer may take a long time.

    first_answer: an answer that the caller has requested already; None to query at once.
    """

    def __init__(
        self,
        server: Prometheus,
        app: MessageReceiver,
        window_s: float,
        interval_s: float,
        first_answer: FirstAnswer | None = None,
    ) -> None:
        self._first_answer = first_answer
        self._server = server
        self._app = app
        self._window_s = window_s
        self._interval_s = interval_s
        self._clock = Clock()
        self._changed = threading.Condition()
        self._stopping = False
        self._paused = self._due_at_once = False
        self._due_ns = self._clock.monotonic_ns()
        self._request: _HistoryRequest | None = None
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def start(self) -> None:
        """Start the thread. If this user has too many threads, the first refresh fails with that error."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._app.post_message(FleetAnswered(None, f"the server is not queried: {error}; start iotop-ai again"))

    def stop(self) -> None:
        """Let the thread end after the query that it waits for; returns at once."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def set_interval(self, seconds: float) -> None:
        """Refresh every ``seconds`` from now on."""
        with self._changed:
            self._interval_s = seconds
            self._due_ns = min(self._due_ns, self._clock.monotonic_ns() + int(seconds * 1e9))
            self._changed.notify()

    def pause(self, *, paused: bool) -> None:
        """Pause the regular refreshes, or resume them. While paused, requested queries are still sent."""
        with self._changed:
            self._paused = paused
            self._changed.notify()

    def refresh(self) -> None:
        """Refresh now, even while paused."""
        with self._changed:
            self._due_at_once = True
            self._changed.notify()

    def request_history(self, machine: FleetMachine, slots: int, end_s: float) -> None:
        """Request the values for the graphs of a machine. A newer request replaces one that still waits."""
        with self._changed:
            self._request = _HistoryRequest(machine, slots, end_s)
            self._changed.notify()

    def _run(self) -> None:
        try:
            while (work := self._next()) is not None:
                if isinstance(work, _HistoryRequest):
                    self._ask_history(work)
                else:
                    self._ask()
        finally:
            self._server.close()

    def _next(self) -> _HistoryRequest | str | None:
        """Wait for the next work: a request for graphs, a str for a refresh, or None to end the thread."""
        with self._changed:
            while not self._stopping:
                now_ns = self._clock.monotonic_ns()
                if self._due_at_once or (not self._paused and now_ns >= self._due_ns):
                    self._due_at_once = False
                    self._due_ns = now_ns + int(self._interval_s * 1e9)
                    return "refresh"
                if self._request is not None:
                    request, self._request = self._request, None
                    return request
                self._changed.wait(None if self._paused else (self._due_ns - now_ns) / 1e9)
        return None

    def _ask(self) -> None:
        first_answer, self._first_answer = self._first_answer, None
        try:
            if first_answer is not None:
                fleet = first_answer.result()
            else:
                fleet = ask_fleet(self._server, self._window_s, lambda: self._stopping)
            message = FleetAnswered(fleet)
        except UnknownError as error:
            message = FleetAnswered(None, str(error))
        self._app.post_message(message)

    def _ask_history(self, request: _HistoryRequest) -> None:
        step_s = HISTORY_WINDOWS * self._window_s / request.slots
        values: Mapping[str, Values] = {}
        # If a query fails, the graphs are unknown, and the next refresh shows why.
        with contextlib.suppress(NoAnswerError, BadAnswerError):
            values = ask_history(self._server, request.machine, request.end_s, request.slots, step_s, self._window_s)
        self._app.post_message(HistoryAnswered(History(request.machine.name, request.end_s, values)))
