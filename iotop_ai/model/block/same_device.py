"""Whether two records of a block device, from two readings or two runs, are of the same device."""

from __future__ import annotations

from iotop_ai.model.block.counters import BlockInfo

_TRAITS = ("model", "kind", "size_bytes", "detail")
"""The fields that tell two devices of one name apart if neither serial numbers nor labels do."""


def is_same_device(first: BlockInfo, second: BlockInfo) -> bool:
    """Whether two records with the same kernel name are of the same device; True if unknown.

    After a restart, the name may belong to another device.
    """
    identity, other_identity = _identity(first), _identity(second)
    if identity and other_identity:
        return identity == other_identity
    pairs = zip(_traits(first), _traits(second), strict=True)
    return all(one == other for one, other in pairs if None not in (one, other) and "" not in (one, other))


def _identity(info: BlockInfo) -> str:
    """The serial number of a disk, or the label of a device-mapper device; "" if unknown."""
    return info.serial or (info.label if info.kind == "dm" and info.label != info.name else "")


def _traits(info: BlockInfo) -> tuple[object, ...]:
    """The values of _TRAITS; None and "" mean unknown. An md array that lost a disk is still the same array."""
    info = info._replace(detail=info.detail.removesuffix(" degraded"))
    return tuple(getattr(info, name) for name in _TRAITS)
