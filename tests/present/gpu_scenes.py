"""Made-up GPU machines: one with eight H100, of which three have a problem, and one with a single GPU that computes."""

from __future__ import annotations

from functools import cache

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuProcess, GpuState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from tests.present.make import GIB, Machine, Proc, frame, gpu, snapshots

PIDS = tuple(4820 + n for n in range(8))
PROCS = tuple(
    Proc(pid, "python", "alice", cmdline=("python", "train.py", "--config", "gpt.yaml"), cpu=1.0) for pid in PIDS
)


def computing(number: int, second: int, **more: object) -> GpuState:
    """A GPU at work in this second of the scene; its counters grow with the seconds."""
    swing = (0, 1, 3, 1, -1, -2, 0, 2)[(second + 3 * number) % 8]
    fields: dict[str, object] = {
        "power_mw": 655_000 + 4000 * swing,
        "energy_mj": 9_000_000 + 655_000 * second,
        "temperature_celsius": 61 + number % 3,
        "memory_celsius": 74,
        "memory_used_bytes": 61 * GIB,
        "gpm_sm_percent": 84.0 + swing,
        "gpm_occupancy_percent": 31.0 + swing,
        "gpm_tensor_percent": 52.0 + swing,
        "gpm_dram_percent": 47.0,
        "power_cap_ns": 640_000_000 * second,
        "sync_boost_ns": 0,
        "sw_thermal_ns": 0,
        "hw_thermal_ns": 0,
        "power_brake_ns": 0,
        "pcie_tx_bytes": 40_000_000 * second,
        "pcie_rx_bytes": 400_000_000 * second + 30_000_000 * swing,
        "nvlink_tx_kib": 24_000_000 * second,
        "nvlink_rx_kib": 24_000_000 * second,
        "busy_samples": 6 * second,
        "gap_samples": 0,
        "sm_max_mhz": 1980,
        "memory_mhz": 2619,
        "memory_max_mhz": 2619,
        "performance_state": 0,
        "pcie_max_generation": 5,
        "pcie_replays": 0,
        "clock_reasons": 4,
        "bus_id": f"00000000:{0x1B + number:02X}:00.0",
        "processes": (
            GpuProcess(PIDS[number], 60 * GIB, "compute", sm_percent=84, cpus="0-47" if number < 4 else "48-95"),
        ),
        **more,
    }
    return gpu(number, 97 - abs(swing), **fields)


def detail(state: GpuState, **more: object) -> GpuDetail:
    fields: dict[str, object] = {
        "driver": "570.124.06",
        "slowdown_celsius": 90,
        "default_limit_mw": 700_000,
        "device_max_generation": 5,
        "device_max_width": 16,
        "slot_max_generation": 5,
        "slot_max_width": 16,
        "ecc": True,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "ecc_uncorrected_total": 0,
        "rows_corrected": 0,
        "rows_uncorrected": 0,
        "rows_pending": False,
        "nvlinks": 18,
        "nvlinks_active": 18,
        "fabric_state": 3,
        "fabric_status": 0,
        "numa_node": 0 if state.number < 4 else 1,
        "cpus": "0-47" if state.number < 4 else "48-95",
        **more,
    }
    return GpuDetail(state.uuid, **fields)


def with_details(made: list[Snapshot], **more: object) -> list[Snapshot]:
    """The Snapshots, with the rarely read figures of each GPU that answers."""
    out = []
    for one in made:
        table = {
            uuid: Reading(detail(reading.value, **more), Status.OK, at_ns=one.at_ns)
            for uuid, reading in (one.gpu.value or {}).items()
            if reading.value is not None
        }
        out.append(one._replace(gpu_slow=Reading(table, Status.OK, at_ns=one.at_ns)))
    return out


def eight_snapshots(count: int = 61) -> list[Snapshot]:
    """GPU 2 is too hot, 5 has an x8 link, 7 spins while it waits; the others compute."""

    def at(second: int) -> Machine:
        gpus = [computing(n, second) for n in range(8)]
        gpus[2] = computing(
            2, second, temperature_celsius=88, sm_mhz=1410, sw_thermal_ns=120_000_000 * second, clock_reasons=0x20
        )
        gpus[5] = computing(5, second, pcie_width=8, pcie_max_width=16)
        gpus[7] = computing(
            7,
            second,
            power_mw=96_000,
            energy_mj=9_000_000 + 96_000 * second,
            gpm_sm_percent=14.0,
            gpm_tensor_percent=0.0,
            gpm_occupancy_percent=1.5,
            gpm_dram_percent=0.4,
            power_cap_ns=0,
            clock_reasons=0,
            temperature_celsius=44,
        )
        return Machine(gpus=tuple(gpus), procs=PROCS)

    return with_details(snapshots(at, count))


def one_gpu_snapshots(count: int = 61) -> list[Snapshot]:
    """A single GPU that computes."""
    return with_details(snapshots(lambda s: Machine(gpus=(computing(0, s),), procs=PROCS[:1]), count))


@cache
def eight(count: int = 61) -> Frame:
    """The last Frame of the machine with eight GPUs."""
    return frame(eight_snapshots(count))


@cache
def one_gpu_frame(count: int = 61) -> Frame:
    """The last Frame of the machine with one GPU."""
    return frame(one_gpu_snapshots(count))
