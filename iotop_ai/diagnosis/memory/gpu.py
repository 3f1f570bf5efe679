"""The part of the rules' state (FoldState) about each GPU.

It holds the GPU's highest power while it computed, and the time since which the GPU is idle with its memory in use.
"""

from __future__ import annotations

from collections.abc import Mapping

from iotop_ai.diagnosis.thresholds import LIMITS, Thresholds
from iotop_ai.model.fold_state import GpuMemory
from iotop_ai.model.gpu.state import GpuRates, GpuState
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot

Memory = Mapping[str, GpuMemory]
"""The memory of each GPU, by UUID."""
_DIGITS = 3
"""The number of decimal places to which power ratios are rounded."""
_SMOOTH_S = 10.0
"""The time constant with which the power is smoothed, in seconds."""
NOTHING = GpuMemory()


def update(memory: Memory, snapshot: Snapshot, sample: Sample, limits: Thresholds = LIMITS) -> Memory:
    """The memory after one more Sample.

    A GPU that is no longer listed is forgotten; a GPU that does not answer is kept. After a gap, the idle time begins
    again.
    """
    if sample.gap:
        # It is unknown whether a GPU worked in the gap.
        return {uuid: new for uuid, old in memory.items() if (new := old._replace(idle_ns=None)) != NOTHING}
    table, rates_reading = snapshot.gpu.value, sample.gpu
    if table is None or (not table and not memory):
        return {} if table is not None else memory
    if not rates_reading.renewed or rates_reading.seconds is None or rates_reading.value is None:
        return memory
    out = {}
    for uuid, reading in table.items():
        old, rates = memory.get(uuid, NOTHING), rates_reading.value.get(uuid)
        new = old if reading.value is None or rates is None else _with_use(old, reading.value, rates, snapshot, limits)
        if reading.value is not None and rates is not None:
            new = _with_power(new, rates, rates_reading.seconds, limits)
        if new != NOTHING:
            out[uuid] = new
    return out


def _with_use(old: GpuMemory, state: GpuState, rates: GpuRates, snapshot: Snapshot, limits: Thresholds) -> GpuMemory:
    """The memory with the current processes and the start of the idle time; an unread figure changes nothing."""
    listed, used, busy = state.processes, rates.memory_used_bytes, rates.busy_ratio
    pids = old.pids if listed is None else tuple(sorted(p.pid for p in listed if p.kind == "compute"))
    # The power that another program drew says nothing about this program.
    known = old if not old.pids or not pids or set(old.pids) & set(pids) else NOTHING
    idle_ended = (used is not None and used < limits.gpu_used_bytes) or (busy is not None and busy >= limits.idle_gpu)
    since = known.idle_ns
    if idle_ended or not pids:
        since = None
    elif since is None and None not in (listed, used, busy):
        since = snapshot.at_ns
    return GpuMemory(pids, since, known.power, known.peak if pids else None)


def _with_power(new: GpuMemory, rates: GpuRates, seconds: float, limits: Thresholds) -> GpuMemory:
    """The memory with the smoothed power (over 10 s) and its highest value, each divided by the power limit."""
    watts, limit = rates.power_watts, rates.power_limit_watts
    if not new.pids or watts is None or not limit or (rates.busy_ratio or 0.0) < limits.gpu_bound:
        return new._replace(power=None)
    share = watts / limit
    part = min(1.0, seconds / _SMOOTH_S)
    power = share if new.power is None else new.power + part * (share - new.power)
    # The first figure after a pause is not smoothed yet.
    peak = new.peak if new.power is None else max(new.peak or 0.0, power)
    return new._replace(power=round(power, _DIGITS), peak=None if peak is None else round(peak, _DIGITS))
