"""ZFS, btrfs and Lustre: files modelled on the documented formats, and a real btrfs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.base import Unavailable
from iotop_ai.collectors.block.inventory import BlockInfoCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine import zfs_members
from iotop_ai.collectors.machine.mounts import MountsCollector, resolve_path_devices
from iotop_ai.collectors.machine.pool import MOST_DATASETS, PoolCollector, parse_llite, parse_pool_io
from iotop_ai.collectors.machine.zfs_members import ZfsMembers, parse_udev
from iotop_ai.export.json.machine import system_object
from iotop_ai.export.tables.frames import tables
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.frame import Frame
from iotop_ai.model.machine.pool import ArcCounters, BtrfsErrors, PoolTable, ProgramIo, pool_rates
from iotop_ai.pipeline import frames
from iotop_ai.present.machine.trouble import host_problems, zfs_cache
from tests.export.make import S, ok, snapshot
from tests.rigs.slowdisk.loop import attach, detach, run

ARC = (
    "13 1 0x01 147 39984 4096215370 126325401250\nname                            type data\n"
    "hits                            4    {hits}\nmisses                          4    {misses}\n"
    "size                            4    8589934592\nc_max                           4    17179869184\n"
    "c_min                           4    1073741824\n"
    "memory_available_bytes          3    -4096\n"
)
OBJSET = (
    "31 1 0x01 7 2160 5214787391 73405258558961\nname                            type data\n"
    "dataset_name                    7    tank/data\nwrites                          4    {writes}\n"
    "nwritten                        4    {nwritten}\nreads                           4    {reads}\n"
    "nread                           4    {nread}\nnunlinks                        4    0\nnunlinked     4    0\n"
)
POOL_IO = (
    "12 3 0x00 1 80 1001 2002\nnread    nwritten reads    writes   wtime    wlentime wupdate  rtime    rlentime "
    "rupdate  wcnt     rcnt\n1884160  3206144  22       153      1 2 3 4 5 6 0 0\n"
)
LLITE = (
    "snapshot_time             1406823834.123456 secs.usecs\n"
    "read_bytes                4 samples [bytes] 0 4194304 12582912\n"
    "write_bytes               33 samples [bytes] 72 4096 135168 9\nopen                      5 samples [regs]\n"
    "getattr                   9 samples [usecs] 1 2 3\n"
)
UUID = "1234abcd-0000-1111-2222-333344445555"


class Mounts:
    """Stands in for the collector of mounts."""

    def __init__(self, *mounts: Mount) -> None:
        self.mounts = mounts


ALL = Mounts(
    Mount("/tank", "zfs", "tank/data", device="0:41"),
    Mount("/pool", "btrfs", "/dev/sdb1", device="0:42"),
    Mount("/scratch", "lustre", "10.0.0.1@o2ib:/scratch", device="0:43"),
)


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    put(
        tmp_path,
        {
            "proc/spl/kstat/zfs/arcstats": ARC.format(hits=900, misses=100),
            "proc/spl/kstat/zfs/tank/objset-0x36": OBJSET.format(writes=1, nwritten=10, reads=2, nread=4000),
            "proc/spl/kstat/zfs/tank/objset-0x41": OBJSET.format(writes=1, nwritten=10, reads=3, nread=6000),
            f"sys/fs/btrfs/{UUID}/label": "data\n",
            f"sys/fs/btrfs/{UUID}/devinfo/1/error_stats": (
                "write_errs 1\nread_errs 2\nflush_errs 0\ncorruption_errs 3\ngeneration_errs 0\n"
            ),
            "proc/fs/lustre/llite/scratch-ffff8800/stats": LLITE,
        },
    )
    return tmp_path


def test_each_filesystem_has_its_own_parser(tree: Path) -> None:
    table = PoolCollector(Root(str(tree)), ALL).read()
    assert table == PoolTable(
        ArcCounters(900, 100, 8 << 30, 16 << 30, None, 1 << 30),
        {"tank": ProgramIo(10_000, 20, 5, 2)},
        {UUID: BtrfsErrors("data", 1, 2, 0, 3, 0)},
        {"scratch-ffff8800": ProgramIo(12_582_912, 135_168, 4, 33, 5)},
    )
    assert table.btrfs[UUID].whole == 6
    assert parse_pool_io(POOL_IO.encode()) == ProgramIo(1_884_160, 3_206_144, 22, 153)
    put(tree, {"proc/spl/kstat/zfs/tank/io": POOL_IO})
    assert PoolCollector(Root(str(tree)), ALL).read().zfs["tank"].reads == 5, "the reads are not those of the datasets"
    for name in ("0x36", "0x41"):
        (tree / f"proc/spl/kstat/zfs/tank/objset-{name}").unlink()
    assert PoolCollector(Root(str(tree)), ALL).read().zfs["tank"].reads == 22


def test_the_counts_of_a_pool_do_not_fall_when_a_dataset_is_unmounted(tree: Path) -> None:
    """The bytes of an unmounted dataset still count. A dataset begins at 0 each time it is mounted."""
    collector = PoolCollector(Root(str(tree)), ALL)
    folder = "proc/spl/kstat/zfs/tank"

    def nread(**sets: int) -> int | None:
        for path in (tree / folder).glob("objset-*"):
            path.unlink()
        put(
            tree,
            {f"{folder}/objset-{n}": OBJSET.format(writes=0, nwritten=0, reads=0, nread=v) for n, v in sets.items()},
        )
        return collector.read().zfs["tank"].read_bytes

    assert nread(a=4000, b=6000) == 10_000
    assert nread(b=6500) == 10_500
    assert nread(a=20, b=6600) == 10_620
    assert nread(a=10, b=6600) == 10_630
    put(tree, {f"{folder}/objset-b": ""})
    assert collector.read().zfs["tank"].read_bytes == 10_630, "the bytes changed though the pool was not read"
    assert nread(a=10, b=6601) == 10_631
    assert nread(**{f"s{n:03}": 1 for n in range(MOST_DATASETS + 1)}) is None


def test_a_dataset_that_cannot_be_read_at_first_does_not_add_the_bytes_of_its_whole_life(tree: Path) -> None:
    collector = PoolCollector(Root(str(tree)), ALL)
    path = "proc/spl/kstat/zfs/tank/objset-0x41"
    found = []
    for text in ("", OBJSET.format(writes=9, nwritten=9, reads=9, nread=6_000_000)):
        put(tree, {path: text})
        found.append(collector.read())
    rates = pool_rates(found[0], found[1], 2.0).zfs["tank"]
    assert (rates.read_bytes_per_s, rates.writes_per_s) == (0.0, 0.0)
    put(tree, {path: OBJSET.format(writes=9, nwritten=9, reads=9, nread=6_000_500)})
    assert pool_rates(found[1], collector.read(), 2.0).zfs["tank"].read_bytes_per_s == 250.0


def test_without_a_mount_of_these_kinds_nothing_is_read(tmp_path: Path, tree: Path) -> None:
    with pytest.raises(Unavailable, match="no ZFS, btrfs or Lustre"):
        PoolCollector(Root(str(tree)), Mounts(Mount("/", "ext4", "/dev/sda1"))).read()
    bare = PoolCollector(Root(str(tmp_path / "none")), ALL).read()
    assert bare == PoolTable(ArcCounters(), {"tank": ProgramIo()}, {}, {})
    assert BtrfsErrors().whole is None
    assert parse_llite(b"") == ProgramIo()
    assert parse_llite(b"snapshot_time 1.2 secs.usecs\n") == ProgramIo(0, 0, 0, 0, 0)


def test_reads_that_waited_for_a_running_read_are_not_hits_of_the_cache(tree: Path) -> None:
    collector = PoolCollector(Root(str(tree)), ALL)
    arc = tree / "proc/spl/kstat/zfs/arcstats"
    tables = []
    for hits, misses, waited in ((900, 100, 10), (960, 120, 30)):
        arc.write_text(ARC.format(hits=hits, misses=misses) + f"iohits    4    {waited}\n")
        tables.append(collector.read())
    assert pool_rates(tables[0], tables[1], 1.0).arc_hit_ratio == 0.6


def test_errors_of_a_btrfs_with_a_missing_device_are_unknown(tree: Path) -> None:
    """They are known if another device has errors."""
    stats = f"sys/fs/btrfs/{UUID}/devinfo/{{}}/error_stats"
    put(tree, {stats.format(2): "invalid\n"})
    collector = PoolCollector(Root(str(tree)), ALL)
    assert collector.read().btrfs[UUID].whole == 6
    put(tree, {stats.format(1): (tree / stats.format(1)).read_text().translate({ord(n): "0" for n in "123"})})
    assert collector.read().btrfs[UUID] == BtrfsErrors("data")


def test_errors_of_a_btrfs_with_a_device_that_cannot_be_read_are_unknown(tree: Path) -> None:
    put(tree, {f"sys/fs/btrfs/{UUID}/devinfo/1/error_stats": "write_errs 0\nread_errs 0\n"})
    collector = PoolCollector(Root(str(tree)), ALL)
    assert collector.read().btrfs[UUID].whole == 0
    (tree / f"sys/fs/btrfs/{UUID}/devinfo/2").mkdir()
    assert collector.read().btrfs[UUID] == BtrfsErrors("data")


def shown(tree: Path) -> Frame:
    collector = PoolCollector(Root(str(tree)), ALL)
    before = snapshot(0, 2 * S, pools=ok(collector.read(), 2 * S))
    put(
        tree,
        {
            "proc/spl/kstat/zfs/arcstats": ARC.format(hits=1200, misses=200),
            "proc/spl/kstat/zfs/tank/objset-0x41": OBJSET.format(writes=1, nwritten=10, reads=13, nread=26_000),
            "proc/fs/lustre/llite/scratch-ffff8800/stats": LLITE.replace("12582912", "14582912"),
        },
    )
    *_, last = frames((before, snapshot(1, 4 * S, pools=ok(collector.read(), 4 * S))))
    return last


def test_rates_are_in_the_json_in_the_table_and_on_the_screen(tree: Path) -> None:
    frame = shown(tree)
    found = system_object(frame)["pools"]
    assert (found["arc_hit_ratio"], found["arc_bytes"], found["arc_limit_bytes"]) == (0.75, 8 << 30, 16 << 30)
    assert (found["zfs"]["tank"]["read_bytes_per_s"], found["zfs"]["tank"]["reads_per_s"]) == (10_000.0, 5.0)
    assert found["lustre"]["scratch-ffff8800"]["read_bytes_per_s"] == 1_000_000.0
    assert found["btrfs"][UUID]["corruption"] == 3
    (table,) = (one for one in tables() if one.name == "pools")
    assert [row[2:5] for row in table.rows(frame)] == [
        ("zfs", "tank", 10_000.0),
        ("lustre", "scratch-ffff8800", 1_000_000.0),
    ]
    assert "".join(span.text for span in zfs_cache(frame)) == "arc 8G 75 % hit"
    assert ["".join(span.text for span in part) for part in host_problems(frame)] == ["btrfs data 6 errors"]
    assert pool_rates(None, PoolTable(), None).arc_hit_ratio is None


def test_the_disks_of_a_zfs_pool_come_from_udev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_udev(b"S:x\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n") == "tank"
    assert parse_udev(b"E:ID_FS_TYPE=ext4\nE:ID_FS_LABEL=tank\n") == ""
    note = "E:ID_FS_LABEL=tank\nE:ID_FS_TYPE=zfs_member\n"
    files = {"proc/self/mountinfo": "50 1 0:41 / /tank rw - zfs tank/data rw\n"}
    for number, name in enumerate(("sda", "sdb", "sdc")):
        files[f"sys/class/block/{name}/dev"] = f"8:{number * 16}\n"
        files[f"sys/class/block/{name}/size"] = "1000\n"
        if name != "sdc":
            files[f"run/udev/data/b8:{number * 16}"] = note
    put(tmp_path, files)
    for name in ("sda", "sdb", "sdc"):
        folder = tmp_path / "sys/block"
        folder.mkdir(exist_ok=True)
        (folder / name).symlink_to(f"../class/block/{name}")
    root = Root(str(tmp_path))
    mounts = MountsCollector(root)
    mounts.read()
    info = BlockInfoCollector(root, Clock(), None, mounts)
    info.read()
    assert info._members.wait(5)
    table = info.read()
    assert [name for name, one in table.items() if one.mounts] == ["sda", "sdb"]
    (tmp_path / "tank").mkdir()
    assert resolve_path_devices("/tank", mounts.mounts, table, root).devices == ("sda", "sdb")
    info.close()
    for number in range(3):
        (tmp_path / f"run/udev/data/+pci:{number}").write_text("E:X=1\n")
    monkeypatch.setattr(zfs_members, "_MOST_DEVICES", 2)
    members = ZfsMembers(root)
    members.ask()
    assert members.wait(5)
    assert members.pools == {"8:0": "tank", "8:16": "tank"}, "other files counted against the limit of devices"
    silent = ZfsMembers(Root(str(tmp_path / "none")))
    silent.ask()
    assert silent.wait(5)
    assert silent.pools == {}


@pytest.fixture
def btrfs(tmp_path: Path) -> Iterator[Path]:
    """A real btrfs on a loop device, which is mounted at this folder."""
    if os.geteuid() or not shutil.which("mkfs.btrfs"):
        pytest.skip("needs root and mkfs.btrfs (btrfs-progs)")
    image, here = tmp_path / "image", tmp_path / "here"
    with image.open("wb") as file:
        file.truncate(128 << 20)
    here.mkdir()
    run("mkfs.btrfs", "-q", "-L", "itest", str(image))
    node = attach(image)
    try:
        run("mount", node, str(here))
        yield here
        subprocess.run(["umount", str(here)], check=False)
    finally:
        detach(node)


def test_a_real_btrfs_reports_its_errors(btrfs: Path) -> None:
    root = Root()
    mounts = MountsCollector(root)
    assert any(mount.path == str(btrfs) for mount in mounts.read())
    found = PoolCollector(root, mounts).read()
    assert BtrfsErrors("itest", 0, 0, 0, 0, 0) in found.btrfs.values()
