"""The device from which a job reads."""

from __future__ import annotations

import pytest

from iotop_ai.diagnosis.facts.gather import gather
from iotop_ai.diagnosis.facts.job import job_device
from iotop_ai.model.block.counters import Mount
from iotop_ai.model.job.records import JobMount
from tests.diagnosis.build import JOB_ALONE, play

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
    """The device has the job's mount but delivers far more than the job reads, so its rate does not tell."""
    frame = play((JOB_ALONE, 15))[-1]
    facts = gather(frame.snapshot, frame.history, carry=frame.carry)
    job = facts.jobs[0]
    assert job.read_bytes_per_s
    device = facts.devices[0]
    device = device._replace(info=device.info._replace(mounts=(listed,)), read_bytes_per_s=100 * job.read_bytes_per_s)
    job = job._replace(place=job.place._replace(mounts=(mount,)))
    assert job_device(job, (device,), facts.limits.carried_share) is (device if found else None)
