"""The device from which a job reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.facts.block import DeviceFacts
from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.diagnosis.facts.job import job_device
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.job.records import JobMount
from tests.diagnosis.build import JOB_ALONE, MB, Disk, play

POOL = Mount("/tank", "zfs", "tank", device="0:50")
BTRFS = Mount("/", "btrfs", "/dev/sda", device="0:39", root="/@")


@pytest.mark.parametrize(
    ("listed", "mount", "found"),
    [
        (POOL, JobMount("/tank/data", "zfs", "tank/data", "0:51"), True),
        (POOL, JobMount("/data", "zfs", "tank/data", "0:51"), True),
        (POOL, JobMount("/data", "zfs", "other/data", "0:51"), False),
        (BTRFS, JobMount("/srv/data", "btrfs", "/dev/sdb", "0:39"), True),
        (BTRFS, JobMount("/srv/data", "btrfs", "/dev/sdc", "0:40"), False),
    ],
)
def test_a_mount_that_the_device_does_not_list_is_found_by_its_storage(
    listed: Mount, mount: JobMount, found: bool
) -> None:
    """The device delivers far more than the job reads, so only its mounts can show that the job reads from it."""
    frame = play((JOB_ALONE, 15))[-1]
    facts = gather(frame.snapshot, frame.history, carry=frame.carry)
    job = facts.jobs[0]
    assert job.read_bytes_per_s
    device = facts.devices[0]
    device = device._replace(info=device.info._replace(mounts=(listed,)), read_bytes_per_s=100 * job.read_bytes_per_s)
    job = job._replace(place=job.place._replace(mounts=(mount,)))
    assert job_device(job, (device,), {device.name: device.info}) is (device if found else None)


DATA = JobMount("/data", "ext4", "/dev/sda1", "8:1")
TANK = JobMount("/tank", "zfs", "tank/data", "0:45")
WHOLE = Disk(mount="", read_bytes_per_s=880 * MB, await_ms=8.0, queue=7.0)
PARTITION = Disk("sda1", kind="partition", parent="sda")


def device_of(mount: JobMount, *disks: Disk) -> DeviceFacts | None:
    """The device of a job that reads 88 MB/s from the mount."""
    assert JOB_ALONE.job is not None
    frame = play((replace(JOB_ALONE, disks=disks, job=replace(JOB_ALONE.job, mounts=(mount,))), 15))[-1]
    facts = gather(frame.snapshot, frame.history, carry=frame.carry)
    return facts.job_device(facts.jobs[0])


def test_a_job_on_a_partition_reads_from_its_disk() -> None:
    device = device_of(DATA, WHOLE, PARTITION)
    assert device is not None
    assert device.name == "sda"


@pytest.mark.parametrize("own", [WHOLE, replace(WHOLE, read_bytes_per_s=0.0)], ids=["busy", "idle"])
def test_another_disk_with_the_rate_of_the_job_is_not_its_disk(own: Disk) -> None:
    other = Disk("sdb", mount="/backup", read_bytes_per_s=80 * MB, await_ms=300.0)
    device = device_of(DATA, own, PARTITION, other)
    assert (None if device is None else device.name) == ("sda" if own is WHOLE else None)


def test_the_device_number_tells_the_mounts_of_a_container_and_the_machine_apart() -> None:
    other = Disk("sdb", mount="/srv", read_bytes_per_s=80 * MB, await_ms=8.0)
    device = device_of(DATA._replace(device="8:16"), replace(WHOLE, mount="/data"), other)
    assert device is not None
    assert device.name == "sdb"


def test_the_disk_of_an_overlay_is_likely_the_one_with_its_mount_point() -> None:
    overlay = JobMount("/", "overlay", "overlay", "0:60")
    root = Disk("sdb", mount="/", read_bytes_per_s=880 * MB, await_ms=8.0)
    device = device_of(overlay, WHOLE, PARTITION, root)
    assert device is not None
    assert device.name == "sdb"
    other = replace(WHOLE, read_bytes_per_s=88 * MB)
    device = device_of(overlay, other, PARTITION, replace(root, read_bytes_per_s=1 * MB))
    assert device is not None
    assert device.name == "sda", "the root delivers too little, another disk as much as the job reads"


def test_the_disks_of_one_filesystem_count_together() -> None:
    def member(name: str, read: float, await_ms: float) -> Disk:
        return Disk(
            name, mount="/tank", fstype="zfs", read_bytes_per_s=read * MB, await_ms=await_ms, queue=2.0, busy=0.1
        )

    device = device_of(
        TANK, member("sda", 12.0, 0.8), member("sdb", 36.0, 20.0), Disk("sdc", mount="/tank", fstype="zfs")
    )
    assert device is not None
    assert (device.name, device.members) == ("sdb", ("sda", "sdb")), "the slow disk gives its name"
    assert device.read_bytes_per_s == pytest.approx(48 * MB)
    assert device.queue_size == pytest.approx(4.0)
    assert device.read_await_ms == pytest.approx((0.8 + 3 * 20.0) / 4)
    assert all(device.slow)
    calm = device_of(TANK, *(member(f"sd{letter}", 11.0, 0.8) for letter in "abcdefgh"))
    assert calm is not None
    assert (calm.name, len(calm.members)) == ("sda", 8), "each of them has less than a fifth of the job's bytes"
    assert not any(calm.slow)
