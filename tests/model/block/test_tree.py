"""How devices are stacked: rows, leaves and mounts, in made-up tables and in tables of any shape."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from iotop_ai.model.block.counters import BlockInfo, Mount
from iotop_ai.model.block.tree import (
    DeviceRow,
    chain_below,
    device_rows,
    devices_of_mount,
    disks_of_mount,
    hidden_when_idle,
    leaves_below,
    mount_of,
    mounts_on,
    partitions_of,
)
from iotop_ai.model.job.records import JobMount
from tests.examples import quick_or


def table(*infos: BlockInfo) -> dict[str, BlockInfo]:
    """The devices by name. Their holders are derived from their slaves."""
    return {
        i.name: i._replace(holders=tuple(o.name for o in infos if i.name in o.slaves), minor=n)
        for n, i in enumerate(infos)
    }


def disk(name: str, **more: object) -> BlockInfo:
    return BlockInfo(name, 8, 0, "disk", name, size_bytes=1)._replace(**more)  # type: ignore[arg-type]


def part(name: str, of: str, *mounts: Mount) -> BlockInfo:
    return BlockInfo(name, 8, 0, "partition", name, parent=of, mounts=mounts)


def stack(name: str, *slaves: str, label: str = "", mounts: tuple[Mount, ...] = ()) -> BlockInfo:
    kind = "md" if name.startswith("md") else "dm"
    return BlockInfo(name, 9, 0, kind, label or name, slaves=slaves, mounts=mounts)


ROOT, DATA, HOME = (Mount(p, "ext4", "x") for p in ("/", "/data", "/home"))


def rows(*infos: BlockInfo) -> list[str]:
    """The titles of the rows, indented if they are folded under another row."""
    return ["  " * row.depth + row.title for row in device_rows(table(*infos))]


def test_partitions_and_volumes_are_folded_under_their_disk() -> None:
    assert rows(
        stack("dm-0", "sda2", label="vg/root"), disk("sda"), part("sda1", "sda", ROOT), part("sda2", "sda"), disk("sdb")
    ) == ["sda", "  vg/root", "  sda1", "  sda2", "sdb"]


def test_an_array_has_a_row_with_its_disks_and_its_volumes() -> None:
    shown = rows(disk("a"), disk("b"), part("b1", "b"), stack("md0", "a", "b1"), stack("dm-0", "md0", label="crypt"))
    assert shown == ["md0 x2", "  a", "  b", "  b1", "  crypt"]


def test_a_disk_that_serves_more_than_the_array_keeps_its_row() -> None:
    shown = rows(disk("a"), part("a1", "a", ROOT), part("a2", "a"), disk("b"), stack("md0", "a2", "b"))
    assert shown == ["a", "  a1", "  a2", "md0 x2", "  b"]
    two_arrays = rows(
        disk("a"),
        part("a1", "a"),
        part("a2", "a"),
        disk("b"),
        disk("c"),
        stack("md0", "a1", "b"),
        stack("md1", "a2", "c"),
    )
    assert two_arrays == ["a", "  a1", "  a2", "md0 x2", "  b", "md1 x2", "  c"]


def test_multipath_paths_are_folded_under_their_head() -> None:
    head = disk("nvme0n1")
    path = disk("nvme0c1n1", kind="nvme-path", parent="nvme0n1")
    assert device_rows(table(path, head)) == (
        DeviceRow("nvme0n1", "nvme0n1"),
        DeviceRow("nvme0c1n1", "nvme0c1n1", 1, "nvme0n1", member=True),
    )


def test_devices_that_are_hidden_when_idle_come_last() -> None:
    loop = BlockInfo("loop0", 7, 0, "loop", "loop0", below=("sda",))
    assert rows(loop, disk("nbd0", size_bytes=0), disk("sda")) == ["sda", "loop0", "nbd0"]
    assert hidden_when_idle(loop)
    assert not hidden_when_idle(disk("sdb", size_bytes=None))


def test_devices_that_the_user_selected_are_rows_without_their_parents() -> None:
    infos = table(disk("sda"), part("sda1", "sda"))
    assert device_rows(infos, ["sda1", "gone"]) == (DeviceRow("sda1", "sda1"),)


def test_leaves_and_the_chain_to_them_are_found() -> None:
    infos = table(
        disk("a"),
        part("a1", "a"),
        disk("b"),
        stack("md0", "a1", "b"),
        stack("dm-0", "md0"),
        BlockInfo("loop0", 7, 0, "loop", "l", below=("dm-0",)),
    )
    assert leaves_below("loop0", infos) == ("a", "b")
    assert leaves_below("a1", infos) == ("a",)
    assert leaves_below("gone", infos) == ()
    assert chain_below("loop0", infos) == ("loop0", "dm-0", "md0", "a1", "a")
    assert partitions_of("a", infos) == ("a1",)


def test_mounts_on_a_disk_include_the_devices_above_it() -> None:
    infos = table(disk("a"), part("a1", "a", ROOT), part("a2", "a"), stack("dm-0", "a2", mounts=(DATA, ROOT)))
    assert mounts_on("a", infos) == (ROOT, DATA)
    assert mounts_on("gone", infos) == ()


def test_the_longest_mount_point_that_contains_a_path_is_its_mount() -> None:
    found = {path: mount_of(path, (ROOT, DATA, HOME)) for path in ("/data", "/data/x", "/database", "/", "/home/a")}
    assert found == {"/data": DATA, "/data/x": DATA, "/database": ROOT, "/": ROOT, "/home/a": HOME}
    assert mount_of("/x", (DATA,)) is None


def test_devices_of_a_mount_are_found_by_number_or_as_members() -> None:
    pool = Mount("/pool", "btrfs", "/dev/a", device="0:39")
    infos = table(disk("a", mounts=(pool,)), disk("b", mounts=(pool,)), disk("c"))
    assert devices_of_mount(pool, infos) == ("a", "b")
    assert devices_of_mount(Mount("/c", "ext4", "/dev/c", device="8:2"), infos) == ("c",)
    assert devices_of_mount(Mount("/n", "nfs4", "srv:/n", device="0:50"), infos) == ()


def test_a_mount_that_is_not_listed_is_on_the_devices_of_its_filesystem_or_pool() -> None:
    """A device lists only the mounts with the shortest paths; a job in a container has other paths."""
    btrfs = Mount("/", "btrfs", "/dev/a", device="0:39", root="/@")
    zfs = Mount("/tank", "zfs", "tank", device="0:50")
    infos = table(disk("a", mounts=(btrfs,)), disk("b", mounts=(btrfs,)), disk("c", mounts=(zfs,)))
    for mount, devices in (
        (Mount("/srv/data", "btrfs", "/dev/b", device="0:39", root="/@data"), ("a", "b")),
        (Mount("/srv/data", "btrfs", "/dev/d", device="0:40"), ()),
        (Mount("/srv/data", "btrfs", "/dev/a"), ()),
        (Mount("/tank/data", "zfs", "tank/data", device="0:51"), ("c",)),
        (Mount("/tank2/data", "zfs", "tank2/data", device="0:52"), ()),
        (Mount("/x", "overlay", "tank", device="0:39"), ()),
    ):
        assert devices_of_mount(mount, infos) == devices


def test_a_mount_is_matched_to_devices_by_number_and_only_without_one_by_path() -> None:
    infos = table(disk("a", mounts=(DATA,)), disk("b", mounts=(Mount("/srv", "ext4", "/dev/b"),)))
    assert devices_of_mount(JobMount(DATA.path, "ext4", "/dev/b", "8:1"), infos) == ("b",)
    assert devices_of_mount(JobMount(DATA.path, "ext4", "/dev/a", ""), infos) == ("a",)
    for fstype in ("overlay", "nfs4", "tmpfs"):
        assert devices_of_mount(JobMount(DATA.path, fstype, "x", "0:60"), infos) == ()


def test_the_disks_of_a_mount_are_named_instead_of_their_partitions() -> None:
    pool = Mount("/tank", "zfs", "tank", device="0:50")
    parts = (part("a1", "a", pool), part("a2", "a", pool), part("c1", "c", pool))
    infos = table(disk("a"), *parts, disk("b", mounts=(pool,)))
    assert disks_of_mount(JobMount("/x", "zfs", "tank/data", "0:51"), infos) == ("a", "c1", "b")


links = st.lists(st.sampled_from(["a", "b", "md0", "dm-0", "dm-1", "loop0", "gone"]), max_size=3, unique=True)
kinds = st.sampled_from(["disk", "partition", "dm", "md", "loop", "nvme-path", "zram"])


@st.composite
def tangles(draw: st.DrawFn) -> dict[str, BlockInfo]:
    """Tables of any shape, including impossible shapes with cycles or missing parents."""
    names = draw(st.lists(st.sampled_from(["a", "b", "md0", "dm-0", "dm-1", "loop0"]), unique=True))
    infos = {}
    for name in names:
        parent = draw(st.sampled_from(["a", "b", "gone", ""]))
        infos[name] = BlockInfo(
            name, 1, 1, draw(kinds), name, parent=parent, slaves=tuple(draw(links)), holders=tuple(draw(links))
        )
    return infos


@settings(max_examples=quick_or(40, 200))
@given(tangles())
def test_every_device_is_shown_exactly_once(infos: dict[str, BlockInfo]) -> None:
    shown = device_rows(infos)
    assert sorted(row.name for row in shown) == sorted(infos)
    tops = [row.name for row in shown if row.depth == 0]
    assert all(row.under in tops for row in shown if row.depth)
    for name in infos:
        assert set(leaves_below(name, infos)) <= set(infos)
        assert len(chain_below(name, infos)) <= len(infos)
