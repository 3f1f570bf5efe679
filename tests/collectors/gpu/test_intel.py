"""Intel's cards, in files that are modelled on the sources of i915 and xe."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.collectors.gpu.drm import DrmSweep
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.gpu.state import GpuProcess, GpuState, gpu_rates
from iotop_ai.model.reading import Reading
from tests.clocks import SetClock
from tests.machines import Entries, build, parse

SECOND = 1_000_000_000
SLOT, CARD = "0000:03:00.0", "Intel-0000:03:00.0"
DEVICE_PATH = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0"
HWMON = "sys/class/drm/card1/device/hwmon/hwmon4"


def machine(driver: str, **files: str) -> Entries:
    """A card in a slot of 8 lanes and generation 4, connected through the card's switch, beside an integrated GPU."""
    found: Entries = {
        "sys/class/drm/card0/device/vendor": b"0x8086\n",
        "sys/class/drm/card0/device/uevent": b"DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n",
        "sys/bus/pci/devices/0000:00:02.0": "../../../devices/pci0000:00/0000:00:02.0",
        "sys/class/drm/card1/device/vendor": b"0x8086\n",
        "sys/class/drm/card1/device/device": b"0x56a0\n",
        "sys/class/drm/card1/device/drm/card1/dev": b"226:1\n",
        "sys/class/drm/card1/device/drm/renderD129/dev": b"226:129\n",
        "sys/class/drm/card1/device/uevent": f"DRIVER={driver}\nPCI_SLOT_NAME={SLOT}\n".encode(),
        f"{HWMON}/energy1_input": b"5000000\n",
        f"{HWMON}/power1_max": b"190000000\n",
        f"{HWMON}/power1_rated_max": b"225000000\n",
    }
    for address, speed, width in (
        ("0000:00:01.0", "16.0 GT/s PCIe", 8), ("0000:01:00.0", "16.0 GT/s PCIe", 8),
        ("0000:02:01.0", "2.5 GT/s PCIe", 1), ("0000:03:00.0", "2.5 GT/s PCIe", 1),
    ):  # fmt: skip
        device = DEVICE_PATH[: DEVICE_PATH.index(address) + len(address)]
        found[f"sys/bus/pci/devices/{address}"] = f"../../../{device.removeprefix('sys/')}"
        found[f"{device}/vendor"] = b"0x8086\n"
        for kind in ("current", "max"):
            found[f"{device}/{kind}_link_speed"] = f"{speed}\n".encode()
            found[f"{device}/{kind}_link_width"] = f"{width}\n".encode()
    return found | {f"sys/class/drm/card1/{path}": f"{text}\n".encode() for path, text in files.items()}


def read(folder: Path, entries: Entries) -> GpuState:
    table = DrmSweep(build(entries, folder), Clock()).read()
    # The GPU that is integrated in the processor is not listed.
    assert set(table) == {CARD}
    state = table[CARD].value
    assert state is not None
    return state


def test_a_card_of_the_xe_driver_is_described(tmp_path: Path) -> None:
    freq = "device/tile0/gt0/freq0"
    state = read(
        tmp_path,
        machine("xe", **{
            f"{freq}/act_freq": "2050", f"{freq}/rp0_freq": "2400", f"{freq}/throttle/status": "1",
            f"{freq}/throttle/reason_pl1": "1", f"{freq}/throttle/reason_thermal": "1",
            f"{freq}/throttle/reason_prochot": "0", "device/hwmon/hwmon4/temp2_input": "61000",
            "device/hwmon/hwmon4/temp3_input": "72000",
        }),
    )  # fmt: skip
    assert state.energy_at_ns is not None
    assert state._replace(energy_at_ns=None, engines_at_ns=None) == GpuState(
        uuid=CARD, number=0, name="Intel GPU 56a0", temperature_celsius=61, memory_celsius=72, power_limit_mw=190000,
        energy_mj=5000, sm_mhz=2050, sm_max_mhz=2400, clock_reasons=0x24, pcie_generation=4, pcie_width=8,
        pcie_max_generation=4, pcie_max_width=8, bus_id=SLOT, processes=(), graphics_ns=0, compute_ns=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("address", "listed"), [("0000:00:05.0", True), ("0000:00:02.0", False), ("0000:00:02.1", False), ("", False)]
)
def test_a_card_on_the_root_bus_of_a_virtual_machine_is_listed(tmp_path: Path, address: str, listed: bool) -> None:
    entries: Entries = {
        "sys/class/drm/card0/device/vendor": b"0x8086\n",
        "sys/class/drm/card0/device/uevent": f"DRIVER=xe\nPCI_SLOT_NAME={address}\n".encode(),
        f"sys/bus/pci/devices/{address or 'none'}": f"../../../devices/pci0000:00/{address}",
    }
    sweep = DrmSweep(build(entries, tmp_path), Clock())
    assert list(sweep.read()) == ([f"Intel-{address}"] if listed else [])


def test_an_unthrottled_card_of_the_i915_driver_is_described(tmp_path: Path) -> None:
    files = {"gt/gt0/rps_act_freq_mhz": "1200", "gt/gt0/rps_RP0_freq_mhz": "2400", "gt/gt0/throttle_reason_status": "0"}
    state = read(tmp_path, machine("i915", **files))
    assert (state.sm_mhz, state.sm_max_mhz, state.clock_reasons) == (1200, 2400, 0)
    hot = machine("i915", **files, **{"gt/gt0/throttle_reason_prochot": "1"})
    hot["sys/class/drm/card1/gt/gt0/throttle_reason_status"] = b"1\n"
    (tmp_path / "hot").mkdir()
    assert read(tmp_path / "hot", hot).clock_reasons == 0x40
    del hot["sys/class/drm/card1/gt/gt0/throttle_reason_prochot"]
    (tmp_path / "other").mkdir()
    assert read(tmp_path / "other", hot).clock_reasons is None, "an unknown reason was given a name"


def test_an_older_driver_reports_less(tmp_path: Path) -> None:
    state = read(tmp_path, machine("i915"))
    assert (state.sm_mhz, state.clock_reasons, state.temperature_celsius) == (None, None, None)


def test_the_busy_time_of_a_card_comes_from_its_clients(tmp_path: Path) -> None:
    client = f"drm-pdev: {SLOT}\ndrm-client-id: 1\ndrm-resident-vram0: 2 MiB\ndrm-engine-rcs: 7 ns\n"
    entries = machine("xe") | {"proc/60/fd/4": "/dev/dri/renderD128", "proc/60/fdinfo/4": client.encode()}
    state = read(tmp_path, entries)
    assert state.processes == (GpuProcess(60, 2 << 20, "graphics", None),)
    assert state.graphics_ns == 0

    def at(seconds: int, graphics: int, compute: int) -> dict[str, Reading[GpuState]]:
        times = {"graphics_ns": graphics, "compute_ns": compute, "engines_at_ns": seconds * SECOND}
        return {CARD: Reading(state._replace(**times), at_ns=seconds * SECOND)}  # type: ignore[arg-type]

    rates = gpu_rates(at(1, 0, 0), at(2, SECOND // 2, SECOND // 4), None)[CARD]
    assert (rates.busy_ratio, rates.compute_ratio) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("device", "busy"),
    [("", 0.0), ("/dev/dri/renderD128", 0.0), ("/dev/dri/renderD129", None), ("/dev/dri/card1", None)],
)
def test_a_card_that_no_process_has_open_is_idle(tmp_path: Path, device: str, busy: float | None) -> None:
    """An older driver does not show the work of a process that has the card open."""
    entries = machine("i915")
    if device:
        entries |= {"proc/60/fd/4": device, "proc/60/fdinfo/4": b"pos: 0\n"}
    clock = SetClock(SECOND)
    sweep = DrmSweep(build(entries, tmp_path), clock)
    before = sweep.read()
    clock.now_ns += SECOND
    assert gpu_rates(before, sweep.read(), None)[CARD].busy_ratio == busy


def test_the_work_of_the_first_process_on_a_card_counts(tmp_path: Path) -> None:
    clock = SetClock(SECOND)
    sweep = DrmSweep(build(machine("i915"), tmp_path), clock)
    tables = [sweep.read()]
    client = f"drm-pdev: {SLOT}\ndrm-client-id: 1\ndrm-engine-compute: {SECOND // 2} ns\n"
    build({"proc/61/fd/4": "/dev/dri/renderD129", "proc/61/fdinfo/4": client.encode()}, tmp_path)
    clock.now_ns += SECOND
    tables.append(sweep.read())
    assert gpu_rates(tables[0], tables[1], None)[CARD].busy_ratio == 0.5


def test_cards_of_two_makers_have_different_numbers(tmp_path: Path) -> None:
    amd = parse((Path(__file__).parents[2] / "data" / "gpu" / "made-amd-gpu.tree").read_text())
    intel = {name.replace("drm/card1/", "drm/card7/"): what for name, what in machine("xe").items()}
    table = DrmSweep(build(amd | intel, tmp_path), Clock()).read(first_number=2)
    numbers = {uuid.partition("-")[0]: one.value.number for uuid, one in table.items() if one.value is not None}
    assert numbers == {"AMD": 2, "Intel": 3}  # they come after two GPUs of the NVIDIA driver


def test_a_width_that_the_kernel_does_not_know_is_unknown(tmp_path: Path) -> None:
    entries = machine("xe")
    for path in entries:
        if path.endswith("_link_width"):
            entries[path] = b"255\n"
    state = read(tmp_path, entries)
    assert (state.pcie_width, state.pcie_max_width) == (None, None)
