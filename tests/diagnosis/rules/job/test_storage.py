"""The cause of a wait for data whose files are on a partition or on several disks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.model.job.records import JobMount
from iotop_ai.present.verdict.cures import advice_text
from iotop_ai.present.verdict.headline import because, text_of
from tests.diagnosis.build import FETCHING, JOB_STARVED, MB, SLOW_SSD, Disk, Machine, Task, verdict_of

JOB = replace(FETCHING, time=(("data_disk", 0.8), ("compute", 0.2)))
DATA = JobMount("/data", "ext4", "/dev/sda1", "8:1")
PARTITION = Disk("sda1", kind="partition", parent="sda")
SLOW = replace(SLOW_SSD, mount="", queue=7.9)


def cause(mount: JobMount, *disks: Disk, more: tuple[Task, ...] = (), unreadable: bool = False) -> tuple[str, object]:
    """(the class that the verdict names, the disk that it names)."""
    tasks = tuple(replace(task, denied=unreadable) for task in (*JOB_STARVED.tasks, *more))
    machine: Machine = replace(JOB_STARVED, disks=disks, tasks=tasks, job=replace(JOB, mounts=(mount,)))
    primary = verdict_of(machine, 40).primary
    return primary.class_id, dict(primary.args).get("device")


def test_a_job_on_a_partition_is_slowed_by_a_neighbour_on_its_disk() -> None:
    other = Task(900, "rsync", 1, cpu=0.3, read=900 * MB)
    disk = replace(SLOW, read_bytes_per_s=988 * MB, queue=90.0)
    assert cause(DATA, disk, PARTITION, more=(other,)) == ("noisy_neighbour", "sda")


def test_a_job_on_a_partition_waits_for_its_disk_and_not_for_another_one() -> None:
    other = Disk("sdb", mount="/backup", read_bytes_per_s=60 * MB, await_ms=300.0, busy=1.0, queue=20.0)
    assert cause(DATA, SLOW, PARTITION, other) == ("storage_read", "sda")


def test_a_job_on_a_partition_whose_reads_are_unreadable_waits_for_its_disk() -> None:
    assert cause(DATA, SLOW, PARTITION, unreadable=True) == ("storage_read", "sda")


@pytest.mark.parametrize("fstype", ["btrfs", "zfs"])
@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize("await_ms", [35.0, 60.0])
def test_many_busy_disks_below_one_filesystem_are_not_an_io_limit(fstype: str, count: int, await_ms: float) -> None:
    disks = (
        Disk(
            f"sd{letter}",
            rotational=True,
            mount="/tank",
            fstype=fstype,
            read_bytes_per_s=88 * MB / count,
            await_ms=await_ms,
            busy=1.0,
            queue=7.9 / count,
        )
        for letter in "abcdefgh"[:count]
    )
    assert cause(JobMount("/tank", fstype, "tank", "0:45"), *disks) == ("storage_read", "sda")


IDLE_SDB = Disk("sdb", mount="/tank", fstype="zfs")


@pytest.mark.parametrize(
    ("second", "found"),
    [
        (IDLE_SDB, "io_limit"),
        (replace(IDLE_SDB, write_bytes_per_s=1 * MB, await_ms=0.5, queue=0.1), "io_limit"),
        (replace(IDLE_SDB, unknown=True), "storage_read"),
        (replace(IDLE_SDB, kind="zvol"), "storage_read"),
        (replace(IDLE_SDB, write_bytes_per_s=1 * MB, await_ms=0.5, queue=8.0), "storage_read"),
        (replace(IDLE_SDB, write_bytes_per_s=1 * MB, await_ms=90.0, queue=0.1), "storage_read"),
    ],
    ids=["idle", "hardly used", "unknown rates", "without facts", "full queue", "high await"],
)
def test_a_limit_above_the_disks_is_found_only_if_all_are_known_and_hardly_used(second: Disk, found: str) -> None:
    assert cause(JobMount("/tank", "zfs", "tank", "0:45"), replace(IDLE_SDB, name="sda"), second) == (found, None)


@pytest.mark.parametrize(
    ("detail", "await_ms", "queue", "expected"),
    [
        ("NVMe over tcp", 4.2, 4.0, "storage_read"),
        ("NVMe over tcp", 4.2, 1.0, "loader_serial"),
        ("NVMe over tcp", 0.3, 4.0, "loader_serial"),
        ("", 0.3, 4.0, "loader_serial"),
    ],
    ids=["at its limit", "one reader", "quick answers", "local"],
)
def test_more_reads_at_once_gain_nothing_from_a_volume_at_its_limit(
    detail: str, await_ms: float, queue: float, expected: str
) -> None:
    """The loaders read 125 MB/s at the normal latency of the device, which is busy all the time."""
    disk = Disk(
        "nvme1n1", "nvme", read_bytes_per_s=125 * MB, await_ms=await_ms, busy=1.0, queue=queue, major=259, detail=detail
    )
    mount = JobMount("/data", "ext4", "/dev/nvme1n1", f"{disk.info.major}:{disk.info.minor}")
    loaders = tuple(replace(task, read=31.25 * MB) for task in JOB.workers[:4])
    job = replace(JOB, workers=loaders, blocked=queue, mounts=(mount,))
    verdict = verdict_of(replace(JOB_STARVED, job=job, tasks=(job.task, *loaders), disks=(disk,)), 80)
    assert verdict.primary.class_id == expected
    is_limit = expected == "storage_read"
    assert ("nvme1n1 119 MB/s steadily: the volume's limit" in text_of(because(verdict))) is is_limit
    assert ("num_workers" in " ".join(map(advice_text, verdict.primary.advice))) is not is_limit
