"""One refresh of the fleet: sends every query, and joins the answers into machines."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from iotop_ai.fleet.answer import Answer, BadAnswerError, Points
from iotop_ai.fleet.client import NoAnswerError, Prometheus
from iotop_ai.fleet.machines import IOTOP, NODE, fleet_of
from iotop_ai.fleet.queries import READING, history_queries, node_history_queries, queries
from iotop_ai.model.errors import UnknownError
from iotop_ai.model.fleet.records import Fleet, FleetMachine

MOST_FAILURES = 2
"""After this many queries without an answer, the rest are not sent, because each may last until its timeout."""


def ask_fleet(server: Prometheus, window_s: float, stopped: Callable[[], bool] = lambda: False) -> Fleet:
    """Send every query and return the fleet. A query that fails or is not sent leaves its figures unknown.

    Raises NoAnswerError or BadAnswerError if the first query fails, and NoAnswerError if it is not sent.

    stopped: a function that returns whether to stop sending queries
    """
    answers: dict[str, Answer] = {}
    unanswered: list[str] = []
    failures = 0
    at_s: float | None = None
    for name, query in queries(window_s).items():
        if failures >= MOST_FAILURES or stopped():
            if name == READING:
                raise NoAnswerError("stopped before the first query")
            unanswered.append(name)
            continue
        try:
            answers[name] = server.instant_query(query, at_s)
        except (NoAnswerError, BadAnswerError) as error:
            if name == READING:
                raise
            failures += isinstance(error, NoAnswerError)
            unanswered.append(name)
        if name == READING:
            at_s = answers[name].at_s
    return fleet_of(answers, window_s, unanswered)


class FirstAnswer:
    """Sends every query on a thread while the screen is still loading.

    If no thread can be started, ``result`` sends the queries.
    """

    def __init__(self, server: Prometheus, window_s: float) -> None:
        self._server = server
        self._window_s = window_s
        self._fleet: Fleet | None = None
        self._error: UnknownError | None = None
        self._thread = threading.Thread(target=self._run, name="first-answer", daemon=True)
        with contextlib.suppress(RuntimeError):  # this user has too many threads
            self._thread.start()

    def _run(self) -> None:
        try:
            self._fleet = ask_fleet(self._server, self._window_s)
        except (NoAnswerError, BadAnswerError) as error:
            self._error = error
        finally:
            self._server.close()

    def result(self) -> Fleet:
        """Wait for the answer and return the fleet. Raises like ``ask_fleet``."""
        if self._thread.ident is None:
            self._run()
        else:
            self._thread.join()
        if self._fleet is None:
            raise self._error or UnknownError("the first queries failed")
        return self._fleet


def ask_history(
    server: Prometheus, machine: FleetMachine, end_s: float, slots: int, step_s: float, window_s: float
) -> dict[str, tuple[float | None, ...]]:
    """The values of a machine's graphs by name, oldest first: one value for each of ``slots`` steps; None if unknown.

    The result is {} if neither iotop-ai nor node_exporter reports about the machine.

    Raises NoAnswerError or BadAnswerError.

    window_s: the seconds before each step over which a rate or mean is computed
    """
    if IOTOP in machine.sources:
        queries_by_name = history_queries(machine.instance, window_s)
    elif NODE in machine.sources:
        queries_by_name = node_history_queries(machine.instance, window_s)
    else:
        return {}
    begin_s = end_s - (slots - 1) * step_s
    return {
        name: values_by_step(server.range_query(query, begin_s, end_s, step_s), begin_s, step_s, slots)
        for name, query in queries_by_name.items()
    }


def values_by_step(series: list[Points], begin_s: float, step_s: float, slots: int) -> tuple[float | None, ...]:
    """The first series, as one value for each step; None for a step without a value."""
    out: list[float | None] = [None] * slots
    for at_s, value in series[0].points if series else ():
        slot = round((at_s - begin_s) / step_s)
        if 0 <= slot < slots:
            out[slot] = value
    return tuple(out)
