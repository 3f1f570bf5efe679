"""Functions that all imports share."""

from __future__ import annotations

import pytest

from iotop_ai.sources.imports.common import device_info


@pytest.mark.parametrize(
    ("name", "kind", "parent"),
    [
        ("sda", "disk", ""),
        ("sda1", "partition", "sda"),
        ("nvme0n1p2", "partition", "nvme0n1"),
        ("rbd0", "disk", ""),
        ("rbd0p1", "partition", "rbd0"),
        ("pmem0p1", "partition", "pmem0"),
        ("bcache0p3", "partition", "bcache0"),
        ("dasda1", "partition", "dasda"),
        ("zd16p1", "partition", "zd16"),
        ("md127p1", "partition", "md127"),
        ("vg-home", "dm", ""),
    ],
)
def test_the_kind_and_parent_of_a_device_follow_from_its_name(name: str, kind: str, parent: str) -> None:
    info = device_info(name)
    assert (info.kind, info.parent) == (kind, parent)
