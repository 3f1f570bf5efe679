"""Everything that one sweep of ``iotop-ai loader`` found: its runs, and the recommended configuration."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.loader.run import Run
from iotop_ai.model.preflight.report import FINE, NO_ANSWER, PROBLEM

NEAR_BEST = 0.95
"""Share of the best rate that the recommended configuration must reach."""
_NO_DATA = {"refused", "empty"}
"""Failures of the factory itself: it is refused, or gives no batch."""


class Choice(NamedTuple):
    """The recommended configuration.

    run: the smallest configuration near the best. bound: cpu, storage, main, waiting, or "" unknown.

    rising: the largest number of workers is the best by more than 5 %, so more workers may be better still.
    """

    run: Run
    best: Run
    bound: str
    rising: bool


class Report(NamedTuple):
    """One sweep. target: MODULE:FACTORY. cores: how many this process may use. machine_cores: how many there are.

    room_bytes: memory left before the sweep. shm_bytes: size of /dev/shm; None when unknown or unlimited. cold: the
    folder that is evicted from the page cache before each run, "" for none.
    """

    target: str
    python: str
    wall_s: int
    runs: tuple[Run, ...]
    cores: float
    machine_cores: int | None = None
    room_bytes: int | None = None
    shm_bytes: int | None = None
    cold: str = ""
    choice: Choice | None = None

    @property
    def exit_code(self) -> int:
        """1 when a configuration failed; 2 when the factory is refused or gives no batch, and nothing was measured."""
        failed = {run.failure.kind for run in self.runs if run.failure is not None}
        if self.choice is None and failed <= _NO_DATA:
            return NO_ANSWER
        return PROBLEM if failed else FINE
