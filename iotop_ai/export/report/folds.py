"""Adds up the figures of disks, GPUs, links, processes and the machine over a run.

Each kind of figure has a fold: an object that is given one interval after another, and keeps only sums and curves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from iotop_ai.diagnosis.facts.window import mean
from iotop_ai.export.report.series import Curve, Grid, Interval, Track, curve_of
from iotop_ai.export.report.story import DeviceStory, DiskHealth, GpuStory, LinkStory, ProcessStory
from iotop_ai.model.block.counters import IDLE_BLOCK_RATES, BlockInfo, BlockRates, block_totals
from iotop_ai.model.block.same_device import is_same_device
from iotop_ai.model.gpu.state import GpuRates, GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.machine.network import received_bytes_per_s, sent_bytes_per_s
from iotop_ai.model.process.records import ProcessRates
from iotop_ai.model.reading import Reading
from iotop_ai.model.sample import Sample
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.text.units import clock

MOST_DEVICES = 256
MOST_PROGRAMS = 4096
MOST_PROCESSES = 10_000
FULL, IDLE = 0.9, 0.1
"""The busy_ratio at or above which a disk's time counts as ``full_s``, and below which a GPU's counts as ``idle_s``."""
_SURELY_FULL, _SURELY_NOT_FULL = 0.99, 0.05
"""A disk whose mean busy_ratio over a long span is at least the first was full for at least 90 % of the span; below the
second, it was full for less than 6 % of it."""
_DOUBLE_COUNTED_KINDS = ("partition", "nvme-path")
"""The kinds of devices whose I/O is also counted for another device, which is listed instead."""
_ONLY_USED_KINDS = ("ram", "zram", "rom", "floppy", "loop")
"""The kinds of devices that are listed only if they were used, because most machines have many unused ones."""
_MOST_UNUSED = MOST_DEVICES // 2
"""Once there are this many devices, an unused device of ``_ONLY_USED_KINDS`` is not added, so that there is room for
disks.
"""


class _Device:
    """Collects the figures of one disk.

    listed: whether the disk gets a row. diskseq: as in BlockKey. boot_id: the boot in which it was last read. end_ns:
    the wall time at which it was last read.
    """

    def __init__(self, grid: Grid, *, listed: bool) -> None:
        self.listed = listed
        self.diskseq, self.boot_id, self.end_ns = 0, "", 0
        self.read, self.write = Track(grid.series()), Track(grid.series())
        self.read_await, self.write_await = Track(grid.series()), Track(grid.series())
        self.busy = Track(grid.series())
        self.reads, self.writes, self.queue = Track(), Track(), Track()
        self.full_s = 0.0
        self.has_unclear_mean = False
        """Whether a mean is between _SURELY_NOT_FULL and _SURELY_FULL; for long intervals, ``full_s`` is then wrong."""
        self.info: BlockInfo | None = None

    def is_replaced(self, diskseq: int, info: BlockInfo | None, boot_id: str) -> bool:
        """Whether its name now belongs to another disk: that of ``diskseq`` and ``info``. False if unknown."""
        is_other_diskseq = 0 not in (diskseq, self.diskseq) and diskseq != self.diskseq
        is_same_boot = boot_id == self.boot_id  # a diskseq means nothing after a restart
        if self.info is None or info is None:
            return is_same_boot and is_other_diskseq
        if is_same_boot and not (self.info.serial and info.serial):
            return is_other_diskseq
        return not is_same_device(self.info, info)

    def add(self, interval: Interval, rates: BlockRates) -> None:
        self.end_ns = interval.wall_ns
        self.read.add(interval, rates.read_bytes_per_s)
        self.write.add(interval, rates.write_bytes_per_s)
        self.busy.add(interval, rates.busy_ratio)
        self.reads.add(interval, rates.reads_per_s)
        self.writes.add(interval, rates.writes_per_s)
        self.queue.add(interval, rates.queue_size)
        if rates is IDLE_BLOCK_RATES:
            return
        self.read_await.add(interval, rates.read_await_ms, rates.reads_per_s)
        self.write_await.add(interval, rates.write_await_ms, rates.writes_per_s)
        busy_ratio = rates.busy_ratio or 0.0
        if busy_ratio >= FULL:
            self.full_s += interval.seconds
        if _SURELY_NOT_FULL <= busy_ratio < _SURELY_FULL:
            self.has_unclear_mean = True

    def story(self, name: str, grid: Grid, *, is_spaced: bool) -> DeviceStory:
        curves = {
            "read_bytes_per_s": self.read,
            "write_bytes_per_s": self.write,
            "read_await_ms": self.read_await,
            "write_await_ms": self.write_await,
            "busy_ratio": self.busy,
        }
        return DeviceStory(
            name=name,
            info=self.info,
            read_bytes=self.read.total,
            written_bytes=self.write.total,
            read=self.read.stat,
            write=self.write.stat,
            reads=self.reads.stat,
            writes=self.writes.stat,
            read_await_ms=self.read_await.stat,
            write_await_ms=self.write_await.stat,
            busy=self.busy.stat,
            queue=self.queue.stat,
            full_s=None if self.busy.stat is None or (is_spaced and self.has_unclear_mean) else self.full_s,
            curves=known_curves(curves, grid),
        )


def known_curves(tracks: Mapping[str, Track], grid: Grid) -> dict[str, Curve]:
    """The curves of these figures, without the curves that have no known value."""
    curves = {name: curve_of(grid, track.series) for name, track in tracks.items() if track.series is not None}
    return {name: curve for name, curve in curves.items() if curve.known}


class DeviceFold:
    """Collects whole devices, at most MOST_DEVICES; some kinds of devices are listed only if they were used."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._devices: dict[str, _Device] = {}
        self._replaced: list[tuple[str, _Device]] = []
        """The devices whose names belong to other devices now, with these names."""

    def add(self, interval: Interval, snapshot: Snapshot, sample: Sample) -> None:
        """Add an interval. Rates that were not read again are not counted twice."""
        if not sample.block.renewed:
            return
        infos = snapshot.disks.value or {}
        # The bytes are the rate times the seconds between the two readings of the disks.
        interval = interval._replace(seconds=sample.block.seconds or interval.seconds)
        boot_id = snapshot.host.boot_id
        for key, rates in (sample.block.value or {}).items():
            device, info = self._devices.get(key.name), infos.get(key.name)
            if device is not None and device.is_replaced(key.diskseq, info, boot_id):
                del self._devices[key.name]
                if device.listed:
                    self._replaced.append((key.name, device))
                device = None
            if device is None:
                device = self._new_device(info, rates)
                if device is None:
                    continue
                self._devices[key.name] = device
            device.info = info or device.info
            device.diskseq, device.boot_id = key.diskseq, boot_id
            device.listed = device.listed or rates.active
            device.add(interval, rates)

    def _new_device(self, info: BlockInfo | None, rates: BlockRates) -> _Device | None:
        """The empty figures of a device; None if it is not collected."""
        kind, count = "disk" if info is None else info.kind, len(self._devices) + len(self._replaced)
        listed = kind not in _ONLY_USED_KINDS or rates.active
        if kind in _DOUBLE_COUNTED_KINDS or count >= (MOST_DEVICES if listed else _MOST_UNUSED):
            return None
        return _Device(self._grid, listed=listed)

    def stories(self, *, is_spaced: bool) -> tuple[DeviceStory, ...]:
        """The devices; those that moved the most bytes come first.

        A device whose name belongs to another device at the end is named like "sdb (until 14:32:05)". is_spaced:
        whether only some Snapshots were read, so that the intervals are long spans.
        """
        named = [(name, device) for name, device in self._devices.items() if device.listed]
        named += [(f"{name} (until {clock(device.end_ns)})", device) for name, device in self._replaced]
        stories = [device.story(name, self._grid, is_spaced=is_spaced) for name, device in named]
        return tuple(sorted(stories, key=lambda device: (-device.moved_bytes, device.name)))


def _throttled_ratio(rates: GpuRates) -> float | None:
    """The share of the time in which heat or the power brake slowed a GPU; None if unknown."""
    slowed_ratios = [rates.sw_thermal_ratio, rates.hw_thermal_ratio, rates.power_brake_ratio]
    share = max((ratio for ratio in slowed_ratios if ratio is not None), default=None)
    return float(rates.slowed) if share is None and rates.slowed is not None else share


class _Gpu:
    """Collects the figures of one GPU. status: why its newest Reading has no value; "" if it has one."""

    def __init__(self, grid: Grid) -> None:
        self.busy, self.celsius = Track(grid.series()), Track(grid.series())
        self.memory, self.watts, self.sm_mhz, self.sm = Track(), Track(), Track(), Track()
        self.idle_s = 0.0
        self.throttled_s: float | None = None
        self.memory_total: float | None = None
        self.state: GpuState | None = None
        self.status = ""

    def add(self, interval: Interval, rates: GpuRates) -> None:
        self.busy.add(interval, rates.busy_ratio)
        self.celsius.add(interval, rates.temperature_celsius)
        self.memory.add(interval, rates.memory_used_bytes)
        self.watts.add(interval, rates.power_watts)
        self.sm_mhz.add(interval, rates.sm_mhz)
        self.sm.add(interval, rates.sm_ratio)
        self.memory_total = rates.memory_total_bytes or self.memory_total
        if rates.busy_ratio is not None and rates.busy_ratio < IDLE:
            self.idle_s += interval.seconds
        share = _throttled_ratio(rates)
        if share is not None:
            self.throttled_s = (self.throttled_s or 0.0) + share * interval.seconds

    def story(self, uuid: str, grid: Grid) -> GpuStory:
        state = self.state
        return GpuStory(
            None if state is None else state.number,
            uuid,
            "" if state is None else state.name,
            self.busy.stat,
            self.memory.stat,
            self.memory_total,
            self.celsius.stat,
            self.watts.stat,
            self.sm_mhz.stat,
            self.sm.stat,
            None if self.busy.stat is None else self.idle_s,
            self.throttled_s,
            self.watts.total,
            self.status,
            known_curves({"busy_ratio": self.busy, "temperature_celsius": self.celsius}, grid),
        )


class GpuFold:
    """Collects all GPUs, and their figures together (``totals``)."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._gpus: dict[str, _Gpu] = {}
        names = ("busy_ratio", "sm_mhz", "power_watts", "temperature_celsius", "throttled_ratio")
        self._totals = {name: Track(grid.series()) for name in names}

    def add(self, interval: Interval, snapshot: Snapshot, sample: Sample) -> None:
        """Add an interval. Rates that were not read again are not counted twice.

        A GPU with a failed Reading keeps its row, which then shows why the Reading failed. A GPU that is missing from
        the Snapshot keeps its last status; if the driver does not answer at all, every GPU shows why.
        """
        table_reading = snapshot.gpu
        if table_reading.value is None:
            for unreadable_gpu in self._gpus.values():
                unreadable_gpu.status = table_reading.reason or table_reading.status.value
        rates = (sample.gpu.value or {}) if sample.gpu.renewed else {}
        if sample.gpu.seconds:  # GPUs may be read less often than the rest
            interval = self._grid.interval(interval.wall_ns, sample.gpu.seconds) or interval
        for uuid, reading in (snapshot.gpu.value or {}).items():
            gpu = self._gpus.get(uuid)
            if gpu is None:
                gpu = self._gpus[uuid] = _Gpu(self._grid)
            gpu.state = reading.value or gpu.state
            gpu.status = "" if reading.value is not None else reading.reason or reading.status.value
            if uuid in rates:
                gpu.add(interval, rates[uuid])
        if not sample.gpu.renewed:
            return
        self._add_totals(interval, rates.values())

    def _add_totals(self, interval: Interval, rates: Collection[GpuRates]) -> None:
        self._totals["busy_ratio"].add(interval, mean(gpu.busy_ratio for gpu in rates))
        self._totals["power_watts"].add(interval, mean(gpu.power_watts for gpu in rates))
        celsius = [gpu.temperature_celsius for gpu in rates if gpu.temperature_celsius is not None]
        self._totals["temperature_celsius"].add(interval, max(celsius, default=None))
        # An idle GPU lowers its clock, so clock and throttling count only as far as the GPU is busy.
        for gpu in rates:
            self._totals["sm_mhz"].add(interval, gpu.sm_mhz, gpu.busy_ratio)
            self._totals["throttled_ratio"].add(interval, _throttled_ratio(gpu), gpu.busy_ratio)

    @property
    def totals(self) -> dict[str, Track]:
        """The figures of all GPUs together, such as gpu_busy_ratio: means, but the temperature is of the hottest GPU.

        gpu_sm_mhz and gpu_throttled_ratio are those of busy GPUs.
        """
        return {f"gpu_{name}": track for name, track in self._totals.items()}

    def stories(self) -> tuple[GpuStory, ...]:
        """The GPUs in the order of NVML's index."""
        stories = [gpu.story(uuid, self._grid) for uuid, gpu in self._gpus.items()]
        return tuple(sorted(stories, key=lambda gpu: (gpu.number is None, gpu.number or 0, gpu.uuid)))


class LinkFold:
    """Collects network interfaces, at most MOST_DEVICES."""

    def __init__(self, grid: Grid) -> None:
        self._links: dict[str, tuple[Track, Track, Any]] = {}
        """For each interface: the rates received and sent, and its newest state with a known speed, else its first."""
        self.received, self.sent = Track(grid.series()), Track(grid.series())

    def add(self, interval: Interval, snapshot: Snapshot, sample: Sample) -> None:
        """Add an interval."""
        if not sample.network.renewed:
            return
        table, rates = snapshot.network.value or {}, sample.network.value or {}
        for name, rate in rates.items():
            state = table.get(name)
            if state is None:
                continue
            if name not in self._links:
                if len(self._links) >= MOST_DEVICES:
                    continue
                self._links[name] = (Track(), Track(), state)
            received, sent, last_state = self._links[name]
            # The speed is unknown while the link is negotiated.
            self._links[name] = (received, sent, last_state if state.bits_per_s is None else state)
            received.add(interval, rate.rx_bytes_per_s)
            sent.add(interval, rate.tx_bytes_per_s)
        self.received.add(interval, received_bytes_per_s(table, rates))
        self.sent.add(interval, sent_bytes_per_s(table, rates))

    def stories(self) -> tuple[LinkStory, ...]:
        """The links that moved any bytes; those with the highest mean rates come first."""
        stories = [
            LinkStory(name, state.kind, state.bits_per_s, received.stat, sent.stat)
            for name, (received, sent, state) in self._links.items()
            if received.total or sent.total
        ]
        return tuple(sorted(stories, key=lambda link: -sum(stat.mean for stat in (link.received, link.sent) if stat)))


class HealthFold:
    """Collects the last known SMART answer of each disk.

    It remembers at most MOST_DEVICES disks; a further disk is listed only if the newest table contains it.
    """

    def __init__(self) -> None:
        self._last_readings: dict[str, Reading[SmartState]] = {}
        self._newest: Mapping[str, Reading[SmartState]] | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Add a Snapshot."""
        before, self._newest = self._newest, snapshot.smart.value
        if self._newest is None or self._newest is before:
            return
        for name, reading in self._newest.items():
            last = self._last_readings.get(name)
            if last is None and len(self._last_readings) >= MOST_DEVICES:
                continue
            if last is None or last.value is None or reading.value is not None:
                self._last_readings[name] = reading

    def stories(self) -> tuple[DiskHealth, ...]:
        """The disks: each with its newest reading, or with its last known answer if it is gone."""
        newest = self._newest
        readings = {**self._last_readings, **(newest or {})}
        return tuple(
            DiskHealth(name, reading, newest is not None and name not in newest) for name, reading in readings.items()
        )


class _Program:
    """Sums over the processes of one program and user.

    read, written: bytes; cpu_s, blocked_s: seconds; None if no process could be read. keys: the processes, at most
    MOST_PROCESSES of them. more: whether there were more.
    """

    __slots__ = ("blocked_s", "cpu_s", "keys", "more", "read", "written")

    def __init__(self) -> None:
        self.keys: set[Any] = set()
        self.more = False
        self.read: float | None = None
        self.written: float | None = None
        self.cpu_s: float | None = None
        self.blocked_s: float | None = None

    def add(self, key: Any, rates: ProcessRates, seconds: float) -> None:
        if len(self.keys) < MOST_PROCESSES:
            self.keys.add(key)
        elif not self.more:
            self.more = key not in self.keys
        # io_s and stat_s are 0 if the rates were not read again.
        io_s = seconds if rates.io_s is None else rates.io_s
        stat_s = seconds if rates.stat_s is None else rates.stat_s
        if rates.read_bytes_per_s is not None:
            self.read = (self.read or 0.0) + rates.read_bytes_per_s * io_s
        if rates.write_bytes_per_s is not None:
            self.written = (self.written or 0.0) + rates.write_bytes_per_s * io_s
        if rates.cpu_ratio is not None:
            self.cpu_s = (self.cpu_s or 0.0) + rates.cpu_ratio * stat_s
        if rates.io_delay_ratio is not None:
            self.blocked_s = (self.blocked_s or 0.0) + rates.io_delay_ratio * stat_s


class ProcessFold:
    """Collects programs by name and user, at most MOST_PROGRAMS."""

    def __init__(self) -> None:
        self._programs: dict[tuple[str, str], _Program] = {}

    def add(self, snapshot: Snapshot, sample: Sample) -> None:
        """Add an interval."""
        table, rated = snapshot.processes.value, sample.processes
        if table is None or rated.value is None or rated.seconds is None or not rated.renewed:
            return
        for key, rates in rated.value.rates.items():
            info = table.info.get(key)
            if info is None:
                continue
            name_and_user = (info.name, info.user)
            program = self._programs.get(name_and_user)
            if program is None:
                if len(self._programs) >= MOST_PROGRAMS:
                    continue
                program = self._programs[name_and_user] = _Program()
            program.add(key, rates, rated.seconds)

    def stories(self) -> tuple[ProcessStory, ...]:
        """The programs; those that moved the most bytes come first, then those that used the most CPU."""
        stories = [
            ProcessStory(
                name,
                user,
                len(program.keys),
                program.read,
                program.written,
                program.cpu_s,
                program.blocked_s,
                program.more,
            )
            for (name, user), program in self._programs.items()
        ]
        return tuple(sorted(stories, key=lambda story: (-story.moved_bytes, -(story.cpu_s or 0.0), story.name)))


class MachineFold:
    """Collects the figures of the whole machine."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        names = ("read_bytes_per_s", "write_bytes_per_s", "cpu_busy_ratio", "memory_available_bytes")
        self._tracks = {name: Track(grid.series()) for name in (*names, "io_pressure_ratio")}

    def add(self, interval: Interval, snapshot: Snapshot, sample: Sample) -> None:
        """Add an interval."""
        tracks = self._tracks
        rates, infos = sample.block.value, snapshot.disks.value
        if sample.block.renewed and rates is not None and infos is not None:
            totals = block_totals(rates, infos.values())
            tracks["read_bytes_per_s"].add(interval, totals.read_bytes_per_s)
            tracks["write_bytes_per_s"].add(interval, totals.write_bytes_per_s)
        if sample.cpu.renewed and sample.cpu.value is not None:
            tracks["cpu_busy_ratio"].add(interval, sample.cpu.value.all.busy_ratio)
        if snapshot.memory.value is not None:
            tracks["memory_available_bytes"].add(interval, snapshot.memory.value.available_bytes)
        pressure = (sample.pressure.value or {}).get("io") if sample.pressure.renewed else None
        tracks["io_pressure_ratio"].add(interval, None if pressure is None else pressure.some_ratio)

    def curves(self, **more: Track) -> dict[str, Curve]:
        """The curves of the known figures. more: the figures of other folds."""
        return known_curves({**self._tracks, **more}, self._grid)
