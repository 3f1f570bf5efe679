"""The figures of a GPU that are read rarely, from an NVML whose answers the test decides."""

from __future__ import annotations

from iotop_ai.collectors.gpu.nvml.calls import INVALID, TIMEOUT, NvmlCalls
from iotop_ai.collectors.gpu.nvml.detail import read_detail
from iotop_ai.collectors.io.clock import Clock

GPU = "GPU-1"


class Api:
    """A GPU with four NVLinks, one of which may fail to answer."""

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            self.value = value

    silent: int | None = None

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        if link >= 4:
            raise self.NVMLError(INVALID)
        if link == self.silent:
            raise self.NVMLError(TIMEOUT)
        return 1


def test_links_are_unknown_while_one_does_not_answer() -> None:
    calls = NvmlCalls(Clock())
    api = calls.api = Api()
    calls.handles[GPU] = 1
    found = []
    for api.silent in (None, 2, None):
        detail = read_detail(calls, GPU)
        found.append((detail.nvlinks, detail.nvlinks_active))
    assert found == [(4, 4), (None, None), (4, 4)]
