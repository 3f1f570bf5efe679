"""Finds the device that carries a link's bytes, so that bytes that pass several links of a machine count only once.

Sources: Documentation/ABI/testing/sysfs-class-net (device, type, phys_port_name, upper_*, lower_*, bridge),
net/core/dev.c (netdev_adjacent_sysfs_add), net/core/sysctl_net_core.c (sysctl_core_net_init),
drivers/net/hyperv/netvsc_drv.c (its counts include those of its VF).
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
"""The type ARPHRD_ETHER. Tunnels (tun, WireGuard, GRE) have other types, and their bytes also pass another link."""
_MOST_BELOW = 16
"""The most links below a link that are examined."""
_REPEATING = (
    "veth",
    "docker",
    "br-",
    "virbr",
    "cni",
    "flannel",
    "cali",
    "ifb",
    "dummy",
    "vnet",
    "tap",
    "lxc",
    "podman",
)
"""The prefixes of the names of virtual interfaces whose bytes also pass another interface of this machine."""
_REPRESENTOR = pattern(r"(?:c\d+)?pf\d+(?:vf|sf)\d+")
"""The phys_port_name of the host's end of a virtual function, whose bytes also pass the physical port."""


def places_of(root: Root, links: Iterable[str]) -> dict[str, str]:
    """Return the device that carries the bytes of each network interface; "" if the bytes also pass another link.

    Interfaces whose name alone shows that their bytes pass another interface are left out. The bytes of a bond, team,
    bridge or VLAN pass the interfaces below it, which have a device. In a container, and where no interface has a
    device, an interface without a device counts unless another interface carries its bytes; its own name then stands
    for the device. An example is the eth0 of a pod, even beside a virtual function of the host's network card.
    """
    listed = list(links)
    names = [name for name in listed if not name.startswith(_REPEATING)]
    devices = {name: device for name in names if (device := _device(root, f"{NET}/{name}"))}
    if devices:
        in_container = _in_container(root)
        own_places = {name for name in names if in_container and name not in devices and not _stacked(root, name)}
        return {
            name: clean(name) if name in own_places else "" if _repeats(root, name, devices) else devices.get(name, "")
            for name in names
        }
    places = {name: "" if _stacked(root, name) else clean(name) for name in names}
    if any(places.values()) or _in_initial_namespace(root):
        return places
    # The only link of a rootless container is the tap0 of slirp4netns, whose name begins with a prefix in _REPEATING.
    candidates = (name for name in listed if name not in places and not _neighbours(root, name, "upper_"))
    return places | {name: clean(name) for name in candidates if not _stacked(root, name)}


def has_speed(root: Root, name: str, depth: int = 4) -> bool:
    """Whether the link's speed is real: the link, or a link below it, is a network card or a bond.

    veth and tun invent their speeds. The links below a bridge do not count. depth: how many levels below to examine.
    """
    base = f"{NET}/{name}"
    if root.exists(f"{base}/device") or root.exists(f"{base}/bonding"):
        return True
    below = _neighbours(root, name, "lower_") if depth and not root.exists(f"{base}/bridge") else []
    return any(has_speed(root, lower, depth - 1) for lower in below[:_MOST_BELOW])


def port_place(root: Root, device: str) -> str:
    """Return the device of an InfiniBand port. The port's network interface, if there is one, has the same device."""
    return _device(root, f"{INFINIBAND}/{device}") or clean(device)


def _device(root: Root, base: str) -> str:
    """Return the name of the device's folder below /sys/devices (0000:18:00.0, virtio2); "" without a device."""
    return clean(os.path.basename(root.real(f"{base}/device"))) if root.exists(f"{base}/device") else ""


def _in_initial_namespace(root: Root) -> bool:
    return root.exists("proc/sys/net/core/netdev_budget")


def _in_container(root: Root) -> bool:
    """Whether we are in a network namespace other than the initial one. Some settings are missing in such a namespace.

    Every /proc shows the settings of the namespace of the process that reads it. With --procfs or --sysfs the answer is
    therefore unknown, and the result is False.
    """
    visible = not root.has_given_trees and root.exists("proc/sys/net/core/somaxconn")
    return visible and not _in_initial_namespace(root)


def _neighbours(root: Root, name: str, prefix: str) -> list[str]:
    return [entry.removeprefix(prefix) for entry in root.names(f"{NET}/{name}") if entry.startswith(prefix)]


def _repeats(root: Root, name: str, devices: dict[str, str]) -> bool:
    """Whether another link with a device counts the same bytes: the link above it (Hyper-V), or a physical port."""
    if any(upper in devices for upper in _neighbours(root, name, "upper_")):
        return True
    return _REPRESENTOR.fullmatch(root.text_or(f"{NET}/{name}/phys_port_name")) is not None


def _stacked(root: Root, name: str) -> bool:
    """Whether a link without a device is on top of other links, is a bridge, or is a tunnel through another link."""
    base = f"{NET}/{name}"
    kind = root.number_or_none(f"{base}/type")
    if kind is not None and kind != _ETHERNET:
        return True
    return root.exists(f"{base}/bridge") or bool(_neighbours(root, name, "lower_"))
