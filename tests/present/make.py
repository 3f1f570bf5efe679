"""Snapshots and Frames that are made in memory: a machine is described by rates, and its counters grow every second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from iotop_ai.model.block.counters import BlockCounters, BlockInfo, BlockKey, Mount
from iotop_ai.model.finding import Finding, Severity, Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuProcess, GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.machine.cpu import CpuTable, CpuTicks
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.machine.network import LinkCounters
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.sample import Sample, between
from iotop_ai.model.snapshot import Host, OwnCost, Snapshot

NS = 1_000_000_000
START_NS = 1_000 * NS
WALL_NS = 1_794_884_000 * NS
KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4
HOST = Host("gpu07", "made-boot", "6.18", 1000, "alice", False)


class Disk(NamedTuple):
    """A device and its work in one second: requests, bytes, mean await in ms, the share of time that it is busy."""

    info: BlockInfo
    reads: int = 0
    read_bytes: int = 0
    read_await: float = 0.0
    writes: int = 0
    write_bytes: int = 0
    write_await: float = 0.0
    busy: float = 0.0


class Proc(NamedTuple):
    """A process and its work in one second: bytes, cores, the share of time blocked on block I/O, major faults."""

    pid: int
    name: str
    user: str = "alice"
    state: str = "S"
    read: int = 0
    write: int = 0
    cpu: float = 0.0
    blocked: float = 0.0
    denied: bool = False
    kernel: bool = False
    cmdline: tuple[str, ...] = ()
    wchan: str = ""
    threads: int = 1
    ppid: int = 1
    faults: int = 0


class Machine(NamedTuple):
    """One second of a machine. gpus: None without a driver. net: each link's received bytes per second and speed."""

    disks: tuple[Disk, ...] = ()
    procs: tuple[Proc, ...] = ()
    gpus: tuple[GpuState, ...] | None = None
    smart: Mapping[str, Reading[SmartState]] | None = None
    pressure: Mapping[str, float] | None = None
    net: Mapping[str, tuple[int, int | None]] = {}
    usage: Mapping[str, float] = {}
    cores: int = 192
    allowed: int = 40
    busy_cores: float = 9.0
    delayacct: bool = True
    own_cpu: float = 0.004
    memory: MemoryState | None = None


def disk(name: str, kind: str = "disk", mounts: Iterable[tuple[str, str]] = (), **more: object) -> BlockInfo:
    """A BlockInfo whose mounts are given as (path, fstype)."""
    found = tuple(Mount(path, fstype, f"/dev/{name}") for path, fstype in mounts)
    fields: dict[str, object] = {"label": name, "size_bytes": TIB, "mounts": found, **more}
    return BlockInfo(name, 8, 0, kind, **fields)


def memory(total: int = 2 * TIB, used: int = 307 * GIB) -> MemoryState:
    state = MemoryState(*[None] * (len(MemoryState._fields) - len(MemoryState._field_defaults)))
    return state._replace(
        total_bytes=total,
        available_bytes=total - used,
        cached_bytes=212 * GIB,
        dirty_bytes=300 * MIB,
        swap_total_bytes=8 * GIB,
        swap_free_bytes=8 * GIB,
    )


def smart(name: str, severity: str = "ok", reasons: tuple[str, ...] = (), celsius: int = 38) -> Reading[SmartState]:
    assessment = {"ok": "PASS", "warning": "WARN", "critical": "FAIL"}[severity]
    state = SmartState(name, "ata", "Made", "S1", "F1", assessment, severity, reasons, celsius)
    return Reading(state, Status.OK, at_ns=START_NS)


def gpu(number: int, busy: int, **more: object) -> GpuState:
    fields: dict[str, object] = {
        "memory_activity_percent": 9,
        "memory_total_bytes": 80 * GIB,
        "memory_used_bytes": 61 * GIB,
        "temperature_celsius": 41 + number % 4,
        "power_mw": 188_000,
        "power_limit_mw": 700_000,
        "sm_mhz": 1980,
        "clock_reasons": 0,
        "pcie_generation": 5,
        "pcie_width": 16,
        "pcie_max_width": 16,
        **more,
    }
    return GpuState(f"GPU-{number:04d}", number, "NVIDIA H100-80G", busy, **fields)


def _grown(old: BlockCounters, d: Disk, seconds: float) -> BlockCounters:
    reads, writes = round(d.reads * seconds), round(d.writes * seconds)
    read_ms, write_ms = round(reads * d.read_await), round(writes * d.write_await)
    return old._replace(
        rd_ios=old.rd_ios + reads,
        rd_sectors=old.rd_sectors + round(d.read_bytes * seconds) // 512,
        rd_ms=old.rd_ms + read_ms,
        wr_ios=old.wr_ios + writes,
        wr_sectors=old.wr_sectors + round(d.write_bytes * seconds) // 512,
        wr_ms=old.wr_ms + write_ms,
        busy_ms=old.busy_ms + round(d.busy * 1000 * seconds),
        queue_ms=old.queue_ms + read_ms + write_ms,
    )


_NO_STAT = ProcessStat("S", 1, 1000, 0, 0, 0, 0, 1, 4096, 0)


def _table(before: ProcessTable | None, at_ns: int, seconds: float, m: Machine) -> ProcessTable:
    io, stat, info, denied, wchan = {}, {}, {}, set(), {}
    for p in m.procs:
        key = ProcessKey(p.pid, p.pid)
        info[key] = ProcessInfo(p.name, p.cmdline, p.user, 0 if p.user == "root" else 1000, p.kernel)
        old = before.stat.get(key, _NO_STAT) if before else _NO_STAT
        stat[key] = old._replace(
            state=p.state,
            ppid=p.ppid,
            threads=p.threads,
            majflt=old.majflt + round(p.faults * seconds),
            utime_ticks=old.utime_ticks + round(p.cpu * 100 * seconds),
            blkio_ticks=old.blkio_ticks + round(p.blocked * 100 * seconds),
        )
        if p.denied:
            denied.add(key)
        else:
            was = before.io.get(key) if before else None
            was = was or ProcessIo(0, 0, 0, 0, 0, 0, 0)
            read, write = round(p.read * seconds), round(p.write * seconds)
            io[key] = was._replace(
                rchar=was.rchar + read,
                wchar=was.wchar + write,
                read_bytes=was.read_bytes + read,
                write_bytes=was.write_bytes + write,
            )
        if p.wchan:
            wchan[key] = p.wchan
    return ProcessTable(
        io, stat, info, frozenset(denied), at_ns, at_ns, (at_ns,), {}, {}, {}, wchan, delayacct=m.delayacct
    )


def _value(before: Snapshot | None, name: str) -> object:
    return None if before is None else getattr(before, name).value


def snapshot(m: Machine, before: Snapshot | None = None, seconds: float = 1.0, interval_s: float = 1.0) -> Snapshot:
    """The machine's Snapshot ``seconds`` after ``before``, with grown counters; the first one is at 1,000 s."""
    seconds = seconds if before else 0.0
    at_ns = before.at_ns + round(seconds * NS) if before else START_NS
    old_block = _value(before, "block") or {}
    zero = BlockCounters(*[0] * 17)
    block = {(key := BlockKey(d.info.name, 1)): _grown(old_block.get(key, zero), d, seconds) for d in m.disks}
    old_cpu = before.cpu.value.cores if before and before.cpu.value else {}
    cores = {}
    for n in range(m.cores):
        t = old_cpu.get(n, CpuTicks(0, 0, 0, 0, 0, 0, 0, 0))
        busy = min(1.0, max(0.0, m.busy_cores - n))
        cores[n] = t._replace(
            user=t.user + round(busy * 1000 * seconds), idle=t.idle + round((1 - busy) * 1000 * seconds)
        )
    old_psi = _value(before, "pressure") or {}
    psi = None
    if m.pressure is not None:
        psi = {
            k: PressureTotals((old_psi[k].some_us if k in old_psi else 0) + round(v * 1e6 * seconds), 0)
            for k, v in m.pressure.items()
        }
    old_net = _value(before, "network") or {}
    net = {
        k: LinkCounters(
            (old_net[k].rx_bytes if k in old_net else 0) + round(rate * seconds),
            0,
            0,
            0,
            0,
            0,
            bits,
            "up",
        )
        for k, (rate, bits) in m.net.items()
    }
    usage = {
        path: Reading(FilesystemUsage(TIB, round(TIB * (1 - r)), round(TIB * (1 - r)), 0, 0), Status.OK, at_ns=at_ns)
        for path, r in m.usage.items()
    }

    def ok(value: object, missing: Reading[object] | None = None) -> Reading[object]:
        if value is None:
            return missing or Reading(None, Status.ABSENT, "none here")
        return Reading(value, Status.OK, at_ns=at_ns)

    before_procs = before.processes.value if before else None
    old_own = before.own.cpu_ns if before else 0
    gpus = None if m.gpus is None else {g.uuid: Reading(g, Status.OK, at_ns=at_ns) for g in m.gpus}
    return Snapshot(
        before.seq + 1 if before else 0,
        at_ns,
        before.wall_ns + round(seconds * NS) if before else WALL_NS,
        interval_s,
        HOST,
        (),
        OwnCost(4242, old_own + round(m.own_cpu * seconds * NS), 43 * MIB, 4_000_000, 0),
        block=ok(block),
        disks=ok({d.info.name: d.info for d in m.disks}),
        mounts=ok(tuple(x for d in m.disks for x in d.info.mounts)),
        processes=ok(_table(before_procs, at_ns, seconds, m)),
        cpu=ok(CpuTable(cores, m.allowed, None)),
        memory=ok(m.memory or memory()),
        pressure=ok(psi, Reading(None, Status.OFF, "PSI is off", "boot with psi=1")),
        gpu=ok(gpus, Reading(None, Status.ABSENT, "no NVIDIA driver")),
        smart=ok(m.smart, Reading(None, Status.ABSENT, "smartctl is not installed", "apt install smartmontools")),
        filesystems=ok(usage),
        network=ok(net),
    )


def snapshots(machine: Callable[[int], Machine], count: int) -> list[Snapshot]:
    """This many Snapshots, a second apart; ``machine`` returns what the machine does in second i."""
    out: list[Snapshot] = []
    for i in range(count):
        out.append(snapshot(machine(i), out[-1] if out else None))
    return out


def unsure() -> Verdict:
    """A verdict that claims nothing."""
    return Verdict((Finding("unknown", Severity.INFO, 0.0),), 10.0, 10.0, 6, 6)


def frame(taken: list[Snapshot], verdict: Verdict | None = None, carry: FoldState | None = None) -> Frame:
    """The Frame of the last Snapshot, with the Samples of the last 60 s and this verdict."""
    samples: list[Sample] = []
    before = None
    for now in taken:
        samples.append(between(before, now, samples[-1] if samples else None))
        before = now
    newest = taken[-1]
    history = tuple(s for s in samples if s.at_ns > newest.at_ns - 60 * NS)
    return Frame(newest, samples[-1], history, carry or FoldState(taken[0].at_ns), verdict or unsure())


def older(taken: list[Snapshot]) -> tuple[Sample, ...]:
    """The older Samples, which a Frame of these Snapshots no longer contains; for View.past."""
    samples: list[Sample] = []
    before = None
    for now in taken:
        samples.append(between(before, now, samples[-1] if samples else None))
        before = now
    return tuple(s for s in samples if s.at_ns <= taken[-1].at_ns - 60 * NS)


TRAINER_PROCESSES = tuple(GpuProcess(48213 + n, 60 * GIB, "compute") for n in range(8))
