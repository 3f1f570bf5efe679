"""The figures that a condition can name."""

from __future__ import annotations

import pytest

from iotop_ai.model.block.counters import BlockInfo, BlockKey, BlockRates
from iotop_ai.model.condition.figures import _PER_REQUEST, figure_of, values
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from tests.job_times import slow_disk

OF_ALL = {"await_ms", "request_size_bytes"}
"""Figures that are weighted by the number of requests of all kinds."""


def test_a_mean_over_requests_is_weighted_by_requests_of_its_kind() -> None:
    means = {name for name in BlockRates._fields if name.endswith(("await_ms", "_size_bytes"))} - OF_ALL
    assert set(_PER_REQUEST) == means
    assert all(weight[:4] == mean[:4] for mean, weight in _PER_REQUEST.items())


KINDS = {
    "sda": ("disk", ""), "sda1": ("partition", "sda"), "sda2": ("partition", "sda"), "sdb1": ("partition", "sdb"),
    "nvme0n1": ("disk", ""), "nvme0c0n1": ("nvme-path", "nvme0n1"), "dm-0": ("dm", ""), "zram0": ("zram", ""),
    "ram0": ("ram", ""),
}  # fmt: skip
"""The (kind, parent) of each device; the disk sdb has no counters, as in a container that sees only its partition."""


def frame_with_devices() -> Frame:
    """A Frame whose only devices are those of KINDS and "sdc", whose kind is not known yet."""
    frame = slow_disk()[-1]
    table = frame.sample.block.value
    assert table is not None
    rates = next(iter(table.values()))
    infos = {name: BlockInfo(name, 8, 0, kind, name, parent=parent) for name, (kind, parent) in KINDS.items()}
    block = frame.sample.block._replace(value={BlockKey(name, 1): rates for name in (*KINDS, "sdc")})
    disks = frame.snapshot.disks._replace(value=infos)
    return frame._replace(sample=frame.sample._replace(block=block), snapshot=frame.snapshot._replace(disks=disks))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", "sda sdb1 nvme0n1 dm-0 sdc"),
        ("sd*", "sda sdb1 sdc"),
        ("sda?", "sda1 sda2"),
        ("sda1", "sda1"),
        ("nvme*", "nvme0n1"),
        ("zram*", "zram0"),
    ],
)
def test_a_pattern_counts_no_disk_twice(pattern: str, names: str) -> None:
    found = values(figure_of(f"disks.{pattern}.busy_ratio"), frame_with_devices())
    assert [value.name for value in found] == names.split()


@pytest.mark.parametrize(("status", "temperature"), [(Status.OK, 56), (Status.ASLEEP, None)])
def test_the_temperature_of_a_disk_in_standby_is_unknown(status: Status, temperature: int | None) -> None:
    """The collector repeats the last reading of such a disk. Its counts still hold, unlike its temperature."""
    state = SmartState("sda", "ata", "M", "S", "F", "PASS", "ok", (), temperature_celsius=56, reallocated=3)
    frame = slow_disk()[-1]
    smart = Reading({"sda": Reading(state, status)}, Status.OK)
    frame = frame._replace(snapshot=frame.snapshot._replace(smart=smart))
    found = [values(figure_of(f"smart.*.{field}"), frame) for field in ("temperature_celsius", "reallocated")]
    assert [[one.value for one in each] for each in found] == [[temperature], [3]]
