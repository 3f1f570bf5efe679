"""The slow figures of one GPU: limits, health, links. Source: nvml.h."""

from __future__ import annotations

from typing import Any

from iotop_ai.collectors.nvml_door import Door, text_of
from iotop_ai.model.gpu_detail import GpuDetail

_SHUTDOWN, _SLOWDOWN, _MEMORY_MAX = 0, 1, 2
_CORRECTED, _UNCORRECTED = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_RECOVERY = 230
_MOST_LINKS = 36


def read_detail(door: Door, uuid: str) -> GpuDetail:
    """One GPU's detail; the place in the machine is left out. Raises GpuGone, Unavailable."""
    limits = door.once(uuid, "nvmlDeviceGetPowerManagementLimitConstraints")
    rows = door.get(uuid, "nvmlDeviceGetRemappedRows")
    ecc = door.get(uuid, "nvmlDeviceGetEccMode")
    links, active = _links(door, uuid)
    fabric, fabric_status = _fabric(door, uuid)
    return GpuDetail(
        uuid,
        driver=driver_version(door, uuid),
        vbios=text_of(door.once(uuid, "nvmlDeviceGetVbiosVersion")),
        slowdown_celsius=_threshold(door, uuid, _SLOWDOWN),
        shutdown_celsius=_threshold(door, uuid, _SHUTDOWN),
        memory_max_celsius=_threshold(door, uuid, _MEMORY_MAX),
        default_limit_mw=door.once(uuid, "nvmlDeviceGetPowerManagementDefaultLimit"),
        least_limit_mw=None if limits is None else limits[0],
        most_limit_mw=None if limits is None else limits[1],
        device_max_generation=door.once(uuid, "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
        ecc=None if ecc is None else bool(ecc[0]),
        ecc_corrected=_ecc(door, uuid, _CORRECTED, _VOLATILE),
        ecc_uncorrected=_ecc(door, uuid, _UNCORRECTED, _VOLATILE),
        ecc_corrected_total=_ecc(door, uuid, _CORRECTED, _AGGREGATE),
        ecc_uncorrected_total=_ecc(door, uuid, _UNCORRECTED, _AGGREGATE),
        rows_corrected=None if rows is None else rows[0],
        rows_uncorrected=None if rows is None else rows[1],
        rows_pending=None if rows is None else bool(rows[2]),
        rows_failed=None if rows is None else bool(rows[3]),
        pages_pending=_flag(door.get(uuid, "nvmlDeviceGetRetiredPagesPendingStatus")),
        recovery=_field(door, uuid, _RECOVERY),
        nvlinks=links,
        nvlinks_active=active,
        fabric_state=fabric,
        fabric_status=fabric_status,
        persistence=_flag(door.get(uuid, "nvmlDeviceGetPersistenceMode")),
        compute_mode=door.get(uuid, "nvmlDeviceGetComputeMode"),
        limit_mw=door.get(uuid, "nvmlDeviceGetPowerManagementLimit"),
    )


def driver_version(door: Door, uuid: str) -> str:
    """The driver's version, "" when it does not say."""
    return text_of(door.get(uuid, "nvmlSystemGetDriverVersion", bare=True))


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _threshold(door: Door, uuid: str, which: int) -> int | None:
    found: int | None = door.once(
        uuid, "nvmlDeviceGetTemperatureThreshold", which, label=f"nvmlDeviceGetTemperatureThreshold.{which}"
    )
    return found or None


def _ecc(door: Door, uuid: str, kind: int, counter: int) -> int | None:
    label = f"nvmlDeviceGetTotalEccErrors.{kind}{counter}"
    found: int | None = door.get(uuid, "nvmlDeviceGetTotalEccErrors", kind, counter, label=label)
    return found


def _field(door: Door, uuid: str, number: int) -> int | None:
    label = f"nvmlDeviceGetFieldValues.{number}"
    values = door.get(uuid, "nvmlDeviceGetFieldValues", [number], label=label)
    if values is None or values[0].nvmlReturn != 0:
        return None
    return int(values[0].value.uiVal)


def _links(door: Door, uuid: str) -> tuple[int | None, int | None]:
    """How many NVLinks there are, and are up; None where there is no NVLink."""
    if door.never(uuid, "nvmlDeviceGetNvLinkState"):
        return None, None
    states = []
    for link in range(_MOST_LINKS):
        # The first link that does not exist is answered with an error: the end of the list, no lack for good.
        state = door.get(uuid, "nvmlDeviceGetNvLinkState", link, label=f"nvmlDeviceGetNvLinkState.{link}")
        if state is None:
            break
        states.append(state)
    if not states:
        door.give_up(uuid, "nvmlDeviceGetNvLinkState")
        return None, None
    return len(states), sum(1 for state in states if state)


def _fabric(door: Door, uuid: str) -> tuple[int | None, int | None]:
    kind = getattr(door.api, "c_nvmlGpuFabricInfo_v2_t", None)
    if kind is None or door.never(uuid, "nvmlDeviceGetGpuFabricInfoV"):
        return None, None
    import ctypes  # a start does without

    info = kind()
    # The binding hands its argument on as it is, and the library writes through it: a reference, or it crashes.
    if door.get(uuid, "nvmlDeviceGetGpuFabricInfoV", ctypes.byref(info)) is None:
        return None, None
    return (None, None) if info.state == 0 else (int(info.state), int(info.status))
