"""The result of ``iotop-ai loader``: the runs of a sweep through several configurations, and the recommended one."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.loader.run import Run
from iotop_ai.model.preflight.report import FINE, NO_ANSWER, PROBLEM

NEAR_BEST = 0.95
"""The recommended configuration must reach this share of the best rate."""
_NO_DATA = {"refused", "empty"}
"""The kinds of failures after which there is no answer."""


class Choice(NamedTuple):
    """The recommended configuration.

    run: the run of the smallest configuration whose rate is near the best
    best: the run with the best rate
    bound: the limit of the rate of ``run``: cpu, storage, main (the main process), waiting, or "" if unknown
    rising: whether still more workers may be better: the largest number that was tried is the best by more than 5 %,
        and cores are left
    """

    run: Run
    best: Run
    bound: str
    rising: bool


class Report(NamedTuple):
    """The result of one sweep.

    target: the factory as MODULE:FACTORY
    cores: the number of cores that this process can use
    machine_cores: the number of cores of the machine
    room_bytes: the memory that was available before the sweep
    shm_bytes: the size of /dev/shm; None if unknown or unlimited
    cold: the folder that is evicted from the page cache before each run; "" for none
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
        """2 if nothing was measured because the factory was refused or gave no batch; 1 if a run failed; else 0."""
        failed = {run.failure.kind for run in self.runs if run.failure is not None}
        if self.choice is None and failed <= _NO_DATA:
            return NO_ANSWER
        return PROBLEM if failed else FINE
