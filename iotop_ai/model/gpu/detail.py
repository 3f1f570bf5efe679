"""A GPU's rarely changing facts: limits, health, topology. They are read in every fifth sweep over all GPUs.

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
    """A GPU's rarely changing figures; None if this GPU or driver does not report them.

    slowdown_celsius, shutdown_celsius: the limits of nvmlDeviceGetTemperatureThreshold
    slot_max_generation, slot_max_width: the PCIe limits of the bridge above the GPU, from sysfs
    device_max_generation, device_max_width: the PCIe limits of the GPU alone
    ecc_*: memory errors since the driver was loaded (volatile) and over the board's lifetime (total)
    rows_corrected, rows_uncorrected: the numbers of rows remapped after corrected and after uncorrected errors
    rows_pending, rows_failed: whether a remapping waits for a reset, and whether one has failed
    pages_pending: whether retired pages wait for a reset
    recovery: field 230 of NVML, an nvmlDeviceGpuRecoveryAction_t: 0 none, 1 GPU reset, 2 node reboot, 3 drain
        of its peers, 4 drain and reset, 5 recovery of the IMEX domain, 6 bus reset, 7 system reboot
    fabric_state: an nvmlGpuFabricState; 3 is complete
    fabric_status: an NVML error code; 0 is success
    numa_node: the NUMA node of the GPU; None also on a machine with a single node
    cpus: the CPUs on the NUMA node of the GPU, such as "0-63"
    compute_mode: 0 for the default, 3 if only one process can use the GPU
    compute_capability: CUDA's compute capability, such as "9.0"; "" if unknown
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
        int | None, Exported("count", "Corrected ECC errors since the driver was loaded.", "ecc_corrected_errors")
    ] = None
    ecc_uncorrected: Annotated[
        int | None, Exported("count", "Uncorrected ECC errors since the driver was loaded.", "ecc_uncorrected_errors")
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
    """The power limit that was set; the limit in force may be lower."""
    sram_corrected: int | None = None
    """Corrected errors in caches and registers since the driver was loaded, from nvmlDeviceGetSramEccErrorStatus
    (R535); with older drivers, from nvmlDeviceGetMemoryErrorCounter for NVML_MEMORY_LOCATION_SRAM. The field
    ``sram_uncorrected`` is the sum of parity and SECDED errors."""
    sram_uncorrected: int | None = None
    sram_exceeded: bool | None = None
    """Whether the lifetime count of uncorrected SRAM errors exceeds NVIDIA's limit, so that the board has to be
    replaced."""
    nvlink_crc_errors: Annotated[
        int | None, Exported("count", "Damaged NVLink packets since the driver was loaded.")
    ] = None
    """Damaged flits and data on all links since the driver was loaded: fields 38 and 45, or field 163 of each link."""
    nvlink_replays: Annotated[int | None, Exported("count", "NVLink packets replayed since the driver was loaded.")] = (
        None
    )
    """Replayed packets on all links: field 52, or field 161 of each link."""
    nvlink_recoveries: Annotated[
        int | None, Exported("count", "Retrainings of an NVLink since the driver was loaded.")
    ] = None
    """Retrainings of all links: field 59, or field 162 of each link, or field 215 of NVLink 5."""
    compute_capability: str = ""


def recovery_of(state: GpuState, detail: GpuDetail | None) -> int | None:
    """The recovery (GpuDetail.recovery) that the driver asks for now; if unknown, the newest in the kernel's log."""
    now = None if detail is None else detail.recovery
    return state.recovery if now is None else now


GpuDetails = Mapping[str, Reading[GpuDetail]]
"""The Reading of each GPU, by UUID."""
