"""The state that the screens of ``iotop-ai fleet`` share."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.fleet.records import Fleet, FleetMachine
from iotop_ai.present.fleet.view import FleetView, History, listed_machines, selected_machine
from iotop_ai.present.fleet.words import SORTS
from iotop_ai.present.screen.graphs import room
from iotop_ai.tui.threads.fleet import FleetThread
from iotop_ai.tui.view_changes import interval_after

SHORTEST_INTERVAL_S = 1.0


class FleetState:
    """The last answer of Prometheus, and the user's choices.

    draw: draws the screen in front. thread: sends the queries; None until the app sets it.
    """

    def __init__(self, fleet_view: FleetView) -> None:
        self.fleet_view = fleet_view
        self.fleet: Fleet | None = None
        self.thread: FleetThread | None = None
        self.draw: Callable[[], None] = lambda: None
        self.width = 80
        self._clock = Clock()
        self._answered_ns = self._clock.monotonic_ns()
        self._last_request: tuple[str, int, float] = ("", 0, 0.0)
        """The machine, the number of values and the end time of the graphs that were requested last."""

    def take(self, fleet: Fleet | None, trouble: str) -> None:
        """Store the result of a refresh, and draw it."""
        if fleet is not None:
            self.fleet = fleet
            self._answered_ns = self._clock.monotonic_ns()
        self.fleet_view = self.fleet_view._replace(trouble=trouble)
        self.tick()

    def take_history(self, history: History) -> None:
        """Store the graphs of a machine, and draw them."""
        self.fleet_view = self.fleet_view._replace(history=history)
        self.draw()

    def tick(self) -> None:
        """Draw the screen with the current age of the last answer, and request graphs if they are due."""
        self.fleet_view = self.fleet_view._replace(age_s=(self._clock.monotonic_ns() - self._answered_ns) / 1e9)
        self.request_history()
        self.draw()

    def change(self, message: str = "", **changes: object) -> None:
        """Change the View after a key, and draw it. message: the answer to the key."""
        self.fleet_view = self.fleet_view._replace(view=self.fleet_view.view._replace(message=message, **changes))  # type: ignore[arg-type]
        self.request_history()
        self.draw()

    @property
    def machines(self) -> list[FleetMachine]:
        """The machines in the list, in its order."""
        return listed_machines(self.fleet, self.fleet_view)

    @property
    def current(self) -> FleetMachine | None:
        """The machine under the cursor."""
        return selected_machine(self.machines, self.fleet_view)

    def request_history(self) -> None:
        """Request the graphs of the machine under the cursor, unless the same graphs were requested last."""
        machine = self.current
        if machine is None or self.fleet is None or self.thread is None:
            return
        request = (machine.name, max(2, 2 * room(self.width).cells), self.fleet.at_s)
        if request != self._last_request:
            self._last_request = request
            self.thread.request_history(machine, request[1], request[2])

    def sort(self, step: int) -> None:
        """Sort by the next (step +1) or previous (-1) column, in its usual order."""
        order = list(SORTS)
        key = order[(order.index(self.fleet_view.sort) + step) % len(order)]
        self.fleet_view = self.fleet_view._replace(sort=key)
        self.change(f"done: sorted by {SORTS[key]}", scroll=0, cursor="", reverse=False)

    def pause(self) -> None:
        """Pause the refreshes, or resume them."""
        paused = self.fleet_view.view.mode != "paused"
        if self.thread is not None:
            self.thread.pause(paused=paused)
        self.change("paused" if paused else "done: refreshing", mode="paused" if paused else "live")

    def change_interval(self, step: int) -> None:
        """Set a longer or shorter interval between refreshes."""
        seconds = max(SHORTEST_INTERVAL_S, interval_after(self.fleet_view.interval_s, step))
        self.fleet_view = self.fleet_view._replace(interval_s=seconds)
        if self.thread is not None:
            self.thread.set_interval(seconds)
        self.change(f"done: a refresh every {seconds:g} s")
