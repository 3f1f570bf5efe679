"""The device that carries a link's bytes, so that bytes that pass several links of one machine count once.

Sources: Documentation/ABI/testing/sysfs-class-net (device, type, phys_port_name, upper_*, lower_*, bridge),
net/core/dev.c (netdev_adjacent_sysfs_add), drivers/net/hyperv/netvsc_drv.c (its counts include those of its VF).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.clean import clean

NET = "sys/class/net"
INFINIBAND = "sys/class/infiniband"
_ETHERNET = 1
"""ARPHRD_ETHER; tunnels (tun, WireGuard, GRE) have other types, and their bytes also pass another link."""
_REPRESENTOR = pattern(r"(?:c\d+)?pf\d+(?:vf|sf)\d+")
"""phys_port_name of the host's end of a virtual function: its bytes also pass the physical port."""


def places_of(root: Root, links: Iterable[str]) -> dict[str, str]:
    """Name of a network interface to the device that carries its bytes; "" when they also pass another link.

    The bytes of a bond, team, bridge or VLAN pass the interfaces below it, which have a device. Where no interface has
    one (a container), an interface counts unless another one in this network namespace carries its bytes.
    """
    names = list(links)
    real = {name: device for name in names if (device := _device(root, f"{NET}/{name}"))}
    if not real:
        return {name: "" if _stacked(root, name) else clean(name) for name in names}
    return {name: "" if _repeats(root, name, real) else real.get(name, "") for name in names}


def port_place(root: Root, device: str) -> str:
    """The device of an InfiniBand port; the same as that of its network interface where it has one."""
    return _device(root, f"{INFINIBAND}/{device}") or clean(device)


def _device(root: Root, base: str) -> str:
    """The name of its folder below /sys/devices (0000:18:00.0, virtio2); "" without one."""
    return clean(os.path.basename(root.real(f"{base}/device"))) if root.exists(f"{base}/device") else ""


def _neighbours(root: Root, name: str, which: str) -> list[str]:
    return [entry.removeprefix(which) for entry in root.names(f"{NET}/{name}") if entry.startswith(which)]


def _repeats(root: Root, name: str, real: dict[str, str]) -> bool:
    """Whether another link with a device counts the same bytes: the one above it (Hyper-V), or a physical port."""
    if any(upper in real for upper in _neighbours(root, name, "upper_")):
        return True
    return _REPRESENTOR.fullmatch(root.text_or(f"{NET}/{name}/phys_port_name")) is not None


def _stacked(root: Root, name: str) -> bool:
    """Whether a link without a device is on top of others, a bridge, or a tunnel through another link."""
    base = f"{NET}/{name}"
    kind = root.number_or_none(f"{base}/type")
    if kind is not None and kind != _ETHERNET:
        return True
    return root.exists(f"{base}/bridge") or bool(_neighbours(root, name, "lower_"))
