"""A GPU's rarely changing facts: limits, health, topology.

Source: nvml.h; /sys/bus/pci/devices (https://docs.kernel.org/admin-guide/abi-testing.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.metric import Exported
from iotop_ai.model.reading import Reading

if TYPE_CHECKING:
    from iotop_ai.model.gpu.state import GpuState


class GpuDetail(NamedTuple):
    """One GPU's slow figures, read every fifth sweep. None: this GPU or driver does not report it.

    slowdown_celsius, shutdown_celsius: nvmlDeviceGetTemperatureThreshold. slot_max_generation, slot_max_width: those of
    the bridge above it, from sysfs; device_max_*: those of the GPU alone. ecc_*: errors since the driver was loaded
    (volatile) and over the board's lifetime (total). rows_*: remapped rows; pages_pending: retired pages that wait for
    a reset. recovery: field 230, nvmlDeviceGpuRecoveryAction_t: 0 none, 1 reset, 2 reboot, 3 drain, 4 drain and reset,
    6 reset of its bus, 7 reboot of the system. fabric_state: nvmlGpuFabricState, 3 is complete; fabric_status: an NVML
    error code, 0 is success. numa_node: None also on a machine with one node. cpus: the local CPUs ("0-63").
    compute_mode: 0 default, 3 one process only.
    """

    uuid: str
    driver: str = ""
    vbios: str = ""
    slowdown_celsius: int | None = None
    shutdown_celsius: int | None = None
    memory_max_celsius: int | None = None
    default_limit_mw: int | None = None
    least_limit_mw: int | None = None
    most_limit_mw: int | None = None
    device_max_generation: int | None = None
    device_max_width: int | None = None
    slot_max_generation: int | None = None
    slot_max_width: int | None = None
    ecc: bool | None = None
    ecc_corrected: Annotated[
        int | None, Exported("count", "ECC errors corrected since the driver was loaded.", "ecc_corrected_errors")
    ] = None
    ecc_uncorrected: Annotated[
        int | None, Exported("count", "ECC errors not corrected since the driver was loaded.", "ecc_uncorrected_errors")
    ] = None
    ecc_corrected_total: int | None = None
    ecc_uncorrected_total: int | None = None
    rows_corrected: Annotated[
        int | None,
        Exported("count", "Memory rows remapped after corrected errors.", "rows_remapped_corrected", level=True),
    ] = None
    rows_uncorrected: Annotated[
        int | None,
        Exported("count", "Memory rows remapped after uncorrected errors.", "rows_remapped_uncorrected", level=True),
    ] = None
    rows_pending: bool | None = None
    rows_failed: bool | None = None
    pages_pending: bool | None = None
    recovery: int | None = None
    nvlinks: int | None = None
    nvlinks_active: int | None = None
    fabric_state: int | None = None
    fabric_status: int | None = None
    numa_node: int | None = None
    cpus: str = ""
    persistence: bool | None = None
    compute_mode: int | None = None
    limit_mw: int | None = None
    """The power limit as set; the enforced one may be lower."""
    sram_corrected: int | None = None
    """Errors in caches and registers since the driver was loaded: nvmlDeviceGetSramEccErrorStatus (R535), before that
    nvmlDeviceGetMemoryErrorCounter of NVML_MEMORY_LOCATION_SRAM. Uncorrected: parity and SECDED."""
    sram_uncorrected: int | None = None
    sram_exceeded: bool | None = None
    """Whether the board's lifetime count of these exceeds NVIDIA's limit: the board has to be replaced."""
    nvlink_crc_errors: Annotated[
        int | None, Exported("count", "Damaged NVLink packets since the driver was loaded.")
    ] = None
    """Over all links since the driver was loaded: damaged flits and data (fields 38 and 45, or 163 of each link)."""
    nvlink_replays: Annotated[int | None, Exported("count", "NVLink packets replayed since the driver was loaded.")] = (
        None
    )
    """Field 52, or 161 of each link."""
    nvlink_recoveries: Annotated[
        int | None, Exported("count", "Retrainings of an NVLink since the driver was loaded.")
    ] = None
    """Retrainings of a link: field 59, or 162 of each link, or 215 of NVLink 5."""


def recovery_of(state: GpuState, detail: GpuDetail | None) -> int | None:
    """The recovery that the driver asks for now, else the one that the kernel's log had last."""
    now = None if detail is None else detail.recovery
    return state.recovery if now is None else now


GpuDetails = Mapping[str, Reading[GpuDetail]]
"""UUID to its Reading."""
