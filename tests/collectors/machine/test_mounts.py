"""mountinfo, and the disks on which a folder lies."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import psutil
import pytest

from iotop_ai.collectors.block.diskstats import BlockCollector
from iotop_ai.collectors.block.inventory import BlockInfoCollector, mounts_by_device
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.mounts import (
    MountsCollector,
    PathDevices,
    every_mount,
    mount_of,
    parse_mountinfo,
    resolve_path_devices,
)
from iotop_ai.model.block.counters import BlockInfo, Mount
from iotop_ai.model.machine.filesystem import fuse_is_remote, is_fuse, is_remote
from tests.machines import machine


def parse(*lines: str) -> tuple[Mount, ...]:
    return parse_mountinfo("".join(line + "\n" for line in lines).encode())


def test_a_mount_below_a_folder_that_a_later_mount_covers_is_left_out() -> None:
    lines = (
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw", "30 22 8:2 / /data/sub rw - ext4 /dev/sda2 rw",
        "32 30 8:3 / /data/sub/deep rw - ext4 /dev/sda3 rw", "31 22 8:4 / /data rw - ext4 /dev/sda4 rw",
        "33 31 8:5 / /data/new rw - ext4 /dev/sda5 rw", "34 22 8:6 / /database rw - ext4 /dev/sda6 rw",
    )  # fmt: skip
    assert [mount.path for mount in parse(*lines)] == ["/", "/data", "/data/new", "/database"]


def test_a_line_becomes_a_mount() -> None:
    found = parse(r"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:4 - ext3 /dev/ro\134ot rw,errors=continue")
    assert found == (Mount("/mnt 2", "ext3", "/dev/ro\\ot", False, "98:0", "/mnt1"),)


def test_only_filesystems_with_data_are_kept() -> None:
    kinds = {
        "proc": "0:1 / /proc", "sysfs": "0:2 / /sys", "cgroup2": "0:3 / /sys/fs/cgroup", "autofs": "0:4 / /net",
        "devtmpfs": "0:5 / /dev", "fuse.lxcfs": "0:6 / /var/lib/lxcfs", "nsfs": "0:7 / /run/netns/a",
        "ext4": "8:1 / /", "nfs4": "0:8 / /home", "fuse.s3fs": "0:9 / /s3", "zfs": "0:10 / /t", "lustre": "0:11 / /l",
        "overlay": "0:12 / /merged", "tmpfs": "0:13 / /dev/shm", "ramfs": "0:14 / /ram", "fuseblk": "8:2 / /win",
    }  # fmt: skip
    found = parse(*(f"20 1 {where} rw - {kind} x rw" for kind, where in kinds.items()))
    assert [m.fstype for m in found] == (
        "ext4 nfs4 fuse.s3fs zfs lustre overlay tmpfs ramfs fuseblk".split()  # noqa: SIM905
    )
    # The system's memory filesystems and empty read-only filesystems have no data of the user's.
    assert parse("20 1 0:13 / /run/user/0 rw - tmpfs t rw", "21 1 0:14 / /x ro - tmpfs t ro") == ()


def test_a_later_mount_hides_the_mount_below_it() -> None:
    assert parse("20 1 8:1 / /a rw - ext4 /dev/sda1 rw", "21 20 8:2 / /a rw - xfs /dev/sda2 rw")[0].fstype == "xfs"
    assert parse("20 1 8:1 / /a rw - ext4 /dev/sda1 rw", "21 20 0:9 / /a rw - autofs x rw") == ()


def test_the_layers_of_an_overlay_are_found() -> None:
    found = parse(r"20 1 0:40 / / rw - overlay overlay rw,lowerdir=/l/1:/l/2\040b,upperdir=/u,workdir=/w")
    assert found[0].layers == ("/u", "/l/1", "/l/2 b")


@pytest.mark.parametrize("line", ["", "36 35 98:0 / /a rw", "x - y", "1 2 3 4 5 6 - ext4", "\x00" * 9])
def test_a_broken_line_is_left_out(line: str) -> None:
    assert [m.path for m in parse(line, "20 1 8:1 / /a rw - ext4 /dev/sda1 rw")] == ["/a"]


def test_a_hostile_mount_point_is_cleaned() -> None:
    found = parse(r"20 1 8:1 / /a\033]0;x\007 rw - ext4 /dev/sda1 rw")
    assert found[0].path == "/a\N{REPLACEMENT CHARACTER}]0;x\N{REPLACEMENT CHARACTER}"


def test_remote_filesystems_are_known_by_their_types() -> None:
    remote = ("nfs", "nfs4", "cifs", "smb3", "lustre", "glusterfs", "wekafs", "9p", "virtiofs", "fuse.sshfs")
    local = ("fuse", "fuseblk", "nfsd", "autofs", "ext4", "zfs", "tmpfs", "")
    assert [kind for kind in (*remote, *local) if is_remote(kind)] == list(remote)


@pytest.mark.parametrize(
    ("fstype", "source", "remote"),
    [
        ("fuse.sshfs", "user@host:/data", True),
        ("fuse.s3fs", "s3fs", True),
        ("fuse.ceph-fuse", "ceph-fuse", True),
        ("fuse.juicefs", "JuiceFS:myjfs", True),
        ("fuse", "mountpoint-s3", True),
        ("fuse", "https://dav.example/x", True),
        ("fuse.somefs", "host:/export", True),
        ("fuse.fuse-overlayfs", "fuse-overlayfs", False),
        ("fuse.mergerfs", "a:b", False),
        ("fuse.squashfuse_ll", "squashfuse_ll", False),
        ("fuse.ntfs-3g", "/dev/sdb1", False),
        ("fuse.bindfs", "/srv/data", False),
        ("fuse.gocryptfs", "/home/u/.cipher", False),
        ("fuse.Editor-1.2.AppImage", "Editor-1.2.AppImage", False),
        ("fuse", "/dev/sdb1", False),
        ("fuse.unheard", "unheard", None),
        ("fuse", "", None),
    ],
)
def test_fuse_servers_are_local_remote_or_unknown(fstype: str, source: str, remote: bool | None) -> None:
    assert is_fuse(fstype)
    assert fuse_is_remote(fstype, source) is remote
    assert is_remote(fstype, source) is (remote is True)


def test_the_collector_returns_the_same_tuple_until_a_mount_changes(tmp_path: Path) -> None:
    collector = MountsCollector(machine("made-laptop", tmp_path))
    first = collector.read()
    assert collector.read() is first
    assert collector.generation == 1
    place = tmp_path / "proc/self/mountinfo"
    place.write_text(place.read_text() + "99 1 8:17 / /new rw - ext4 /dev/sdb1 rw\n")
    assert [m.path for m in collector.read()][-1] == "/new"
    assert collector.generation == 2
    collector.close()
    assert [m.path for m in collector.read()][-1] == "/new"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_new_mount_of_this_machine_is_found_at_the_next_reading(tmp_path: Path) -> None:
    collector = MountsCollector(Root("/"))
    try:
        for _ in range(3):  # while no mount changes, the collector polls the kernel and reads nothing
            before = collector.read()
        done = subprocess.run(["mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip(done.stderr.decode())
        try:
            assert str(tmp_path) in {mount.path for mount in collector.read()}
        finally:
            subprocess.run(["umount", str(tmp_path)], check=True)
        assert collector.read() == before
    finally:
        collector.close()


def test_the_mounts_of_this_machine_equal_those_of_psutil() -> None:
    ours = {m.path: (m.source, m.fstype) for m in MountsCollector(Root()).read() if "/dev/" in m.source}
    theirs = {p.mountpoint: (p.device, p.fstype) for p in psutil.disk_partitions(all=False)}
    assert {path: what for path, what in ours.items() if path in theirs} == theirs


class Box:
    """A captured machine with folders of data."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self.root = machine(name, folder)
        clock = Clock()
        block, mounts = BlockCollector(self.root, clock), MountsCollector(self.root)
        block.read()
        self.mounts = mounts.read()
        self.infos: dict[str, BlockInfo] = BlockInfoCollector(self.root, clock, block, mounts).read()

    def resolve(self, path: str) -> PathDevices:
        (self.folder / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return resolve_path_devices(path, self.mounts, self.infos, self.root)


@pytest.mark.parametrize(
    ("path", "mount", "chain", "devices"),
    [
        ("/raid/in21k", "/raid", "dm-2 md0 nvme0n1", "nvme0n1 nvme1n1 nvme2n1 nvme3n1"),
        ("/srv/data/x", "/srv/data", "dm-2 md0 nvme0n1", "nvme0n1 nvme1n1 nvme2n1 nvme3n1"),
        ("/var/tmp", "/", "dm-0 sda2 sda", "sda"),
        ("/cold data", "/cold data", "dm-3 sdb", "sdb sdc"),
        ("/scratch/a", "/scratch", "nvme4n1", "nvme4n1"),
        ("/mnt/train/0", "/mnt/train", "loop0 dm-2 md0 nvme0n1", "nvme0n1 nvme1n1 nvme2n1 nvme3n1"),
    ],
)
def test_a_folder_leads_to_its_disks(path: str, mount: str, chain: str, devices: str, tmp_path: Path) -> None:
    found = Box("made-gpu-server", tmp_path).resolve(path)
    assert found.mount is not None
    assert found == PathDevices(path, found.mount, tuple(chain.split()), tuple(devices.split()))
    assert found.mount.path == mount


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/home/alice", "nfs4 from nas:/export/home: no disk of this machine"),
        ("/lustre/x", "lustre from 192.0.2.9@o2ib:/fs1: no disk of this machine"),
        ("/dev/shm/x", "tmpfs: it is in memory"),
    ],
)
def test_a_folder_that_is_not_on_a_disk_has_a_reason(path: str, reason: str, tmp_path: Path) -> None:
    found = Box("made-gpu-server", tmp_path).resolve(path)
    assert (found.devices, found.chain, found.reason) == ((), (), reason)


OVER_A_DISK = """
20 1 253:0 / / rw - ext4 /dev/mapper/root rw
21 20 0:5 / /dev rw - devtmpfs udev rw
22 20 0:6 / /run rw - tmpfs tmpfs rw
23 20 0:7 / /huge rw - hugetlbfs hugetlbfs rw,pagesize=2M
24 20 0:8 / /ro ro - tmpfs tmpfs ro
25 20 0:9 / /proc rw - proc proc rw
26 20 0:10 / /secret rw - ecryptfs /scratch/.private rw
27 20 259:8 / /scratch rw - xfs /dev/nvme4n1 rw
28 20 0:11 / /bind rw - fuse.bindfs /scratch/a rw
29 20 0:12 / /pool rw - fuse.mergerfs a:b rw
30 20 0:13 / /odd rw - fuse.unheard unheard rw
31 20 0:14 / /far rw - fuse.sshfs u@h:/x rw
"""


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/dev/mqueue", "devtmpfs: it is in memory"),
        ("/run/user/0/x", "tmpfs: it is in memory"),
        ("/huge/pages", "hugetlbfs: it is in memory"),
        ("/ro/x", "tmpfs: it is in memory"),
        ("/proc/1", "proc is not a known block device"),
        ("/pool/x", "fuse.mergerfs: its server does not report the disk"),
        ("/odd/x", "fuse.unheard: unknown whether it is remote"),
        ("/far/x", "fuse.sshfs from u@h:/x: no disk of this machine"),
    ],
)
def test_a_mount_that_hides_a_folder_of_a_disk_is_not_on_that_disk(path: str, reason: str, tmp_path: Path) -> None:
    box = Box("made-gpu-server", tmp_path)
    box.mounts = every_mount(OVER_A_DISK.encode())
    found = box.resolve(path)
    assert (found.devices, found.reason) == ((), reason)


@pytest.mark.parametrize("path", ["/secret/x", "/bind/y", "/scratch/z"])
def test_a_filesystem_mounted_on_a_folder_is_on_its_own_disk(path: str, tmp_path: Path) -> None:
    box = Box("made-gpu-server", tmp_path)
    box.mounts = every_mount(OVER_A_DISK.encode())
    for folder in ("scratch/.private", "scratch/a"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    found = box.resolve(path)
    assert found.devices == ("nvme4n1",), found.reason


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
@pytest.mark.parametrize("fstype", ["tmpfs", "ramfs", "hugetlbfs"])
def test_a_memory_filesystem_below_run_is_not_on_a_disk(fstype: str) -> None:
    """No such mount counts as data, but each hides the disk below it."""
    at = tempfile.mkdtemp(prefix="iotop-ai-mount-", dir="/run")
    done = subprocess.run(["mount", "-t", fstype, "none", at], capture_output=True, check=False)
    try:
        if done.returncode:
            pytest.skip(done.stderr.decode())
        found = live(at)
        assert (found.devices, found.reason) == ((), f"{fstype}: it is in memory")
    finally:
        if not done.returncode:
            subprocess.run(["umount", at], check=True)
        os.rmdir(at)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_real_overlay_is_on_the_disk_of_its_upper_folder(tmp_path: Path) -> None:
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    merged = str(tmp_path / "merged")
    done = subprocess.run(["mount", "-t", "overlay", "-o", layers, "none", merged], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr.decode())
    try:
        assert live(merged).devices == live(str(tmp_path)).devices
    finally:
        subprocess.run(["umount", merged], check=True)


def live(path: str) -> PathDevices:
    """The devices of a path on this machine."""
    clock, root = Clock(), Root()
    block, mounts = BlockCollector(root, clock), MountsCollector(root)
    block.read()
    mounts.read()
    try:
        return resolve_path_devices(path, mounts.all_mounts(), BlockInfoCollector(root, clock, block, mounts).read())
    finally:
        mounts.close()
        block.close()


def test_btrfs_subvolumes_lead_to_the_disk(tmp_path: Path) -> None:
    found = Box("made-laptop", tmp_path).resolve("/home/u/data")
    assert (found.chain, found.devices) == (("dm-0", "nvme0n1p2", "nvme0n1"), ("nvme0n1",))


@pytest.mark.parametrize("fstype", ["btrfs", "zfs"])
def test_each_of_many_subvolumes_or_datasets_leads_to_the_disk(fstype: str, tmp_path: Path) -> None:
    paths = ["/", *(f"/{name}" for name in "abcdefgh"), "/srv/data"]
    mounts = parse(
        *(f"{30 + i} 20 0:39 /@{i} {path} rw - btrfs /dev/sda2 rw" for i, path in enumerate(paths))
        if fstype == "btrfs"
        else (f"{30 + i} 20 0:{50 + i} / {path} rw - zfs tank{path} rw" for i, path in enumerate(paths))
    )
    root = Root(str(tmp_path))
    infos = {
        "sda": BlockInfo("sda", 8, 0, "disk", "sda"),
        "sda2": BlockInfo("sda2", 8, 2, "partition", "sda2", parent="sda"),
    }
    by_device = mounts_by_device(root, infos, mounts, {"8:2": "tank"})
    infos = {name: info._replace(mounts=tuple(by_device.get(name, ()))) for name, info in infos.items()}
    for path in paths:
        (tmp_path / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        assert resolve_path_devices(path, mounts, infos, root).chain == ("sda2", "sda")


def test_an_overlay_is_followed_into_the_layers_that_can_be_seen(tmp_path: Path) -> None:
    box = Box("made-container", tmp_path)
    assert box.resolve("/opt/x").reason == "its overlay's layers cannot be seen from here"
    assert box.resolve("/data/x").devices == ("nvme0n1",)
    host = Mount("/", "xfs", "/dev/nvme0n1p1", device="259:1")
    merged = Mount("/merged", "overlay", "overlay", device="0:77", layers=("/no/such", "/lower"))
    (tmp_path / "lower").mkdir()
    box.mounts = (host, merged)
    found = box.resolve("/merged/file")
    assert (found.devices, found.mount) == (("nvme0n1",), merged)


def test_links_are_resolved_first(tmp_path: Path) -> None:
    box = Box("made-gpu-server", tmp_path)
    (tmp_path / "raid/set").mkdir(parents=True)
    (tmp_path / "link").symlink_to("raid/set")
    found = resolve_path_devices("/link", box.mounts, box.infos, box.root)
    assert (found.path, len(found.devices)) == ("/raid/set", 4)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    box = Box("made-gpu-server", tmp_path)
    with pytest.raises(FileNotFoundError):
        resolve_path_devices("/no/such", box.mounts, box.infos, box.root)


def test_this_file_lies_on_a_disk_of_this_machine() -> None:
    clock, root = Clock(), Root()
    block, mounts = BlockCollector(root, clock), MountsCollector(root)
    block.read()
    mounts.read()
    infos = BlockInfoCollector(root, clock, block, mounts).read()
    found = resolve_path_devices(__file__, mounts.mounts, infos)
    assert found.mount == mount_of(os.path.realpath(__file__), mounts.mounts)
    if not found.devices:
        pytest.skip(f"no disk to be seen here: {found.reason}")
    assert set(found.devices) <= set(infos)
