"""GPU rates from counters, job ids from cgroups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotop_ai.model.gpu.state import GpuEarlier, GpuRates, GpuState, gpu_rates
from iotop_ai.model.job.batch_ids import JobIds, job_ids
from iotop_ai.model.reading import Reading, Status

S = 1_000_000_000
HEX = "0123456789abcdef" * 4
POD = "3f2a1b0c-1111-2222-3333-444455556666"


def at(seconds: float, **fields: object) -> dict[str, Reading[GpuState]]:
    return {"GPU-1": Reading(GpuState("GPU-1", 0, "H100", **fields), Status.OK, at_ns=int(seconds * S))}  # type: ignore[arg-type]


def rates(before: dict[str, Reading[GpuState]] | None, after: dict[str, Reading[GpuState]]) -> GpuRates:
    return gpu_rates(before, after, 99.0)["GPU-1"]


def test_counters_give_shares_of_time_and_rates_of_bytes_and_power() -> None:
    before = at(
        10, power_cap_ns=5 * S, pcie_rx_bytes=1000, energy_mj=0, busy_samples=10, gap_samples=2, nvlink_tx_kib=0
    )
    after = at(
        12,
        power_cap_ns=6 * S,
        pcie_rx_bytes=5000,
        energy_mj=1_200_000,
        busy_samples=22,
        gap_samples=5,
        nvlink_tx_kib=4,
        power_mw=1,
    )
    found = rates(before, after)
    assert found.power_cap_ratio == 0.5
    assert found.pcie_rx_bytes_per_s == 2000
    assert found.power_watts == 600
    assert found.gap_ratio == 0.25
    assert found.nvlink_tx_bytes_per_s == 2048
    assert found.pcie_tx_bytes_per_s is None
    assert rates(None, after).power_watts == 0.001


def test_a_share_is_at_most_1_and_unknown_after_a_reset() -> None:
    assert rates(at(0, hw_thermal_ns=0), at(1, hw_thermal_ns=int(1.01 * S))).hw_thermal_ratio == 1.0
    assert rates(at(0, hw_thermal_ns=9), at(1, hw_thermal_ns=0)).hw_thermal_ratio is None


@pytest.mark.parametrize(
    ("uuid", "limit", "integrated"),
    [
        ("AMD-0000:0f:00.0", None, True),
        ("AMD-c0ffee", 300_000, False),
        ("Intel-1", None, False),
        ("GPU-1", None, False),
    ],
)
def test_a_gpu_of_amd_without_a_power_limit_is_integrated(uuid: str, limit: int | None, integrated: bool) -> None:
    assert GpuState(uuid, 0, "", power_limit_mw=limit).is_integrated is integrated


def test_a_counter_that_is_read_less_often_has_the_rate_between_its_readings() -> None:
    late = GpuEarlier("energy_mj", 10 * S, 5 * S, 1_000_000)
    after = at(13, energy_mj=2_000_000, power_mw=77_000, earlier=(late,))
    assert rates(at(12, energy_mj=2_000_000, earlier=(late,)), after).power_watts == 200.0
    first = GpuEarlier("energy_mj", 10 * S)
    assert rates(None, at(13, energy_mj=2_000_000, power_mw=77_000, earlier=(first,))).power_watts == 77.0
    back = at(14, energy_mj=3_000_000, power_mw=77_000)
    assert rates(after, back).power_watts == 77.0


def test_the_rate_of_a_counter_is_over_the_times_at_which_it_was_read() -> None:
    before = at(10.04, energy_mj=0, energy_at_ns=10 * S, pcie_rx_bytes=0, fields_at_ns=10 * S)
    after = at(11.0, energy_mj=600_000, energy_at_ns=11 * S, pcie_rx_bytes=500, fields_at_ns=int(10.5 * S))
    found = rates(before, after)
    assert (found.power_watts, found.pcie_rx_bytes_per_s) == (600.0, 1000.0)
    # A recording of an older version has only the time of the whole reading.
    assert rates(at(10, energy_mj=0), at(11, energy_mj=600_000, energy_at_ns=S)).power_watts == 600.0


def test_pcie_rates_come_from_gpm_or_else_from_the_slow_call() -> None:
    assert rates(None, at(1, gpm_pcie_rx_mib_per_s=2.0, pcie_rx_kib_per_s=9)).pcie_rx_bytes_per_s == 2 << 20
    assert rates(None, at(1, pcie_rx_kib_per_s=9)).pcie_rx_bytes_per_s == 9216


COUNTERS = [name for name in GpuState._fields if name.endswith(("_ns", "_bytes", "_kib", "_samples", "_mj"))]


@given(
    st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 2**64)),
    st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 2**64)),
    st.floats(0.0, 100.0),
)
def test_no_rate_is_negative_and_nothing_raises(one: dict[str, int], two: dict[str, int], seconds: float) -> None:
    found = rates(at(5, **one), at(5 + seconds, **two))
    assert all(value is None or value >= 0 for value in found)


@pytest.mark.parametrize(
    ("cgroup", "ids", "label"),
    [
        ("/system.slice/slurmstepd.scope/job_48213/step_0/user/task_0", JobIds(slurm="48213.0"), "slurm 48213.0"),
        ("/slurm/uid_1000/job_7/step_batch", JobIds(slurm="7"), "slurm 7"),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/"
            f"cri-containerd-{HEX}.scope",
            JobIds(pod=POD, container=HEX[:12]),
            "pod 3f2a1b0c",
        ),
        (f"/kubepods/burstable/pod{POD}/{HEX}", JobIds(pod=POD, container=HEX[:12]), "pod 3f2a1b0c"),
        (f"/docker/{HEX}", JobIds(container=HEX[:12]), f"container {HEX[:12]}"),
        (f"/system.slice/docker-{HEX}.scope", JobIds(container=HEX[:12]), f"container {HEX[:12]}"),
        ("/system.slice/ssh.service", JobIds(unit="ssh"), "ssh"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service", JobIds(unit="jupyter"), "jupyter"),
        ("/user.slice/user-1000.slice/user@1000.service/train.service", JobIds(unit="train"), "train"),
        ("/user.slice/user-1000.slice/session-3.scope", JobIds(), ""),
        ("", JobIds(), ""),
    ],
)
def test_job_ids_are_found_in_cgroups(cgroup: str, ids: JobIds, label: str) -> None:
    assert job_ids(cgroup) == ids
    assert ids.label == label
