"""The facts of the GPUs over a window, and which GPUs are in use."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

from iotop_ai.diagnosis.facts.process_tree import ProcessTree
from iotop_ai.diagnosis.facts.window import Window, mean
from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.gpu.sharing import COMPUTE, in_use
from iotop_ai.model.gpu.state import GpuRates
from iotop_ai.model.reading import Status
from iotop_ai.model.snapshot import Snapshot

_BUSY, _WATTS, _WATTS_LIMIT = (
    itemgetter(GpuRates._fields.index(name)) for name in ("busy_ratio", "power_watts", "power_limit_watts")
)
_NO_GPU = (Status.ABSENT, Status.UNSUPPORTED, Status.OFF)
"""The statuses with which ``GpuFacts.absent`` is true."""


class GpuFacts(NamedTuple):
    """The GPUs over a window.

    If they are neither visible nor absent, their state is unknown (pending, failed, denied).
    """

    visible: bool
    """Whether at least one GPU answers."""
    absent: bool
    """Whether there is no GPU or no driver, the reading of GPUs is off, or an imported log has no GPU data."""
    total: int
    """The number of all GPUs; an integrated GPU counts only if it is in use."""
    used: int
    """The number of GPUs in use: those with a compute process. A GPU whose processes are hidden counts if it is busy or
    if much of its memory is in use."""
    busy: tuple[float | None, ...]
    """For each sample, the mean utilisation of the GPUs in use (of all cards if none is in use); None when unknown."""
    power_ratio: float | None
    """The mean of power divided by limit over the GPUs in use (over all cards if none is in use); None when unknown."""
    pids: frozenset[int] | None
    """The pids of the processes on the GPUs and of their descendants; None if no process on a GPU is visible, as in a
    container."""
    on_gpu: frozenset[int]
    """The pids of those processes on the GPUs that are in the monitor's /proc."""
    uuids: tuple[str, ...] = ()
    """The UUIDs of the GPUs in use."""

    @property
    def busy_ratio(self) -> float | None:
        """The mean utilisation over the window; None when unknown."""
        return mean(self.busy)


def gpu_facts(
    snapshot: Snapshot, tree: Callable[[], ProcessTree], window: Window, limits: Thresholds = LIMITS
) -> GpuFacts:
    """The facts of the GPUs over the window.

    tree: returns the process tree; it is called only if a process is on a GPU.
    """
    reading = snapshot.gpu
    unknown: tuple[float | None, ...] = (None,) * len(window.samples)
    if reading.value is None:
        return GpuFacts(False, reading.status in _NO_GPU, 0, 0, unknown, None, None, frozenset())
    states = {uuid: r.value for uuid, r in reading.value.items() if r.value is not None}
    if not states:
        return GpuFacts(False, not reading.value, len(reading.value), 0, unknown, None, None, frozenset())

    tables = [s.gpu.value or {} for s in window.samples]
    rates = {uuid: [row for table in tables if (row := table.get(uuid)) is not None] for uuid in states}

    used = [
        uuid
        for uuid, state in states.items()
        if in_use(state, (mean(map(_BUSY, rates[uuid])) or 0.0) >= limits.idle_gpu, limits.gpu_used_bytes)
    ]
    ignored = [uuid for uuid, state in states.items() if state.is_integrated and uuid not in used]
    measured = used or [uuid for uuid in states if uuid not in ignored]
    busy = tuple([mean([table[uuid].busy_ratio for uuid in measured if uuid in table]) for table in tables])
    power = []
    for uuid in measured:
        watts, limit = mean(map(_WATTS, rates[uuid])), mean(map(_WATTS_LIMIT, rates[uuid]))
        power.append(watts / limit if watts is not None and limit else None)
    listed = [p for state in states.values() for p in state.processes or () if p.kind == COMPUTE]
    # A process that is not found has its pid in another PID namespace; in ours, another process may have that pid.
    on_gpu = frozenset(p.pid for p in listed if p.found)
    pids = tree().with_descendants(on_gpu) if on_gpu else frozenset()
    total = len(reading.value) - len(ignored)
    return GpuFacts(True, False, total, len(used), busy, mean(power), pids or None, on_gpu, tuple(used))
