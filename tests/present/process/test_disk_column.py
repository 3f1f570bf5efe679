"""The disk that the row of a process names."""

from __future__ import annotations

import pytest

from iotop_ai.model.block.counters import Mount
from iotop_ai.model.job.records import Job, JobMount, JobPlace, JobTable, Rank
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.process.disk_column import disk_of
from iotop_ai.present.process.groups import groups
from iotop_ai.present.screen.view import View
from tests.present.make import MIB, Disk, Machine, Proc, disk, frame, snapshots

VIEW = View(interval_s=1.0, utc_offset_s=0)
READER = (Proc(1, "reader", read=MIB),)
BUSY, IDLE = Disk(disk("vda"), 8, MIB, 1.0), Disk(disk("vda"))
LOOP = Disk(disk("loop0", "loop"), 8, MIB, 1.0)


@pytest.mark.parametrize(
    ("disks", "named"), [((BUSY,), "vda"), ((IDLE, LOOP), "loop0"), ((BUSY, LOOP), "?"), ((IDLE,), "?")]
)
def test_the_only_disk_with_reads_is_the_disk_of_a_reader(disks: tuple[Disk, ...], named: str) -> None:
    one = frame(snapshots(lambda i: Machine(disks=disks, procs=READER), 4))
    (group,) = groups(one, VIEW)
    assert disk_of(group, one, VIEW) == named


WRITTEN = Disk(disk("vda"), writes=8, write_bytes=MIB, write_await=1.0)


@pytest.mark.parametrize(
    ("disks", "reader", "writer", "both"),
    [
        ((IDLE, LOOP), "loop0", "?", "?"),  # the writer's bytes are in the page cache of vda
        ((WRITTEN, LOOP), "loop0", "vda", "?"),
        ((WRITTEN,), "?", "vda", "?"),
        ((WRITTEN._replace(reads=8, read_bytes=MIB),), "vda", "vda", "vda"),
        ((WRITTEN._replace(reads=8, read_bytes=MIB), LOOP), "?", "vda", "?"),
    ],
)
def test_a_disk_that_only_reads_is_not_the_disk_of_a_writer(
    disks: tuple[Disk, ...], reader: str, writer: str, both: str
) -> None:
    procs = (*READER, Proc(2, "writer", write=MIB), Proc(3, "both", read=MIB, write=MIB))
    one = frame(snapshots(lambda i: Machine(disks=disks, procs=procs), 4))
    named = {group.name: disk_of(group, one, VIEW) for group in groups(one, VIEW)}
    assert named == {"reader": reader, "writer": writer, "both": both}


def test_the_disk_of_a_writer_may_have_written_earlier_in_the_history() -> None:
    def machine(second: int) -> Machine:
        return Machine(disks=(WRITTEN if second < 2 else IDLE, LOOP), procs=(Proc(2, "writer", write=MIB),))

    one = frame(snapshots(machine, 6))
    (group,) = groups(one, VIEW)
    assert disk_of(group, one, VIEW) == "vda"


def test_the_disk_of_unreadable_io_is_unknown() -> None:
    secret = Proc(2, "secret", "eve", cpu=0.5, denied=True)
    one = frame(snapshots(lambda i: Machine(disks=(BUSY,), procs=(*READER, secret)), 4))
    assert {group.name: disk_of(group, one, VIEW) for group in groups(one, VIEW)} == {"reader": "vda", "secret": "?"}


@pytest.mark.parametrize(
    ("fstype", "source", "named"), [("nfs4", "nas:/data", "network"), ("btrfs", "/dev/vdb", "?"), ("overlay", "", "?")]
)
def test_only_a_remote_mount_without_a_device_counts_as_the_network(fstype: str, source: str, named: str) -> None:
    assert disk_of_a_job_on(JobMount("/data", fstype, source, "0:45"), BUSY, LOOP) == named


def disk_of_a_job_on(mount: JobMount, *disks: Disk) -> str:
    one = frame(snapshots(lambda i: Machine(disks=disks, procs=READER), 4))
    table = one.snapshot.processes.value
    assert table is not None
    key: ProcessKey = next(key for key in table.info if key.pid == 1)
    jobs = {key: Job(key, "train.py", "alice", 1000, (Rank(key),))}
    table_of_jobs = JobTable(jobs, places={key: JobPlace(mounts=(mount,))})
    made = one._replace(snapshot=one.snapshot._replace(jobs=Reading(table_of_jobs, Status.OK)))
    (group,) = groups(made, VIEW)
    return disk_of(group, made, VIEW)


@pytest.mark.parametrize("path", ["/data", "/workspace"], ids=["of the machine", "of a container"])
def test_the_disks_of_a_job_on_btrfs_are_those_of_its_partitions(path: str) -> None:
    subvolume = Mount("/data", "btrfs", "/dev/vda2", device="0:45", root="/@data")
    part = disk("vda2", "partition", parent="vda")._replace(mounts=(subvolume,), minor=2)
    job_mount = JobMount(path, "btrfs", "/dev/vda2", "0:45")
    assert disk_of_a_job_on(job_mount, BUSY, Disk(part), LOOP) == "vda"
    second = disk("vdb")._replace(mounts=(subvolume,), minor=16)
    assert disk_of_a_job_on(job_mount, BUSY, Disk(part), Disk(second), LOOP) == "vda +1"
