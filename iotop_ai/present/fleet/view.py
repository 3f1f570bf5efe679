"""The user's choices on the fleet's screens, and the age of their figures."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.fleet.records import Fleet, FleetMachine
from iotop_ai.present.fleet.words import matches, sort_machines
from iotop_ai.present.screen.view import View

Values = tuple[float | None, ...]
"""The values of one graph, the oldest first; None for an unknown value."""
HISTORY_WINDOWS = 12
"""The length of the graphs in windows: one hour, with the default window of 5 minutes."""


class History(NamedTuple):
    """The values of a machine's graphs over HISTORY_WINDOWS windows. end_s: the Unix time of the last value. values:
    the values by the graph's name, the oldest first.
    """

    machine: str = ""
    end_s: float = 0.0
    values: Mapping[str, Values] = {}


class FleetView(NamedTuple):
    """The user's choices on the fleet's screens, and the state of the refresh.

    view: the state that every screen has, such as the pattern, the cursor (here a machine's name) and the mode. sort: a
    key of SORTS. server: the address of the Prometheus server. window_s: the seconds over which the figures are
    computed. interval_s: the seconds between two refreshes. trouble: why the last refresh failed; "" if it did not.
    age_s: the seconds since the last answer. history: the values for the graphs. job: the key of the job under the
    cursor in the list of jobs.
    """

    view: View
    sort: str = "lost"
    server: str = ""
    window_s: float = 300.0
    interval_s: float = 10.0
    trouble: str = ""
    age_s: float = 0.0
    history: History = History()
    job: str = ""


def listed_machines(fleet: Fleet | None, fleet_view: FleetView) -> list[FleetMachine]:
    """The machines that match the filter, in the order that the user chose."""
    if fleet is None:
        return []
    machines = [machine for machine in fleet.machines if matches(machine, fleet_view.view.pattern)]
    return sort_machines(machines, fleet_view.sort, reverse=fleet_view.view.reverse)


def selected_machine(machines: list[FleetMachine], fleet_view: FleetView) -> FleetMachine | None:
    """The machine under the cursor, otherwise the first; None if there are no machines."""
    return next(
        (machine for machine in machines if machine.name == fleet_view.view.cursor), machines[0] if machines else None
    )
