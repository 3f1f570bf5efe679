"""The machine-wide lines of a text block: CPU, memory, pressure, links, filesystems, SMART, and notes."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.export.json.snapshot import smart_objects
from iotop_ai.export.text.table import UNDEFINED, UNKNOWN, field, number, table
from iotop_ai.model.frame import Frame
from iotop_ai.model.process.records import delay_remedy
from iotop_ai.model.reading import Status

_MIB = 1 << 20


def system_lines(frame: Frame) -> list[str]:
    """``word key=value ...`` lines: cpu, memory, pressure, each link with traffic, and the monitor's own cost."""
    return [*_cpu(frame), *_memory(frame), *_pressure(frame), *_links(frame), _own(frame)]


def _percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else number(ratio * 100, 1) + "%"


def _mib(value: float | None) -> str:
    return UNKNOWN if value is None else number(value / _MIB, 1)


def _cpu(frame: Frame) -> list[str]:
    cpu, rates = frame.snapshot.cpu.value, frame.sample.cpu.value
    if cpu is None or rates is None:
        return []
    all_cores = rates.all
    busiest = UNKNOWN
    if rates.busiest is not None:
        busiest = f"{_percent(rates.cores[rates.busiest].busy_ratio)} core={rates.busiest}"
    return [
        f"cpu busy={_percent(all_cores.busy_ratio)} iowait={_percent(all_cores.iowait_ratio)}"
        f" steal={_percent(all_cores.steal_ratio)} busiest={busiest} cores={len(cpu.cores)} allowed={cpu.allowed}"
        f" load1={number(cpu.load1)}"
    ]


def _memory(frame: Frame) -> list[str]:
    memory, rates = frame.snapshot.memory.value, frame.sample.memory.value
    if memory is None:
        return []
    swapped = None
    if memory.swap_total_bytes is not None and memory.swap_free_bytes is not None:
        swapped = memory.swap_total_bytes - memory.swap_free_bytes
    line = (
        f"memory MiB-available={_mib(memory.available_bytes)} MiB-total={_mib(memory.total_bytes)}"
        f" MiB-dirty={_mib(memory.dirty_bytes)} MiB-writeback={_mib(memory.writeback_bytes)}"
        f" MiB-swapped={_mib(swapped)}"
    )
    if rates is not None:
        line += f" MiB-refault/s={_mib(rates.refault_file_bytes_per_s)} majflt/s={number(rates.major_faults_per_s, 1)}"
    return [line]


def _pressure(frame: Frame) -> list[str]:
    rates = frame.sample.pressure.value
    if not rates:
        return []
    shares = [f"{name}={_percent(rates[name].some_ratio)}" for name in ("cpu", "io", "memory") if name in rates]
    return ["pressure " + " ".join(shares)] if shares else []


def _links(frame: Frame) -> list[str]:
    rates = frame.sample.network.value or {}
    links = frame.snapshot.network.value or {}
    out = []
    for name, rate in rates.items():
        speed = links[name].bits_per_s if name in links else None
        if rate.rx_bytes_per_s or rate.tx_bytes_per_s:
            out.append(
                f"net {field(name)} MiB-rx/s={_mib(rate.rx_bytes_per_s)} MiB-tx/s={_mib(rate.tx_bytes_per_s)}"
                f" Gbit/s={UNKNOWN if speed is None else format(speed / 1e9, 'g')} errors/s={number(rate.errors_per_s)}"
            )
    return out


def _own(frame: Frame) -> str:
    own = frame.sample.own
    took_ms = None if own.collect_s is None else own.collect_s * 1000
    return f"self cpu={_percent(own.cpu_ratio)} MiB={_mib(own.rss_bytes)} ms={number(took_ms, 1)}"


def filesystem_lines(frame: Frame) -> list[str]:
    """A row per queried mount; [] if none is known."""
    mounts = frame.snapshot.filesystems.value
    if not mounts:
        return []
    rows = []
    for mount, reading in mounts.items():
        usage = reading.value
        if usage is None:
            rows.append([field(mount), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, reading.reason or reading.status.value])
            continue
        inodes = UNDEFINED if usage.inodes_used_ratio is None else _percent(usage.inodes_used_ratio)
        figures = [_mib(usage.total_bytes), _mib(usage.available_bytes), _percent(usage.used_ratio), inodes]
        rows.append([field(mount), *figures, "ok"])
    return table(["Mount", "MiB-total", "MiB-avail", "used", "inodes", "state"], rows, [12])


def smart_lines(frame: Frame, devices: Sequence[str] = ()) -> list[str]:
    """A row per disk: its health and key figures, or the reason why they are missing and the remedy."""
    rows = []
    for disk in smart_objects(frame, devices):
        if "severity" not in disk:
            words = "; ".join(part for part in (disk["reason"], disk["remedy"]) if part)
            rows.append([field(disk["name"]), disk["status"], UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, words or UNDEFINED])
            continue
        # The figures of a disk that does not answer now, for instance because it sleeps, are from its last answer.
        status = "" if disk["status"] == Status.OK.value else disk["status"]
        words = "; ".join(filter(None, (status, disk["model"], *disk["reasons"]))) or UNDEFINED
        figures = [disk[name] for name in ("temperature_celsius", "power_on_hours", "reallocated", "media_errors")]
        cells = [UNKNOWN if figure is None else str(figure) for figure in figures]
        rows.append([field(disk["name"]), disk["severity"], *cells, words])
    if not rows:
        return []
    return table(["SMART", "health", "temp-C", "hours", "realloc", "media-err", "words"], rows, [12])


def footnote_lines(frame: Frame) -> list[str]:
    """A ``note`` line for each missing part of the block, with its remedy."""
    notes = []
    snapshot = frame.snapshot
    processes = snapshot.processes.value
    if processes is not None and processes.denied:
        remedy = " (sudo shows them)" if snapshot.host.euid else ""
        notes.append(f"{len(processes.denied)} of {len(processes.info)} processes not permitted{remedy}")
    if processes is not None and not processes.complete:
        notes.append("processes of other users are hidden here (hidepid)")
    if processes is not None and processes.delayacct is False:
        remedy = delay_remedy(snapshot.host.kernel)
        notes.append(f"%IO is off: {remedy} switches it on for processes started later")
    notes += [
        f"{field(info.name)}: its I/O accounting is off ({info.stats_remedy})"
        for info in (snapshot.disks.value or {}).values()
        if info.stats_off and info.kind == "disk"
    ]
    for name in ("block", "gpu", "smart", "pressure", "processes"):
        reading = getattr(snapshot, name)
        switched_off = name == "smart" and reading.status is Status.OFF
        if reading.value is None and reading.reason and not switched_off:
            notes.append(f"{name}: {reading.reason}" + (f" ({reading.remedy})" if reading.remedy else ""))
    return [f"note {note}" for note in notes]
