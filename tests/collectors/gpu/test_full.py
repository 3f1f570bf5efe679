"""All figures of a Hopper GPU, read by the real pynvml: counters, samples, GPM, MIG, Xid, processes, slow calls."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.model.gpu.state import GpuProcess
from tests.rigs.nvml import build, machine, why_no_library
from tests.rigs.nvml.asker import Asker
from tests.rigs.nvml.c_library import CONSUMER, HOPPER, MIG, uuid

NO_LIBRARY = why_no_library()
pytestmark = pytest.mark.skipif(bool(NO_LIBRARY), reason=NO_LIBRARY or "built")
Start = Callable[..., Asker]


def test_every_figure_of_a_hopper_gpu_is_read(library: Path, asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER])
    ask = asker(library, every_s=0.15)
    ask("first")
    state = ask.until(lambda r: r["value"][uuid(0)]["value"]["gpm_sm_percent"] is not None)["value"][uuid(0)]["value"]
    wanted = {
        "memory_celsius": 72,
        "margin_celsius": 23,
        "power_cap_ns": 1_000_000_000,
        "sync_boost_ns": 0,
        "sw_thermal_ns": 0,
        "hw_thermal_ns": 0,
        "power_brake_ns": 0,
        "pcie_tx_bytes": 5_000_000_000,
        "pcie_rx_bytes": 9_000_000_000,
        "nvlink_tx_kib": 4096,
        "nvlink_rx_kib": 8192,
        "pcie_replays": 3,
        "gpm_sm_percent": 31.25,
        "gpm_occupancy_percent": 18.5,
        "gpm_tensor_percent": 12.0,
        "gpm_dram_percent": 40.0,
        "gpm_pcie_tx_mib_per_s": 500.0,
        "gpm_pcie_rx_mib_per_s": 1500.0,
        "gpm_nvlink_tx_mib_per_s": 32.0,
        "gpm_nvlink_rx_mib_per_s": 64.0,
        "instances": None,
        "pcie_tx_kib_per_s": None,
        "last_xid": None,
        "earlier": [],
        "encoder_percent": 0,
        "decoder_percent": 34,
        "jpeg_percent": 61,
        "ofa_percent": 0,
    }
    assert {name: state[name] for name in wanted} == wanted
    assert state["processes"] == [GpuProcess(2001, 60129542144, "compute", sm_percent=88)._asdict()]
    assert "nvmlDeviceGetPcieThroughput" not in ask.log.read_text()


def test_limits_and_health_of_a_hopper_gpu_are_read(library: Path, asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER])
    ask = asker(library)
    ask("first")
    detail = ask("details")["value"][uuid(0)]["value"]
    assert {key: value for key, value in detail.items() if value not in (None, "")} == {
        "uuid": uuid(0),
        "driver": "570.124.06",
        "vbios": "96.00.74.00.01",
        "slowdown_celsius": 90,
        "shutdown_celsius": 95,
        "default_limit_mw": 700000,
        "least_limit_mw": 200000,
        "most_limit_mw": 700000,
        "device_max_generation": 5,
        "ecc": True,
        "ecc_corrected": 3,
        "ecc_uncorrected": 0,
        "ecc_corrected_total": 12,
        "ecc_uncorrected_total": 1,
        "rows_corrected": 2,
        "rows_uncorrected": 1,
        "rows_pending": True,
        "rows_failed": False,
        "recovery": 0,
        "sram_corrected": 7,
        "sram_uncorrected": 1,
        "sram_exceeded": False,
        "nvlink_crc_errors": 7,
        "nvlink_replays": 3,
        "nvlink_recoveries": 0,
        "nvlinks": 3,
        "nvlinks_active": 2,
        "fabric_state": 3,
        "fabric_status": 0,
        "persistence": True,
        "compute_mode": 0,
        "compute_capability": "9.0",
        "limit_mw": 700000,
    }


def test_link_errors_of_each_link_are_added_if_there_is_no_total(library: Path, asker: Start, tmp_path: Path) -> None:
    totals = ("fi.38", "fi.45", "fi.52", "fi.59", "sram")
    links = {"fi.161.0": 4, "fi.161.1": 1, "fi.163.2": 9, "mem_err107": 2, "mem_err007": 5}
    machine(tmp_path / "gpu.conf", [{key: value for key, value in HOPPER.items() if key not in totals} | links])
    ask = asker(library)
    ask("first")
    detail = ask("details")["value"][uuid(0)]["value"]
    assert (detail["nvlink_replays"], detail["nvlink_crc_errors"], detail["nvlink_recoveries"]) == (5, 9, None)
    # Without the newer call, the errors come from the counters by location, of which SRAM is number 7.
    assert (detail["sram_uncorrected"], detail["sram_corrected"], detail["sram_exceeded"]) == (2, 5, None)


def test_a_card_without_links_or_engines_is_queried_once(library: Path, asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [CONSUMER])
    ask = asker(library)
    ask("first")
    for _ in range(12):
        ask("sweep")
    calls = ask.log.read_text().split()
    for function in ("JpgUtilization", "OfaUtilization", "EncoderUtilization", "SramEccErrorStatus"):
        assert calls.count(f"nvmlDeviceGet{function}") == 1
    assert calls.count("nvmlDeviceGetMemoryErrorCounter") == 2
    state = ask("read")["value"][uuid(0)]["value"]
    detail = ask("details")["value"][uuid(0)]["value"]
    assert state["decoder_percent"] is None
    assert (detail["nvlink_replays"], detail["sram_uncorrected"]) == (None, None)


def test_rates_come_from_the_counters(library: Path, asker: Start, tmp_path: Path) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [HOPPER])
    ask = asker(library, every_s=0.3)
    ask("first")
    before = ask("sweep")["value"][uuid(0)]
    grown = HOPPER | {
        "fi.74": 1_030_000_000,
        "fi.198": 9_300_000_000,
        "energy_mj": 123456789012 + 180_000,
        "samples": "3000:97,4000:3,5000:9,6000:10",
    }
    machine(conf, [grown])
    after = ask.until(lambda r: r["value"][uuid(0)]["value"]["power_cap_ns"] > 1_000_000_000)["value"][uuid(0)]
    assert after["value"]["busy_samples"] - before["value"]["busy_samples"] == 4
    assert after["value"]["gap_samples"] - before["value"]["gap_samples"] == 2
    assert after["value"]["pcie_rx_bytes"] - before["value"]["pcie_rx_bytes"] == 300_000_000
    rates = ask("rates")[uuid(0)]
    assert (rates["power_cap_ratio"], rates["pcie_rx_bytes_per_s"], rates["power_watts"]) == (0.0, 0.0, 0.0)
    assert rates["gap_ratio"] is None
    assert rates["sm_ratio"] == 0.3125


@pytest.mark.alone
def test_a_steady_counter_has_a_steady_rate_though_other_calls_are_sometimes_slow(
    library: Path, asker: Start, tmp_path: Path
) -> None:
    conf = tmp_path / "gpu.conf"
    steady = {
        "energy_mw": 600_000,
        "fi.198.per_s": 10_000_000_000,
        "fi.139.per_s": 1_000_000,
        "fi.74.per_s": 250_000_000,
    }
    gpu = {key: value for key, value in HOPPER.items() if key != "energy_mj"} | steady
    # One of these calls is made before the counters are read, the other after.
    slow = ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetComputeRunningProcesses_v3")
    machine(conf, [gpu], **{f"jitter_us.{function}": 9000 for function in slow})
    ask = asker(library, every_s=0.2)
    ask("first")
    found = []
    for _ in range(12):
        rates = ask("rates")[uuid(0)]
        wanted = (
            ("power_watts", 600.0),
            ("pcie_rx_bytes_per_s", 1e10),
            ("nvlink_rx_bytes_per_s", 1024e6),
            ("power_cap_ratio", 0.25),
        )
        found.append(max(abs(rates[name] / value - 1) for name, value in wanted))
    # The median leaves out the cases in which the process was preempted between the call and reading the clock.
    assert statistics.median(found) < 0.005


def test_a_gpm_figure_that_is_not_finite_is_unknown(library: Path, asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER | {"gpm.2": "inf", "gpm.3": "nan"}])
    ask = asker(library, every_s=0.15)
    ask("first")
    reading = ask.until(lambda r: r["value"][uuid(0)]["value"]["gpm_tensor_percent"] is not None)
    state = reading["value"][uuid(0)]["value"]
    assert (state["gpm_sm_percent"], state["gpm_occupancy_percent"], state["gpm_tensor_percent"]) == (None, None, 12.0)


def test_gpm_figures_stay_though_the_sample_call_takes_a_different_time_in_each_sweep(
    library: Path, asker: Start, tmp_path: Path
) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER], **{"jitter_us.nvmlGpmSampleGet": 9000})
    ask = asker(library, every_s=0.02)
    ask("first")
    # NVML refuses two samples that are less than 100 ms apart.
    ask.until(lambda r: r["value"][uuid(0)]["value"]["gpm_sm_percent"] is not None)
    found = {ask("sweep")["value"][uuid(0)]["value"]["gpm_sm_percent"] for _ in range(60)}
    assert found == {31.25}


def test_a_mig_gpu_shows_its_instances(library: Path, asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [MIG])
    ask = asker(library, every_s=0.15)
    ask("first")
    reading = ask.until(lambda r: r["value"][uuid(0)]["value"]["instances"][0]["sm_percent"] is not None)
    state = reading["value"][uuid(0)]["value"]
    assert state["mig"] is True
    assert state["utilization_percent"] is None
    assert state["gpm_sm_percent"] is None
    first, second = state["instances"]
    assert (first["number"], first["sm_percent"], first["memory_used_bytes"]) == (1, 71.5, 30_000_000_000)
    assert first["name"].endswith("3g.40gb")
    assert (second["number"], second["sm_percent"]) == (2, None)
    assert [one["instance"] for one in state["processes"]] == [1]


@pytest.mark.parametrize("function", ["nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetMemoryInfo_v2"])
def test_an_instance_that_is_removed_while_it_is_read_has_its_figures_when_it_is_back(
    library: Path, asker: Start, tmp_path: Path, function: str
) -> None:
    conf = tmp_path / "gpu.conf"
    removed = {"mig0.err." + function: 2, "mig2.err." + function: 2}
    machine(conf, [MIG | removed])
    ask = asker(library)
    ask("first")
    ask("sweep")
    machine(conf, [MIG])
    calls = len(ask.log.read_text())
    ask.until(lambda _: ask.log.read_text()[calls:].count("nvmlDeviceGetMigDeviceHandleByIndex") >= 21)
    state = ask("sweep")["value"][uuid(0)]["value"]
    assert [one["memory_used_bytes"] for one in state["instances"]] == [30_000_000_000, 0]
    assert state["memory_reserved_bytes"] == MIG["mem_reserved"]


@pytest.mark.parametrize("function", ["nvmlGpmMigSampleGet", "nvmlGpmMetricsGet"])
def test_an_instance_that_is_removed_while_it_is_sampled_gets_figures_when_it_is_back(
    library: Path, asker: Start, tmp_path: Path, function: str
) -> None:
    conf = tmp_path / "gpu.conf"
    present = MIG | {"mig2.gpm.2": 12.5}
    machine(conf, [present])
    ask = asker(library, every_s=0.15)
    ask("first")

    def has_figures(reading: Any) -> bool:
        found = reading["value"][uuid(0)]["value"]["instances"]
        return [one["sm_percent"] for one in found] == [71.5, 12.5]

    ask.until(has_figures)
    if function == "nvmlGpmMigSampleGet":
        machine(conf, [present | {"err.nvmlGpmMigSampleGet": 2}])
    else:
        # The two instances are created again in the other order, so that their samples do not fit the earlier ones.
        machine(conf, [present | {"mig0.gi": MIG["mig2.gi"], "mig2.gi": MIG["mig0.gi"]}])
    ask.until(lambda r: not has_figures(r))
    ask("sweep")
    machine(conf, [present])
    ask.until(has_figures)


def test_a_gpm_sample_is_freed_if_there_is_no_second_one(library: Path, asker: Start, tmp_path: Path) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [HOPPER], gpm_samples=1)
    ask = asker(library, every_s=0.15)
    ask("first")
    ask("sweep")
    machine(conf, [HOPPER], gpm_samples=2)
    ask.until(lambda r: r["value"][uuid(0)]["value"]["gpm_sm_percent"] == 31.25)


def test_mig_is_noticed_when_it_is_switched_on(library: Path, asker: Start, tmp_path: Path) -> None:
    conf = tmp_path / "gpu.conf"
    # The call that lists the instances is slow, so its answer is kept for some sweeps.
    slow = {"delay_us.nvmlDeviceGetMigDeviceHandleByIndex": 15_000}
    machine(conf, [HOPPER], **slow)
    ask = asker(library)
    ask("first")
    machine(conf, [MIG], **slow)
    state = ask.until(lambda r: r["value"][uuid(0)]["value"]["mig"])["value"][uuid(0)]["value"]
    assert len(state["instances"]) == 2

    def listed_at(reading: Any) -> list[int]:
        """The time of the answer with the instances, if it is kept from an earlier sweep."""
        earlier = reading["value"][uuid(0)]["value"]["earlier"]
        return [one["at_ns"] for one in earlier if one["field"] == "instances"]

    kept = listed_at(ask.until(lambda r: bool(listed_at(r))))
    ask.until(lambda r: listed_at(r) != kept)
    machine(conf, [HOPPER], **slow)
    back = ask.until(lambda r: r["value"][uuid(0)]["value"]["mig"] is False)["value"][uuid(0)]["value"]
    assert (back["instances"], back["utilization_percent"]) == (None, 97)


def test_an_xid_is_an_event_and_stays_as_a_state_of_its_gpu(library: Path, asker: Start, tmp_path: Path) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [HOPPER, HOPPER])
    ask = asker(library)
    ask("first")
    ask.until(lambda _: "nvmlEventSetWait_v2" in ask.log.read_text())
    ask.until(lambda r: r["value"][uuid(1)]["value"]["xid_watched"])
    machine(conf, [HOPPER, HOPPER], xid_seq=1, xid_gpu=1, xid=31)
    (event,) = ask.until(lambda r: bool(r["events"]), "events")["events"]
    assert (event["uuid"], event["number"]) == (uuid(1), 31)
    state = ask.until(lambda r: r["value"][uuid(1)]["value"]["last_xid"] == 31)["value"]
    assert state[uuid(0)]["value"]["last_xid"] is None
    machine(conf, [HOPPER, HOPPER | {"err": 15}], xid_seq=2, xid_gpu=1, xid=79)
    lost = ask.until(lambda r: "Xid 79" in r["value"][uuid(1)]["reason"])["value"][uuid(1)]
    assert lost["status"] == "failed"


def test_xids_are_received_again_after_an_error_of_the_driver(library: Path, asker: Start, tmp_path: Path) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [HOPPER], wait_ret=999)
    ask = asker(library, every_s=0.5)  # the watch waits some seconds before it tries again
    ask("first")
    ask.until(lambda _: "nvmlEventSetFree" in ask.log.read_text())
    machine(conf, [HOPPER])
    ask.until(lambda _: ask.log.read_text().count("nvmlEventSetWait_v2") >= 3)
    machine(conf, [HOPPER], xid_seq=1, xid_gpu=0, xid=31)
    ask.until(lambda r: r["value"][uuid(0)]["value"]["last_xid"] == 31)


@pytest.mark.parametrize("others", [0, 1])
def test_a_gpu_that_could_not_be_registered_once_is_registered_later(
    library: Path, asker: Start, tmp_path: Path, others: int
) -> None:
    conf = tmp_path / "gpu.conf"
    refuses = HOPPER | {"err.nvmlDeviceRegisterEvents": 999}
    machine(conf, [HOPPER if others else refuses, refuses])
    ask = asker(library, every_s=0.5)  # the watch waits some seconds before it tries again
    assert ask("first")["value"][uuid(1)]["value"]["xid_watched"] is False
    ask.until(lambda _: ask.log.read_text().count("nvmlDeviceRegisterEvents") >= 2)
    machine(conf, [HOPPER, HOPPER])
    calls = len(ask.log.read_text())
    ask.until(lambda _: "nvmlDeviceRegisterEvents" in ask.log.read_text()[calls:])
    machine(conf, [HOPPER, HOPPER], xid_seq=1, xid_gpu=1, xid=31)
    (event,) = ask.until(lambda r: bool(r["events"]), "events")["events"]
    assert (event["uuid"], event["number"]) == (uuid(1), 31)


def test_an_xid_from_the_kernel_log_stays_as_a_state_of_its_gpu(library: Path, asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER, HOPPER])
    ask = asker(library)
    ask("first")
    ask(f"xid {uuid(1)} 74")
    state = ask.until(lambda r: r["value"][uuid(1)]["value"]["last_xid"] == 74)["value"]
    assert state[uuid(0)]["value"]["last_xid"] is None


def test_a_gpu_comes_back_even_if_another_program_listens_for_events(
    library: Path, asker: Start, tmp_path: Path
) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [HOPPER, HOPPER])
    ask = asker(library)
    ask("first")
    ask.until(lambda _: "nvmlEventSetWait_v2" in ask.log.read_text())
    machine(conf, [HOPPER, HOPPER | {"generation": 2, "util": 11}])
    back = ask.until(lambda r: (r["value"][uuid(1)]["value"] or {}).get("utilization_percent") == 11)
    assert back["value"][uuid(0)]["status"] == "ok"


def test_a_slow_call_is_made_in_every_fifth_sweep_and_keeps_its_rate(
    library: Path, asker: Start, tmp_path: Path
) -> None:
    conf = tmp_path / "gpu.conf"
    slow = {"delay_us.nvmlDeviceGetTotalEnergyConsumption": 20000}
    machine(conf, [HOPPER], **slow)
    ask = asker(library, every_s=0.05)
    ask("first")

    def slow_entries(reading: Any) -> list[Any]:
        """The entry of the slow call; on a busy machine other calls are slow too."""
        return [one for one in reading["value"][uuid(0)]["value"]["earlier"] if one["field"] == "energy_mj"]

    ask.until(slow_entries)
    before = ask.log.read_text().split().count("nvmlDeviceGetTotalEnergyConsumption")
    for _ in range(12):
        ask("sweep")
    after = ask.log.read_text().split().count("nvmlDeviceGetTotalEnergyConsumption")
    assert after - before <= 12 / 5 + 1
    machine(conf, [HOPPER | {"energy_mj": 123456789012 + 500_000}], **slow)
    (one,) = slow_entries(ask.until(lambda r: r["value"][uuid(0)]["value"]["energy_mj"] > 123456789012))
    assert one["before"] == 123456789012
    assert one["at_ns"] > one["before_at_ns"]


def test_the_pcie_rate_call_that_takes_20_ms_is_made_only_without_another_source(
    library: Path, asker: Start, tmp_path: Path
) -> None:
    machine(tmp_path / "gpu.conf", [CONSUMER | {"pcie_kbs0": 100, "pcie_kbs1": 2048}])
    ask = asker(library)
    state = ask("first")["value"][uuid(0)]["value"]
    assert (state["pcie_tx_kib_per_s"], state["pcie_rx_kib_per_s"]) == (100, 2048)
    for _ in range(9):
        ask("sweep")
    calls = ask.log.read_text().split()
    assert calls.count("nvmlDeviceGetPcieThroughput") <= 2 * (calls.count("nvmlDeviceGetFanSpeed") / 5 + 1)
    assert ask("rates")[uuid(0)]["pcie_rx_bytes_per_s"] == 2048 * 1024


def test_the_rate_from_the_slow_call_ends_when_a_fast_call_answers(library: Path, asker: Start, tmp_path: Path) -> None:
    narrow = {"fi.197.type": 1, "fi.198.type": 1, "pcie_kbs0": 100, "pcie_kbs1": 2048}
    machine(tmp_path / "gpu.conf", [HOPPER | narrow])
    ask = asker(library)
    # GPM needs two samples, so the first sweep makes the slow call.
    assert ask("first")["value"][uuid(0)]["value"]["pcie_tx_kib_per_s"] == 100
    ask.until(lambda r: r["value"][uuid(0)]["value"]["gpm_pcie_tx_mib_per_s"] is not None)
    states = [ask("sweep")["value"][uuid(0)]["value"] for _ in range(12)]
    assert [one["pcie_tx_kib_per_s"] for one in states[5:]] == [None] * 7


def test_a_byte_counter_of_32_bits_is_unknown(library: Path, asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER | {"fi.197.type": 1, "fi.198.type": 1}])
    state = asker(library)("first")["value"][uuid(0)]["value"]
    assert (state["pcie_tx_bytes"], state["pcie_rx_bytes"]) == (None, None)


def test_the_share_of_an_idle_process_is_measured_as_zero(library: Path, asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER | {"procs": "2001:60129542144:0:0"}])
    ask = asker(library)
    ask("first")
    state = ask("sweep")["value"][uuid(0)]["value"]
    assert state["processes"][0]["sm_percent"] == 0


def test_an_old_driver_lacks_the_newer_figures(asker: Start, tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [HOPPER])
    ask = asker(build(tmp_path, old_driver=True))
    ask("first")
    state = ask("sweep")["value"][uuid(0)]["value"]
    names = ("gpm_sm_percent", "power_cap_ns", "busy_samples", "instances", "margin_celsius", "nvlink_tx_kib")
    assert {name: state[name] for name in names} == dict.fromkeys(names)
    assert state["utilization_percent"] == 97
    assert ask("events") == {"events": [], "pynvml": True}
