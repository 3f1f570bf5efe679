"""Everything that one sweep found."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.loader.run import Run
from iotop_ai.model.preflight.report import FINE, NO_ANSWER, PROBLEM

NEAR_BEST = 0.95
"""Part of the best rate that the recommended configuration must reach."""
UNSWEPT = {"refused", "empty"}
"""Failures that give no answer where nothing was measured."""


class Choice(NamedTuple):
    """The smallest configuration near the best. bound: cpu, storage, main, waiting, or "" unknown.

    rising: the largest number of workers is the best by more than 5 %, so the top of the curve is not seen.
    """

    run: Run
    best: Run
    bound: str
    rising: bool


class Report(NamedTuple):
    """target: MODULE:FACTORY. cores: that this process may use. room_bytes: memory left before the sweep.

    shm_bytes: size of /dev/shm; None unknown or without a limit. machine_cores: of the machine.
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
        if self.choice is None and failed <= UNSWEPT:
            return NO_ANSWER
        return PROBLEM if failed else FINE
