"""Of several mounts on one disk, the one with the job's data, or with the most data, is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iotop_ai.diagnosis.facts.mounts import fullest_mount_on, mount_on, mounts_of_data
from iotop_ai.model.block.counters import BlockInfo, Mount
from iotop_ai.model.job.records import JobMount
from iotop_ai.model.machine.filesystem import FilesystemUsage
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Snapshot
from tests.diagnosis.build import FETCHING, GIB, IDLE, JOB_STARVED, play, snapshot_of


def partition(number: int, mount: str) -> BlockInfo:
    name = f"sda{number}"
    return BlockInfo(name, 8, number, "partition", name, parent="sda", mounts=(Mount(mount, "ext4", f"/dev/{name}"),))


def disk(*mounts: str) -> dict[str, BlockInfo]:
    parts = [partition(number, mount) for number, mount in enumerate(mounts, 1)]
    return {"sda": BlockInfo("sda", 8, 0, "disk", "sda"), **{part.name: part for part in parts}}


LAPTOP = disk("/boot/efi", "/boot", "/", "/data")


def on(path: str, device: str) -> JobMount:
    return JobMount(path, "ext4", "/dev/sda", device)


def test_a_boot_filesystem_is_named_only_if_there_is_no_other() -> None:
    assert mount_on("sda", LAPTOP) == "/"
    assert mount_on("sda", disk("/boot/efi")) == "/boot/efi"
    assert mount_on("sda", disk("/bootstrap", "/data")) == "/bootstrap"


@pytest.mark.parametrize(
    ("job_mounts", "expected"),
    [
        ((on("/data", "8:4"),), ["/data"]),
        ((on("/workspace", "8:4"),), ["/data"]),
        ((on("/data", "0:45"),), ["/data"]),
        ((on("/nfs", "0:50"), on("/", "8:3")), ["/"]),
        ((on("/nfs", "0:50"),), ["/", "/data"]),
        ((), ["/", "/data"]),
    ],
    ids=["its own", "in a container", "by its path", "its second", "elsewhere", "no job"],
)
def test_the_mount_of_the_job_holds_its_data(job_mounts: tuple[JobMount, ...], expected: list[str]) -> None:
    assert mounts_of_data("sda", LAPTOP, job_mounts) == expected


def subvolume(path: str) -> Mount:
    return Mount(path, "btrfs", "/dev/sda", device="0:39", root=f"/@{path}")


def dataset(name: str) -> Mount:
    return Mount(f"/{name}", "zfs", name, device={"tank": "0:50", "tank/data": "0:51"}[name])


@pytest.mark.parametrize(
    ("mounts", "job_mount", "expected"),
    [
        ((subvolume("/"), subvolume("/data")), JobMount("/data", "btrfs", "/dev/sda", "0:39"), ["/data"]),
        ((subvolume("/"), subvolume("/data")), JobMount("/workspace", "btrfs", "/dev/sda", "0:39"), ["/", "/data"]),
        ((dataset("tank"), dataset("tank/data")), JobMount("/workspace", "zfs", "tank/data", "0:51"), ["/tank/data"]),
        ((dataset("tank"), dataset("tank/data")), JobMount("/tank", "zfs", "tank/data", "0:51"), ["/tank/data"]),
        ((dataset("tank"), dataset("tank/data")), JobMount("/y", "zfs", "tank/y", "0:52"), ["/tank", "/tank/data"]),
    ],
    ids=["subvolume", "in a container", "dataset in a container", "another dataset's path", "not listed"],
)
def test_the_mounts_of_the_jobs_btrfs_or_pool_hold_its_data(
    mounts: tuple[Mount, ...], job_mount: JobMount, expected: list[str]
) -> None:
    infos = disk("/other", "/")
    infos["sda2"] = infos["sda2"]._replace(mounts=mounts)
    assert mounts_of_data("sda", infos, (job_mount,)) == expected


def used(gib: int) -> Reading[FilesystemUsage]:
    return Reading(FilesystemUsage(1000 * GIB, (1000 - gib) * GIB, (1000 - gib) * GIB, 0, 0), Status.OK)


def test_a_failing_disk_names_its_mount_with_the_most_data() -> None:
    snapshot: Snapshot = snapshot_of(IDLE, 1)._replace(disks=Reading(LAPTOP, Status.OK))
    usage = {"/boot/efi": used(900), "/": used(40), "/data": used(500)}
    assert fullest_mount_on("sda", snapshot._replace(filesystems=Reading(usage, Status.OK))) == "/data"
    assert fullest_mount_on("sda", snapshot._replace(filesystems=Reading())) == "/"
    assert fullest_mount_on("sdb", snapshot) == ""


def test_the_advice_to_copy_names_the_filesystem_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def advice_for(*job_mounts: JobMount) -> dict[str, object]:
        job = replace(FETCHING, mounts=job_mounts)
        machine = replace(
            JOB_STARVED, job=job, total_bytes=2000 * GIB, available_bytes=1900 * GIB,
            usage={mount: used(100).value or FilesystemUsage(0, 0, 0, 0, 0) for mount in ("/boot/efi", "/", "/data")},
        )  # fmt: skip
        primary = play((machine, 20))[-1].verdict.primary
        return {one.template: dict(one.args).get("source") for one in primary.advice}

    def with_partitions(machine: object, second: int) -> Snapshot:
        snapshot = snapshot_of(machine, second)  # type: ignore[arg-type]
        return snapshot._replace(disks=snapshot.disks._replace(value=LAPTOP))

    monkeypatch.setattr("tests.diagnosis.build.snapshot_of", with_partitions)
    assert advice_for(on("/data", "8:4"))["keep_in_memory"] == "/data"
    assert not {"keep_in_memory", "copy_data"} & advice_for(on("/", "8:3")).keys()
    assert not {"keep_in_memory", "copy_data"} & advice_for(on("/nfs", "0:50")).keys()
