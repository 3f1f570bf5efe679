from __future__ import annotations

import pytest

from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.preflight.place import Nominal
from iotop_ai.preflight.storage.nominal import link_bytes_per_s, nominal_of

NVME = BlockInfo("nvme0n1", 259, 0, "disk", "nvme0n1", transport="nvme", pcie="4x4", pcie_max="4x4")
SATA = BlockInfo("sda", 8, 0, "disk", "sda", transport="ata", rotational=False)


def test_the_link_limits_a_disk_and_a_narrow_link_is_named() -> None:
    assert nominal_of(NVME) == Nominal(3000e6, "NVMe, PCIe 4x4")
    assert nominal_of(NVME._replace(pcie="1x1")) == Nominal(3000e6, "NVMe, PCIe 4x4", "1x1 of 4x4")
    # a link whose speed cannot be read is not reported as narrow
    assert nominal_of(NVME._replace(pcie="")) == Nominal(3000e6, "NVMe")
    narrow = nominal_of(NVME._replace(pcie="3x2", pcie_max="3x2"))
    assert narrow is not None
    assert narrow.bytes_per_s == pytest.approx(1576e6)


def test_each_kind_of_disk_has_its_nominal_speed() -> None:
    assert nominal_of(SATA) == Nominal(500e6, "SATA SSD")
    assert nominal_of(SATA._replace(rotational=True)) == Nominal(150e6, "HDD")
    assert nominal_of(NVME._replace(pcie="", pcie_max="")) == Nominal(3000e6, "NVMe")


def test_a_network_disk_has_no_nominal_speed() -> None:
    assert nominal_of(NVME._replace(model="Amazon Elastic Block Store")) is None
    assert nominal_of(NVME._replace(pcie="", pcie_max="", detail="NVMe over tcp")) is None
    assert nominal_of(SATA._replace(transport="virtio")) is None


@pytest.mark.parametrize("text", ["", "x4", "9x4", "4x", "four"])
def test_an_unknown_link_has_no_rate(text: str) -> None:
    assert link_bytes_per_s(text) is None
