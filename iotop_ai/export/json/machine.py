"""The ``system`` part of a snapshot: the machine's figures, the monitor's own cost, and the status of each Reading."""

from __future__ import annotations

from typing import Any

from iotop_ai.export.field_names import merged, rates_object, rounded
from iotop_ai.model.block.counters import block_totals
from iotop_ai.model.frame import Frame
from iotop_ai.model.machine.cpu import CpuRates
from iotop_ai.model.reading import Reading
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.store.format.redact import event_text

Object = dict[str, Any]
READINGS = tuple(name for name, default in Snapshot._field_defaults.items() if isinstance(default, Reading))
"""The fields of a Snapshot that are Readings."""


def system_object(frame: Frame, cmdline: str = "names") -> Object:
    """The ``system`` object. A part is null if its Reading has no value; ``readings`` has the reason.

    cmdline: one of CMDLINE_LEVELS.
    """
    return {
        "host": frame.snapshot.host._asdict(),
        "totals": _totals(frame),
        "cpu": _cpu(frame),
        "memory": _memory(frame),
        "pressure": _rates_by_name(frame.sample.pressure.value),
        "filesystems": filesystem_objects(frame),
        "network": _network(frame),
        "tcp": _rates_or_none(frame.sample.tcp.value),
        "rdma": _rates_by_name(frame.sample.rdma.value),
        "clocks": _rates_or_none(frame.sample.clocks.value),
        "cgroups": _cgroups(frame),
        "pools": _pools(frame),
        "nfs": _nfs(frame),
        "fuse": _fuse(frame),
        "processes": process_counts(frame),
        "events": [
            {
                "kind": event.kind,
                "text": event_text(event, cmdline),
                "age_s": rounded((frame.snapshot.at_ns - event.at_ns) / 1e9),
            }
            for event in frame.snapshot.events
        ],
        "self": merged(
            {"pid": frame.snapshot.own.pid}, {name: rounded(v) for name, v in frame.sample.own._asdict().items()}
        ),
        "readings": {name: _reading_object(getattr(frame.snapshot, name), frame.snapshot.at_ns) for name in READINGS},
    }


def _reading_object(reading: Reading[Any], now_ns: int) -> Object:
    age = None if reading.at_ns is None else max(0.0, (now_ns - reading.at_ns) / 1e9)
    return {
        "status": reading.status.value,
        "reason": reading.reason,
        "remedy": reading.remedy,
        "age_s": rounded(age),
        "took_s": rounded(reading.took_ns / 1e9),
    }


def _totals(frame: Frame) -> Object | None:
    rates, infos = frame.sample.block.value, frame.snapshot.disks.value
    if rates is None or infos is None:
        return None
    return {name: rounded(value) for name, value in block_totals(rates, infos.values())._asdict().items()}


def _cpu(frame: Frame) -> Object | None:
    table, rates = frame.snapshot.cpu.value, frame.sample.cpu.value
    if table is None:
        return None
    out: Object = {
        "cores": len(table.cores),
        "allowed": table.allowed,
        "physical": table.physical,
        "load1": table.load1,
    }
    if isinstance(rates, CpuRates):
        out.update(rates_object(rates.all))
        busiest = None if rates.busiest is None else rates.cores.get(rates.busiest)
        out["busiest_core"] = rates.busiest
        out["busiest_core_busy_ratio"] = None if busiest is None else rounded(busiest.busy_ratio)
    return out


def _memory(frame: Frame) -> Object | None:
    state, rates = frame.snapshot.memory.value, frame.sample.memory.value
    if state is None:
        return None
    names = [name for name in state._fields if name.endswith("_bytes") and name != "page_bytes"]
    levels = {name: getattr(state, name) for name in names}
    return merged(levels, {} if rates is None else rates_object(rates))


def _rates_by_name(table: Any) -> Object | None:
    return None if table is None else {name: rates_object(rates) for name, rates in table.items()}


def _rates_or_none(rates: Any) -> Object | None:
    return None if rates is None else dict(rates_object(rates))


def filesystem_objects(frame: Frame) -> list[Object] | None:
    """One object per queried mount. A mount that does not answer has its status and reason instead of sizes."""
    table = frame.snapshot.filesystems.value
    if table is None:
        return None
    out = []
    for mount, reading in table.items():
        usage = reading.value
        sizes: Object = {}
        if usage is not None:
            sizes = merged(
                usage._asdict(),
                {"used_ratio": rounded(usage.used_ratio), "inodes_used_ratio": rounded(usage.inodes_used_ratio)},
            )
        out.append(merged({"mount": mount, "status": reading.status.value, "reason": reading.reason}, sizes))
    return out


def _network(frame: Frame) -> list[Object] | None:
    table = frame.snapshot.network.value
    if table is None:
        return None
    rates = frame.sample.network.value or {}
    return [
        merged(
            {"name": name, "kind": link.kind, "state": link.state, "bits_per_s": link.bits_per_s},
            rates_object(rates[name]) if name in rates else {},
        )
        for name, link in table.items()
    ]


def _pools(frame: Frame) -> Object | None:
    """ZFS's cache and pools, Lustre's clients, and the errors of each btrfs; None if unknown or if there are none."""
    table, rates = frame.snapshot.pools.value, frame.sample.pools.value
    if table is None or rates is None:
        return None
    return merged(
        rates_object(rates),
        {"zfs": _rates_by_name(rates.zfs), "lustre": _rates_by_name(rates.lustre)},
        {"btrfs": {uuid: errors._asdict() for uuid, errors in table.btrfs.items()}},
    )


def _cgroups(frame: Frame) -> list[Object] | None:
    """One object per cgroup of a job; [] if no job has its own cgroup, None if unknown or before the first job."""
    table = frame.snapshot.cgroups.value
    if table is None:
        return None
    rates = frame.sample.cgroups.value or {}
    out = []
    for path, group in table.groups.items():
        levels = {name: value for name, value in group.memory._asdict().items() if name != "refaults"}
        rate = rates.get(path)
        figures: Object = {} if rate is None else dict(rates_object(rate))
        figures["devices"] = {} if rate is None else {n: rates_object(r) for n, r in rate.devices.items()}
        jobs = [key.pid for key, job_path in table.jobs.items() if job_path == path]
        out.append(merged({"path": path, "jobs": jobs}, levels, group.cpu._asdict(), figures))
    return out


def _nfs(frame: Frame) -> list[Object] | None:
    table = frame.snapshot.netfs.value
    if table is None:
        return None
    rates = frame.sample.netfs.value or {}
    out = []
    for mount, state in table.nfs.items():
        rate = rates.get(mount)
        figures: Object = {}
        if rate is not None:
            figures = merged(rates_object(rate), {"ops": {op: rates_object(r) for op, r in rate.ops.items()}})
        out.append(merged({"mount": mount, "source": state.source, "fstype": state.fstype}, figures))
    return out


def _fuse(frame: Frame) -> list[Object] | None:
    table = frame.snapshot.netfs.value
    return None if table is None else [mount._asdict() for mount in table.fuse.values()]


def process_counts(frame: Frame) -> Object | None:
    """The number of processes, of unreadable ones and of those in state D, and how they were read; None if unknown."""
    table = frame.snapshot.processes.value
    if table is None:
        return None
    return {
        "count": len(table.info),
        "not_permitted": len(table.denied),
        "complete": table.complete,
        "delay_accounting": table.delayacct,
        "in_state_d": sum(stat.state == "D" for stat in table.stat.values()),
    }
