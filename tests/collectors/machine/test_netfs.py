"""mountstats and FUSE connections of captured machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.mounts import MountsCollector, every_mount
from iotop_ai.collectors.machine.netfs import NetfsCollector, parse_mountstats
from iotop_ai.model.machine.netfs import FuseMount, NetfsTable, NfsMount, NfsOp
from tests.machines import build, machine


def collector(root: Root) -> NetfsCollector:
    mounts = MountsCollector(root)
    mounts.read()
    return NetfsCollector(root, mounts)


def test_a_server_with_nfs_and_fuse_is_read(tmp_path: Path) -> None:
    table = collector(machine("made-gpu-server", tmp_path)).read()
    assert table == NetfsTable(
        nfs={
            "/home": NfsMount(
                mount="/home", source="nas:/export/home", fstype="nfs4", normal_read_bytes=2097152000,
                normal_write_bytes=10485760, direct_read_bytes=1048576, direct_write_bytes=0,
                server_read_bytes=1048576000, server_write_bytes=10485760, sends=800 + 713, backlog=40 + 20,
                ops={
                    "NULL": NfsOp(1, 1, 0, 44, 24, 0, 0, 0, 0),
                    "READ": NfsOp(1000, 1002, 0, 192000, 1048712000, 900, 12000, 13100, 0),
                    "WRITE": NfsOp(10, 10, 0, 10487680, 1360, 4, 60, 66, 0),
                    "GETATTR": NfsOp(500, 500, 0, 84000, 120000, 3, 250, 300, 2),
                },
                age_s=86400, rsize=1 << 20, nconnect=2,
            )
        },
        fuse={"51": FuseMount("/mnt/s3", "s3fs", "fuse.s3fs", 3, 12)},
    )  # fmt: skip


def test_an_export_mounted_twice_counts_once(tmp_path: Path) -> None:
    table = collector(machine("made-nfs-client-4.19", tmp_path)).read()
    assert list(table.nfs) == ["/data", "/scratch"]
    data = table.nfs["/data"]
    assert (data.sends, data.backlog, data.age_s) == (40, 5, 500)
    assert (data.rsize, data.nconnect) == (None, 1), "its mount options name neither"
    assert data.ops == {"READ": NfsOp(40, 40, 0, 100, 200, 1, 2, 3, None)}


def home(user: str) -> dict[str, str]:
    """The lines of mountinfo and mountstats for one user's home folder."""
    return {
        "mountinfo": f"30 1 0:45 / /home/{user} rw - nfs4 srv:/home/{user} rw\n",
        "mountstats": f"device srv:/home/{user} mounted on /home/{user} with fstype nfs4 statvers=1.1\n"
        "\tage:\t85\n\tbytes:\t1000 2000 0 0 1000 2000 1 1\n",
    }


def test_exports_of_one_filesystem_of_the_server_count_once(tmp_path: Path) -> None:
    """The client has one device, and thus one set of counters, for all folders of a filesystem of the server."""
    homes = [home(user) for user in ("alice", "bob")]
    files = {f"proc/self/{name}": "".join(lines[name] for lines in homes).encode() for name in homes[0]}
    nfs = collector(build(files, tmp_path)).read().nfs
    assert {path: (mount.source, mount.server_read_bytes) for path, mount in nfs.items()} == {
        "/home/bob": ("srv:/home/bob", 1000)
    }


@pytest.mark.parametrize("name", ["made-laptop", "vm-6.18", "made-container"])
def test_without_nfs_and_fuse_the_table_is_empty(name: str, tmp_path: Path) -> None:
    assert collector(machine(name, tmp_path)).read() == NetfsTable({}, {})


def test_fuse_without_fusectl_is_unknown_and_not_zero(tmp_path: Path) -> None:
    root = machine("made-gpu-server", tmp_path)
    (tmp_path / "sys/fs/fuse/connections/51/waiting").unlink()
    (tmp_path / "sys/fs/fuse/connections/51/max_background").unlink()
    assert collector(root).read().fuse == {"51": FuseMount("/mnt/s3", "s3fs", "fuse.s3fs", None, None)}


def test_a_connection_of_another_namespace_has_no_mount(tmp_path: Path) -> None:
    root = machine("made-laptop", tmp_path)
    place = tmp_path / "sys/fs/fuse/connections/60/waiting"
    place.parent.mkdir(parents=True)
    place.write_text("2\n")
    assert collector(root).read().fuse == {"60": FuseMount("", "", "fuse", 2, None)}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no device here\n",
        b"device a mounted on /b with fstype ext4\n",
        b"device s:/ mounted on /n with fstype nfs statvers=1.1\n\tbytes:\t1 2 3\n",
        b"device s:/ mounted on /n with fstype nfs statvers=1.1\n\tbytes:\ta b c d e f g h\n",
    ],
)
def test_blocks_of_other_filesystems_are_left_out(raw: bytes) -> None:
    assert parse_mountstats(raw) == {}


def test_the_source_equals_that_in_mountinfo() -> None:
    raw = b"device s:/a\\043b\\040c mounted on /n with fstype nfs statvers=1.1\n\tbytes:\t1 2 3 4 5 6 7 8\n"
    (mount,) = every_mount(b"36 35 0:4 / /n rw - nfs s:/a\\043b\\040c rw")
    assert parse_mountstats(raw)["/n"].source == mount.source == "s:/a#b c"


def test_a_broken_line_does_not_affect_the_rest_of_its_mount() -> None:
    raw = (
        b"device s:/ mounted on /a\\040b with fstype nfs statvers=1.1\n\tage:\tx\n\tbytes:\t1 2 3 4 5 6 7 8\n"
        b"\txprt:\ttcp 1 2\n\tper-op statistics\n\t READ: 1 2 3\n\t WRITE: 1 1 0 1 1 1 1 1\n\t OPEN: a b c d e f g h\n"
    )
    found = parse_mountstats(raw)["/a b"]
    assert (found.age_s, found.sends, list(found.ops)) == (None, None, ["WRITE"])
