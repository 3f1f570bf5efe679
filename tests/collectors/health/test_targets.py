"""The smartctl type of a disk, and the disks behind a controller."""

from __future__ import annotations

import pytest

from iotop_ai.collectors.health.targets import Disk, behind_controllers, is_behind_controller, with_given_types


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
