"""GPUs read by the real pynvml from a library that is built here (tests/rigs/nvml), in a separate process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.model.gpu.state import GpuProcess
from tests.rigs.nvml import build, machine, why_no_library
from tests.rigs.nvml.asker import Asker
from tests.rigs.nvml.c_library import CONSUMER, SERVER, uuid

NO_LIBRARY = why_no_library()
needs_library = pytest.mark.skipif(bool(NO_LIBRARY), reason=NO_LIBRARY or "built")


def known(state: dict[str, Any]) -> dict[str, Any]:
    """The figures of a state that are not unknown."""
    return {key: value for key, value in state.items() if value is not None and value != []}


def process(pid: int, bytes_: int | None, kind: str = "compute", **more: Any) -> dict[str, Any]:
    """A GPU's process in the form that it has in JSON."""
    return GpuProcess(pid, bytes_, kind)._asdict() | more


@needs_library
def test_a_server_card_reports_everything(library: Path, asker: Callable[..., Asker], tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [SERVER])
    reading = asker(library, every_s=60)("first")  # a second sweep would already have the process's share
    assert reading["status"] == "ok"
    one = reading["value"][uuid(0)]
    assert one["status"] == "ok"
    assert one["at_ns"] <= reading["at_ns"]
    figures = known(one["value"])
    assert one["at_ns"] - one["took_ns"] <= figures.pop("energy_at_ns") <= one["at_ns"]
    figures.pop("xid_watched")  # the watch begins at about the same time, so this may be True or False
    assert figures == {
        "uuid": uuid(0),
        "number": 0,
        "name": "NVIDIA H100 80GB HBM3",
        "utilization_percent": 97,
        "memory_activity_percent": 41,
        "memory_total_bytes": 85520809984,
        "memory_used_bytes": 61203283968,
        "memory_reserved_bytes": 549453824,
        "temperature_celsius": 64,
        "power_mw": 612345,
        "power_limit_mw": 700000,
        "energy_mj": 123456789012,
        "sm_mhz": 1755,
        "sm_max_mhz": 1980,
        "memory_mhz": 2619,
        "performance_state": 0,
        "clock_reasons": 4,
        "pcie_generation": 5,
        "pcie_width": 16,
        "pcie_max_generation": 5,
        "pcie_max_width": 16,
        "bus_id": "00000000:18:00.0",
        "mig": False,
        "processes": [process(2001, 60129542144)],
        "memory_free_bytes": 85520809984 - 61203283968 - 549453824,
    }


@needs_library
def test_unsupported_calls_of_a_consumer_card_are_not_repeated(
    library: Path, asker: Callable[..., Asker], tmp_path: Path
) -> None:
    machine(tmp_path / "gpu.conf", [CONSUMER])
    ask = asker(library)
    state = ask("first")["value"][uuid(0)]["value"]
    unknown = ("power_mw", "power_limit_mw", "energy_mj", "sm_max_mhz", "clock_reasons", "pcie_max_width", "mig")
    assert {name: state[name] for name in unknown} == dict.fromkeys(unknown)
    assert (state["utilization_percent"], state["fan_percent"], state["temperature_celsius"]) == (0, 30, 31)
    (one,) = state["processes"]
    assert (one["pid"], one["memory_bytes"], one["kind"]) == (1412, None, "graphics")
    for _ in range(3):
        ask("sweep")
    calls = ask.log.read_text().split()
    assert calls.count("nvmlDeviceGetPowerUsage") == 1
    assert calls.count("nvmlDeviceGetCurrentClocksEventReasons") == 1
    assert calls.count("nvmlDeviceGetTemperatureV") >= 4
    assert "nvmlDeviceGetTemperature" not in calls
    # This slow call is made because the card has no other source of a PCIe rate. The card does not support it either.
    assert calls.count("nvmlDeviceGetPcieThroughput") == 1


@needs_library
@pytest.mark.parametrize("count", [0, 1, 8, 16])
def test_any_number_of_gpus_is_listed(library: Path, asker: Callable[..., Asker], tmp_path: Path, count: int) -> None:
    machine(tmp_path / "gpu.conf", [{**SERVER, "util": i} for i in range(count)])
    reading = asker(library)("first")
    assert reading["status"] == "ok"
    assert {key: one["value"]["utilization_percent"] for key, one in reading["value"].items()} == {
        uuid(i): i for i in range(count)
    }
    assert [one["value"]["number"] for one in reading["value"].values()] == list(range(count))


@needs_library
def test_a_gpu_is_lost_and_comes_back(library: Path, asker: Callable[..., Asker], tmp_path: Path) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [SERVER, SERVER])
    ask = asker(library)
    assert [one["status"] for one in ask("first")["value"].values()] == ["ok", "ok"]
    machine(conf, [SERVER, {**SERVER, "err": 15}])
    lost = ask.until(lambda reading: reading["value"][uuid(1)]["status"] == "failed")
    assert lost["status"] == "ok"
    assert lost["value"][uuid(0)]["status"] == "ok"
    assert lost["value"][uuid(1)]["value"] is None
    assert "lost" in lost["value"][uuid(1)]["reason"]
    assert "nvidia-smi --gpu-reset" in lost["value"][uuid(1)]["remedy"]
    # The library is opened again and no longer lists the GPU, which keeps its key.
    machine(conf, [SERVER], **{"gpu1.err": 15})
    lost_reading = ask.until(lambda reading: "no longer" in reading["value"][uuid(1)]["reason"])
    assert lost_reading["value"][uuid(0)]["status"] == "ok"
    machine(conf, [SERVER, {**SERVER, "util": 12}])
    back = ask.until(lambda reading: reading["value"][uuid(1)]["status"] == "ok")
    assert back["value"][uuid(1)]["value"]["utilization_percent"] == 12


@needs_library
def test_a_gpu_with_an_unknown_uuid_is_listed(library: Path, asker: Callable[..., Asker], tmp_path: Path) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [SERVER, {**SERVER, "err": 16}])
    ask = asker(library)
    reading = ask("first")
    assert {key: one["status"] for key, one in reading["value"].items()} == {uuid(0): "ok", "gpu 1": "failed"}
    for _ in range(3):
        assert "must be reset" in reading["value"]["gpu 1"]["reason"]
        reading = ask("sweep")
    machine(conf, [SERVER, SERVER])
    assert set(ask.until(lambda reading: uuid(1) in reading["value"])["value"]) == {uuid(0), uuid(1)}


@needs_library
@pytest.mark.parametrize(
    ("code", "status", "reason", "remedy"),
    [
        (9, "absent", "no NVIDIA driver", "modprobe nvidia"),
        (18, "failed", "different versions", "reboot, or reload the nvidia modules: the driver was upgraded"),
        (4, "denied", "not allowed to use NVML", "/dev/nvidia"),
        (999, "failed", "Unknown Error", ""),
    ],
)
def test_a_driver_that_refuses_has_a_reason(
    library: Path, asker: Callable[..., Asker], tmp_path: Path, code: int, status: str, reason: str, remedy: str
) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [SERVER], init_ret=code)
    ask = asker(library)
    reading = ask("first")
    assert (reading["value"], reading["status"]) == (None, status)
    assert reason in reading["reason"]
    assert remedy in reading["remedy"]
    machine(conf, [SERVER])
    assert ask.until(lambda reading: reading["status"] == "ok")["value"][uuid(0)]["status"] == "ok"


@needs_library
def test_one_call_without_permission_gives_one_unknown_figure(
    library: Path, asker: Callable[..., Asker], tmp_path: Path
) -> None:
    machine(tmp_path / "gpu.conf", [{**SERVER, "err.nvmlDeviceGetPowerUsage": 4}])
    one = asker(library)("first")["value"][uuid(0)]
    assert one["status"] == "ok"
    assert one["value"]["power_mw"] is None
    assert one["value"]["power_limit_mw"] == 700000


@needs_library
def test_an_old_driver_is_read_by_the_old_functions(asker: Callable[..., Asker], tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [SERVER])
    state = asker(build(tmp_path, old_driver=True), every_s=60)("first")["value"][uuid(0)]["value"]
    assert state["temperature_celsius"] == 64
    assert state["clock_reasons"] == 4
    assert state["memory_used_bytes"] == 61203283968 + 549453824
    assert state["memory_reserved_bytes"] is None
    assert state["processes"] == [process(2001, 60129542144)]


@needs_library
def test_a_slow_call_does_not_delay_a_reader(library: Path, asker: Callable[..., Asker], tmp_path: Path) -> None:
    conf = tmp_path / "gpu.conf"
    machine(conf, [SERVER])
    ask = asker(library)
    first = ask("first")
    machine(conf, [{**SERVER, "util": 5}], **{"delay_us.nvmlDeviceGetPowerUsage": 1_000_000})
    took = [ask("read")["took_ns"] for _ in range(50)]
    assert max(took) < 500_000_000
    slow = ask.until(lambda reading: reading["value"][uuid(0)]["value"]["utilization_percent"] == 5)
    assert slow["value"][uuid(0)]["took_ns"] > 1_000_000_000
    assert slow["at_ns"] > first["at_ns"]
    cost = ask("costs")["nvmlDeviceGetPowerUsage"]
    assert cost["p95_us"] > 1_000_000


@needs_library
def test_garbled_process_records_are_unknown(library: Path, asker: Callable[..., Asker], tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [{**SERVER, "procs": "2001:1,4294967295:7"}])
    assert asker(library)("first")["value"][uuid(0)]["value"]["processes"] is None


@needs_library
def test_a_hostile_name_is_harmless(library: Path, asker: Callable[..., Asker], tmp_path: Path) -> None:
    machine(tmp_path / "gpu.conf", [{**SERVER, "name": "[@click=app.quit]\x1b]0;owned\x07"}])
    name = asker(library)("first")["value"][uuid(0)]["value"]["name"]
    assert name.isprintable()
    assert name.startswith("[@click=app.quit]")


def test_a_machine_without_a_driver_is_normal_and_loads_no_bindings(asker: Callable[..., Asker]) -> None:
    if any(Path(folder, "libnvidia-ml.so.1").exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")):
        pytest.skip("this machine has an NVIDIA driver")
    reading = asker(None)("first")
    assert (reading["value"], reading["status"], reading["reason"]) == (None, "absent", "no NVIDIA driver")
    assert reading["pynvml"] is False


@needs_library
def test_a_driver_whose_library_cannot_be_loaded_is_not_called_absent(
    asker: Callable[..., Asker], tmp_path: Path
) -> None:
    missing, library = tmp_path / "libmissing.so", tmp_path / "libnvidia-ml.so.1"
    for path in (missing, library):
        needs = [] if path is missing else ["-Wl,--no-as-needed", str(missing)]
        subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-x", "none", *needs, "-o", str(path)], check=True)
    missing.unlink()
    reading = asker(library)("first")
    assert reading["status"] == "failed"
    assert "libmissing.so" in reading["reason"]
