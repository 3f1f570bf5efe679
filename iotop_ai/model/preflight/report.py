"""Everything that one storage check found."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.dataset import Dataset, Decoding, Demand, Forecast
from iotop_ai.model.preflight.history import Change
from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.storage import Measured, Target, Threshold, fastest_read

FINE, PROBLEM, NO_ANSWER = 0, 1, 2
SHORT_OF_NOMINAL = 0.5
"""Share of the nominal speed below which a disk is too slow."""


class Report(NamedTuple):
    """One check. wall_s: Unix time of its end. target, engine: None and "" where nothing could be read.

    hung_s: seconds without an answer; 0 when it answered. changes: figures that are slower than in earlier checks;
    earlier: the number of checks that were compared. failed: why it ended early; "" when it did not. room_bytes: memory
    that the page cache may still use here.
    """

    place: Place
    wall_s: int
    target: Target | None = None
    engine: str = ""
    results: tuple[Measured, ...] = ()
    notes: tuple[str, ...] = ()
    hung_s: float = 0.0
    failed: str = ""
    changes: tuple[Change, ...] = ()
    earlier: int = 0
    thresholds: tuple[Threshold, ...] = ()
    dataset: Dataset | None = None
    decoding: Decoding = Decoding()
    room_bytes: int | None = None
    demand: Demand | None = None
    forecast: Forecast | None = None

    @property
    def of_nominal(self) -> float | None:
        """The fastest sequential read divided by the nominal speed; None unknown."""
        nominal, read = self.place.nominal, fastest_read(self.results)
        return None if nominal is None or read is None else read / nominal.bytes_per_s

    @property
    def exit_code(self) -> int:
        """1 when it hangs or misses a threshold; else 2 when it ended early or could not answer a question."""
        if self.hung_s or any(one.met is False for one in self.thresholds):
            return PROBLEM
        if self.failed or not self.results or any(one.met is None for one in self.thresholds):
            return NO_ANSWER
        if (self.dataset is not None and not self.dataset.files) or (self.demand is not None and self.forecast is None):
            return NO_ANSWER
        return FINE
