"""Whether two records of a block device, from two readings or two runs of the monitor, are of the same device."""

from __future__ import annotations

from iotop_ai.model.block.counters import BlockInfo

_TRAITS = ("model", "kind", "size_bytes", "detail")
"""The fields that tell two devices of one name apart if neither serial numbers nor labels do."""


def is_same_device(first: BlockInfo, second: BlockInfo) -> bool:
    """Whether two records with the same kernel name are of the same device; True if unknown.

    After a restart, the name may belong to another device.
    """
    return not telling_field(first, second)


def telling_field(first: BlockInfo, second: BlockInfo) -> str:
    """The field that shows that two records with the same kernel name are of different devices.

    "serial", "label" or one of _TRAITS; "" if they are of the same device, or if that is unknown. If one record has
    only a serial number and the other only a label, it is "serial".
    """
    (field, identity), (other_field, other_identity) = _identity(first), _identity(second)
    if identity and other_identity:
        return "" if identity == other_identity else field if field == other_field else "serial"
    for name, one, other in zip(_TRAITS, _traits(first), _traits(second), strict=True):
        if one != other and None not in (one, other) and "" not in (one, other):
            return name
    return ""


def _identity(info: BlockInfo) -> tuple[str, str]:
    """(field, value): the serial number of a disk, or the label of a device-mapper device; "" if unknown."""
    if info.serial:
        return "serial", info.serial
    return "label", info.label if info.kind == "dm" and info.label != info.name else ""


def _traits(info: BlockInfo) -> tuple[object, ...]:
    """The values of _TRAITS; None and "" mean unknown. An md array that lost a disk is still the same array."""
    info = info._replace(detail=info.detail.removesuffix(" degraded"))
    return tuple(getattr(info, name) for name in _TRAITS)
