"""The fast figures of a GPU, from an NVML whose answers the test decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from iotop_ai.collectors.gpu.nvml.calls import NOT_SUPPORTED
from iotop_ai.collectors.gpu.nvml.library import Nvml
from tests.clocks import SetClock

GPU = "GPU-1"


class Api:
    """An NVML with one GPU, which counts its PCIe bytes only while MIG is off."""

    class NVMLError(Exception):
        pass

    mig = 1

    def nvmlDeviceGetMigMode(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return self.mig, self.mig

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[Any]) -> list[SimpleNamespace]:  # noqa: N802
        code = NOT_SUPPORTED if self.mig else 0
        return [SimpleNamespace(nvmlReturn=code, valueType=3, value=SimpleNamespace(ullVal=7)) for _ in fields]


def test_a_field_that_mig_does_not_support_is_read_when_mig_is_off() -> None:
    nvml = Nvml(SetClock(1))
    api = nvml._calls.api = Api()
    nvml._calls.handles[GPU] = 1
    found = []
    for api.mig in (1, 0, 1):
        found.append(nvml.state(GPU).pcie_rx_bytes)
    assert found == [None, 7, None]
