"""The job's share of a disk's bytes, by its cgroup's counters, or else by what its processes read, or else unknown."""

from __future__ import annotations

import pytest

from iotop_ai.model.block.counters import Mount
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.cgroup import Cgroup, CgroupIo, CgroupTable, cgroup_rates
from iotop_ai.model.job.records import Job, JobMount, JobPlace, JobTable, Rank
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Rated, Reading, Status
from iotop_ai.present.block.devices import panel_devices
from iotop_ai.present.block.job_share import share_text
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.screen.view import View
from tests.present.make import MIB, Disk, Machine, Proc, disk, frame, snapshots

UTC = View(utc_offset_s=0)
KEY = ProcessKey(7, 7)
PATH = "/slurm/job_1"


def machine(second: int, *, written: int = 0, own: int = 30) -> Machine:
    """A machine whose sda reads 20 MB/s in even seconds and 60 MB/s in odd ones."""
    read = 60 if second % 2 else 20
    sda = disk("sda", mounts=[("/data", "ext4")])._replace(minor=1)
    rest = disk("sdb")._replace(minor=2)
    writes = {"writes": written, "write_bytes": written * MIB, "write_await": 1.0}
    drive = Disk(sda, reads=read, read_bytes=read * MIB, read_await=1.0, **writes)
    return Machine((drive, Disk(rest)), (Proc(7, "train.py", read=own * MIB),))


ON_SDA = JobMount("/data", "ext4", "/dev/sda", "8:1")


def with_job(shown: Frame, mount: JobMount = ON_SDA) -> Frame:
    job = Job(KEY, "train.py", "alice", 1000, (Rank(KEY),))
    place = JobPlace(mounts=(mount,))
    return shown._replace(
        snapshot=shown.snapshot._replace(jobs=Reading(JobTable({KEY: job}, places={KEY: place}), Status.OK))
    )


def with_cgroup(shown: Frame, read: int | None, *, listed: str = "8:1") -> Frame:
    """The Frame with a cgroup for its job. The cgroup is read every 2 s, and its newest reading is a second old."""

    def table(total: int | None) -> CgroupTable:
        return CgroupTable({PATH: Cgroup({listed: CgroupIo(total, 0, 1, 1)})}, {KEY: PATH})

    rates = cgroup_rates(table(None if read is None else 0), table(None if read is None else 2 * read * MIB), 2.0)
    new, old = Rated(rates, 1, 2.0, renewed=True), Rated(rates, 1, 2.0)
    history = [sample._replace(cgroups=old) for sample in shown.history]
    history[-2] = history[-2]._replace(cgroups=new)
    snapshot = shown.snapshot._replace(cgroups=Reading(table(read), Status.OK))
    return shown._replace(snapshot=snapshot, sample=history[-1], history=tuple(history))


def test_an_idle_process_of_the_job_does_not_make_its_share_unknown() -> None:
    shown = with_job(frame(snapshots(lambda i: machine(i)._replace(procs=(*machine(i).procs, Proc(8, "helper"))), 10)))
    helper = ProcessKey(8, 8)
    table = shown.snapshot.jobs.value
    assert table is not None
    job = table.jobs[KEY]._replace(helpers=(helper,))
    jobs = shown.snapshot.jobs._replace(value=table._replace(jobs={KEY: job}))
    shown = shown._replace(snapshot=shown.snapshot._replace(jobs=jobs))
    assert share(shown) == share(with_job(shown))
    assert share(shown) != "?"


def share(shown: Frame, name: str = "sda", view: View = UTC) -> str:
    return share_text(shown, view, next(d for d in panel_devices(shown, view) if d.name == name))


BUSY = with_job(frame(snapshots(machine, 9)))


@pytest.mark.parametrize(("read", "text"), [(0, "0"), (10, "25"), (40, "100"), (44, "100")])
def test_bytes_of_the_cgroup_are_compared_with_the_disk_over_the_same_time(read: int, text: str) -> None:
    assert share(with_cgroup(BUSY, read)) == text


def test_a_device_that_the_cgroup_never_used_has_a_share_of_zero() -> None:
    assert share(with_cgroup(BUSY, 40, listed="8:9")) == "0"


def test_without_a_cgroup_the_share_is_what_the_processes_read() -> None:
    calm = with_job(frame(snapshots(lambda i: machine(1, own=15), 9)))
    assert share(calm) == "25"
    assert share(with_cgroup(calm, None)) == "25"


def test_the_share_is_that_of_the_latest_interval_while_the_user_accumulates() -> None:
    seconds = list(snapshots(lambda i: machine(int(i > 4), own=15), 9))
    assert share(with_job(frame(seconds)), view=UTC._replace(base=seconds[0])) == "25"


def test_the_share_is_unknown_if_the_disk_writes_or_the_job_reads_another_disk() -> None:
    assert share(with_job(frame(snapshots(lambda i: machine(1, written=20), 9)))) == "?"
    assert share(with_job(frame(snapshots(lambda i: machine(1, own=90), 9)))) == "?"
    hidden = with_job(frame(snapshots(lambda i: machine(1)._replace(procs=()), 9)))
    assert share(hidden) == "?"


def test_the_share_of_one_of_the_disks_of_a_pool_is_unknown() -> None:
    pool = (Mount("/tank", "zfs", "tank", device="0:50"),)

    def on_two_disks(second: int) -> Machine:
        one = machine(1, own=15)
        return one._replace(disks=tuple(d._replace(info=d.info._replace(mounts=pool)) for d in one.disks))

    shown = with_job(frame(snapshots(on_two_disks, 9)), JobMount("/data", "zfs", "tank/data", "0:51"))
    assert share(shown) == "?"


def test_a_disk_without_bytes_has_no_share() -> None:
    assert share(BUSY, "sdb") == "-"


def test_the_column_needs_a_job_and_160_columns() -> None:
    assert " job% " in block_rows(BUSY, UTC, 160, 4)[0].text
    assert " job% " not in block_rows(frame(snapshots(machine, 9)), UTC, 160, 4)[0].text
    assert "job%" not in block_rows(BUSY, UTC, 80, 4)[0].text
