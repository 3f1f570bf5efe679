"""Random but plausible sessions: growing counters, resets, slow Readings, gaps, and processes that start and end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import islice

from iotop_ai.model.block.counters import BlockCounters, BlockInfo, BlockKey
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.machine.cpu import CpuTable, CpuTicks
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Event, Host, OwnCost, Snapshot
from iotop_ai.pipeline import frames

COHORTS = 5
SECOND = 1_000_000_000


class Machine:
    """A machine that is read once in each tick."""

    def __init__(self, seed: int, boot: str = "boot-1") -> None:
        self.random = random.Random(seed)
        self.boot = boot
        self.now = self.random.randrange(10**9, 10**12)
        self.wall = 1_763_700_000 * SECOND
        self.seq = 0
        self.disks = {BlockKey("sda", 1): BlockCounters(*[self.random.randrange(2**31) for _ in range(17)])}
        self.pids = 100
        self.io: dict[ProcessKey, ProcessIo] = {}
        self.stat: dict[ProcessKey, ProcessStat] = {}
        self.info: dict[ProcessKey, ProcessInfo] = {}
        self.stat_at = (0,) * COHORTS
        self.out: dict[ProcessKey, int] = {}
        self.ticks = CpuTicks(*[self.random.randrange(10**6) for _ in range(8)])
        self.psi = self.random.randrange(10**9)
        self.gpu: Reading[dict[str, Reading[GpuState]]] = Reading(None, Status.PENDING)
        self.smart: Reading[dict[str, Reading[SmartState]]] = Reading(None, Status.PENDING)
        self.energy = 10**6
        for _ in range(self.random.randrange(2, 8)):
            self.start()

    def start(self) -> None:
        self.pids += 1
        key = ProcessKey(self.pids, self.pids * 7)
        self.io[key] = ProcessIo(*[self.random.randrange(10**6) for _ in range(7)])
        self.stat[key] = ProcessStat("S", 1, 5, 0, 0, 10, 5, 1, 1000, 0)
        self.info[key] = ProcessInfo(f"p{self.pids}", ("python", "train.py", "--token=x"), "alice", 1000)

    def snapshot(self) -> Snapshot:
        pick = self.random
        step = pick.choice([1, 1, 1, 1, 1, 1, 1, 1, 2, 7])
        self.now += int(step * SECOND * pick.uniform(0.97, 1.03))
        self.wall += step * SECOND
        self.seq += 1
        key = next(iter(self.disks))
        if pick.random() < 0.03:
            key = BlockKey("sda", key.diskseq + 1)
        grown = [v + pick.choice([0, 0, pick.randrange(5000)]) for v in self.disks.get(key, (0,) * 17)]
        if pick.random() < 0.03:
            grown[0] = 0
        self.disks = {key: BlockCounters(*grown)} if any(grown) else self.disks
        if pick.random() < 0.3:
            self.start()
        gone: tuple[ProcessKey, ...] = ()
        if pick.random() < 0.2 and len(self.io) > 2:
            gone = (pick.choice(list(self.io)),)
            for table in (self.io, self.stat, self.info, self.out):
                table.pop(gone[0], None)
        for process in list(self.io):
            if pick.random() < 0.4:
                self.io[process] = ProcessIo(*[v + pick.randrange(10**6) for v in self.io[process]])
                stat = self.stat[process]
                self.stat[process] = stat._replace(
                    state=pick.choice("RSD"), utime_ticks=stat.utime_ticks + pick.randrange(100), minflt=stat.minflt + 3
                )
                self.out[process] = self.now
        cohort = self.seq % COHORTS
        self.stat_at = tuple(self.now if i == cohort else t for i, t in enumerate(self.stat_at))
        self.out = {k: t for k, t in self.out.items() if k.pid % COHORTS != cohort}
        table = ProcessTable(
            dict(self.io), dict(self.stat), dict(self.info), frozenset(), self.now, self.now, self.stat_at,
            dict(self.out), {}, {}, {}, gone, True, pick.choice([True, False]),
        )  # fmt: skip
        self.ticks = CpuTicks(*[v + pick.randrange(30) for v in self.ticks])
        self.psi += pick.randrange(10**6)
        self.energy += pick.randrange(400_000)
        if self.seq % 5 == 1:
            state = GpuState("GPU-1", 0, "H100", pick.randrange(100), power_mw=300_000, energy_mj=self.energy)
            self.gpu = Reading({"GPU-1": Reading(state, Status.OK, at_ns=self.now)}, Status.OK, at_ns=self.now)
        if self.seq == 9:
            health = SmartState("/dev/sda", "ata", "X", "S1", "F", "PASS", "ok", ())
            self.smart = Reading({"sda": Reading(health, Status.OK, at_ns=self.now)}, Status.OK, at_ns=self.now)
        events = (Event(self.now - 5, self.wall - 5, "mark", f"m{self.seq}"),) if pick.random() < 0.1 else ()
        return Snapshot(
            self.seq, self.now, self.wall, 1.0, Host("h", self.boot, "6.18", 0, "root", True), events,
            OwnCost(1, self.seq * 10**6, 40 << 20, 10**6, 0),
            block=self.reading(self.disks),
            disks=self.reading({"sda": BlockInfo("sda", 8, 0, "disk", "sda", "SATA SSD", transport="ata")}),
            processes=Reading(table, Status.OK, at_ns=self.now),
            cpu=self.reading(CpuTable({0: self.ticks}, 1, 1)),
            memory=self.reading(MemoryState(*[pick.choice([10**9, None]) for _ in range(27)])),
            pressure=self.reading({"io": PressureTotals(self.psi, self.psi // 2)}),
            gpu=self.gpu,
            smart=self.smart,
        )  # fmt: skip

    def reading(self, value: object) -> Reading:
        if self.random.random() < 0.02:
            return Reading(None, Status.FAILED, "no answer", at_ns=self.now)
        return Reading(value, Status.OK, at_ns=self.now)


def session(seed: int, length: int) -> Iterator[Snapshot]:
    """This many Snapshots of one boot."""
    machine = Machine(seed)
    for _ in range(length):
        yield machine.snapshot()


def clock_set_back(length: int, at: int, seconds: int) -> list[Frame]:
    """Frames a second apart, numbered from 0. Before number ``at`` the clock is set back (seconds < 0: ahead)."""
    machine, out = Machine(5), []
    begin_ns, wall_ns = 1000 * SECOND, machine.wall
    for number in range(length):
        machine.now = begin_ns + number * SECOND
        made = machine.snapshot()
        wall = wall_ns + (number - (seconds if number >= at else 0)) * SECOND
        out.append(made._replace(seq=number, at_ns=begin_ns + number * SECOND, wall_ns=wall, events=()))
    return list(frames(out))


@cache
def _begun(seed: int) -> tuple[list[Frame], Iterator[Frame]]:
    return [], frames(session(seed, 10_000))


def lived(seed: int, length: int) -> list[Frame]:
    """The Frames of ``session(seed, length)``. Tests share them, because a shorter session begins like a longer one."""
    made, rest = _begun(seed)
    made.extend(islice(rest, max(0, length - len(made))))
    return made[:length]


@cache
def _rebooted() -> list[Frame]:
    before, after = Machine(3, "boot-1"), Machine(4, "boot-2")
    return list(frames([*(before.snapshot() for _ in range(70)), *(after.snapshot() for _ in range(70))]))


def rebooted() -> list[Frame]:
    """The Frames of 70 Snapshots before a reboot and of 70 after it."""
    return list(_rebooted())
