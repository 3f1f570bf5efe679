"""The activity of each block device, summed over a Frame's history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import IDLE_BLOCK_RATES, BlockKey
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cache_part, cached_per_frame


class DeviceTotals(NamedTuple):
    """The sums over the Samples of a history. Unknown rates count as 0."""

    queue_s: float
    """The time of all requests in seconds: the queue size multiplied by the interval."""
    active: bool
    """Whether the device had any activity."""
    read_rate_sum: float
    """The sum of the Samples' read rates, in bytes per second."""
    write_rate_sum: float
    """The sum of the Samples' write rates, in bytes per second."""

    @property
    def direction(self) -> str:
        """The direction in which the device moved more bytes: "read" or "write"."""
        return "write" if self.write_rate_sum > self.read_rate_sum else "read"

    @property
    def bidirectional(self) -> bool:
        """Whether the device moved a noticeable part of its bytes in each direction."""
        less, more = sorted((self.read_rate_sum, self.write_rate_sum))
        return less >= _NEGLIGIBLE * (less + more) > 0


_NEGLIGIBLE = 0.02
"""A direction with less than this share of a device's bytes is ignored."""
NO_TOTALS = DeviceTotals(0.0, False, 0.0, 0.0)


_DeviceTotals: TypeAlias = "tuple[BlockKey, float, bool, float, float]"
"""The part of a device's totals from one Sample: (key, queue_s, active, read rate, write rate)."""


class _TotalsCache:
    """A cache of the totals of each Sample in the latest history.

    Most Samples of the next history are the same objects, so their totals are reused.
    """

    def __init__(self) -> None:
        self._samples: tuple[Sample, ...] = ()
        self._totals: list[list[_DeviceTotals]] = []

    def totals(self, samples: tuple[Sample, ...]) -> list[list[_DeviceTotals]]:
        """The totals of each Sample, without the devices that were idle in it."""
        cached = dict(zip(map(id, self._samples), self._totals, strict=True))
        totals = [cached[id(sample)] if id(sample) in cached else _sample_totals(sample) for sample in samples]
        self._samples, self._totals = samples, totals
        return totals


def _sample_totals(sample: Sample) -> list[_DeviceTotals]:
    rated = sample.block
    seconds = (rated.seconds or 0.0) if rated.renewed else 0.0
    return [
        (
            key,
            (rates.queue_size or 0.0) * seconds,
            rated.renewed and rates.active,
            rates.read_bytes_per_s or 0.0,
            rates.write_bytes_per_s or 0.0,
        )
        for key, rates in (rated.value or {}).items()
        if rates is not IDLE_BLOCK_RATES
    ]


@cached_per_frame
def device_totals(frame: Frame, view: View) -> Mapping[BlockKey, DeviceTotals]:
    """The totals of each device. A device that was idle in every Sample is left out: its totals are ``NO_TOTALS``."""
    sums: dict[BlockKey, list[float]] = {}
    active: set[BlockKey] = set()
    for sample_totals in cache_part(view, _TotalsCache).totals(frame.history):
        for key, queue_s, is_active, read, write in sample_totals:
            device_sums = sums.get(key)
            if device_sums is None:
                device_sums = sums[key] = [0.0, 0.0, 0.0]
            device_sums[0] += queue_s
            device_sums[1] += read
            device_sums[2] += write
            if is_active:
                active.add(key)
    return {key: DeviceTotals(queue_s, key in active, read, write) for key, (queue_s, read, write) in sums.items()}
