"""Finds a GPU's slot, NUMA node and local CPUs.

Source: /sys/bus/pci/devices/*/{numa_node,local_cpulist,max_link_speed,max_link_width}, of the device and of the bridge
above it; https://docs.kernel.org/admin-guide/abi-testing.html. Cards of AMD and Intel have their own switch between the
slot and the GPU. The search for the slot skips this switch, as drivers/gpu/drm/amd/amdgpu/amdgpu_device.c does
(amdgpu_device_partner_bandwidth).
"""

from __future__ import annotations

from iotop_ai.collectors.io.root import READ_LIMIT, Root
from iotop_ai.collectors.pcie import known_width, parse_generation
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.gpu.detail import GpuDetail

AMD = "0x1002"
VENDORS_WITH_SWITCH = (AMD, "0x8086")
"""The PCI IDs of the vendors (AMD, Intel) whose cards have their own switch."""
DEVICES = "sys/bus/pci/devices"
DRM = "sys/class/drm"
_ADDRESS = pattern(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class PciTopology(NamedTuple):
    """Where a GPU is connected.

    cpus: the list of the local CPUs, such as "0-15". device_max_width: the most lanes of the card's port.
    slot_max_generation, slot_max_width: the limits of the bridge above the card. A value is None or "" when it is
    unknown, as in a virtual machine or for an APU.
    """

    numa_node: int | None = None
    cpus: str = ""
    device_max_width: int | None = None
    slot_max_generation: int | None = None
    slot_max_width: int | None = None


def drm_cards(root: Root) -> list[str]:
    """Return the names of the DRM cards ("card0"), ordered by number."""
    names = [name for name in root.names(DRM) if name.startswith("card") and name[4:].isdecimal()]
    return sorted(names, key=lambda name: int(name[4:]))


def pci_address(bus_id: str) -> str:
    """Return NVML's bus ID in the kernel's form: "0000:18:00.0" for "00000000:18:00.0"; "" without a hex domain."""
    domain, _, rest = bus_id.lower().partition(":")
    try:
        return f"{int(domain, 16):04x}:{rest}" if rest else ""
    except ValueError:
        return ""


def edge_of(root: Root, bus_id: str) -> tuple[str, str]:
    """Return (the card's port that is connected to the slot, the bridge above it), as PCI addresses; "" if missing.

    The port is the GPU itself, or the upper end of the card's own switch. The link below the switch has the internal
    speed of the card, which does not depend on the slot.
    """
    address = pci_address(bus_id)
    if not address or "/" in address:
        return "", ""
    # ../../../devices/pci0000:17/0000:17:01.0/0000:18:00.0: the folders above the last are bridges, root port first.
    path = [part for part in root.link(f"{DEVICES}/{address}").split("/") if _ADDRESS.fullmatch(part)]
    edge = len(path) - 1
    vendor = root.text_or(f"{DEVICES}/{address}/vendor")
    # A root port belongs to the machine, even if it has the same vendor as the card.
    while edge > 1 and vendor in VENDORS_WITH_SWITCH and root.text_or(f"{DEVICES}/{path[edge - 1]}/vendor") == vendor:
        edge -= 1
    return (path[edge], path[edge - 1]) if edge > 0 else (address, "")


def read_topology(root: Root, bus_id: str) -> PciTopology:
    """Read the topology of the device with this bus ID from sysfs."""
    edge, bridge = edge_of(root, bus_id)
    if not edge:
        return PciTopology()
    device = f"{DEVICES}/{pci_address(bus_id)}"
    node = root.number_or_none(f"{device}/numa_node")
    return PciTopology(
        None if node is None or node < 0 else node,
        root.text_or(f"{device}/local_cpulist", longest=READ_LIMIT),
        known_width(root.number_or_none(f"{DEVICES}/{edge}/max_link_width")),
        parse_generation(root.text_or(f"{DEVICES}/{bridge}/max_link_speed")) if bridge else None,
        known_width(root.number_or_none(f"{DEVICES}/{bridge}/max_link_width")) if bridge else None,
    )


def with_topology(root: Root, detail: GpuDetail, bus_id: str) -> GpuDetail:
    """Return the detail with the topology of the GPU."""
    topology = read_topology(root, bus_id)
    return detail._replace(
        numa_node=topology.numa_node,
        cpus=topology.cpus,
        device_max_width=topology.device_max_width,
        slot_max_generation=topology.slot_max_generation,
        slot_max_width=topology.slot_max_width,
    )
