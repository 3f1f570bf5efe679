"""Reads the figures of one GPU that are needed only now and then: limits, health and links. Source: nvml.h."""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.gpu.nvml.calls import PERMANENT_ERRORS, NvmlCalls, number_of, text_of
from iotop_ai.model.gpu.detail import GpuDetail

_SHUTDOWN, _SLOWDOWN, _MEMORY_MAX = 0, 1, 2
"""Values of nvmlTemperatureThresholds_t."""
_CORRECTED, _UNCORRECTED = 0, 1
"""Values of nvmlMemoryErrorType_t."""
_VOLATILE, _AGGREGATE = 0, 1
"""Values of nvmlEccCounterType_t."""
_RECOVERY = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION."""
_MOST_LINKS = 36
"""NVML_NVLINK_MAX_LINKS."""
_SRAM = 7
"""NVML_MEMORY_LOCATION_SRAM."""
_LINK_ERRORS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "nvlink_crc_errors": ((38, 45), (163,)),
    "nvlink_replays": ((52,), (161,)),
    "nvlink_recoveries": ((59,), (162, 215)),
}
"""By field of GpuDetail: (NVML's fields with the total of all links, its fields of a single link).

The fields of a single link are used if the driver has no total.
"""


def read_detail(calls: NvmlCalls, uuid: str) -> GpuDetail:
    """Read the detail of one GPU, without its topology. Raises GpuUnavailable and Unavailable."""
    limits = calls.get_constant(uuid, "nvmlDeviceGetPowerManagementLimitConstraints")
    rows = calls.get(uuid, "nvmlDeviceGetRemappedRows")
    ecc = calls.get(uuid, "nvmlDeviceGetEccMode")
    links, active = _links(calls, uuid)
    fabric, fabric_status = _fabric(calls, uuid)
    sram = _sram(calls, uuid)
    errors = _link_errors(calls, uuid, links or 0)
    return GpuDetail(
        uuid,
        driver=driver_version(calls, uuid),
        vbios=text_of(calls.get_constant(uuid, "nvmlDeviceGetVbiosVersion")),
        slowdown_celsius=_threshold(calls, uuid, _SLOWDOWN),
        shutdown_celsius=_threshold(calls, uuid, _SHUTDOWN),
        memory_max_celsius=_threshold(calls, uuid, _MEMORY_MAX),
        default_limit_mw=calls.get_constant(uuid, "nvmlDeviceGetPowerManagementDefaultLimit"),
        least_limit_mw=None if limits is None else limits[0],
        most_limit_mw=None if limits is None else limits[1],
        device_max_generation=calls.get_constant(uuid, "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
        ecc=None if ecc is None else bool(ecc[0]),
        ecc_corrected=_ecc(calls, uuid, _CORRECTED, _VOLATILE),
        ecc_uncorrected=_ecc(calls, uuid, _UNCORRECTED, _VOLATILE),
        ecc_corrected_total=_ecc(calls, uuid, _CORRECTED, _AGGREGATE),
        ecc_uncorrected_total=_ecc(calls, uuid, _UNCORRECTED, _AGGREGATE),
        rows_corrected=None if rows is None else rows[0],
        rows_uncorrected=None if rows is None else rows[1],
        rows_pending=None if rows is None else bool(rows[2]),
        rows_failed=None if rows is None else bool(rows[3]),
        pages_pending=_flag(calls.get(uuid, "nvmlDeviceGetRetiredPagesPendingStatus")),
        recovery=_field(calls, uuid, _RECOVERY),
        nvlinks=links,
        nvlinks_active=active,
        fabric_state=fabric,
        fabric_status=fabric_status,
        persistence=_flag(calls.get(uuid, "nvmlDeviceGetPersistenceMode")),
        compute_mode=calls.get(uuid, "nvmlDeviceGetComputeMode"),
        limit_mw=calls.get(uuid, "nvmlDeviceGetPowerManagementLimit"),
        sram_corrected=sram[0],
        sram_uncorrected=sram[1],
        sram_exceeded=sram[2],
        nvlink_crc_errors=errors["nvlink_crc_errors"],
        nvlink_replays=errors["nvlink_replays"],
        nvlink_recoveries=errors["nvlink_recoveries"],
        compute_capability=_capability(calls, uuid),
    )


def driver_version(calls: NvmlCalls, uuid: str) -> str:
    """Return the version of the driver; "" when it is unknown."""
    return text_of(calls.get(uuid, "nvmlSystemGetDriverVersion", without_handle=True))


def _capability(calls: NvmlCalls, uuid: str) -> str:
    numbers = calls.get_constant(uuid, "nvmlDeviceGetCudaComputeCapability")
    return "" if numbers is None else ".".join(map(str, numbers))


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _threshold(calls: NvmlCalls, uuid: str, kind: int) -> int | None:
    celsius: int | None = calls.get_constant(
        uuid, "nvmlDeviceGetTemperatureThreshold", kind, label=f"nvmlDeviceGetTemperatureThreshold.{kind}"
    )
    return celsius or None


def _ecc(calls: NvmlCalls, uuid: str, kind: int, counter: int) -> int | None:
    label = f"nvmlDeviceGetTotalEccErrors.{kind}{counter}"
    count: int | None = calls.get(uuid, "nvmlDeviceGetTotalEccErrors", kind, counter, label=label)
    return count


def _field(calls: NvmlCalls, uuid: str, number: int) -> int | None:
    label = f"nvmlDeviceGetFieldValues.{number}"
    values = calls.get(uuid, "nvmlDeviceGetFieldValues", [number], label=label)
    if values is None or values[0].nvmlReturn != 0:
        return None
    return number_of(values[0])


def _sram(calls: NvmlCalls, uuid: str) -> tuple[int | None, int | None, bool | None]:
    """Return (corrected errors, uncorrected errors, whether the board's lifetime limit is exceeded).

    The errors are counted since the driver was loaded. A value is None when it is unknown.
    """
    function = "nvmlDeviceGetSramEccErrorStatus"
    struct_type = getattr(calls.api, "c_nvmlEccSramErrorStatus_v1_t", None)
    if struct_type is not None and not calls.is_unsupported(uuid, function):
        import ctypes  # not needed at start-up

        status = struct_type()
        # The binding passes the argument on unchanged, and the library writes its answer through it.
        if calls.get(uuid, function, ctypes.byref(status)) is not None:
            return (
                status.volatileCor,
                status.volatileUncParity + status.volatileUncSecDed,
                bool(status.bThresholdExceeded),
            )
        if not calls.is_unsupported(uuid, function):
            return None, None, None
    counts = [
        calls.get(
            uuid,
            "nvmlDeviceGetMemoryErrorCounter",
            error_kind,
            _VOLATILE,
            _SRAM,
            label=f"nvmlDeviceGetMemoryErrorCounter.{error_kind}{_VOLATILE}{_SRAM}",
        )
        for error_kind in (_CORRECTED, _UNCORRECTED)
    ]
    return counts[0], counts[1], None


def _link_errors(calls: NvmlCalls, uuid: str, links: int) -> dict[str, int | None]:
    """Return the error counts of all NVLinks, read with one call.

    A count is None without NVLink, if the GPU does not report it, or if a part of it failed this time.
    """
    out: dict[str, int | None] = dict.fromkeys(_LINK_ERRORS)
    if not links:
        return out
    queried: list[int | tuple[int, int]] = []
    for totals, per_link in _LINK_ERRORS.values():
        queried += [*totals, *((field, link) for field in per_link for link in range(links))]
    values = calls.get(uuid, "nvmlDeviceGetFieldValues", queried, label="nvmlDeviceGetFieldValues.links")
    if values is None:
        return out
    sums: dict[int, int] = {}
    failed: set[int] = set()
    for value in values:
        if value.nvmlReturn == 0:
            sums[value.fieldId] = sums.get(value.fieldId, 0) + number_of(value)
        elif value.nvmlReturn not in PERMANENT_ERRORS:
            failed.add(value.fieldId)
    for name, groups in _LINK_ERRORS.items():
        reported = next((fields for fields in groups if any(f in sums or f in failed for f in fields)), ())
        # A count without the fields that failed this time would seem to grow when they answer again.
        if reported and failed.isdisjoint(reported):
            out[name] = sum(sums.get(f, 0) for f in reported)
    return out


def _links(calls: NvmlCalls, uuid: str) -> tuple[int | None, int | None]:
    """Return (number of NVLinks, number of active ones); None without NVLink, or if a call failed this time."""
    states = []
    for link in range(_MOST_LINKS):
        # The first missing link gives an error, which ends the loop; without NVLink, this is link 0.
        label = f"nvmlDeviceGetNvLinkState.{link}"
        state = calls.get(uuid, "nvmlDeviceGetNvLinkState", link, label=label)
        if state is None and not calls.is_unsupported(uuid, label):
            return None, None  # a sum over only some links would seem to grow when the other links answer again
        if state is None:
            break
        states.append(state)
    return (len(states), sum(1 for state in states if state)) if states else (None, None)


def _fabric(calls: NvmlCalls, uuid: str) -> tuple[int | None, int | None]:
    """Return (state, status) of the NVLink fabric; None without a fabric (state 0)."""
    struct_type = getattr(calls.api, "c_nvmlGpuFabricInfo_v2_t", None)
    if struct_type is None or calls.is_unsupported(uuid, "nvmlDeviceGetGpuFabricInfoV"):
        return None, None
    import ctypes  # not needed at start-up

    info = struct_type()
    # The binding passes the argument on unchanged, and the library writes through it; without byref, we would crash.
    if calls.get(uuid, "nvmlDeviceGetGpuFabricInfoV", ctypes.byref(info)) is None:
        return None, None
    return (None, None) if info.state == 0 else (int(info.state), int(info.status))
