"""Where a GPU sits: its slot, its NUMA node and the CPUs near it.

Source: /sys/bus/pci/devices/*/{numa_node,local_cpulist,max_link_speed,max_link_width}, of the device and of the bridge
above it; https://docs.kernel.org/admin-guide/abi-testing.html.
"""

from __future__ import annotations

from iotop_ai.collectors.root import Root
from iotop_ai.model.gpu_detail import GpuDetail
from iotop_ai.model.record import NamedTuple

_GENERATIONS = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6}


class Place(NamedTuple):
    """slot_*: what the bridge above can do. None, "": not told (a virtual machine, an APU)."""

    numa_node: int | None = None
    cpus: str = ""
    device_max_width: int | None = None
    slot_max_generation: int | None = None
    slot_max_width: int | None = None


def pci_address(bus_id: str) -> str:
    """The kernel's form of NVML's bus id: "0000:18:00.0" of "00000000:18:00.0"."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else ""


def parse_generation(speed: str) -> int | None:
    """PCIe generation of a link speed: 5 of "32.0 GT/s PCIe"; None for "Unknown"."""
    return _GENERATIONS.get(speed.split(" ", 1)[0])


def read_place(root: Root, bus_id: str) -> Place:
    """What sysfs says of the device at a bus id."""
    address = pci_address(bus_id)
    if not address or "/" in address:
        return Place()
    device = f"sys/bus/pci/devices/{address}"
    link = root.link(device)
    bridge = ""
    if link.count("/") > 1:
        # ../../../devices/pci0000:17/0000:17:01.0/0000:18:00.0: the folder above is the bridge.
        bridge = "sys/bus/pci/devices/" + link.split("/")[-2]
    node = root.number_or_none(f"{device}/numa_node")
    return Place(
        None if node is None or node < 0 else node,
        root.text_or(f"{device}/local_cpulist"),
        _width(root, device),
        parse_generation(root.text_or(f"{bridge}/max_link_speed")) if bridge else None,
        _width(root, bridge) if bridge else None,
    )


def placed(root: Root, detail: GpuDetail, bus_id: str) -> GpuDetail:
    """The detail with its place."""
    place = read_place(root, bus_id)
    return detail._replace(
        numa_node=place.numa_node,
        cpus=place.cpus,
        device_max_width=place.device_max_width,
        slot_max_generation=place.slot_max_generation,
        slot_max_width=place.slot_max_width,
    )


def _width(root: Root, folder: str) -> int | None:
    width = root.number_or_none(f"{folder}/max_link_width")
    return width if width and 0 < width < 255 else None
