"""Finds the disk that belongs to an ATA port or a PCI address in the kernel log.

Source: the paths of /sys/block and /sys/bus/pci/devices: .../ata3/host2/target2:0:0/2:0:0:0/block/sda.
"""

from __future__ import annotations

from iotop_ai.collectors.io.root import Root
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.lazy.regex import pattern

_PORT_PATH = pattern(r"/(ata\d+)/(?:link\d+/dev[\d.]+/)?host\d+/target\d+:(\d+):(\d+)/")


class _Connector(NamedTuple):
    """The place where a disk or optical drive is connected.

    channel: its channel on a port multiplier. number: its number on a cable with two disks.
    """

    port: str
    channel: int
    number: int


class AtaDisks:
    """Remembers the disks and optical drives of each ATA port, since the log may report a disk after its removal."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._connectors: dict[str, _Connector] = {}

    def update(self) -> None:
        """Record the disks that are connected now."""
        for name in self._root.names("sys/block"):
            if not name.startswith(("sd", "sr")):
                continue
            match = _PORT_PATH.search(self._root.link(f"sys/block/{name}"))
            if match:
                connector = _Connector(match[1], int(match[2]), int(match[3]))
                # A new disk replaces the earlier disk at the same connector.
                self._connectors = {other: where for other, where in self._connectors.items() if where != connector} | {
                    name: connector
                }

    def disk(self, subject: str) -> str:
        """Return the disk or optical drive of "ata3.00", or of "ata3" if the port has only one; "" when it is unknown.

        The number after the dot is the sum of the link's and the device's numbers (ata_dev_printk).
        """
        self.update()
        port, _, number = subject.partition(".")
        disks = {name: connector for name, connector in self._connectors.items() if connector.port == port}
        if number:
            device_number = int(number)
            disks = {
                name: connector
                for name, connector in disks.items()
                if connector.channel + connector.number == device_number
            }
        return next(iter(disks)) if len(disks) == 1 else ""


def nvme_at(root: Root, address: str) -> str:
    """Return the NVMe controller at a PCI address; "" if there is none."""
    return next((name for name in root.names(f"sys/bus/pci/devices/{address}/nvme") if name.startswith("nvme")), "")


def disk_of(root: Root, name: str) -> str:
    """Return the disk of a partition; other names are returned unchanged."""
    if not root.exists(f"sys/class/block/{name}/partition"):
        return name
    parts = root.link(f"sys/class/block/{name}").split("/")
    return parts[-2] if len(parts) > 1 else name
