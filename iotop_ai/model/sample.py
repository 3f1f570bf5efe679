"""The rates between two Snapshots (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo, BlockKey, BlockRates, block_rates
from iotop_ai.model.counter import delta
from iotop_ai.model.gpu.state import GpuRates, GpuTable
from iotop_ai.model.job.cgroup import CgroupRates, CgroupTable
from iotop_ai.model.job.records import job_rates
from iotop_ai.model.job.steps import StepRates, rated_steps
from iotop_ai.model.job.task_states import JobSample
from iotop_ai.model.machine.cpu import CpuRates, cpu_rates
from iotop_ai.model.machine.cpu_clocks import ClockRates, ClockState
from iotop_ai.model.machine.memory import MemoryRates, memory_rates
from iotop_ai.model.machine.netfs import NfsRates, netfs_rates
from iotop_ai.model.machine.network import LinkRates, network_rates
from iotop_ai.model.machine.pool import PoolRates, PoolTable
from iotop_ai.model.machine.pressure import PressureRates, pressure_rates
from iotop_ai.model.machine.rdma import RdmaCounters, RdmaRates
from iotop_ai.model.machine.tcp import TcpCounters, TcpRates
from iotop_ai.model.process.blocked import Wait, waits_of
from iotop_ai.model.process.rates import process_rates
from iotop_ai.model.process.records import ProcessKey, ProcessSample
from iotop_ai.model.reading import Rated, Reading
from iotop_ai.model.snapshot import OwnCost, Snapshot

GAP_FACTOR = 3.0
"""Two Snapshots that are more than this many intervals apart have a gap between them."""

T = TypeVar("T")
R = TypeVar("R")


class OwnRates(NamedTuple):
    """The cost of the monitor itself; all fields are None in an imported log, because no monitor ran."""

    cpu_ratio: float | None
    """The CPU time as a share of one core; None in the monitor's first Sample."""
    rss_bytes: int | None
    collect_s: float | None
    """How long the collection took."""
    late_s: float | None
    """How late the collection began."""


class Sample(NamedTuple):
    """All rates of one interval."""

    at_ns: int
    wall_ns: int
    seconds: float | None
    """The seconds between the two Snapshots; None without a usable earlier Snapshot."""
    gap: bool
    """Whether the Snapshots are more than three intervals apart, so that the rules ignore the Sample."""
    own: OwnRates
    block: Rated[Mapping[BlockKey, BlockRates]] = Rated()
    processes: Rated[ProcessSample] = Rated()
    cpu: Rated[CpuRates] = Rated()
    memory: Rated[MemoryRates] = Rated()
    pressure: Rated[Mapping[str, PressureRates]] = Rated()
    gpu: Rated[Mapping[str, GpuRates]] = Rated()
    network: Rated[Mapping[str, LinkRates]] = Rated()
    netfs: Rated[Mapping[str, NfsRates]] = Rated()
    waits: Mapping[ProcessKey, Wait] = {}
    """The processes in state D at the newer Snapshot. Kept here, because a history holds Samples, not Snapshots."""
    jobs: Rated[JobSample] = Rated()
    cgroups: Rated[Mapping[str, CgroupRates]] = Rated()
    tcp: Rated[TcpRates] = Rated()
    rdma: Rated[Mapping[str, RdmaRates]] = Rated()
    clocks: Rated[ClockRates] = Rated()
    pools: Rated[PoolRates] = Rated()
    steps: Rated[Mapping[ProcessKey, StepRates]] = Rated()


def rated(
    before: Reading[T] | None,
    after: Reading[T],
    last: Rated[R] | None,
    rates: Callable[[T | None, T, float | None], R],
) -> Rated[R]:
    """The rates of one subsystem, with the seconds between the two readings of that subsystem.

    If both readings have the same time, the subsystem was not read again, and ``last`` is repeated. If the earlier
    reading is missing or has no value, or the interval is not positive, ``rates`` gets None for the earlier value and
    for the seconds.

    rates: the function that computes the rates from (earlier value, later value, seconds)
    """
    if after.value is None:
        return Rated(None, after.at_ns, None, renewed=False)
    if before is not None and before.at_ns == after.at_ns and last is not None:
        return last._replace(renewed=False) if last.renewed else last
    seconds, old = None, None
    if before is not None and before.value is not None and before.at_ns is not None and after.at_ns is not None:
        seconds = (after.at_ns - before.at_ns) / 1e9
        old = before.value
    if seconds is None or seconds <= 0:
        seconds, old = None, None
    return Rated(rates(old, after.value, seconds), after.at_ns, seconds, renewed=True)


def _gpu_rates(before: GpuTable | None, after: GpuTable, seconds: float | None) -> dict[str, GpuRates]:
    # Imported here, because it is not needed at start-up or on a machine without a GPU.
    from iotop_ai.model.gpu.state import gpu_rates

    return gpu_rates(before, after, seconds)


def _cgroup_rates(
    before: CgroupTable | None, after: CgroupTable, seconds: float | None, infos: Mapping[str, BlockInfo] | None
) -> Mapping[str, CgroupRates]:
    # Imported here, because it is not needed at start-up.
    from iotop_ai.model.job.cgroup import cgroup_rates

    return cgroup_rates(before, after, seconds, infos)


def _tcp_rates(before: TcpCounters | None, after: TcpCounters, seconds: float | None) -> TcpRates:
    from iotop_ai.model.machine.tcp import tcp_rates

    return tcp_rates(before, after, seconds)


def _rdma_rates(
    before: Mapping[str, RdmaCounters] | None, after: Mapping[str, RdmaCounters], seconds: float | None
) -> Mapping[str, RdmaRates]:
    from iotop_ai.model.machine.rdma import rdma_rates

    return rdma_rates(before, after, seconds)


def _clock_rates(before: ClockState | None, after: ClockState, seconds: float | None) -> ClockRates:
    from iotop_ai.model.machine.cpu_clocks import clock_rates

    return clock_rates(before, after, seconds)


def _pool_rates(before: PoolTable | None, after: PoolTable, seconds: float | None) -> PoolRates:
    from iotop_ai.model.machine.pool import pool_rates

    return pool_rates(before, after, seconds)


def own_rates(before: OwnCost | None, after: OwnCost, seconds: float | None) -> OwnRates:
    """The monitor's own cost in the interval between two readings."""
    cpu = None
    if before is not None and before.pid == after.pid and seconds:
        used = delta(before.cpu_ns, after.cpu_ns)
        cpu = None if used is None else used / 1e9 / seconds
    collect_s, late_s = (None if ns is None else ns / 1e9 for ns in (after.collect_ns, after.late_ns))
    return OwnRates(cpu, after.rss_bytes, collect_s, late_s)


def is_pair(before: Snapshot | None, after: Snapshot) -> bool:
    """Whether the two Snapshots may be subtracted: they are from the same boot, and ``after`` is later."""
    return before is not None and before.host.boot_id == after.host.boot_id and after.at_ns > before.at_ns


def between(before: Snapshot | None, after: Snapshot, last: Sample | None) -> Sample:
    """The Sample that ends at ``after``: the rates since ``before``, as far as they are known.

    Snapshots of different boots are never paired, because pids, start times and diskseq repeat across boots.

    last: the Sample that ends at ``before``, whose rates are repeated for each subsystem that was not read again
    """
    if before is None or not is_pair(before, after):
        before, last = None, None
    seconds = None if before is None else (after.at_ns - before.at_ns) / 1e9
    gap = before is not None and seconds is not None and seconds > GAP_FACTOR * max(before.interval_s, after.interval_s)

    # A Snapshot or a Sample is never falsy, so ``before and before.cpu`` is None only if ``before`` is None.
    return Sample(
        after.at_ns,
        after.wall_ns,
        seconds,
        gap,
        own_rates(before and before.own, after.own, seconds),
        rated(
            before and before.block,
            after.block,
            last and last.block,
            lambda a, b, s: block_rates(a, b, s, after.disks.value),
        ),
        process_rates(before and before.processes, after.processes, last and last.processes),
        rated(before and before.cpu, after.cpu, last and last.cpu, cpu_rates),
        rated(before and before.memory, after.memory, last and last.memory, memory_rates),
        rated(before and before.pressure, after.pressure, last and last.pressure, pressure_rates),
        rated(before and before.gpu, after.gpu, last and last.gpu, _gpu_rates),
        rated(before and before.network, after.network, last and last.network, network_rates),
        rated(before and before.netfs, after.netfs, last and last.netfs, netfs_rates),
        waits_of(after.processes.value),
        rated(before and before.jobs, after.jobs, last and last.jobs, job_rates),
        rated(
            before and before.cgroups,
            after.cgroups,
            last and last.cgroups,
            lambda a, b, s: _cgroup_rates(a, b, s, after.disks.value),
        ),
        rated(before and before.tcp, after.tcp, last and last.tcp, _tcp_rates),
        rated(before and before.rdma, after.rdma, last and last.rdma, _rdma_rates),
        rated(before and before.clocks, after.clocks, last and last.clocks, _clock_rates),
        rated(before and before.pools, after.pools, last and last.pools, _pool_rates),
        rated_steps(before and before.steps, after.steps, last and last.steps),
    )
