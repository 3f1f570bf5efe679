"""The result of one storage check."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.preflight.dataset import Dataset, Decoding, Demand, Forecast
from iotop_ai.model.preflight.history import Change, Compared
from iotop_ai.model.preflight.place import Place
from iotop_ai.model.preflight.storage import Measured, Target, Threshold, fastest_read

FINE, PROBLEM, NO_ANSWER = 0, 1, 2
SHORT_OF_NOMINAL = 0.5
"""The share of the nominal speed below which a disk counts as too slow."""


class Report(NamedTuple):
    """The result of one check.

    wall_s: the Unix time at its end
    target, engine: None and "" if nothing could be read
    hung_s: the seconds for which the storage has not answered; 0 if it answered
    failed: why the check ended early; "" if it did not
    changes: the figures that are slower than in earlier checks
    earlier, compared: the number of earlier checks that were compared, and the figures in common with them
    other_ratio: the share of the disks' reads that other programs made during the check; None if unknown
    room_bytes: the memory that the page cache may still use on this machine
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
    compared: tuple[Compared, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    dataset: Dataset | None = None
    decoding: Decoding = Decoding()
    room_bytes: int | None = None
    demand: Demand | None = None
    forecast: Forecast | None = None
    other_ratio: float | None = None

    @property
    def of_nominal(self) -> float | None:
        """The fastest sequential read divided by the nominal speed; None if unknown."""
        nominal, read = self.place.nominal, fastest_read(self.results)
        return None if nominal is None or read is None else read / nominal.bytes_per_s

    @property
    def exit_code(self) -> int:
        """1 if the storage hangs or misses a threshold, else 2 if the check ended early or lacks a figure, else 0."""
        if self.hung_s or any(threshold.met is False for threshold in self.thresholds):
            return PROBLEM
        if self.failed or not self.results or any(threshold.met is None for threshold in self.thresholds):
            return NO_ANSWER
        if (self.dataset is not None and not self.dataset.files) or (self.demand is not None and self.forecast is None):
            return NO_ANSWER
        return FINE
