"""The thread that asks Prometheus: the answers reach the app as messages."""

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
    """The result of a refresh. fleet: None if it failed. trouble: why it failed, else ""."""

    def __init__(self, fleet: Fleet | None, trouble: str = "") -> None:
        self.fleet = fleet
        self.trouble = trouble
        super().__init__()


class HistoryAnswered(Message):
    """The graphs of a machine."""

    def __init__(self, history: History) -> None:
        self.history = history
        super().__init__()


class _HistoryRequest(NamedTuple):
    """A request for the values of a machine's graphs.

    slots: number of values of a graph. end_s: the server's time of the newest.
    """

    machine: FleetMachine
    slots: int
    end_s: float


class FleetThread:
    """Sends all queries each interval, and those for a machine's graphs in between. A daemon: answers may take long.

    first: an answer that the caller already has; None to ask now.
    """

    def __init__(
        self,
        server: Prometheus,
        app: MessageReceiver,
        window_s: float,
        interval_s: float,
        first: FirstAnswer | None = None,
    ) -> None:
        self._first = first
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
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the query that it waits for; returns at once."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def set_interval(self, seconds: float) -> None:
        """Ask every ``seconds``, from now on."""
        with self._changed:
            self._interval_s = seconds
            self._due_ns = min(self._due_ns, self._clock.monotonic_ns() + int(seconds * 1e9))
            self._changed.notify()

    def pause(self, *, paused: bool) -> None:
        """Pause the queries, or resume them."""
        with self._changed:
            self._paused = paused
            self._changed.notify()

    def refresh(self) -> None:
        """Ask now, also while paused."""
        with self._changed:
            self._due_at_once = True
            self._changed.notify()

    def want_history(self, machine: FleetMachine, slots: int, end_s: float) -> None:
        """Ask for the graphs of a machine; a newer request replaces a waiting one."""
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
        """Wait for the next request; a str asks for a refresh, None ends the thread."""
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
        first, self._first = self._first, None
        try:
            if first is not None:
                fleet = first.result()
            else:
                fleet = ask_fleet(self._server, self._window_s, lambda: self._stopping)
            message = FleetAnswered(fleet)
        except UnknownError as error:
            message = FleetAnswered(None, str(error))
        self._app.post_message(message)

    def _ask_history(self, request: _HistoryRequest) -> None:
        step_s = HISTORY_WINDOWS * self._window_s / request.slots
        values: Mapping[str, Values] = {}
        # The next refresh says why it failed; until then the graphs are unknown.
        with contextlib.suppress(NoAnswerError, BadAnswerError):
            values = ask_history(self._server, request.machine, request.end_s, request.slots, step_s, self._window_s)
        self._app.post_message(HistoryAnswered(History(request.machine.name, request.end_s, values)))
