"""Clients of DRM devices as amdgpu, i915 and xe report them, ROCm's processes, and the throttle reasons of AMD."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from iotop_ai.collectors.gpu.amd_metrics import ThrottleDecoder
from iotop_ai.collectors.gpu.drm import DrmSweep
from iotop_ai.collectors.gpu.drm_clients import SEARCH_EVERY_SWEEPS, Client, DrmClients, kfd_processes, parse_client
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.gpu.amd_throttle import OTHER, clock_reasons, reasons_text
from iotop_ai.model.gpu.state import GpuProcess, GpuState, gpu_rates
from iotop_ai.model.reading import Reading
from tests.clocks import SetClock
from tests.machines import build, parse

SECOND = 1_000_000_000
DATA = Path(__file__).parents[2] / "data" / "gpu"
CARD = "AMD-c0ffee0123456789"
SLOT = "0000:c1:00.0"

AMDGPU = """pos:\t0
flags:\t02100002
drm-driver:\tamdgpu
drm-client-id:\t12
drm-pdev:\t0000:03:00.0
pasid:\t32771
drm-total-vram:\t2048 KiB
drm-resident-vram:\t1024 KiB
drm-memory-vram:\t1024 KiB
drm-memory-gtt: \t512 KiB
drm-engine-gfx:\t4500 ns
drm-engine-compute:\t900 ns
drm-engine-enc_1:\t10 ns"""
I915 = """drm-driver: i915
drm-client-id: 7
drm-pdev: 0000:00:02.0
drm-resident-local0: 3 MiB
drm-resident-system0: 9 MiB
drm-engine-render: 9288864723 ns
drm-engine-copy: 2035071108 ns
drm-engine-video: 0 ns
drm-engine-capacity-video: 2"""
XE = """drm-driver: xe
drm-client-id: 3
drm-pdev: 0000:03:00.0
drm-resident-vram0: 6 MiB
drm-cycles-ccs: 1000
drm-total-cycles-ccs: 9000"""


def test_the_fdinfo_of_each_driver_is_parsed() -> None:
    assert parse_client(AMDGPU.split("\n")) == Client(
        "0000:03:00.0", "12", 1 << 20, {"gfx": (4500, None), "compute": (900, None), "enc_1": (10, None)}, {}
    )
    assert parse_client(I915.split("\n")) == Client(
        "0000:00:02.0", "7", 3 << 20,
        {"render": (9288864723, None), "copy": (2035071108, None), "video": (0, None)}, {"video": 2},
    )  # fmt: skip
    assert parse_client(XE.split("\n")) == Client("0000:03:00.0", "3", 6 << 20, {"ccs": (1000, 9000)}, {})


@pytest.mark.parametrize(
    "text",
    ["", "pos:\t0", "drm-driver: vgem\ndrm-client-id: 1", "drm-pdev: 0000:03:00.0\ndrm-client-id:", "drm-engine-gfx"],
)
def test_fdinfo_without_a_pci_address_or_a_client_is_ignored(text: str) -> None:
    assert parse_client(text.split("\n")) is None


def write_client(root: Path, pid: int, text: str, fd: int = 4, device: str = "/dev/dri/renderD128") -> None:
    for folder in ("fd", "fdinfo"):
        (root / f"proc/{pid}/{folder}").mkdir(parents=True, exist_ok=True)
    link = root / f"proc/{pid}/fd/{fd}"
    if not link.is_symlink():
        link.symlink_to(device)
    (root / f"proc/{pid}/fdinfo/{fd}").write_text(text + "\n")


def amd_fdinfo(gfx: int, number: int = 12, device: str = SLOT, vram: int = 1024) -> str:
    return (
        f"drm-driver:\tamdgpu\ndrm-client-id:\t{number}\ndrm-pdev:\t{device}\n"
        f"drm-memory-vram:\t{vram} KiB\ndrm-engine-gfx:\t{gfx} ns"
    )


def test_a_device_that_two_processes_share_counts_once(tmp_path: Path) -> None:
    clock = SetClock(SECOND)
    clients = DrmClients(Root(str(tmp_path)), clock)
    write_client(tmp_path, 50, amd_fdinfo(40 * SECOND))
    write_client(tmp_path, 51, amd_fdinfo(40 * SECOND))  # a worker that inherited the open device
    write_client(tmp_path, 52, "garbage", device="/dev/null")
    first = clients.read()[SLOT]
    # Work from before the first sweep does not count as current work.
    assert first.busy_ns == {"graphics_ns": 0}
    assert first.processes == (GpuProcess(50, 1 << 20, "graphics", None),)
    clock.now_ns += SECOND
    for pid in (50, 51):
        write_client(tmp_path, pid, amd_fdinfo(40 * SECOND + SECOND // 4))
    second = clients.read()[SLOT]
    assert second.busy_ns == {"graphics_ns": SECOND // 4}
    assert second.processes == (GpuProcess(50, 1 << 20, "graphics", 25),)
    clock.now_ns += SECOND
    # A driver may decrease its counter; the larger value then stays in use.
    for pid in (50, 51):
        write_client(tmp_path, pid, amd_fdinfo(40 * SECOND))
    assert clients.read()[SLOT].busy_ns == {"graphics_ns": SECOND // 4}
    clock.now_ns += SECOND
    write_client(tmp_path, 50, amd_fdinfo(90 * SECOND, number=13))
    write_client(tmp_path, 51, amd_fdinfo(40 * SECOND + SECOND // 2))
    # A new client counts as busy for at most the time since the last sweep.
    assert clients.read()[SLOT].busy_ns == {"graphics_ns": SECOND // 4 + SECOND // 4 + SECOND}


def test_the_work_of_a_client_that_a_child_keeps_open_is_not_counted_twice(tmp_path: Path) -> None:
    """The child is found a few sweeps after the end of its parent."""
    clock = SetClock(SECOND)
    clients = DrmClients(Root(str(tmp_path)), clock)
    write_client(tmp_path, 50, amd_fdinfo(40 * SECOND))
    clients.read()
    (tmp_path / "proc/50").rename(tmp_path / "proc/54")
    write_client(tmp_path, 54, amd_fdinfo(40 * SECOND + SECOND // 10))
    found = []
    for _ in range(2 * SEARCH_EVERY_SWEEPS):
        clock.now_ns += SECOND
        use = clients.read()[SLOT]
        found += [one.sm_percent for one in use.processes]
    assert use.busy_ns == {"graphics_ns": SECOND // 10}
    assert found == [10, *[0] * (len(found) - 1)]


def test_busy_cycles_are_divided_by_all_cycles_and_by_the_number_of_engines(tmp_path: Path) -> None:
    clock = SetClock(SECOND)
    clients = DrmClients(Root(str(tmp_path)), clock)
    base = "drm-pdev: 0000:03:00.0\ndrm-client-id: 3\n"
    write_client(tmp_path, 60, base + "drm-cycles-ccs: 1000\ndrm-total-cycles-ccs: 9000\ndrm-engine-capacity-ccs: 2")
    clients.read()
    clock.now_ns += 2 * SECOND
    write_client(tmp_path, 60, base + "drm-cycles-ccs: 2000\ndrm-total-cycles-ccs: 11000\ndrm-engine-capacity-ccs: 2")
    assert clients.read()["0000:03:00.0"].busy_ns == {"compute_ns": SECOND // 2}


def xe(number: int, busy: int, cycles: int) -> str:
    return (
        f"drm-driver: xe\ndrm-client-id: {number}\ndrm-pdev: {SLOT}\n"
        f"drm-cycles-ccs: {busy}\ndrm-total-cycles-ccs: {cycles}"
    )


def test_the_cycles_of_a_new_client_count_from_the_last_sweep(tmp_path: Path) -> None:
    clock, hz, day = SetClock(SECOND), 19_200_000, 86_400
    clients = DrmClients(Root(str(tmp_path)), clock)

    def sweep(second: int, text: str) -> tuple[int, int | None]:
        clock.now_ns = second * SECOND
        write_client(tmp_path, 61, text)  # the second and the seventh sweep look for new clients
        use = clients.read()[SLOT]
        return use.busy_ns["compute_ns"], use.processes[0].sm_percent

    clients.read()
    # For the first client of a device it is unknown how many cycles the device had counted before.
    assert sweep(2, xe(1, hz // 2, (day + 2) * hz)) == (0, None)
    assert sweep(3, xe(2, hz * 4 // 5, (day + 3) * hz)) == (SECOND * 4 // 5, 80)
    (tmp_path / "proc/61/fd/4").unlink()
    for second in range(4, 7):
        clock.now_ns = second * SECOND
        clients.read()
    # The sixth sweep did not search this process, so a part of the work may be older than that sweep.
    assert sweep(7, xe(3, hz // 4, (day + 7) * hz)) == (SECOND * 4 // 5 + SECOND // 4, None)
    assert sweep(8, xe(3, hz // 4 + hz // 2, (day + 8) * hz)) == (SECOND * 4 // 5 + SECOND // 4 + SECOND // 2, 50)
    # The counters of the client began again.
    assert sweep(9, xe(3, hz, hz)) == (SECOND * 4 // 5 + SECOND // 4 + SECOND // 2, 0)


def test_the_share_of_a_process_that_is_found_late_is_unknown_at_first(tmp_path: Path) -> None:
    """One client of the process uses a quarter of the GPU from the first second. The process is found in the fifth."""
    clock = SetClock(SECOND)
    clients = DrmClients(Root(str(tmp_path)), clock)
    clients.read()
    found = []
    for second in range(1, 7):
        clock.now_ns += SECOND
        write_client(tmp_path, 50, amd_fdinfo(second * SECOND // 4))
        write_client(tmp_path, 50, amd_fdinfo(0, 13), fd=5)
        found.append([one.sm_percent for use in clients.read().values() for one in use.processes])
    assert found == [[], [], [], [], [None], [25]]


@pytest.mark.parametrize(
    ("graphics", "computing", "kind"), [(0, 0, "graphics"), (9, 0, "graphics"), (9, 2, "graphics"), (2, 9, "compute")]
)
def test_a_client_of_the_compute_engines_is_a_compute_process(
    tmp_path: Path, graphics: int, computing: int, kind: str
) -> None:
    base = f"drm-driver: i915\ndrm-pdev: {SLOT}\n"
    engines = f"drm-engine-render: {graphics} ns\ndrm-engine-compute: {computing} ns"
    write_client(tmp_path, 60, f"{base}drm-client-id: 3\n{engines}")
    write_client(tmp_path, 60, f"{base}drm-client-id: 4\ndrm-engine-render: 0 ns", fd=5)
    assert [one.kind for one in DrmClients(Root(str(tmp_path)), SetClock(SECOND)).read()[SLOT].processes] == [kind]


def test_rocm_processes_are_listed_with_the_memory_that_they_use(tmp_path: Path) -> None:
    entries = parse((DATA / "made-amd-gpu.tree").read_text())
    nodes = "sys/class/kfd/kfd/topology/nodes"
    entries |= {
        f"{nodes}/0/gpu_id": b"0\n",
        f"{nodes}/1/gpu_id": b"51140\n",
        f"{nodes}/1/properties": b"cpu_cores_count 0\nlocation_id 49408\ndomain 0\n",
        "sys/class/kfd/kfd/proc/70/vram_51140": b"4294967296\n",
        "sys/class/kfd/kfd/proc/70/pasid": b"32771\n",
    }
    root = build(entries, tmp_path)
    assert kfd_processes(root) == {SLOT: {70: 4 << 30}}
    partition = {
        f"{nodes}/2/gpu_id": b"51141\n",
        f"{nodes}/2/properties": f"location_id {49408 | 1 << 28}\ndomain 0\n".encode(),
        "sys/class/kfd/kfd/proc/70/vram_51141": b"1024\n",
    }
    (tmp_path / "two").mkdir()
    assert kfd_processes(build(entries | partition, tmp_path / "two")) == {SLOT: {70: (4 << 30) + 1024}}
    write_client(tmp_path, 70, amd_fdinfo(5))
    write_client(tmp_path, 71, amd_fdinfo(5, number=2), fd=9)
    state = DrmSweep(root, Clock()).read()[CARD].value
    assert state is not None
    # The busy time of a ROCm compute kernel is unknown; 0 % would be wrong.
    assert state.processes == (
        GpuProcess(70, 4 << 30, "compute", None),
        GpuProcess(71, 1 << 20, "graphics", None),
    )
    assert state.graphics_ns == 0


def test_in_a_container_the_process_for_a_pid_of_rocm_is_unknown(tmp_path: Path) -> None:
    """The kernel lists ROCm's processes by the host's PIDs. Here, another process may have the same PID."""
    entries = parse((DATA / "made-amd-gpu.tree").read_text())
    nodes = "sys/class/kfd/kfd/topology/nodes"
    entries |= {
        f"{nodes}/1/gpu_id": b"51140\n",
        f"{nodes}/1/properties": b"cpu_cores_count 0\nlocation_id 49408\ndomain 0\n",
        "sys/class/kfd/kfd/proc/70/vram_51140": b"4294967296\n",
    }
    root = build(entries, tmp_path)
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532999]")
    write_client(tmp_path, 70, amd_fdinfo(5))
    state = DrmSweep(root, Clock()).read()[CARD].value
    assert state is not None
    assert state.processes == (
        GpuProcess(70, 1 << 20, "graphics", None),
        GpuProcess(70, 4 << 30, "compute", None, found=False),
    )


def test_the_rate_of_an_engine_is_its_share_of_time() -> None:
    def at(seconds: int, **fields: int) -> dict[str, Reading[GpuState]]:
        at_ns = seconds * SECOND
        return {CARD: Reading(GpuState(CARD, 0, "MI210", engines_at_ns=at_ns, **fields), at_ns=at_ns)}  # type: ignore[arg-type]

    rates = gpu_rates(at(1, graphics_ns=5, decoder_ns=0), at(3, graphics_ns=5 + SECOND, decoder_ns=0), 9.0)[CARD]
    assert (rates.graphics_ratio, rates.decoder_ratio, rates.copy_ratio) == (0.5, 0.0, None)


def table(version: tuple[int, int], size: int, at: int = 0, form: str = "<Q", *values: int) -> bytes:
    raw = bytearray(size)
    struct.pack_into("<HBB", raw, 0, size, *version)
    struct.pack_into(form, raw, at or 4, *(values or (0,)))
    return bytes(raw)


@pytest.mark.parametrize(
    ("raw", "bits"),
    [
        (table((1, 3), 120, 112, "<Q", 1 << 34 | 1), 1 << 34 | 1),
        (table((1, 3), 120, 112, "<Q", 0), 0),
        (table((1, 3), 120, 112, "<Q", (1 << 64) - 1), None),  # this value means that nothing is reported
        (table((2, 3), 152, 120, "<Q", 1 << 36), 1 << 36),
        (table((1, 1), 96, 68, "<I", 0), 0),
        (table((1, 2), 104, 68, "<I", 1 << 9), OTHER),
        (table((1, 4), 300, 40, "<I", 1), OTHER),
        (table((1, 4), 300, 40, "<I", 0xFFFFFFFF), None),
        (table((9, 9), 300), None),
        (table((1, 3), 60), None),
        (b"", None),
    ],
)
def test_throttle_bits_depend_on_the_version_of_the_table(raw: bytes, bits: int | None) -> None:
    assert ThrottleDecoder().bits(raw) == bits


@pytest.mark.parametrize(("revision", "at"), [(6, 32), (7, 40), (8, 40)])
def test_counters_that_grow_between_two_tables_are_reasons(revision: int, at: int) -> None:
    throttle = ThrottleDecoder()

    def bits(*values: int) -> int | None:
        return throttle.bits(table((1, revision), 1664, at, "<6I", *values))

    assert bits(1000, 0, 7, 0, 0, 0) is None
    assert bits(2000, 0, 7, 0, 0, 90) == 1 << 34
    assert bits(3000, 0, 9, 0, 0, 90) == 1
    assert bits(10, 0, 0, 0, 0, 0) is None  # the counters were reset


def test_pcie_packets_that_were_sent_again_are_not_a_reason_for_a_lower_clock() -> None:
    throttle = ThrottleDecoder()
    throttle.bits(table((1, 6), 1664, 104, "<6I", 5, 0, 0, 0, 3, 2))
    assert not throttle.bits(table((1, 6), 1664, 104, "<6I", 6, 0, 1, 0, 4, 3))


def test_throttle_bits_are_converted_to_words_and_to_bits_of_nvml() -> None:
    assert (reasons_text(0), reasons_text(1 << 34 | 1), reasons_text(1 << 36 | 1 << 47)) == (
        "", "power limit, memory temperature", "temperature, the board's overheat signal",
    )  # fmt: skip
    assert reasons_text(OTHER) == "a reason specific to this model"
    assert (
        reasons_text(1 << 41 | 1 << 43 | 1 << 44) == "temperature of the coolant, temperature of the voltage regulators"
    )
    assert [clock_reasons(bits) for bits in (0, 1, 1 << 34, 1 << 43, 1 << 47 | 1)] == [0, 0x4, 0x20, 0x20, 0x44]


def test_hot_memory_counts_as_a_thermal_slowdown_of_the_card(tmp_path: Path) -> None:
    entries = parse((DATA / "made-amd-gpu.tree").read_text())
    entries["sys/class/drm/card1/device/gpu_metrics"] = table((1, 3), 120, 112, "<Q", 1 << 34)
    reading = DrmSweep(build(entries, tmp_path), Clock()).read()
    state = reading[CARD].value
    assert state is not None
    assert (state.throttle_bits, state.clock_reasons) == (1 << 34, 0x20)
    assert gpu_rates(None, reading, None)[CARD].slowed is True
