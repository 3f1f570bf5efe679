"""Follows the activity of GPUs from tick to tick, and divides it among the jobs that use them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.activity import IDLE, all_spin, receives_at_link_rate
from iotop_ai.model.gpu.sharing import COMPUTE, GpuParts, busy_parts, in_use
from iotop_ai.model.gpu.state import busy_ratio, received_bytes_per_s

if TYPE_CHECKING:
    from iotop_ai.model.gpu.state import GpuState, GpuTable

USED_NS = 60_000_000_000
"""How long a GPU counts as used after it was last busy, in nanoseconds. If a training process used one of its GPUs in
this time, it merely holds those that were idle throughout: TensorFlow and JAX hold all GPUs that they can see."""
GPUS_REST_NS = 10_000_000_000
"""GPUs rest if they have not worked for this time, in nanoseconds: longer than a step and the making of its batch."""
QUIET = 0.01
"""A GPU does not work below this utilisation, 0..1; a job that waits for data still makes short steps."""


class GpuUse(NamedTuple):
    """The activity of a job's GPUs.

    busy: their mean utilisation by this job, 0..1; None when it is unknown. others: their mean utilisation by other
    jobs. spin: whether they only wait for each other. receive: whether a GPU receives as much data as its link carries.
    rest: whether none of them has worked for 10 s.
    """

    busy: float | None = None
    others: float = 0.0
    spin: bool = False
    receive: bool = False
    rest: bool = False


class GpuActivity:
    """Follows the activity of all GPUs. A rate stays valid until the next reading of its GPU."""

    def __init__(self) -> None:
        self._readings: GpuTable = {}
        self._busy: dict[str, float | None] = {}
        self._copying: dict[str, bool] = {}
        self._last_busy_ns: dict[str, int] = {}
        self._idle_since_ns: dict[str, int] = {}
        """Since when each idle GPU has been idle, by UUID."""
        self._quiet_since_ns: dict[str, int] = {}
        """Since when each GPU that does not work at all has been so, by UUID."""
        self.used_by_several: frozenset[str] = frozenset()
        """The UUIDs of the GPUs that several jobs use in this tick."""

    def update(self, gpus: GpuTable | None, at_ns: int) -> None:
        """Update the rates with the readings of one tick. at_ns: the time of the tick."""
        now = gpus or {}
        for uuid, reading in now.items():
            old = self._readings.get(uuid)
            if reading.value is not None and (old is None or old.at_ns != reading.at_ns):
                busy = self._busy[uuid] = busy_ratio(old, reading)
                self._copying[uuid] = receives_at_link_rate(reading.value, received_bytes_per_s(old, reading))
                for since_ns, limit in ((self._idle_since_ns, IDLE), (self._quiet_since_ns, QUIET)):
                    if busy is not None and busy < limit:
                        since_ns.setdefault(uuid, at_ns)
                    else:
                        since_ns.pop(uuid, None)
                if busy is not None and busy >= IDLE:
                    self._last_busy_ns[uuid] = at_ns
        self._readings = now

    def _used_lately(self, uuid: str, at_ns: int) -> bool:
        return uuid in self._last_busy_ns and at_ns - self._last_busy_ns[uuid] < USED_NS

    def without_held(self, uuids: Collection[str], at_ns: int) -> frozenset[str]:
        """Return a training process's GPUs without those that it only holds; all of them if it used none lately."""
        if not any(self._used_lately(uuid, at_ns) for uuid in uuids):
            return frozenset(uuids)
        return frozenset(uuid for uuid in uuids if at_ns - self._idle_since_ns.get(uuid, at_ns) < USED_NS)

    def hidden_in_use(self, at_ns: int) -> frozenset[str]:
        """Return the UUIDs of the GPUs in use if no process on a GPU is visible, as in a container; otherwise none."""
        states = {uuid: reading.value for uuid, reading in self._readings.items() if reading.value is not None}
        if any(p.kind == COMPUTE and p.found for state in states.values() for p in state.processes or ()):
            return frozenset()
        return frozenset(uuid for uuid, state in states.items() if in_use(state, self._used_lately(uuid, at_ns)))

    def _parts(self, state: GpuState, pids: Collection[int]) -> GpuParts | None:
        # The list of a GPU's processes may be missing for a moment.
        return GpuParts() if not state.processes and state.uuid in self.used_by_several else busy_parts(state, pids)

    def use(self, uuids: Collection[str], pids: Collection[int], at_ns: int) -> GpuUse:
        """Return the activity of a job's GPUs. uuids: the job's GPUs. pids: the PIDs of the job's processes."""
        states = {uuid: self._readings[uuid].value for uuid in uuids if uuid in self._readings}
        shared = {
            uuid: part for uuid, state in states.items() if state is not None and (part := self._parts(state, pids))
        }
        busy_ratios, others = [], 0.0
        for uuid in [uuid for uuid, state in states.items() if state is not None]:
            busy = self._busy.get(uuid)
            if uuid in shared:
                others += shared[uuid].others or 0.0
                own = shared[uuid].own
                # The driver samples the processes less often than the GPU, and the GPU may have stopped since.
                busy = own if own is None or busy is None else min(own, busy)
            if busy is not None:
                busy_ratios.append(busy)
        if not busy_ratios:
            return GpuUse()
        return GpuUse(
            sum(busy_ratios) / len(busy_ratios),
            others / len(busy_ratios),
            not shared and all_spin(list(states.values())),
            any(self._copying.get(uuid, False) for uuid in uuids if uuid not in shared),
            all(at_ns - self._quiet_since_ns.get(uuid, at_ns) >= GPUS_REST_NS for uuid in states),
        )
