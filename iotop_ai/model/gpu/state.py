"""The state of a GPU as its driver reports it. A sweep reads all GPUs once.

Source for NVIDIA: nvml.h; https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.counter import delta, per_second, quotient
from iotop_ai.model.metric import Exported, Metric
from iotop_ai.model.reading import Reading

MIB = 1 << 20
KIB = 1 << 10
ENGINE_TIMES = ("graphics_ns", "compute_ns", "copy_ns", "decoder_ns", "encoder_ns", "jpeg_ns")
_READ_TIME_FIELDS = {
    "energy_mj": "energy_at_ns", "pcie_replays": "replays_at_ns", **dict.fromkeys(ENGINE_TIMES, "engines_at_ns"),
}  # fmt: skip
"""For each counter that a separate call reads, the field with the time of that call; for others, it is fields_at_ns."""
SLOWED_REASONS = 0x8 | 0x20 | 0x40 | 0x80
"""Bits of nvmlClocksEventReasons: hardware slowdown, thermal slowdown by software and by hardware, power brake."""
THERMAL_REASONS = 0x20 | 0x40
"""The bits of SLOWED_REASONS that only heat sets."""


class GpuProcess(NamedTuple):
    """A process on a GPU.

    pid: its pid in the monitor's /proc, or the pid that the driver reports if it is not there
    memory_bytes: the GPU memory that it uses; None if not reported
    kind: compute, graphics or mps
    sm_percent: the share of the SMs that ran its kernels in the driver's newest sample; for AMD and Intel, its share of
        the time of the graphics and compute engines; None if not reported
    instance: the id of the MIG GPU instance; None if it is not in one
    found: whether it is in the monitor's /proc; if not, the pid belongs to another PID namespace, and here another
        process may have it
    cpus: the CPUs that it can run on, such as "0-63"; "" if unknown
    """

    pid: int
    memory_bytes: int | None
    kind: str
    sm_percent: int | None = None
    instance: int | None = None
    found: bool = True
    cpus: str = ""


class GpuEarlier(NamedTuple):
    """The last two readings of a figure that only some sweeps of the GPUs read, because its call is slow.

    at_ns: the time of the last reading, whose value is in the GpuState
    before_at_ns, before: the time and the value of the reading before it; None for the first reading. before is also
        None if the values are not integers

    The rate of a counter is (value - before) / (at_ns - before_at_ns).
    """

    field: str
    at_ns: int
    before_at_ns: int | None = None
    before: int | None = None


class GpuInstance(NamedTuple):
    """One MIG GPU instance.

    number: its GPU instance id
    sm_percent, occupancy_percent, tensor_percent, dram_percent: GPM figures of this instance; None without GPM
    """

    number: int
    uuid: str
    name: str = ""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    sm_percent: float | None = None
    occupancy_percent: float | None = None
    tensor_percent: float | None = None
    dram_percent: float | None = None


class GpuState(NamedTuple):
    """One GPU at one moment; a figure is None if this GPU or driver does not report it.

    Percentages are integers from 0 to 100, as in NVML; only those of GPM are floats. Power is in mW; energy in mJ since
    the driver was loaded.

    number: the GPU's index in NVML; the cards of AMD and Intel are numbered after NVIDIA's GPUs
    clock_reasons: a bit mask of nvmlClocksEventReasons
    """

    uuid: str
    number: int
    name: str
    utilization_percent: int | None = None
    memory_activity_percent: int | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    temperature_celsius: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    energy_mj: Annotated[int | None, Exported("mJ", "Energy used since the driver was loaded.")] = None
    sm_mhz: int | None = None
    sm_max_mhz: int | None = None
    memory_mhz: int | None = None
    fan_percent: int | None = None
    performance_state: int | None = None
    clock_reasons: int | None = None
    pcie_generation: Annotated[int | None, Exported("count", "PCIe generation of the link now.", level=True)] = None
    pcie_width: Annotated[int | None, Exported("count", "PCIe lanes of the link now.", level=True)] = None
    pcie_max_generation: int | None = None
    pcie_max_width: int | None = None
    bus_id: str = ""
    mig: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None
    memory_free_bytes: int | None = None
    memory_celsius: int | None = None
    memory_max_mhz: int | None = None
    margin_celsius: int | None = None
    """The degrees left to the nearest slowdown (nvmlDeviceGetMarginTemperature, since Ada)."""
    busy_samples: int | None = None
    """The number of samples read so far from the driver's utilisation buffer, a counter."""
    gap_samples: int | None = None
    """The number of these samples below 10 %, in which the GPU was idle; a counter."""
    power_cap_ns: Annotated[int | None, Exported("ns", "Time throttled by the power limit.")] = None
    """Field 74 of NVML. This and the next four fields count ns since the driver was loaded."""
    sync_boost_ns: Annotated[
        int | None, Exported("ns", "Time with the clock held to the slowest GPU of its group.")
    ] = None
    sw_thermal_ns: Annotated[int | None, Exported("ns", "Time slowed because GPU or memory was too hot.")] = None
    hw_thermal_ns: Annotated[int | None, Exported("ns", "Time at half clock or less because of heat.")] = None
    power_brake_ns: Annotated[
        int | None, Exported("ns", "Time at half clock or less because of the power-brake signal.")
    ] = None
    pcie_tx_bytes: Annotated[int | None, Exported("B", "Bytes that the GPU sent over PCIe.")] = None
    """Field 197; field 198 for received bytes. Both are counters."""
    pcie_rx_bytes: Annotated[int | None, Exported("B", "Bytes that the GPU received over PCIe.")] = None
    pcie_tx_kib_per_s: int | None = None
    """The rate in a window of 20 ms (nvmlDeviceGetPcieThroughput); read only if there is no other source."""
    pcie_rx_kib_per_s: int | None = None
    pcie_replays: Annotated[int | None, Exported("count", "PCIe packets replayed.")] = None
    nvlink_tx_kib: Annotated[int | None, Exported("KiB", "Bytes sent over all NVLinks.")] = None
    """Field 138; field 139 for received data. Both are counters."""
    nvlink_rx_kib: Annotated[int | None, Exported("KiB", "Bytes received over all NVLinks.")] = None
    gpm_sm_percent: float | None = None
    """The share of SM time with a resident warp, between two samples at least 100 ms apart (GPM, since Hopper)."""
    gpm_occupancy_percent: float | None = None
    gpm_tensor_percent: float | None = None
    gpm_dram_percent: float | None = None
    gpm_pcie_tx_mib_per_s: float | None = None
    gpm_pcie_rx_mib_per_s: float | None = None
    gpm_nvlink_tx_mib_per_s: float | None = None
    gpm_nvlink_rx_mib_per_s: float | None = None
    last_xid: Annotated[
        int | None,
        Exported(
            "count",
            "Newest Xid since the monitor started; only a board fault replaces a board fault. Absent if none.",
            level=True,
        ),
    ] = None
    """The Xid event of this GPU that is shown: the newest since the monitor started, but only another board fault
    replaces a board fault (``replaces`` of xid.py). None without one."""
    last_xid_at_ns: int | None = None
    instances: tuple[GpuInstance, ...] | None = None
    earlier: tuple[GpuEarlier, ...] = ()
    """The figures in this record that only some sweeps read, so their values may be from an earlier sweep."""
    energy_at_ns: int | None = None
    """When the energy counter was read. This time and the next two are monotonic ns."""
    replays_at_ns: int | None = None
    fields_at_ns: int | None = None
    """When one call read power_cap_ns to power_brake_ns and the PCIe and NVLink counters."""
    temperature_sensor: str | None = None
    """The sensor of temperature_celsius if it is not the usual one: "junction" on an AMD card without an edge sensor.
    """
    decoder_percent: int | None = None
    """How busy the video decoder (NVDEC) was in the driver's last sampling period: nvmlDeviceGetDecoderUtilization."""
    encoder_percent: int | None = None
    """How busy the video encoder (NVENC) was: nvmlDeviceGetEncoderUtilization."""
    jpeg_percent: int | None = None
    """How busy the JPEG decoder (NVJPG) was: nvmlDeviceGetJpgUtilization."""
    ofa_percent: int | None = None
    """How busy the optical flow accelerator was: nvmlDeviceGetOfaUtilization."""
    throttle_bits: int | None = None
    """The SMU_THROTTLER_* bits in gpu_metrics of an AMD GPU; clock_reasons holds these reasons as bits of NVML."""
    graphics_ns: int | None = None
    """For AMD and Intel: how long the graphics engine worked since the monitor started, for all processes that have the
    GPU open (drm-engine-* in /proc/PID/fdinfo). A counter; 0 until a process opens an Intel GPU. None if other users'
    processes cannot be read."""
    compute_ns: int | None = None
    copy_ns: int | None = None
    decoder_ns: int | None = None
    encoder_ns: int | None = None
    jpeg_ns: int | None = None
    engines_at_ns: int | None = None
    """When the six engine times, graphics_ns to jpeg_ns, were read."""
    recovery: int | None = None
    """The recovery that the newest Xid 154 in the kernel's log asks for; the codes are those of GpuDetail.recovery."""
    xid_watched: bool | None = None
    """Whether the driver reports this GPU's Xids to the monitor; None if not recorded. If False, there may have been
    Xids although ``last_xid`` is None.
    """

    @property
    def is_nvidia(self) -> bool:
        """Whether it is an NVIDIA GPU. The ids of other GPUs begin with the name of their maker."""
        return not self.uuid.startswith(("AMD-", "Intel-"))

    @property
    def is_integrated(self) -> bool:
        """Whether it is AMD's graphics in the processor, which is not used for training.

        amdgpu reports a power limit only for cards. An integrated GPU of Intel is not listed.
        """
        return self.uuid.startswith("AMD-") and not self.power_limit_mw


GpuTable = Mapping[str, Reading[GpuState]]
"""The Reading of each GPU, by UUID. An NVIDIA GPU that fell off the bus keeps its key, with status failed and a remedy.
"""


class GpuRates(NamedTuple):
    """One GPU in one interval: its levels and its rates, in the units of each Metric."""

    busy_ratio: Annotated[float | None, Metric("ratio", "Share of time with at least one kernel running.", "GPU-Util")]
    memory_busy_ratio: Annotated[float | None, Metric("ratio", "Share of time its memory was read or written.")]
    memory_used_bytes: Annotated[
        float | None, Metric("B", "Memory in use, without reserved memory where the driver reports it.")
    ]
    memory_total_bytes: Annotated[float | None, Metric("B", "Memory of the device.")]
    temperature_celsius: Annotated[float | None, Metric("celsius", "Core temperature.")]
    power_watts: Annotated[float | None, Metric("W", "Mean power, from the energy counter where there is one.")]
    power_limit_watts: Annotated[float | None, Metric("W", "Enforced power limit.")]
    sm_mhz: Annotated[float | None, Metric("MHz", "SM clock.")]
    gap_ratio: Annotated[
        float | None, Metric("ratio", "Share of the driver's utilisation samples below 10 %: idle gaps.")
    ] = None
    sm_ratio: Annotated[float | None, Metric("ratio", "SM activity (GPM): SM time with a warp resident.")] = None
    occupancy_ratio: Annotated[
        float | None, Metric("ratio", "SM occupancy (GPM): resident warps as a share of the maximum.")
    ] = None
    tensor_ratio: Annotated[float | None, Metric("ratio", "Tensor core activity (GPM).")] = None
    dram_ratio: Annotated[float | None, Metric("ratio", "Memory bandwidth used, as a share of the maximum (GPM).")] = (
        None
    )
    pcie_tx_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes that the GPU sent over PCIe per second.")] = None
    pcie_rx_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes that it received over PCIe per second.")] = None
    nvlink_tx_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes sent over all its NVLinks per second.")] = None
    nvlink_rx_bytes_per_s: Annotated[float | None, Metric("B/s", "Bytes received over all its NVLinks per second.")] = (
        None
    )
    power_cap_ratio: Annotated[
        float | None, Metric("ratio", "Share of time throttled by the power limit; normal at full load.")
    ] = None
    sync_boost_ratio: Annotated[
        float | None, Metric("ratio", "Share of time with the clock held to the slowest GPU of its group.")
    ] = None
    sw_thermal_ratio: Annotated[
        float | None, Metric("ratio", "Share of time slowed because GPU or memory was too hot.")
    ] = None
    hw_thermal_ratio: Annotated[
        float | None, Metric("ratio", "Share of time at half clock or less because of heat.")
    ] = None
    power_brake_ratio: Annotated[
        float | None, Metric("ratio", "Share of time at half clock or less because of the power-brake signal.")
    ] = None
    pcie_replays_per_s: Annotated[float | None, Metric("1/s", "PCIe packets replayed per second.")] = None
    slowed: bool | None = None
    """Whether the driver reports at this reading that heat or the power brake lowers the clock."""
    pcie_generation: int | None = None
    """The generation of the PCIe link at this reading. Generation and width are repeated here so that rules see them
    over a window."""
    pcie_width: int | None = None
    decoder_ratio: Annotated[float | None, Metric("ratio", "How busy the video decoder was (NVDEC, fdinfo).")] = None
    encoder_ratio: Annotated[float | None, Metric("ratio", "How busy the video encoder was (NVENC, fdinfo).")] = None
    jpeg_ratio: Annotated[float | None, Metric("ratio", "How busy the JPEG decoder was (NVJPG, fdinfo).")] = None
    ofa_ratio: Annotated[float | None, Metric("ratio", "How busy the optical flow accelerator was (OFA).")] = None
    graphics_ratio: Annotated[
        float | None, Metric("ratio", "How busy an AMD or Intel GPU's graphics engine was (drm-engine in fdinfo).")
    ] = None
    compute_ratio: Annotated[
        float | None, Metric("ratio", "How busy an AMD or Intel GPU's compute engines were, without ROCm's work.")
    ] = None
    copy_ratio: Annotated[float | None, Metric("ratio", "How busy an AMD or Intel GPU's copy engines were.")] = None


def gpu_rates(before: GpuTable | None, after: GpuTable, seconds: float | None) -> dict[str, GpuRates]:
    """The levels and rates of every GPU that answered; other GPUs are left out."""
    out = {}
    for uuid, reading in after.items():
        if reading.value is not None:
            old = None if before is None else before.get(uuid)
            out[uuid] = _rates(_growth(old, reading, reading.value, seconds))
    return out


class _Growth(NamedTuple):
    """The growth of one GPU's counters between two readings.

    slow: the last two readings of each field of ``now`` that only some sweeps read, by its name
    slow_before: the names of the fields of ``old`` that only some sweeps read
    """

    old: GpuState | None
    now: GpuState
    seconds: float | None
    slow: Mapping[str, GpuEarlier]
    slow_before: frozenset[str]

    def growth_of(self, field: str) -> tuple[int | None, float | None]:
        """The growth of a counter, and the seconds in which it grew; None if unknown."""
        value: int | None = getattr(self.now, field)
        if field in self.slow:
            earlier = self.slow[field]
            seconds = None if earlier.before_at_ns is None else (earlier.at_ns - earlier.before_at_ns) / 1e9
            return delta(earlier.before, value), seconds
        if self.old is None or field in self.slow_before:
            return None, None
        times = [getattr(state, _READ_TIME_FIELDS.get(field, "fields_at_ns")) for state in (self.old, self.now)]
        return delta(getattr(self.old, field), value), self.seconds if None in times else (times[1] - times[0]) / 1e9

    def speed(self, field: str, unit: float = 1.0) -> float | None:
        """The growth of a counter per second, multiplied by ``unit``."""
        rate = per_second(*self.growth_of(field))
        return None if rate is None else rate * unit

    def share(self, field: str) -> float | None:
        """The growth of a time in ns as a share of the interval, at most 1."""
        ratio = self.speed(field, 1e-9)
        return None if ratio is None else min(1.0, ratio)


def _growth(
    old_reading: Reading[GpuState] | None, reading: Reading[GpuState], now: GpuState, seconds: float | None
) -> _Growth:
    old = None if old_reading is None else old_reading.value
    if old_reading is not None and old_reading.at_ns is not None and reading.at_ns is not None:
        seconds = (reading.at_ns - old_reading.at_ns) / 1e9
    slow_before = frozenset(earlier.field for earlier in old.earlier) if old is not None else frozenset()
    return _Growth(old, now, seconds, {earlier.field: earlier for earlier in now.earlier}, slow_before)


def _rates(growth: _Growth) -> GpuRates:
    now, speed, share = growth.now, growth.speed, growth.share
    mean_mw = speed("energy_mj")
    power_mw = now.power_mw if mean_mw is None else mean_mw
    gaps, _ = growth.growth_of("gap_samples")
    samples, _ = growth.growth_of("busy_samples")
    return GpuRates(
        _busy_ratio(growth),
        _divided(now.memory_activity_percent, 100),
        _divided(now.memory_used_bytes, 1),
        _divided(now.memory_total_bytes, 1),
        _divided(now.temperature_celsius, 1),
        _divided(power_mw, 1000),
        _divided(now.power_limit_mw, 1000),
        _divided(now.sm_mhz, 1),
        quotient(gaps, samples),
        _divided(now.gpm_sm_percent, 100),
        _divided(now.gpm_occupancy_percent, 100),
        _divided(now.gpm_tensor_percent, 100),
        _divided(now.gpm_dram_percent, 100),
        _first_known(
            speed("pcie_tx_bytes"),
            _divided(now.gpm_pcie_tx_mib_per_s, 1 / MIB),
            _divided(now.pcie_tx_kib_per_s, 1 / KIB),
        ),
        _received_bytes_per_s(growth),
        _first_known(speed("nvlink_tx_kib", KIB), _divided(now.gpm_nvlink_tx_mib_per_s, 1 / MIB)),
        _first_known(speed("nvlink_rx_kib", KIB), _divided(now.gpm_nvlink_rx_mib_per_s, 1 / MIB)),
        share("power_cap_ns"),
        share("sync_boost_ns"),
        share("sw_thermal_ns"),
        share("hw_thermal_ns"),
        share("power_brake_ns"),
        speed("pcie_replays"),
        None if now.clock_reasons is None else bool(now.clock_reasons & SLOWED_REASONS),
        now.pcie_generation,
        now.pcie_width,
        _first_known(_divided(now.decoder_percent, 100), share("decoder_ns")),
        _first_known(_divided(now.encoder_percent, 100), share("encoder_ns")),
        _first_known(_divided(now.jpeg_percent, 100), share("jpeg_ns")),
        _divided(now.ofa_percent, 100),
        share("graphics_ns"),
        share("compute_ns"),
        share("copy_ns"),
    )


def _busy_ratio(growth: _Growth) -> float | None:
    return _first_known(
        _divided(growth.now.utilization_percent, 100), _highest(growth.share("graphics_ns"), growth.share("compute_ns"))
    )


def busy_ratio(old: Reading[GpuState] | None, new: Reading[GpuState]) -> float | None:
    """How busy a GPU was between two readings, 0 to 1, as its driver or else its engines report; None if unknown."""
    return None if new.value is None else _busy_ratio(_growth(old, new, new.value, None))


def _received_bytes_per_s(growth: _Growth) -> float | None:
    now = growth.now
    return _first_known(
        growth.speed("pcie_rx_bytes"),
        _divided(now.gpm_pcie_rx_mib_per_s, 1 / MIB),
        _divided(now.pcie_rx_kib_per_s, 1 / KIB),
    )


def received_bytes_per_s(old: Reading[GpuState] | None, new: Reading[GpuState]) -> float | None:
    """The bytes per second that a GPU received over PCIe between two readings; None if unknown."""
    return None if new.value is None else _received_bytes_per_s(_growth(old, new, new.value, None))


def _divided(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


def _highest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _first_known(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
