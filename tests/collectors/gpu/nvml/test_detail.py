"""The figures of a GPU that are read rarely, from an NVML whose answers the test decides."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from iotop_ai.collectors.gpu.nvml.calls import INVALID, NOT_SUPPORTED, TIMEOUT, NvmlCalls
from iotop_ai.collectors.gpu.nvml.detail import read_detail
from iotop_ai.collectors.io.clock import Clock

GPU = "GPU-1"
REPLAYS, REPLAYS_OF_A_LINK = 52, 161
"""NVML's fields for the replays of all links and of a single link."""


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


class CountingApi(Api):
    """The same GPU, which counts five replays on each link. A field may fail this time."""

    failing: int | tuple[int, int] | None = None
    unsupported: tuple[int, ...] = ()

    def nvmlDeviceGetFieldValues(  # noqa: N802
        self, handle: int, fields: list[int | tuple[int, int]]
    ) -> list[SimpleNamespace]:
        return [self.answer(field) for field in fields]

    def answer(self, field: int | tuple[int, int]) -> SimpleNamespace:
        number = field[0] if isinstance(field, tuple) else field
        known = {REPLAYS: 20, REPLAYS_OF_A_LINK: 5}
        code = NOT_SUPPORTED if number in self.unsupported or number not in known else 0
        code = TIMEOUT if field == self.failing else code
        value = SimpleNamespace(ullVal=known.get(number, 0))
        return SimpleNamespace(fieldId=number, nvmlReturn=code, valueType=3, value=value)


@pytest.mark.parametrize(
    ("unsupported", "failing"), [((REPLAYS,), (REPLAYS_OF_A_LINK, 1)), ((REPLAYS_OF_A_LINK,), REPLAYS), ((), REPLAYS)]
)
def test_errors_of_the_links_are_unknown_while_a_part_of_them_fails(
    unsupported: tuple[int, ...], failing: int | tuple[int, int]
) -> None:
    calls = NvmlCalls(Clock())
    api = calls.api = CountingApi()
    calls.handles[GPU] = 1
    api.unsupported = unsupported
    found = []
    for api.failing in (None, failing, None):
        detail = read_detail(calls, GPU)
        found.append((detail.nvlink_replays, detail.nvlink_crc_errors))
    assert found == [(20, None), (None, None), (20, None)]
