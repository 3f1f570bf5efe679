"""The speed of a PCIe link. Source: drivers/pci/pci.h, PCIE_SPEED2STR; without ".0" in Linux 4.17 to 5.7."""

from __future__ import annotations

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""PCIe generation by GT/s."""


def parse_generation(speed: str) -> int | None:
    """PCIe generation of a link speed: 5 of "32.0 GT/s PCIe" and "32 GT/s"; None for "Unknown"."""
    number = speed.partition(" ")[0]
    return _GENERATIONS.get(float(number)) if number.replace(".", "", 1).isdecimal() else None
