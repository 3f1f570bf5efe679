"""GPUs that are busy without computing, or that are idle while they receive data."""

from __future__ import annotations

import pytest

from iotop_ai.model.gpu.activity import all_spin, link_bytes_per_s, receives_at_link_rate
from iotop_ai.model.gpu.state import GpuState

LIMIT = 700_000
SPINS = GpuState("GPU-0", 0, "H100", 100, power_mw=98_000, power_limit_mw=LIMIT)


@pytest.mark.parametrize(
    "other",
    [
        SPINS._replace(utilization_percent=80),
        SPINS._replace(utilization_percent=None),
        SPINS._replace(power_mw=230_000),
        SPINS._replace(power_mw=None),
        SPINS._replace(power_limit_mw=None),
        SPINS._replace(gpm_sm_percent=70.0),
        None,
    ],
)
def test_gpus_spin_only_if_all_are_busy_at_low_power(other: GpuState | None) -> None:
    assert all_spin([SPINS, SPINS])
    assert not all_spin([SPINS, other])
    assert not all_spin([SPINS])
    assert not all_spin([])


def test_spinning_gpus_with_idle_tensor_cores_may_draw_more_power() -> None:
    more = SPINS._replace(power_mw=250_000)
    assert not all_spin([more, more])
    quiet = more._replace(gpm_tensor_percent=0.4, gpm_sm_percent=14.0)
    assert all_spin([quiet, quiet])


def test_a_link_carries_half_in_each_earlier_generation_and_less_with_fewer_lanes() -> None:
    assert link_bytes_per_s(5, 16) == 50e9
    assert link_bytes_per_s(3, 8) == 50e9 / 8
    assert link_bytes_per_s(None, 16) is None
    assert link_bytes_per_s(4, 0) is None


def test_a_gpu_with_a_full_link_is_copying() -> None:
    gpu = GpuState("GPU-0", 0, "H100", 20, pcie_generation=4, pcie_width=16)
    assert receives_at_link_rate(gpu, 21e9)
    assert not receives_at_link_rate(gpu, 19e9)
    assert not receives_at_link_rate(gpu, None)
    assert not receives_at_link_rate(gpu._replace(pcie_width=None), 21e9)
