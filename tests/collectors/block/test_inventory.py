"""How devices are described, on captured and made-up machines, and how the table of devices is updated."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.identity import kind_of, read_device
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.block.temperature import Temperatures, read_temperature
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.mounts import MountsCollector
from iotop_ai.model.block.counters import BlockInfo, BlockKey, Mount, block_rates
from iotop_ai.model.block.tree import device_rows
from tests.clocks import SetClock
from tests.machines import Entries, build, machine, names
from tests.rigs.descriptors import too_many_open_files
from tests.rigs.unreadable import unreadable

SECOND = 10**9
SDA, SDB = BlockKey("sda", 1), BlockKey("sdb", 2)


class Watched:
    """The collectors of one root, which are read together as in the live source."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.clock = SetClock(1000 * SECOND)
        self.block = BlockCollector(root, self.clock)
        self.mounts = MountsCollector(root)
        temperatures = Temperatures(root, start=lambda work: work())
        self.collector = BlockInfoCollector(root, self.clock, self.block, self.mounts, temperatures)

    def read(self, after_s: float = 0) -> dict[str, BlockInfo]:
        self.clock.now_ns += int(after_s * SECOND)
        self.block.read()
        self.mounts.read()
        return self.collector.read()


def read(name: str, folder: Path) -> dict[str, BlockInfo]:
    return Watched(machine(name, folder)).read()


@pytest.fixture
def server(tmp_path: Path) -> dict[str, BlockInfo]:
    return read("made-gpu-server", tmp_path)


def test_every_fact_of_an_nvme_disk_is_read(server: dict[str, BlockInfo]) -> None:
    assert server["nvme3n1"] == BlockInfo(
        name="nvme3n1", major=259, minor=3, kind="disk", label="nvme3n1", detail="NVMe", holders=("md0",),
        transport="nvme", model="KIOXIA KCD81RUG7T68", serial="9D30A03HTQ3", firmware="1UETE104",
        size_bytes=7501476528 * 512, rotational=False, queue_depth=1023, scheduler="none", read_ahead_bytes=131072,
        pcie="4x2", pcie_max="5x4", temperature_celsius=41.85,
        controllers=("nvme3",),
    )  # fmt: skip


def test_every_fact_of_a_sata_disk_is_read(server: dict[str, BlockInfo]) -> None:
    assert server["sda"] == BlockInfo(
        name="sda", major=8, minor=0, kind="disk", label="sda", detail="SATA SSD", transport="ata",
        model="SAMSUNG MZ7L3480", serial="S664NE0R123456", firmware="JXTC304Q", size_bytes=937703088 * 512,
        rotational=False, queue_depth=32, scheduler="mq-deadline", read_ahead_bytes=131072, temperature_celsius=31.0,
    )  # fmt: skip


def test_devices_are_stacked_correctly(server: dict[str, BlockInfo]) -> None:
    described = {n: (i.kind, i.label, i.detail, i.slaves, i.holders) for n, i in server.items()}
    assert described["md0"] == ("md", "md0", "raid0", tuple(f"nvme{i}n1" for i in range(4)), ("dm-2",))
    assert described["dm-0"] == ("dm", "sys-vg/root", "LVM", ("sda2",), ())
    assert described["dm-2"] == ("dm", "raid", "crypt", ("md0",), ())
    assert described["dm-3"] == ("dm", "mpatha", "mpath", ("sdb", "sdc"), ())
    assert described["sda2"] == ("partition", "sda2", "", (), ("dm-0", "dm-1"))
    assert described["nvme4n1"] == ("disk", "nvme4n1", "NVMe over rdma", (), ())
    assert (server["nvme4c4n1"].kind, server["nvme4c4n1"].parent) == ("nvme-path", "nvme4n1")
    assert (server["sdb"].detail, server["sdb"].queue_depth, server["sdb"].serial) == ("SAS HDD", 254, "ZR5ABCDE")
    assert (server["sda1"].parent, server["sda1"].transport) == ("sda", "ata")


def test_mounts_lie_on_their_devices(server: dict[str, BlockInfo]) -> None:
    assert {n: [m.path for m in i.mounts] for n, i in server.items() if i.mounts} == {
        "dm-0": ["/"],
        "sda1": ["/boot/efi"],
        "dm-2": ["/raid"],
        "dm-3": ["/cold data"],
        "nvme4n1": ["/scratch"],
        "loop0": ["/mnt/train"],
    }


def test_a_loop_device_has_its_file_and_the_disks_below_it(server: dict[str, BlockInfo]) -> None:
    loop = server["loop0"]
    assert (loop.detail, loop.below, loop.backing_fstype) == ("loop /raid/images/train set.img", ("dm-2",), "xfs")
    assert (server["loop1"].detail, server["loop1"].below) == ("loop", ())


def test_the_devices_of_a_server_are_folded_into_rows(server: dict[str, BlockInfo]) -> None:
    tops = [row.title for row in device_rows(server) if row.depth == 0]
    assert tops == ["sda", "nvme4n1", "md0 x4", "mpatha x2", "md1", "loop0", "loop1", "zram0"]


def test_an_old_kernel_is_described(tmp_path: Path) -> None:
    infos = read("made-kernel-4.15", tmp_path)
    assert (infos["md127"].detail, infos["md127"].md_sync) == ("raid1 degraded", "recover")
    assert (infos["sda"].detail, infos["sda"].scheduler, infos["sda"].queue_depth) == ("SATA HDD", "cfq", 31)
    assert (infos["sr0"].kind, infos["sr0"].detail) == ("rom", "optical drive")
    assert [m.path for m in infos["md127"].mounts] == ["/"]


def test_the_head_of_a_multipath_disk_has_no_queue_of_its_own(server: dict[str, BlockInfo]) -> None:
    assert (server["nvme4n1"].queue_depth, server["nvme4c4n1"].queue_depth) == (None, 128)


def test_a_laptop_is_described(tmp_path: Path) -> None:
    infos = read("made-laptop", tmp_path)
    assert [m.path for m in infos["dm-0"].mounts] == ["/", "/home"]
    assert (infos["sda"].detail, infos["mmcblk0"].detail) == ("USB disk", "SD card")
    assert (infos["zram0"].stats_off, infos["nvme0n1"].stats_off) == (False, False)  # zram counts in any case
    # The slot is slower than the disk: pcie_max is the most that both allow.
    assert (infos["nvme0n1"].pcie, infos["nvme0n1"].pcie_max) == ("3x4", "3x4")


@pytest.mark.parametrize(
    ("release", "obeying"),
    [
        ("5.4.0-190-generic", ()),
        ("5.14.0", ("md0",)),
        ("6.2.0-39-generic", ("md0", "nvme0n1")),
        ("6.5.0", ("md0", "nvme0n1", "dm-0")),
        ("", ("md0", "nvme0n1", "dm-0")),
    ],
)
def test_accounting_is_off_only_where_the_driver_obeys_the_switch(
    release: str, obeying: tuple[str, ...], tmp_path: Path
) -> None:
    files: Entries = {f"sys/block/{name}/queue/iostats": b"0\n" for name in ("sda", "zram0", "md0", "dm-0", "dm-1")}
    files |= {"sys/block/dm-1/mq/0/nr_tags": b"128\n", "proc/sys/kernel/osrelease": f"{release}\n".encode()}
    head = "devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"
    files["sys/block/nvme0n1"] = f"../{head}"
    files[f"sys/{head}/queue/iostats"] = b"0\n"
    root = build(files, tmp_path)
    devices = ("sda", "zram0", "md0", "dm-0", "dm-1", "nvme0n1")
    assert {name for name in devices if read_device(root, name, None).stats_off} == {"sda", "dm-1", *obeying}


def test_a_container_sees_bind_mounts_but_not_its_own_files(tmp_path: Path) -> None:
    infos = read("made-container", tmp_path)
    assert [m.path for m in infos["nvme0n1p1"].mounts] == ["/data"]


def test_a_virtual_machine_is_described(tmp_path: Path) -> None:
    infos = read("vm-6.18", tmp_path)
    vda = infos["vda"]
    assert (vda.transport, vda.detail, vda.scheduler, vda.queue_depth) == ("virtio", "virtio", "mq-deadline", 128)
    assert vda.read_ahead_bytes == 8192 * 1024
    assert [m.path for m in vda.mounts] == ["/"]


def test_the_write_cache_of_a_disk_is_followed(tmp_path: Path) -> None:
    watched = Watched(machine("vm-6.18", tmp_path))
    vda = watched.read()["vda"]
    assert (vda.write_cache, vda.fua, vda.wbt_us) == ("", None, None)  # the captured machine lacks these files

    def within_a_minute() -> BlockInfo:
        return [watched.read(after_s=2)["vda"] for _ in range(30)][-1]

    queue = Path(watched.root.path) / "sys/block/vda/queue"
    (queue / "write_cache").write_text("write back\n")
    (queue / "fua").write_text("0\n")
    (queue / "wbt_lat_usec").write_text("75000\n")
    vda = within_a_minute()
    assert (vda.write_cache, vda.fua, vda.wbt_us) == ("write back", False, 75_000)
    (queue / "write_cache").write_text("write through\n")
    (queue / "fua").write_text("1\n")
    (queue / "wbt_lat_usec").write_text("0\n")
    vda = within_a_minute()
    assert (vda.write_cache, vda.fua, vda.wbt_us) == ("write through", True, 0)


def test_the_write_caches_of_this_machine_are_read() -> None:
    for queue in Path("/sys/block").glob("*/queue"):
        info = read_device(Root("/"), queue.parent.name.replace("!", "/"), None)
        file = queue / "write_cache"
        assert info.write_cache == (file.read_text().strip() if file.exists() else "")
        assert info.write_cache in ("write back", "write through", "")
        assert info.wbt_us is None or info.wbt_us >= 0


@pytest.mark.parametrize("name", names())
def test_every_device_of_every_machine_is_described_and_stable(name: str, tmp_path: Path) -> None:
    watched = Watched(machine(name, tmp_path))
    infos = watched.read()
    assert list(infos) == [key.name for key in watched.block.keys]
    assert all(info.kind and info.label and info.transport for info in infos.values())
    assert watched.read(1) is infos
    assert watched.read(31) is infos
    assert watched.read(31) is infos


def test_the_name_of_a_device_gives_its_kind() -> None:
    assert {n: kind_of(n) for n in ("dm-1", "md_d0", "zram0", "ram1", "zd16", "sr0", "fd0", "nvme1c2n3", "vda")} == {
        "dm-1": "dm", "md_d0": "md", "zram0": "zram", "ram1": "ram", "zd16": "zvol", "sr0": "rom", "fd0": "floppy",
        "nvme1c2n3": "nvme-path", "vda": "disk",
    }  # fmt: skip


def overwrite(place: Path, text: str) -> None:
    """Change a file in place, because the collectors keep its descriptor open."""
    place.write_text(text)


def test_a_new_mount_is_noticed_at_once(tmp_path: Path) -> None:
    watched = Watched(machine("made-laptop", tmp_path))
    assert watched.read()["sda1"].mounts == (Mount("/run/media/u/DISK", "exfat", "/dev/sda1", device="8:1"),)
    place = tmp_path / "proc/self/mountinfo"
    overwrite(place, place.read_text().replace("/run/media/u/DISK", "/mnt"))
    assert [m.path for m in watched.read(1)["sda1"].mounts] == ["/mnt"]


def test_a_replugged_disk_is_described_anew_at_once(tmp_path: Path) -> None:
    watched = Watched(machine("made-laptop", tmp_path))
    before = watched.read()
    disk = (tmp_path / "sys/block/sda").resolve()
    overwrite(disk / "diskseq", "99\n")
    overwrite(disk / "size", "2048\n")
    stats = tmp_path / "proc/diskstats"
    overwrite(stats, stats.read_text().replace("sda 100", "sda 101"))
    after = watched.read(1)
    assert (before["sda"].size_bytes, after["sda"].size_bytes) == (240353280 * 512, 2048 * 512)
    rest = "".join(line for line in stats.read_text().splitlines(keepends=True) if " sda" not in line)
    overwrite(stats, rest)
    assert before.keys() - watched.read(1).keys() == {"sda", "sda1"}


def test_a_replaced_disk_does_not_show_the_temperature_of_the_earlier_disk(tmp_path: Path) -> None:
    watched = Watched(machine("made-laptop", tmp_path))
    assert watched.read()["nvme0n1"].temperature_celsius == 44.85
    disk = (tmp_path / "sys/block/nvme0n1").resolve()
    overwrite(disk / "diskseq", "99\n")
    stats = tmp_path / "proc/diskstats"
    overwrite(stats, stats.read_text().replace("nvme0n1 ", "nvme0n1 9", 1))
    (sensor,) = tmp_path.rglob("temp1_input")
    overwrite(sensor, "21850\n")
    assert watched.read(1)["nvme0n1"].temperature_celsius is None
    assert watched.read(30)["nvme0n1"].temperature_celsius == 21.85


def test_a_changed_setting_is_noticed_within_half_a_minute(tmp_path: Path) -> None:
    watched = Watched(machine("made-laptop", tmp_path))
    watched.read()
    overwrite((tmp_path / "sys/block/nvme0n1").resolve() / "queue/scheduler", "none [kyber]\n")
    assert watched.read(5)["nvme0n1"].scheduler == "none"
    assert watched.read(26)["nvme0n1"].scheduler == "kyber"


def test_an_array_whose_resync_is_frozen_is_not_resyncing(tmp_path: Path) -> None:
    watched = Watched(machine("made-gpu-server", tmp_path))
    action = (tmp_path / "sys/block/md0").resolve() / "md/sync_action"
    for word, sync in (("resync", "resync"), ("frozen", "")):
        action.write_text(f"{word}\n")
        assert Watched(watched.root).read()["md0"].md_sync == sync


def test_devices_are_not_read_again_while_too_many_files_are_open(tmp_path: Path) -> None:
    watched = Watched(machine("made-gpu-server", tmp_path))
    before = watched.read()["md0"]
    overwrite((tmp_path / "sys/block/md0").resolve() / "md/sync_action", "check\n")
    with too_many_open_files():
        watched.clock.now_ns += 31 * SECOND
        now = watched.collector.read()["md0"]
    assert before.slaves
    assert (now.slaves, now.size_bytes, now.md_sync) == (before.slaves, before.size_bytes, "")
    assert watched.read(1)["md0"].md_sync == "check"


def test_values_of_a_device_that_vanishes_during_the_reading_are_unknown(tmp_path: Path) -> None:
    root = machine("made-laptop", tmp_path)
    (tmp_path / "sys/block/sda").unlink()
    info = Watched(root).read()["sda"]
    assert (info.kind, info.model, info.size_bytes, info.rotational) == ("disk", "", None, None)


def test_without_diskstats_the_devices_are_listed_from_sys(tmp_path: Path) -> None:
    for name in ("vda", "vda1"):
        (tmp_path / "sys/class/block" / name).mkdir(parents=True)
    infos = BlockInfoCollector(Root(str(tmp_path)), Clock()).read()
    assert {n: (i.kind, i.parent) for n, i in infos.items()} == {"vda": ("disk", ""), "vda1": ("partition", "vda")}


def test_the_temperature_of_an_idle_hard_disk_is_not_read(tmp_path: Path) -> None:
    def hdd(name: str) -> BlockInfo:
        return BlockInfo(name, 8, 0, "disk", name, transport="ata", rotational=True)

    for name in ("sda", "sdb"):
        sensor = tmp_path / f"sys/block/{name}/device/hwmon/hwmon1/temp1_input"
        sensor.parent.mkdir(parents=True)
        sensor.write_text("36000\n")
    temperatures = Temperatures(Root(str(tmp_path)), start=lambda work: work())
    temperatures.ask({SDA: hdd("sda"), SDB: hdd("sdb")}, active={"sdb"})
    assert temperatures.celsius == {SDB: 36.0}
    temperatures.ask({SDA: hdd("sda"), SDB: hdd("sdb")}, active=set())
    assert temperatures.celsius == {}, "an old value is shown as the present one"
    assert read_temperature(Root(str(tmp_path)), "sdc") is None


def test_a_hard_disk_is_idle_until_its_counters_change(tmp_path: Path) -> None:
    """All counters are new at the first reading, but they do not show which disks have recent I/O."""
    lines = b"8 0 sda 100 0 800 5 0 0 0 0 0 5 5\n8 16 sdb 100 0 800 5 0 0 0 0 0 5 5\n"
    files: Entries = {"proc/diskstats": lines, "proc/self/mountinfo": b""}
    for name in ("sda", "sdb"):
        base = f"sys/block/{name}"
        files |= {f"{base}/queue/rotational": b"1\n", f"{base}/device/vendor": b"ATA\n"}
        files |= {f"{base}/device/hwmon/hwmon1/temp1_input": b"36000\n"}
    watched = Watched(build(files, tmp_path))
    assert [info.temperature_celsius for info in watched.read().values()] == [None, None]
    stats = tmp_path / "proc/diskstats"
    overwrite(stats, stats.read_text().replace("sdb 100", "sdb 101"))
    watched.read(1)
    assert {name: info.temperature_celsius for name, info in watched.read(30).items()} == {"sda": None, "sdb": 36.0}
    assert [info.temperature_celsius for info in watched.read(31).values()] == [None, None]


def test_a_hung_sensor_does_not_block(tmp_path: Path) -> None:
    root = machine("made-laptop", tmp_path)
    waiting: list[object] = []
    temperatures = Temperatures(root, start=waiting.append)
    watched = Watched(root)
    watched.collector = BlockInfoCollector(root, watched.clock, watched.block, watched.mounts, temperatures)
    assert watched.read()["nvme0n1"].temperature_celsius is None
    assert watched.read(31)["nvme0n1"].temperature_celsius is None
    assert len(waiting) == 1, "a second round began while the first hangs"
    waiting[0]()  # type: ignore[operator]
    assert watched.read(1)["nvme0n1"].temperature_celsius == 44.85


def test_a_temperature_from_before_a_sensor_hung_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "sys/block/sda/device/hwmon/hwmon0").mkdir(parents=True)
    (tmp_path / "sys/block/sda/device/hwmon/hwmon0/temp1_input").write_text("36000")
    waiting: list[Callable[[], None]] = []
    temperatures = Temperatures(Root(str(tmp_path)), start=waiting.append)
    ssd = {SDA: BlockInfo("sda", 8, 0, "disk", "sda", transport="ata", rotational=False)}
    temperatures.ask(ssd, active=())
    waiting[0]()
    assert temperatures.celsius == {SDA: 36.0}
    temperatures.ask(ssd, active=())  # the thread hangs in this round
    assert temperatures.celsius == {SDA: 36.0}
    temperatures.ask(ssd, active=())
    assert (temperatures.celsius, len(waiting)) == ({}, 2)
    waiting[1]()
    assert temperatures.celsius == {SDA: 36.0}


def test_temperatures_come_later_if_no_thread_can_start(tmp_path: Path) -> None:
    tries: list[object] = []

    def start(work: Callable[[], None]) -> None:
        tries.append(work)
        if len(tries) == 1:
            raise RuntimeError("can't start new thread")
        work()

    temperatures = Temperatures(machine("made-laptop", tmp_path), start=start)
    disk = BlockInfo("nvme0n1", 259, 0, "disk", "nvme0n1", transport="nvme")
    temperatures.ask({BlockKey("nvme0n1", 0): disk}, active=())
    assert temperatures.celsius == {}
    temperatures.ask({BlockKey("nvme0n1", 0): disk}, active=())
    assert temperatures.celsius == {BlockKey("nvme0n1", 0): 44.85}


@pytest.mark.parametrize(("milli", "celsius"), [("-273150", None), ("-273000", None), ("-5000", -5), ("0", 0)])
def test_a_temperature_of_absolute_zero_is_unknown(milli: str, celsius: float | None, tmp_path: Path) -> None:
    sensor = tmp_path / "sys/block/sda/device/hwmon1/temp1_input"
    sensor.parent.mkdir(parents=True)
    sensor.write_text(f"{milli}\n")
    assert read_temperature(Root(str(tmp_path)), "sda") == celsius


def test_temperatures_are_read_by_a_thread(tmp_path: Path) -> None:
    root = machine("made-laptop", tmp_path)
    temperatures = Temperatures(root)
    infos = Watched(root).read()
    temperatures.ask({BlockKey(name, 0): info for name, info in infos.items()}, set())
    for thread in threading.enumerate():
        if thread.name == "disk-temperature":
            thread.join(5)
    assert temperatures.celsius == {BlockKey("nvme0n1", 0): 44.85}


def read_infos(root: Root) -> dict[str, BlockInfo]:
    return Watched(root).read()


@pytest.mark.parametrize(
    ("device", "port", "best"),
    [
        ("32 GT/s", "16 GT/s", "4x4"),
        ("32.0 GT/s PCIe", "16.0 GT/s PCIe", "4x4"),
        ("32.0 GT/s PCIe", "", "5x4"),
        ("32.0 GT/s PCIe", "Unknown", ""),
        ("Unknown speed", "16.0 GT/s PCIe", ""),
    ],
)
def test_the_best_link_is_unknown_if_one_of_its_limits_is(device: str, port: str, best: str, tmp_path: Path) -> None:
    """Linux 4.17 to 5.7 prints a speed without its fraction."""
    root = machine("made-gpu-server", tmp_path)
    slot = tmp_path / "sys/devices/pci0000:60/0000:60:01.0"
    (slot / "0000:70:00.0/max_link_speed").write_text(f"{device}\n")
    (slot / "max_link_speed").write_text(f"{port}\n")
    assert read_infos(root)["nvme0n1"].pcie_max == best


def many_disks(count: int) -> Entries:
    """The files of sd0, sd1, ... and of the array md0, which diskstats lists last."""
    names = [*(f"sd{number}" for number in range(count)), "md0"]
    lines = "".join(f"8 {number} {name} 1 0 8 1 0 0 0 0 0 1 1\n" for number, name in enumerate(names))
    files: Entries = {"proc/diskstats": lines.encode(), "proc/self/mountinfo": b"", "sys/block/md0/md/degraded": b"0\n"}
    return files | {f"sys/block/{name}/queue/iostats": b"1\n" for name in names}


@pytest.mark.parametrize(("interval_s", "longest_s"), [(1, 55), (5, 55), (60, 60), (600, 600)])
@pytest.mark.parametrize("count", [61, 400])
def test_a_degraded_array_is_noticed_in_time_at_every_interval(
    interval_s: int, longest_s: int, count: int, tmp_path: Path
) -> None:
    watched = Watched(build(many_disks(count), tmp_path))
    for _ in range(1 + 120 // interval_s):
        watched.read(interval_s)
    overwrite(tmp_path / "sys/block/md0/md/degraded", "1\n")
    ages = range(interval_s, longest_s + 1, interval_s)
    assert any("degraded" in watched.read(interval_s)["md0"].detail for _ in ages)


def test_one_tick_of_many_reads_only_a_few_devices_again(tmp_path: Path) -> None:
    watched = Watched(build(many_disks(399), tmp_path))
    watched.read()
    counts = []
    for _ in range(60):
        watched.read(1)
        now_ns = watched.clock.monotonic_ns()
        counts.append(sum(at_ns == now_ns for at_ns in watched.collector._read_ns.values()))
    assert max(counts) == 400 // 25


def diskstats(**reads: int) -> bytes:
    return "".join(f"8 {i} {name} {reads[name]} 0 8 1 0 0 0 0 0 1 1\n" for i, name in enumerate(reads)).encode()


def test_a_busy_disk_whose_accounting_is_switched_off_never_looks_idle(tmp_path: Path) -> None:
    files: Entries = {"proc/diskstats": diskstats(sda=1, sda1=1, sdb=1), "proc/self/mountinfo": b""}
    for name in ("sda", "sdb"):
        files[f"sys/block/{name}/queue/iostats"] = b"1\n"
    watched = Watched(build(files, tmp_path))
    watched.read()
    overwrite(tmp_path / "proc/diskstats", diskstats(sda=2, sda1=2, sdb=2).decode())
    overwrite(tmp_path / "sys/block/sda/queue/iostats", "0\n")
    watched.read(1)
    before = watched.block.read()
    infos = watched.read(1)
    assert {name: info.stats_off for name, info in infos.items()} == {"sda": True, "sda1": True, "sdb": False}
    rates = block_rates(before, watched.block.read(), 1.0, infos)
    assert {key.name: rate.reads_per_s for key, rate in rates.items()} == {"sda": None, "sda1": None, "sdb": 0.0}


def test_the_accounting_of_idle_disks_is_not_read_in_each_tick(tmp_path: Path) -> None:
    watched = Watched(build(many_disks(20), tmp_path))
    watched.read()
    (tmp_path / "sys/block/sd3/queue/iostats").write_text("0\n")
    assert not watched.read(1)["sd3"].stats_off
    assert watched.read(30)["sd3"].stats_off


def test_devices_are_read_again_although_they_may_not_be_listed(tmp_path: Path) -> None:
    watched = Watched(machine("made-gpu-server", tmp_path))
    watched.read()
    overwrite((tmp_path / "sys/block/md0").resolve() / "md/sync_action", "check\n")
    with unreadable(tmp_path / "sys/block"):
        assert watched.read(31)["md0"].md_sync == "check"
