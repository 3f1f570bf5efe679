"""Counts the cells (figures) in a Snapshot's tables of rates, so that a reader can limit the memory for them.

The length of a line is not a limit: even a short line can make a reader compute all rates of a big table again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iotop_ai.model.block.counters import BlockRates
from iotop_ai.model.gpu.state import GpuRates
from iotop_ai.model.job.cgroup import CgroupIoRates, CgroupRates, CgroupTable
from iotop_ai.model.job.records import JobTable
from iotop_ai.model.job.steps import StepRates
from iotop_ai.model.machine.cpu import CoreRates, CpuTable
from iotop_ai.model.machine.netfs import NetfsTable, NfsOpRates, NfsRates
from iotop_ai.model.machine.network import LinkRates
from iotop_ai.model.machine.pool import PoolTable, ProgramIoRates
from iotop_ai.model.machine.rdma import RdmaRates
from iotop_ai.model.snapshot import Snapshot

_ENTRY = 3
"""The memory of a record besides its fields, in cells: the object's header and its entry in a table."""


def _width(kind: Any) -> int:
    """The cells of one record."""
    return len(kind._fields) + _ENTRY


def _cell_counter(kind: Any) -> Callable[[Any], int]:
    """A function that counts the cells of a table of these records."""
    width = _width(kind)
    return lambda table: len(table) * width


_CORE, _PROGRAM_IO = _width(CoreRates), _width(ProgramIoRates)
_NFS, _NFS_OP = _width(NfsRates), _width(NfsOpRates)
_CGROUP, _CGROUP_IO = _width(CgroupRates), _width(CgroupIoRates)
_TASK, _JOB = 8, 40
"""The cells of a job's task and of a job, rounded up."""


def _cpu_cells(table: CpuTable) -> int:
    return len(table.cores) * _CORE


def _netfs_cells(table: NetfsTable) -> int:
    return sum(_NFS + len(mount.ops) * _NFS_OP for mount in table.nfs.values())


def _cgroup_cells(table: CgroupTable) -> int:
    return sum(_CGROUP + len(group.io or ()) * _CGROUP_IO for group in table.groups.values())


def _pool_cells(table: PoolTable) -> int:
    return (len(table.zfs) + len(table.lustre)) * _PROGRAM_IO


def _job_cells(table: JobTable) -> int:
    jobs = (len(table.jobs) + len(table.times)) * _JOB
    return jobs + len(table.tasks) * _TASK + len(table.rank_waits) * _ENTRY


_COUNTS: tuple[tuple[str, Callable[[Any], int]], ...] = (
    ("block", _cell_counter(BlockRates)),
    ("cpu", _cpu_cells),
    ("gpu", _cell_counter(GpuRates)),
    ("network", _cell_counter(LinkRates)),
    ("netfs", _netfs_cells),
    ("cgroups", _cgroup_cells),
    ("rdma", _cell_counter(RdmaRates)),
    ("pools", _pool_cells),
    ("jobs", _job_cells),
    ("steps", _cell_counter(StepRates)),
)
"""The fields of a Snapshot that have a table of rates, each with the function that counts the cells of the table."""


def rated_cells(snapshot: Snapshot, before: Snapshot | None) -> int:
    """The cells of the rates that are computed again for a Snapshot. The rates of processes are not counted.

    before: the previous Snapshot
    """
    cells = 0
    for name, count in _COUNTS:
        reading = getattr(snapshot, name)
        if reading.value and (before is None or getattr(before, name).at_ns != reading.at_ns):
            cells += count(reading.value)
    return cells
