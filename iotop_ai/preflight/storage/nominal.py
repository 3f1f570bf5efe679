"""The speed that a disk should reach, derived from its kind and its link.

Sources: PCI Express Base Specification (2.5, 5, 8, 16, 32, 64 GT/s per lane; 8b/10b in generations 1 and 2, 128b/130b
in 3 to 5, 242 of 256 bytes of a flit in 6); the typical figures of disks are those of diagnosis/thresholds.py.
"""

from __future__ import annotations

from iotop_ai.diagnosis.facts.block import is_network_volume, serves_serially
from iotop_ai.diagnosis.thresholds import LIMITS
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.preflight.place import Nominal

_LANE_BYTES_PER_S = {1: 250e6, 2: 500e6, 3: 985e6, 4: 1969e6, 5: 3938e6, 6: 7563e6}
"""The raw rate of one lane, by the generation of PCI Express."""
_DATA_SHARE = 0.8
"""The share of a link's raw rate that is left for data. Headers (24 bytes for 128 or 256 bytes of data) and
acknowledgements take the rest."""


def link_bytes_per_s(link: str) -> float | None:
    """Return the data rate of a link such as "4x4" (generation x lanes); None if the text does not name one."""
    generation, x, lanes = link.partition("x")
    if not (x and generation.isdigit() and lanes.isdigit()):
        return None
    lane = _LANE_BYTES_PER_S.get(int(generation))
    return None if lane is None else lane * int(lanes) * _DATA_SHARE


def nominal_of(info: BlockInfo) -> Nominal | None:
    """Return the speed that a physical disk should reach; None if its kind does not show it, as for a network disk."""
    if info.transport == "nvme":
        if is_network_volume(info):
            return None
        is_reduced = info.pcie and info.pcie_max and info.pcie != info.pcie_max
        reduced = f"{info.pcie} of {info.pcie_max}" if is_reduced else ""
        typical = LIMITS.nvme_prior_bytes_per_s
        full = link_bytes_per_s(info.pcie_max or info.pcie)
        why = f"NVMe, PCIe {info.pcie_max or info.pcie}" if info.pcie else "NVMe"
        return Nominal(typical if full is None else min(typical, full), why, reduced)
    if serves_serially(info):
        return Nominal(LIMITS.hdd_prior_bytes_per_s, "HDD")
    if info.transport == "ata":
        return Nominal(LIMITS.ssd_prior_bytes_per_s, "SATA SSD")
    return None
