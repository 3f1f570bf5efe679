"""The activity of each block device, summed over a Frame's history."""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import IDLE_BLOCK_RATES, BlockKey
from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import cached_per_frame


class DeviceTotals(NamedTuple):
    """The sums over the Samples of a history. Unknown rates count as 0."""

    queue_s: float
    """The time of all requests in seconds: the queue size multiplied by the interval."""
    active: bool
    """Whether the device had any activity."""
    read_bytes_per_s: float
    """The sum of the Samples' read rates."""
    write_bytes_per_s: float
    """The sum of the Samples' write rates."""

    @property
    def direction(self) -> str:
        """The direction in which the device moved more bytes: "read" or "write"."""
        return "write" if self.write_bytes_per_s > self.read_bytes_per_s else "read"

    @property
    def both(self) -> bool:
        """Whether the device moved a noticeable part of its bytes in each direction."""
        less, more = sorted((self.read_bytes_per_s, self.write_bytes_per_s))
        return less >= _NOTHING * (less + more) > 0


_NOTHING = 0.02
"""A direction with a smaller part of a device's bytes than this is ignored."""
NO_TOTALS = DeviceTotals(0.0, False, 0.0, 0.0)


@cached_per_frame
def device_totals(frame: Frame, view: View) -> Mapping[BlockKey, DeviceTotals]:
    """The totals of each device that was not idle throughout the history; all others have ``NO_TOTALS``."""
    sums: dict[BlockKey, list[float]] = {}
    active: set[BlockKey] = set()
    for sample in frame.history:
        rated, renewed = sample.block, sample.block.renewed
        seconds = (rated.seconds or 0.0) if renewed else 0.0
        for key, rates in (rated.value or {}).items():
            if rates is IDLE_BLOCK_RATES:
                continue
            of_device = sums.get(key)
            if of_device is None:
                of_device = sums[key] = [0.0, 0.0, 0.0]
            of_device[0] += (rates.queue_size or 0.0) * seconds
            of_device[1] += rates.read_bytes_per_s or 0.0
            of_device[2] += rates.write_bytes_per_s or 0.0
            if renewed and key not in active and rates.active:
                active.add(key)
    return {key: DeviceTotals(queue_s, key in active, read, write) for key, (queue_s, read, write) in sums.items()}
