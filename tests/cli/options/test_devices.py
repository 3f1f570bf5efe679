from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.cli.options.devices import devices_of_path, matching_devices, resolve_devices
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.block.counters import BlockInfo, Mount
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.settings import Settings

INFOS = {
    "sda": BlockInfo("sda", 8, 0, "disk", "sda"),
    "sda1": BlockInfo("sda1", 8, 1, "partition", "sda1", parent="sda"),
    "nvme0n1": BlockInfo("nvme0n1", 259, 0, "disk", "nvme0n1", holders=("dm-0",)),
    "dm-0": BlockInfo("dm-0", 253, 0, "dm", "vg/data", slaves=("nvme0n1",)),
    "loop3": BlockInfo("loop3", 7, 3, "loop", "loop3"),
}


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("sda", ["sda"]),
        ("/dev/sda1", ["sda1"]),
        ("vg/data", ["dm-0"]),
        ("sd*", ["sda", "sda1"]),
        ("nvme?n1", ["nvme0n1"]),
        ("ALL", list(INFOS)),
    ],
)
def test_devices_are_found_by_every_kind_of_name(word: str, names: list[str]) -> None:
    assert matching_devices(word, INFOS) == names


def test_an_unknown_name_is_refused_with_a_list_of_devices_without_unused_loops() -> None:
    mounted = INFOS["loop3"]._replace(name="loop0", label="loop0", mounts=(Mount("/mnt/data", "ext4", "/dev/loop0"),))
    for infos, more in ((INFOS, ""), ({"loop0": mounted, **INFOS}, ", loop0")):
        with pytest.raises(UsageError) as caught:
            matching_devices("hda", infos)
        assert str(caught.value) == f"no device 'hda'; devices: sda, sda1, nvme0n1, dm-0 (vg/data){more}"


def test_a_machine_without_devices_is_reported() -> None:
    with pytest.raises(UsageError, match="this machine has none"):
        matching_devices("hda", {})


def device_of(path: Path) -> str:
    """The major and minor number of the path's device, as mountinfo writes them."""
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_a_folder_on_a_volume_selects_the_volume_and_its_disk(tmp_path: Path) -> None:
    mounts = (
        Mount("/", "ext4", "/dev/sda1", device="8:1"),
        Mount(str(tmp_path), "xfs", "/dev/dm-0", device=device_of(tmp_path)),
    )
    infos = {**INFOS, "dm-0": INFOS["dm-0"]._replace(mounts=mounts[1:])}
    assert devices_of_path(str(tmp_path), mounts, infos, Root("/")) == ["dm-0", "nvme0n1"]


def test_a_kernel_filesystem_mounted_on_top_of_a_disk_has_no_disk() -> None:
    mounts = (Mount("/", "ext4", "/dev/sda1", device="8:1"),)
    with pytest.raises(UnknownError, match="not on a disk"):
        devices_of_path("/proc", mounts, INFOS, Root("/"))


def test_a_folder_in_memory_has_no_disk(tmp_path: Path) -> None:
    mounts = (Mount(str(tmp_path), "tmpfs", "tmpfs", device="0:40"),)
    with pytest.raises(UnknownError, match="memory"):
        devices_of_path(str(tmp_path), mounts, INFOS, Root("/"))


def test_missing_diskstats_make_the_list_of_devices_unknown(tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match="cannot list devices: No such file or directory"):
        resolve_devices(Settings(devices=("sda",)), Root(str(tmp_path)))


def test_without_a_name_nothing_is_read() -> None:
    settings = Settings()
    assert resolve_devices(settings, Root("/nonexistent")) is settings


def test_devices_of_this_machine_are_found() -> None:
    names = [name for name in os.listdir("/sys/block") if not name.startswith(("loop", "ram"))]
    if not names:
        pytest.skip("no disk here")
    assert resolve_devices(Settings(devices=(names[0], names[0]))).devices == (names[0],)
    with pytest.raises(UsageError, match="no folder"):
        resolve_devices(Settings(path="/no/such/folder"))
