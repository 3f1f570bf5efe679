"""A synthetic training server: its disks, GPUs and processes, as Snapshots one second apart.

Its figures change like those of real machines: idle GPUs still draw power and count energy, daemons wake up, and
readings are some microseconds apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from iotop_ai.model.block.counters import BlockCounters, BlockInfo, BlockKey, Mount
from iotop_ai.model.gpu.state import GpuProcess, GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.machine.cpu import CpuTable, CpuTicks
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.machine.memory import MemoryState
from iotop_ai.model.machine.netfs import NetfsTable
from iotop_ai.model.machine.network import LinkCounters
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.process.records import ProcessInfo, ProcessIo, ProcessKey, ProcessStat, ProcessTable, ThreadLook
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Host, OwnCost, Snapshot
from iotop_ai.sources.live.time_rounding import TimeRounder, rounded_cost, step_ns
from iotop_ai.store.format.reading_times import TIMED

COHORTS = 5
SECOND = 1_000_000_000
STEP_NS = step_ns(1.0)
LOADS = ("idle", "two", "all")
""""idle": no job runs. "two", "all": a job with four processes per GPU reads from two disks or from every disk."""
KIB, GIB = 1 << 10, 1 << 30


class Server:
    """One synthetic machine.

    cores, disks, gpus, processes: the number of each. load: one of LOADS. every: the seconds between two Snapshots.
    """

    def __init__(
        self, load: str, processes: int = 100, gpus: int = 8, disks: int = 16, cores: int = 64, every: int = 1
    ) -> None:
        self.every = every
        self.random = rng = random.Random(7)
        self.load = load
        self.busy_disks = {"idle": 0, "two": 2, "all": disks}[load]
        self.workers = 0 if load == "idle" else 4 * gpus
        self.now = 86_400 * SECOND + rng.randrange(SECOND)
        self.wall = 1_795_250_000 * SECOND + rng.randrange(SECOND)
        self.seq = 0
        self.rounder = TimeRounder()
        self.cpu_ns = 10**9
        self.clock = self.now
        names = [f"nvme{i}n1" for i in range(disks)]
        self.disks = {
            BlockKey(name, 10 + i): BlockCounters(*[rng.randrange(10**9) for _ in range(8)], 0, 10**8, 10**8, *[0] * 6)
            for i, name in enumerate(names)
        }
        self.infos = {
            name: BlockInfo(
                name,
                259,
                i,
                "disk",
                name,
                "NVMe",
                transport="nvme",
                model="SAMSUNG MZWLO3T8HCLS",
                serial=f"S7{i:012}",
                firmware="OPPA1B5Q",
                size_bytes=3_840_755_982_336,
                rotational=False,
                queue_depth=1023,
                scheduler="none",
                read_ahead_bytes=131072,
                pcie="5x4",
                pcie_max="5x4",
                temperature_celsius=38.0 + i % 3,
                mounts=(Mount(f"/data{i}", "xfs", f"/dev/{name}", device=f"259:{i}"),),
            )
            for i, name in enumerate(names)
        }
        self.cores = {i: CpuTicks(10**6 + i, 100, 10**5, 8_000_000 + i, 5_000, 0, 900, 0) for i in range(cores)}
        self.keys = [ProcessKey(1000 + 7 * i, 2_000 + 31 * i) for i in range(processes)]
        self.io = {
            key: ProcessIo(*[rng.randrange(10**8) for _ in range(4)], *[4096 * i for i in (9, 3, 0)])
            for key in self.keys
        }
        self.stat = {key: ProcessStat("S", 1, 9000, 0, 12, 400, 90, 1, 9000, 0) for key in self.keys}
        workers = frozenset(self.keys[: self.workers])
        self.info = {
            key: ProcessInfo("python3", ("python3", "train.py"), "alice", 1000, False, "/user.slice/job-7.scope")
            if key in workers
            else ProcessInfo(f"daemon-{i}", (f"daemon-{i}",), "root", 0, False, f"/system.slice/daemon-{i}.service")
            for i, key in enumerate(self.keys)
        }
        self.stat_at = (self.now,) * COHORTS
        self.stat_read_outside_cohort: dict[ProcessKey, int] = {}
        self.gpus = [
            GpuState(
                f"GPU-{rng.getrandbits(32):08x}-4c1a-9f2e-77aa-{rng.getrandbits(48):012x}",
                i,
                "NVIDIA H100 80GB HBM3",
                0,
                0,
                85_520_809_984,
                600 << 20,
                700 << 20,
                31 + i % 3,
                70_000,
                700_000,
                10**9,
                345,
                1980,
                2619,
                None,
                0,
                1,
                5,
                16,
                5,
                16,
                f"00000000:{i:02X}:00.0",
                False,
                (),
            )
            for i in range(gpus)
        ]
        self.links = {
            name: LinkCounters(10**11, 10**11, 0, 0, 0, 0, 400 * 10**9, "up", kind)
            for name, kind in [("eth0", "nic"), *((f"mlx5_{i}/1", "ib") for i in range(gpus))]
        }
        self.memory = MemoryState(
            *[rng.randrange(10**11) for _ in range(11)], *[rng.randrange(10**9) for _ in range(16)]
        )
        self.pressure = {name: PressureTotals(10**9, 10**8) for name in ("cpu", "io", "memory")}
        health = SmartState("/dev/nvme0", "nvme", "SAMSUNG MZWLO3T8HCLS", "S7", "OPPA1B5Q", "PASS", "ok", (), 38, 4000)
        self.smart: Reading = Reading(
            {name: Reading(health, Status.OK, at_ns=self.now) for name in names}, Status.OK, at_ns=self.now
        )

    def reading(self, value: object, took_us: int) -> Reading:
        """Return a Reading of the value. took_us: the typical duration of the read, in microseconds."""
        took = int(took_us * 1000 * self.random.lognormvariate(0, 0.15))
        self.clock += took + self.random.randrange(5000)
        return Reading(value, Status.OK, at_ns=self.clock, took_ns=took)

    def snapshot(self) -> Snapshot:
        """Return the next Snapshot, after the changes of the seconds since the previous Snapshot."""
        for _ in range(self.every - 1):
            for advance in (self._block, self._cpu, self._memory, self._pressure, self._gpu, self._network):
                advance()
        rng = self.random
        self.seq += 1
        self.now += self.every * SECOND
        start = (self.now + int(abs(rng.gauss(0, 80_000)))) // STEP_NS * STEP_NS
        wall = (self.wall + start - self.now) // STEP_NS * STEP_NS
        self.wall += self.every * SECOND
        self.clock = start
        block = self.reading(self._block(), 60)
        processes = self._processes()
        cost = OwnCost(4242, self.cpu_ns, 45 << 20, self.clock - start + 900_000, start - self.now)
        self.cpu_ns += int(rng.gauss(9e6, 1e6))
        snapshot = Snapshot(
            self.seq,
            start,
            wall,
            float(self.every),
            Host("dgx-07", "b7c1d9c0-1111-2222-3333-444455556666", "6.8.0-57", 0, "root", True),
            (),
            cost,
            block=block,
            disks=self.reading(self.infos, 15),
            mounts=self.reading(tuple(m for i in self.infos.values() for m in i.mounts), 40),
            processes=processes,
            cpu=self.reading(self._cpu(), 150),
            memory=self.reading(self._memory(), 90),
            pressure=self.reading(self._pressure(), 30),
            gpu=self._gpu(),
            smart=self.smart,
            filesystems=self.reading(
                {
                    m.path: Reading(
                        FilesystemUsage(10**12, 10**11, 10**11, 10**6, 10**5),
                        Status.OK,
                        at_ns=self.now // (30 * SECOND) * 30 * SECOND,
                    )
                    for i in self.infos.values()
                    for m in i.mounts
                },
                20,
            ),
            network=self.reading(self._network(), 80),
            netfs=Reading(NetfsTable({}, {}), Status.OK, at_ns=self.clock, took_ns=3000),
        )
        rounded = {name: self.rounder.reading(name, getattr(snapshot, name), STEP_NS) for name in TIMED}
        return snapshot._replace(own=rounded_cost(cost), **rounded)

    def _block(self) -> dict[BlockKey, BlockCounters]:
        rng = self.random
        for i, (key, counters) in enumerate(self.disks.items()):
            if i < self.busy_disks:
                ios, size = rng.randrange(6000, 9000), rng.randrange(200, 260)
                busy, wait = rng.randrange(700, 1001), rng.randrange(9000, 30000)
                self.disks[key] = counters._replace(
                    rd_ios=counters.rd_ios + ios,
                    rd_sectors=counters.rd_sectors + ios * size,
                    rd_ms=counters.rd_ms + wait,
                    rd_merges=counters.rd_merges + rng.randrange(50),
                    busy_ms=counters.busy_ms + busy,
                    queue_ms=counters.queue_ms + wait,
                    in_flight=rng.randrange(1, 30),
                )
            elif i == self.busy_disks and self.seq % 5 == 0:
                n = rng.randrange(1, 40)  # the journal of the system's disk
                self.disks[key] = counters._replace(
                    wr_ios=counters.wr_ios + n,
                    wr_sectors=counters.wr_sectors + 16 * n,
                    wr_ms=counters.wr_ms + n,
                    busy_ms=counters.busy_ms + n,
                )
        return dict(self.disks)

    def _processes(self) -> Reading[ProcessTable]:
        rng = self.random
        self.clock += int(2e6 * rng.lognormvariate(0, 0.1))
        io_at = self.clock
        cohort = self.seq % COHORTS
        daemons = self.keys[self.workers :]
        wake = min(len(daemons), self.every * max(1, len(daemons) // 25))
        moved = self.keys[: self.workers] + rng.sample(daemons, wake)
        self.stat_read_outside_cohort = {
            k: t for k, t in self.stat_read_outside_cohort.items() if k.pid % COHORTS != cohort
        }
        self.io, self.stat = dict(self.io), dict(self.stat)
        threads, wchan = {}, {}
        for i, key in enumerate(moved):
            io, stat = self.io[key], self.stat[key]
            if i < self.workers:
                read = rng.randrange(5000, 50_000) * KIB
                self.io[key] = io._replace(
                    rchar=io.rchar + read, syscr=io.syscr + read // 110_000, read_bytes=io.read_bytes + read
                )
                self.stat[key] = stat._replace(
                    state=rng.choice("DDRS"),
                    minflt=stat.minflt + rng.randrange(900),
                    utime_ticks=stat.utime_ticks + rng.randrange(90),
                    stime_ticks=stat.stime_ticks + rng.randrange(9),
                    blkio_ticks=stat.blkio_ticks + rng.randrange(60),
                    threads=4,
                )
                threads[key] = ThreadLook((("S", 3), ("D", 1)), tuple((key.pid + j, 0) for j in range(3)))
                wchan[key] = "folio_wait_bit_common"
            else:
                self.io[key] = io._replace(rchar=io.rchar + rng.randrange(4000), syscr=io.syscr + rng.randrange(1, 20))
                self.stat[key] = stat._replace(
                    minflt=stat.minflt + rng.randrange(2), utime_ticks=stat.utime_ticks + rng.randrange(2)
                )
            if key.pid % COHORTS != cohort:
                self.stat_read_outside_cohort[key] = io_at + 500_000
        stat_at = io_at + 500_000
        self.stat_at = tuple(stat_at if i == cohort else t for i, t in enumerate(self.stat_at))
        self.clock = stat_at + 200_000
        table = ProcessTable(
            self.io,
            self.stat,
            self.info,
            frozenset(),
            io_at,
            stat_at,
            self.stat_at,
            dict(self.stat_read_outside_cohort),
            {},
            threads,
            wchan,
            delayacct=True,
        )
        return Reading(table, Status.OK, at_ns=io_at, took_ns=int(3e6 * rng.lognormvariate(0, 0.2)))

    def _cpu(self) -> CpuTable:
        rng = self.random
        working = {"idle": 0.02, "two": 0.4, "all": 0.9}[self.load]
        for core, ticks in self.cores.items():
            busy = rng.randrange(40, 101) if rng.random() < working else rng.choice((0, 0, 0, 0, 1))
            self.cores[core] = ticks._replace(
                user=ticks.user + busy * 8 // 10,
                system=ticks.system + busy - busy * 8 // 10,
                idle=ticks.idle + 100 - busy,
            )
        return CpuTable(
            dict(self.cores),
            len(self.cores),
            len(self.cores) // 2,
            round(1 + rng.random(), 2),
        )

    def _memory(self) -> MemoryState:
        rng = self.random
        step = 4096 * (rng.randrange(-200, 200) if self.load == "idle" else rng.randrange(-90_000, 90_000))
        current = self.memory
        pages = 0 if self.load == "idle" else rng.randrange(10**5)
        self.memory = current._replace(
            free_bytes=current.free_bytes - step,
            available_bytes=current.available_bytes - step // 2,
            cached_bytes=current.cached_bytes + step,
            dirty_bytes=rng.randrange(200) * 4096,
            pgpgin_kib=current.pgpgin_kib + pages * 4,
            pgpgout_kib=current.pgpgout_kib + rng.randrange(200),
            nr_dirtied_pages=current.nr_dirtied_pages + rng.randrange(50),
            nr_written_pages=current.nr_written_pages + rng.randrange(50),
            refault_file_pages=current.refault_file_pages + pages // 9,
        )
        return self.memory

    def _pressure(self) -> dict[str, PressureTotals]:
        rng = self.random
        grown = {"idle": 60, "two": 200_000, "all": 900_000}[self.load]
        for name in ("cpu", "io") if self.load != "idle" else ("cpu",):
            current = self.pressure[name]
            add = rng.randrange(grown)
            self.pressure[name] = PressureTotals(
                current.some_us + add, (current.full_us or 0) + (add // 2 if name == "io" else 0)
            )
        return dict(self.pressure)

    def _gpu(self) -> Reading:
        rng = self.random
        out = {}
        for i, current in enumerate(self.gpus):
            idle = self.load == "idle"
            power = int(rng.gauss(70_000, 150)) if idle else int(rng.gauss(520_000, 60_000))
            self.gpus[i] = current = current._replace(
                utilization_percent=0 if idle else rng.randrange(60, 101),
                memory_activity_percent=0 if idle else rng.randrange(20, 60),
                power_mw=power,
                energy_mj=current.energy_mj + power + rng.randrange(500),
                temperature_celsius=31 + i % 3 + (rng.random() < 0.05) + (0 if idle else rng.randrange(25, 29)),
                sm_mhz=345 if idle else rng.choice((1980, 1965, 1950, 1755)),
                performance_state=0,
                clock_reasons=1 if idle else rng.choice((0, 4)),
                memory_used_bytes=600 << 20 if idle else 70 * GIB,
                processes=() if idle else (GpuProcess(self.keys[i % len(self.keys)].pid, 70 * GIB, "compute"),),
            )
            took = int(250_000 * rng.lognormvariate(0, 0.2))
            self.clock += took
            out[current.uuid] = Reading(current, Status.OK, at_ns=self.clock, took_ns=took)
        return Reading(out, Status.OK, at_ns=self.clock, took_ns=8000 + rng.randrange(3000))

    def _network(self) -> dict[str, LinkCounters]:
        rng = self.random
        for name, current in self.links.items():
            moved = rng.randrange(9000) if name == "eth0" else 0 if self.load == "idle" else rng.randrange(10**10)
            self.links[name] = current._replace(rx_bytes=current.rx_bytes + moved, tx_bytes=current.tx_bytes + moved)
        return dict(self.links)


def session(server: Server, ticks: int) -> Iterator[Snapshot]:
    """Yield this many Snapshots."""
    for _ in range(ticks):
        yield server.snapshot()
