"""The slot of a GPU, the local PIDs of its processes, and AMD's cards, on files that stand in for /proc and /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.collectors.gpu.amd import AmdCards, with_smi
from iotop_ai.collectors.gpu.drm import SEARCH_EVERY_SWEEPS, DrmSweep
from iotop_ai.collectors.gpu.pid_mapping import FIRST_NAMESPACE, LocalProcess, PidMapping
from iotop_ai.collectors.gpu.topology import PciTopology, drm_cards, pci_address, read_topology
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.pcie import parse_generation
from iotop_ai.model.gpu.detail import GpuDetail
from iotop_ai.model.gpu.state import GpuProcess, GpuState
from iotop_ai.present.gpu.facts import facts
from tests.machines import build, parse
from tests.rigs.descriptors import too_many_open_files

DATA = Path(__file__).parents[2] / "data" / "gpu"
CARD = "AMD-c0ffee0123456789"


def tree(folder: Path, files: dict[str, str], links: dict[str, str] | None = None) -> Root:
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n")
    for path, to in (links or {}).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(to)
    return Root(str(folder))


def test_the_slot_and_the_cpus_of_a_gpu_are_read(tmp_path: Path) -> None:
    bridge, device = "sys/bus/pci/devices/0000:17:01.0", "sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0"
    root = tree(
        tmp_path,
        {
            f"{device}/numa_node": "1",
            f"{device}/local_cpulist": "48-95",
            f"{device}/max_link_width": "16",
            f"{bridge}/max_link_speed": "16.0 GT/s PCIe",
            f"{bridge}/max_link_width": "8",
        },
        {"sys/bus/pci/devices/0000:18:00.0": "../../../devices/pci0000:17/0000:17:01.0/0000:18:00.0"},
    )
    assert read_topology(root, "00000000:18:00.0") == PciTopology(1, "48-95", 16, 4, 8)
    assert read_topology(root, "00000000:99:00.0") == PciTopology()
    assert read_topology(root, "") == PciTopology()
    assert pci_address("00000000:1A:00.0") == "0000:1a:00.0"
    assert pci_address("00010000:01:00.0") == "10000:01:00.0"
    assert [pci_address(other) for other in ("", "1a", "MIG-1:2")] == ["", "", ""]
    assert [parse_generation(s) for s in ("2.5 GT/s PCIe", "32.0 GT/s PCIe", "16 GT/s", "Unknown")] == [1, 5, 4, None]


def test_a_long_list_of_cpus_is_read_to_its_end(tmp_path: Path) -> None:
    """On some machines with two sockets, each node has every second CPU, so its list has no ranges."""
    even = ",".join(map(str, range(0, 384, 2)))
    device = "sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0"
    root = tree(
        tmp_path,
        {f"{device}/local_cpulist": even, "proc/2001/status": status(2001, cpus=even)},
        {
            "sys/bus/pci/devices/0000:18:00.0": "../../../devices/pci0000:17/0000:17:01.0/0000:18:00.0",
            "proc/self/ns/pid": FIRST_NAMESPACE,
        },
    )
    assert len(even) > 512
    assert read_topology(root, "00000000:18:00.0").cpus == even
    assert resolved(root, 2001) == [(2001, True, even)]


def status(pid: int, *inner: int, cpus: str = "0-7") -> str:
    return f"Name:\tpython\nNSpid:\t{pid} {' '.join(map(str, inner))}\nCpus_allowed_list:\t{cpus}"


def resolved(root: Root, *pids: int, minor: int | None = 0) -> list[tuple[int, bool, str]]:
    mapping = PidMapping(root)
    mapping.begin()
    found = mapping.resolve("GPU-1", minor, tuple(GpuProcess(pid, 1, "compute") for pid in pids))
    return [(one.pid, one.found, one.cpus) for one in found or ()]


def test_on_the_host_a_process_has_the_pid_that_nvml_reports(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/2001/status": status(2001)}, {"proc/self/ns/pid": FIRST_NAMESPACE})
    assert resolved(root, 2001, 2002) == [(2001, True, "0-7"), (2002, False, "")]


def test_in_a_container_only_an_open_device_identifies_a_process(tmp_path: Path) -> None:
    files = {"proc/7/status": status(7, cpus="4-7"), "proc/2001/status": status(2001), "proc/9/status": status(9)}
    links = {"proc/self/ns/pid": "pid:[4026532999]", "proc/7/fd/5": "/dev/nvidia0", "proc/9/fd/3": "/dev/null"}
    root = tree(tmp_path, files, links)
    # In this container 2001 is another process; the only process that has the GPU open is 7.
    assert resolved(root, 2001) == [(7, True, "4-7")]
    # NVML reports two processes, but only one here has the GPU open, so it is unknown which of the two it is.
    assert resolved(root, 2001, 2002) == [(2001, False, ""), (2002, False, "")]
    assert resolved(root, 7) == [(7, True, "4-7")]
    assert resolved(root, 7, minor=None) == [(7, True, "4-7")]
    # The local process 7 has another GPU open, so NVML's process 7 on this GPU is outside this container.
    assert resolved(root, 7, minor=1) == [(7, False, "")]
    assert resolved(root, 2001, minor=None) == [(2001, False, "")]


def test_the_pid_in_another_namespace_identifies_a_process(tmp_path: Path) -> None:
    files = {"proc/700/status": status(700, 31), "proc/701/status": status(701, 32)}
    links = {
        "proc/self/ns/pid": "pid:[4026532999]",
        "proc/700/fd/5": "/dev/nvidia1",
        "proc/701/fd/5": "/dev/nvidia1",
    }
    assert resolved(tree(tmp_path, files, links), 32, 31, minor=1) == [(701, True, "0-7"), (700, True, "0-7")]
    assert LocalProcess(None, "").pid is None


@pytest.mark.parametrize("own_pid", [12, 2001])
@pytest.mark.parametrize("cuda", [False, True])
def test_this_program_is_a_gpu_process_only_with_cuda(tmp_path: Path, own_pid: int, cuda: bool) -> None:
    """NVML makes this program open the GPU, and in a container its PID may be a training process's on the host."""
    links = {
        "proc/self": str(own_pid),
        f"proc/{own_pid}/ns/pid": "pid:[4026532999]",
        f"proc/{own_pid}/fd/4": "/dev/nvidiactl",
        f"proc/{own_pid}/fd/5": "/dev/nvidia0",
        "proc/7/fd/5": "/dev/nvidia0",
        "proc/7/fd/6": "/dev/nvidia-uvm",
    }
    if cuda:
        links[f"proc/{own_pid}/fd/6"] = "/dev/nvidia-uvm"
    root = tree(tmp_path, {f"proc/{own_pid}/status": status(own_pid), "proc/7/status": status(7)}, links)
    expected = {(12, True): (2001, False, ""), (2001, True): (2001, True, "0-7")}
    assert resolved(root, 2001) == [expected.get((own_pid, cuda), (7, True, "0-7"))]


def test_a_process_that_uses_two_gpus_is_found_on_both(tmp_path: Path) -> None:
    links = {"proc/self/ns/pid": "pid:[4026532999]", "proc/7/fd/5": "/dev/nvidia0", "proc/7/fd/6": "/dev/nvidia1"}
    mapping = PidMapping(tree(tmp_path, {"proc/7/status": status(7)}, links))
    mapping.begin()
    for minor in range(2):
        (found,) = mapping.resolve(f"GPU-{minor}", minor, (GpuProcess(2001, 1, "compute"),)) or ()
        assert (found.pid, found.found) == (7, True)


def amd_root(folder: Path) -> Root:
    return build(parse((DATA / "made-amd-gpu.tree").read_text()), folder)


def test_an_amd_card_is_described_from_sysfs(tmp_path: Path) -> None:
    cards = AmdCards(amd_root(tmp_path), Clock())
    assert cards.cards() == (CARD,)
    assert cards.state(CARD) == GpuState(
        uuid=CARD,
        number=0,
        name="AMD Instinct MI210",
        utilization_percent=87,
        memory_activity_percent=42,
        memory_total_bytes=68702699520,
        memory_used_bytes=51539607552,
        memory_free_bytes=68702699520 - 51539607552,
        temperature_celsius=58,
        memory_celsius=71,
        power_mw=241000,
        power_limit_mw=300000,
        sm_mhz=1700,
        memory_mhz=1600,
        pcie_generation=4,
        pcie_width=16,
        pcie_max_generation=4,
        pcie_max_width=16,
        pcie_replays=0,
        bus_id="0000:c1:00.0",
    )
    assert cards.detail(CARD) == GpuDetail(
        CARD, vbios="113-D67301-059", slowdown_celsius=105, shutdown_celsius=110, default_limit_mw=300000,
        least_limit_mw=0, most_limit_mw=300000,
    )  # fmt: skip


CARD_PATH = "sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0"


def switched(folder: Path, root_port: str = "0x1022") -> Root:
    """The card behind the switch on its board (1002:1478, 1002:1479), in a slot of 8 lanes and generation 3."""
    entries = parse((DATA / "made-amd-gpu.tree").read_text())
    inside = ("16.0 GT/s PCIe", "16")
    links = {  # the vendor, then the present link and the best link, each as (speed, width)
        "0000:00:01.1": (root_port, ("8.0 GT/s PCIe", "8"), ("8.0 GT/s PCIe", "8")),
        "0000:01:00.0": ("0x1002", ("8.0 GT/s PCIe", "8"), inside),
        "0000:02:00.0": ("0x1002", inside, inside),
        "0000:03:00.0": ("0x1002", inside, inside),
    }
    for address, (vendor, now, best) in links.items():
        device = CARD_PATH[: CARD_PATH.index(address) + len(address)]
        entries[f"sys/bus/pci/devices/{address}"] = f"../../../{device.removeprefix('sys/')}"
        entries[f"{device}/vendor"] = f"{vendor}\n".encode()
        for kind, (speed, width) in (("current", now), ("max", best)):
            entries[f"{device}/{kind}_link_speed"] = f"{speed}\n".encode()
            entries[f"{device}/{kind}_link_width"] = f"{width}\n".encode()
    entries["sys/class/drm/card1/device/uevent"] = b"DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n"
    return build(entries, folder)


@pytest.mark.parametrize("root_port", ["0x1022", "0x1002"])
def test_the_link_of_an_amd_card_is_that_of_its_slot(tmp_path: Path, root_port: str) -> None:
    sweep = DrmSweep(switched(tmp_path, root_port), Clock())
    state, detail = sweep.read()[CARD].value, sweep.details[CARD].value
    assert state is not None
    assert detail is not None
    assert (state.pcie_generation, state.pcie_width) == (3, 8)
    assert (state.pcie_max_generation, state.pcie_max_width) == (4, 16)
    assert (detail.device_max_width, detail.slot_max_generation, detail.slot_max_width) == (16, 3, 8)


def test_a_card_without_an_edge_sensor_has_its_junction_temperature(tmp_path: Path) -> None:
    entries = parse((DATA / "made-amd-gpu.tree").read_text())
    hwmon = "sys/class/drm/card1/device/hwmon/hwmon3"
    for path in [path for path in entries if path.startswith(f"{hwmon}/temp1_")]:
        del entries[path]
    entries |= {f"{hwmon}/temp2_crit": b"100000\n", f"{hwmon}/temp3_crit": b"105000\n"}
    cards = AmdCards(build(entries, tmp_path), Clock())
    cards.cards()
    state, detail = cards.state(CARD), cards.detail(CARD)
    assert (state.temperature_celsius, state.temperature_sensor, state.memory_celsius) == (66, "junction", 71)
    assert (detail.slowdown_celsius, detail.shutdown_celsius, detail.memory_max_celsius) == (100, None, 105)
    assert [f.value for f in facts(state, None, detail) if f.label == "temp of"] == ["junction"]


def test_the_file_pcie_bw_is_never_read(tmp_path: Path) -> None:
    root = amd_root(tmp_path)
    slow = tmp_path / "sys/class/drm/card1/device/pcie_bw"
    slow.write_text("1 2 256\n")
    before = slow.stat().st_atime_ns
    sweep = DrmSweep(root, Clock())
    assert set(sweep.read()) == {CARD}
    assert slow.stat().st_atime_ns == before
    assert set(sweep.details) == {CARD}


def test_cards_are_ordered_by_their_number(tmp_path: Path) -> None:
    for name in ("card10", "card2", "card1", "card1-DP-1", "renderD128"):
        (tmp_path / "sys/class/drm" / name).mkdir(parents=True)
    assert drm_cards(Root(str(tmp_path))) == ["card1", "card2", "card10"]


def test_without_a_card_there_are_no_gpus(tmp_path: Path) -> None:
    assert DrmSweep(Root(str(tmp_path)), Clock()).read() == {}


def test_the_cards_stay_while_too_many_files_are_open(tmp_path: Path) -> None:
    sweep = DrmSweep(amd_root(tmp_path), Clock())
    sweep.read()
    with too_many_open_files():
        for _ in range(SEARCH_EVERY_SWEEPS):
            assert set(sweep.read()) == {CARD}
    reading = sweep.read()[CARD]
    assert reading.value is not None
    assert reading.value.number == 0


class Smi:
    """The interface of amdsmi, with one function that fails, as in a virtual machine."""

    class AmdSmiException(Exception):  # noqa: N818 - the library's own name
        pass

    def amdsmi_get_gpu_activity(self, handle: int) -> dict[str, object]:
        return {"gfx_activity": 33, "umc_activity": "N/A"}

    def amdsmi_get_power_info(self, handle: int) -> dict[str, object]:
        raise self.AmdSmiException


def test_amdsmi_gives_the_figures_that_sysfs_lacks() -> None:
    bare = GpuState("AMD-1", 0, "MI210")
    filled = with_smi(Smi(), 1, bare)
    assert (filled.utilization_percent, filled.memory_activity_percent, filled.power_mw) == (33, None, None)
    assert with_smi(Smi(), 1, bare._replace(utilization_percent=5)).utilization_percent == 5
