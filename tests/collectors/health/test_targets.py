"""The smartctl type of a disk, and the disks behind a controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.collectors.health.targets import (
    Disk,
    behind_controllers,
    is_behind_controller,
    smart_disks,
    type_in_name,
    volume_reason,
    with_given_types,
    without_smart,
)
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.health.volume import DISKS_QUERIED, NOT_QUERIED, bus_in
from tests.machines import machine


@pytest.mark.parametrize(
    ("kind", "is_one_of_several"),
    [
        ("megaraid,3", True), ("sat+megaraid,3", True), ("areca,2/1", True), ("jmb39x-q,1+sat", True),
        ("sat,12", False), ("sat,auto", False), ("usbjmicron,x", False), ("sat", False), ("nvme", False),
    ],
)  # fmt: skip
def test_a_type_with_a_comma_may_belong_to_a_single_disk(kind: str, is_one_of_several: bool) -> None:
    assert is_behind_controller(kind) is is_one_of_several
    (disk, *behind) = with_given_types((Disk("sdb", "/dev/sdb", "sat"),), (("sdb", kind),))
    assert (disk.name, bool(behind), disk.reason != "") == ("sdb", is_one_of_several, is_one_of_several)


def test_disks_with_the_same_number_on_two_controllers_are_both_kept() -> None:
    named = with_given_types((Disk("sda", "/dev/sda", "scsi"),), (("sda", "megaraid,3"),))
    one, two = ("/dev/bus/0", "megaraid,3"), ("/dev/bus/1", "sat+megaraid,3")
    assert behind_controllers((one,), named) == ()
    assert [disk.name for disk in behind_controllers((one, two), named)] == ["bus/0/megaraid,3", "bus/1/sat+megaraid,3"]


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("bus/0/sat+megaraid,3", ("bus/0", "sat+megaraid,3")),
        ("bus/0/sat", None), ("bus/0", None), ("sda/megaraid,3", None), ("bus/0;/megaraid,3", None),
        ("bus/0/megaraid,3 -t long", None), ("", None),
    ],
)  # fmt: skip
def test_a_name_with_a_bus_has_a_type(name: str, type_: tuple[str, str] | None) -> None:
    assert type_in_name(name) == type_


def test_a_volume_belongs_to_the_bus_of_its_scsi_host(tmp_path: Path) -> None:
    for name, host in (("sda", 1), ("sdb", 2), ("sdc", 3)):
        (tmp_path / "sys/block" / name).mkdir(parents=True)
        (tmp_path / "sys/block" / name / "device").symlink_to(f"../../../{host}:2:0:0")
    root = Root(str(tmp_path))
    behind = [Disk(f"{node}/megaraid,0", f"/dev/{node}", "megaraid,0") for node in ("bus/1", "bus/2", "sdd")]
    reasons = {name: volume_reason(root, name, behind) for name in ("sda", "sdb", "sdc", "sdd", "unknown")}
    assert {name: bus_in(reason) for name, reason in reasons.items()} == {
        "sda": "bus/1", "sdb": "bus/2", "sdc": "", "sdd": "", "unknown": "",
    }  # fmt: skip
    assert [reasons[name] for name in ("sdc", "sdd", "unknown")] == [NOT_QUERIED, DISKS_QUERIED, NOT_QUERIED]
    assert bus_in(volume_reason(root, "unknown", behind[:1])) == "bus/1"
    generic = tmp_path / "sys/class/scsi_generic/sg4"
    generic.mkdir(parents=True)
    (generic / "device").symlink_to("../../../3:0:16:0")
    areca = [*behind, Disk("sg4/areca,1", "/dev/sg4", "areca,1")]
    assert [bus_in(volume_reason(root, name, areca)) for name in ("sda", "sdc")] == ["bus/1", "sg4"]


def test_a_disk_that_we_cannot_query_has_its_serial_number_from_sysfs(tmp_path: Path) -> None:
    root = machine("made-gpu-server", tmp_path)
    found = {disk.name: without_smart(root, disk).serial for disk in smart_disks(root) if disk.kind != "nvme"}
    assert found == {"sda": "S664NE0R123456", "sdb": "ZR5ABCDE", "sdc": "ZR5ABCDE"}
    assert without_smart(root, Disk("sda/megaraid,3", "/dev/sda", "megaraid,3")).serial == ""
