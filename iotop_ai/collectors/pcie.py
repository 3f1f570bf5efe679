"""The speed and the width of a PCIe link.

Sources: PCIE_SPEED2STR in drivers/pci/pci.h; PCIE_LNK_WIDTH_UNKNOWN in include/linux/pci.h. Linux 4.17 to 5.7 writes
whole numbers without ".0".
"""

from __future__ import annotations

_UNKNOWN_WIDTH = 255
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""The PCIe generation for each link speed in GT/s."""


def parse_generation(speed: str) -> int | None:
    """Return the PCIe generation of a link speed: 5 for "32.0 GT/s PCIe" and for "32 GT/s"; None for "Unknown"."""
    number = speed.partition(" ")[0]
    return _GENERATIONS.get(float(number)) if number.replace(".", "", 1).isdecimal() else None


def known_width(lanes: int | None) -> int | None:
    """Return the lanes of a link; None if the width is unknown (None or 255) or there is no link (0)."""
    return lanes if lanes and 0 < lanes < _UNKNOWN_WIDTH else None
