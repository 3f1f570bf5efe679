"""The graphs, the path and the table describe the same machine: no row of the table contradicts a sentence."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from iotop_ai.model.block.counters import Mount
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job, JobMount, JobPlace, JobTable, Rank
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from iotop_ai.present.block import devices
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.job.data_path import path_rows
from iotop_ai.present.job.screen import jobs_screen_rows
from iotop_ai.present.preflight.storage_dialog import proposed_path
from iotop_ai.present.process.groups import groups
from iotop_ai.present.process.table import process_rows
from iotop_ai.present.screen.graph_panel import graph_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.verdict.plain_text import verdict_block
from tests.diagnosis.build import JOB_ALONE, play
from tests.diagnosis.build import Disk as DiagnosedDisk
from tests.present.make import MIB, Disk, Machine, Proc, disk, frame, snapshots
from tests.scenarios.keep import VERDICTS
from tests.scenarios.keep import snapshots as recorded

UTC = View(utc_offset_s=0)
RECORDED = ("mem_pressure", "checkpoint_write", "save_in_a_thread", "storage_read")
DRIVE = disk("vda", mounts=[("/", "ext4")])


def reading_after_a_burst_of_writes(second: int) -> Machine:
    """A disk that writes 60 MB/s for 40 s, and then reads 9 MB/s while it writes a little."""
    if second < 40:
        return Machine((Disk(DRIVE, writes=60, write_bytes=60 * MIB, write_await=2.0),), (Proc(7, "cat"),))
    drive = Disk(DRIVE, reads=90, read_bytes=9 * MIB, read_await=1.0, writes=2, write_bytes=8192, write_await=1.0)
    return Machine((drive,), (Proc(7, "cat", read=9 * MIB),))


def test_after_a_burst_of_writes_the_graph_and_the_path_show_reads() -> None:
    shown = frame(snapshots(reading_after_a_burst_of_writes, 61))
    texts = [line.text for line in graph_rows(shown, UTC, 80, 4)]
    assert texts[2].split()[:4] == ["vda", "r+w", "9.0", "MB/s"]
    assert path_rows(shown, UTC, 80, 3)[1].text.startswith(" alice cat reads › / ext4 › vda")
    tall = [line.text.split()[:3] for line in graph_rows(shown, UTC, 160, 13)]
    assert ["vda", "read", "9.0"] in tall
    assert ["vda", "wr", "<0.1"] in tall


def test_wide_characters_in_the_path_take_two_columns() -> None:
    folder = "/" + "数据" * 12
    drive = Disk(disk("vda", mounts=[(folder, "ext4")]), reads=90, read_bytes=9 * MIB, read_await=1.0)
    shown = frame(snapshots(lambda second: Machine((drive,), (Proc(7, "cat", read=9 * MIB),)), 8))
    assert path_rows(shown, UTC, 74, 3)[1].text.rstrip() == f" alice cat reads › {folder} › vda"
    assert path_rows(shown, UTC, 80, 3)[1].text.startswith(f" alice cat reads › {folder} ext4 › vda")


def test_a_process_that_only_writes_is_named_even_if_the_disk_reads() -> None:
    drive = Disk(DRIVE, reads=9, read_bytes=MIB // 2, read_await=1.0)
    shown = frame(snapshots(lambda second: Machine((drive,), (Proc(8, "dd", write=3 * MIB),)), 8))
    assert process_rows(shown, UTC, 80, 5)[1].text.split()[:2] == ["dd", "alice"]
    assert path_rows(shown, UTC, 80, 3)[1].text.startswith(" alice dd writes › /")


@pytest.mark.parametrize("view", [UTC, UTC._replace(tree=True), UTC._replace(sort="name"), UTC._replace(pattern="sh")])
def test_the_path_names_the_same_process_however_processes_are_listed(view: View) -> None:
    procs = (Proc(1, "init", ppid=0), Proc(10, "shell"), Proc(11, "cat", ppid=10, read=9 * MIB))
    drive = Disk(DRIVE, reads=90, read_bytes=9 * MIB, read_await=1.0)
    shown = frame(snapshots(lambda second: Machine((drive,), procs), 8))
    assert path_rows(shown, view, 80, 3)[1].text.startswith(" alice cat reads › / ext4 › vda")


def test_the_path_compares_the_latest_rates_while_the_user_accumulates() -> None:
    def slower_after_20_s(second: int) -> Machine:
        rate, reader = (90, "tar") if second < 20 else (9, "cat")
        procs = (Proc(pid, name, read=rate * MIB * (name == reader)) for pid, name in ((7, "cat"), (8, "tar")))
        return Machine((Disk(DRIVE, reads=90, read_bytes=rate * MIB, read_await=1.0),), tuple(procs))

    seconds = list(snapshots(slower_after_20_s, 31))
    assert path_rows(frame(seconds), UTC._replace(base=seconds[2]), 80, 3)[1].text.startswith(" alice cat reads › /")


@pytest.mark.parametrize(
    ("name", "label"), [("vda", "vda r+w"), ("loop0", "loop0 rw"), ("loop10", "loop10"), ("mapper-a", "mappe rw")]
)
def test_the_label_of_a_graph_keeps_a_short_name_whole(name: str, label: str) -> None:
    drive = Disk(disk(name), reads=90, read_bytes=9 * MIB, read_await=1.0, writes=9, write_bytes=MIB, write_await=1.0)
    shown = frame(snapshots(lambda second: Machine((drive,), (Proc(7, "cat", read=9 * MIB),)), 8))
    assert graph_rows(shown, UTC, 80, 4)[2].text[1:9].strip() == label


@cache
def played(name: str) -> tuple[Frame, ...]:
    return tuple(frames(recorded(Path(VERDICTS / f"{name}.iotop.jsonl.gz"))))


@pytest.mark.parametrize("name", RECORDED)
def test_no_sentence_about_a_recording_contradicts_its_tables(name: str) -> None:
    for shown in played(name)[3::4]:
        path = path_rows(shown, UTC, 160, 3)[1].text
        moving = [group.label for group in groups(shown, UTC) if group.io]
        assert not (moving and "no process" in path), (path, moving)
        device = devices.selected_device(shown, UTC)
        if device is None:
            continue
        label = graph_rows(shown, UTC, 80, 4)[2].text[1:9].strip()
        read, written = device.rates.read_bytes_per_s or 0.0, device.rates.write_bytes_per_s or 0.0
        in_graph = (
            read + written if label.endswith(("r+w", " rw")) else read if re.search(r" (rd|read)$", label) else written
        )
        assert in_graph >= 0.5 * (read + written) or read + written < MIB, (label, read, written)


ROOT = disk("vda", mounts=[("/", "ext4")])._replace(minor=1)
DATA = disk("loop0", "loop", mounts=[("/data", "ext4")])._replace(minor=2)
PINNED_ROOT, PINNED_DATA = UTC._replace(device="vda"), UTC._replace(device="loop0")


def with_job(shown: Frame, pid: int, mount: JobMount) -> Frame:
    """The Frame with a job of one process, which reads from this mount."""
    table = shown.snapshot.processes.value
    assert table is not None
    key = next(key for key in table.info if key.pid == pid)
    jobs = JobTable({key: Job(key, "train.py", "alice", 1000, (Rank(key),))}, places={key: JobPlace(mounts=(mount,))})
    return shown._replace(snapshot=shown.snapshot._replace(jobs=Reading(jobs, Status.OK)))


def two_disks(root_mib: int, *procs: Proc, job: int = 0) -> Frame:
    """A machine whose loop0 reads 20 MB/s and whose vda reads ``root_mib``. job: the pid whose data is on loop0."""
    drives = (
        Disk(ROOT, reads=root_mib, read_bytes=root_mib * MIB, read_await=1.0),
        Disk(DATA, reads=20, read_bytes=20 * MIB, read_await=35.0),
    )
    shown = frame(snapshots(lambda second: Machine(drives, procs), 8))
    return with_job(shown, job, JobMount("/data", "ext4", "/dev/loop0", "8:2")) if job else shown


def path_of(shown: Frame, view: View) -> str:
    return path_rows(shown, view, 80, 3)[1].text.strip()


def test_a_selected_disk_does_not_name_a_job_that_reads_another_disk() -> None:
    shown = two_disks(4, Proc(7, "train.py", read=20 * MIB), job=7)
    assert path_of(shown, PINNED_ROOT) == "no process is known to read vda › / ext4 › vda"
    assert path_of(shown, PINNED_DATA) == "alice train.py › /data ext4 › loop0"


def test_disks_that_cannot_be_read_are_not_called_missing() -> None:
    shown = two_disks(1)
    failed = shown.snapshot._replace(block=Reading(None, Status.FAILED, "/proc/diskstats: no answer"))
    assert path_of(shown._replace(snapshot=failed), UTC) == "? failed: /proc/diskstats: no answer"


def with_a_second_disk() -> Frame:
    """A job whose data is on sda, beside the idle disk sdz."""
    return play((replace(JOB_ALONE, disks=(*JOB_ALONE.disks, DiagnosedDisk("sdz", mount="/other", major=9))), 15))[-1]


def test_the_jobs_waits_are_shown_only_below_the_jobs_path() -> None:
    shown = with_a_second_disk()
    for view in (UTC, UTC._replace(device="sda")):
        _, path, waits = (line.text for line in path_rows(shown, view, 80, 3))
        assert "train.py › 8 workers › /data" in path
        assert waits.startswith(" workers  BLOCKED")
    _, path, waits = (line.text for line in path_rows(shown, UTC._replace(device="sdz"), 80, 3))
    assert "train.py" not in path
    assert waits.startswith(" waits    blocked")


def test_a_pinned_disk_that_is_absent_does_not_count_as_chosen() -> None:
    shown, view = with_a_second_disk(), UTC._replace(device="gone")
    assert [line.text for line in path_rows(shown, view, 80, 3)] == [line.text for line in path_rows(shown, UTC, 80, 3)]
    assert block_rows(shown, view, 80, 5)[0].text == block_rows(shown, UTC, 80, 5)[0].text
    assert proposed_path(shown, view) == "/data"


def test_the_page_and_the_copied_verdict_of_a_job_have_its_own_path_whichever_disk_is_pinned() -> None:
    shown, view = with_a_second_disk(), UTC._replace(device="sdz")
    page = [line.text.rstrip() for line in jobs_screen_rows(shown, view, 80, 24, 0)]
    assert " path     alice train.py › 8 workers › /data ext4 › sda" in page
    assert any(line.startswith(" workers  BLOCKED") for line in page)
    assert "path      alice train.py > 8 workers > /data ext4 > sda" in verdict_block(shown, view)


def test_a_selected_disk_names_the_job_that_reads_it_and_not_a_busier_process() -> None:
    shown = two_disks(90, Proc(7, "train.py", read=20 * MIB), Proc(8, "backup", read=90 * MIB), job=7)
    assert path_of(shown, PINNED_DATA) == "alice train.py › /data ext4 › loop0"
    assert path_of(shown, PINNED_ROOT) == "alice backup reads › / ext4 › vda"


def test_a_selected_disk_names_only_a_process_whose_bytes_the_other_disks_cannot_deliver() -> None:
    shown = two_disks(90, Proc(8, "backup", read=90 * MIB), Proc(9, "reader", read=20 * MIB))
    assert path_of(shown, PINNED_ROOT) == "alice backup reads › / ext4 › vda"
    assert path_of(shown, PINNED_DATA) == "no process is known to read loop0 › /data ext4 › loop0"


SLOW_LOOP = disk("loop1", "loop")._replace(minor=3)
"""A loop device that has the longest queue, so that iotop-ai selects it, although vda moves more bytes."""


def beside_vda(slow: Disk, vda_bytes: int, reader: Proc) -> Frame:
    """A machine with ``slow`` and vda, which reads ``vda_bytes``. The I/O of another process is unreadable."""
    drives = (Disk(ROOT, reads=90, read_bytes=vda_bytes, read_await=0.1), slow)
    shown = frame(snapshots(lambda second: Machine(drives, (reader, Proc(9, "other", cpu=0.1, denied=True))), 8))
    return shown._replace(carry=shown.carry._replace(active_ns={slow.info.name: shown.snapshot.at_ns}))


@pytest.mark.parametrize("below", [(), ("vda",)])
@pytest.mark.parametrize(("vda", "path"), [(16, "? process › loop1"), (1, "alice bash reads › loop1")])
def test_the_disk_that_iotop_ai_selects_names_only_a_process_that_must_read_it(
    below: tuple[str, ...], vda: int, path: str
) -> None:
    """The loop device's file may be on vda, whose other readers do not read the loop device."""
    info, read = SLOW_LOOP._replace(below=below), 8 if vda == 1 else 2
    slow = Disk(info, reads=20, read_bytes=read * MIB, read_await=90.0)
    shown = beside_vda(slow, vda * MIB, Proc(7, "bash", read=max(vda, read) * MIB))
    assert path_of(shown, UTC) == path


def test_the_disk_that_iotop_ai_selects_does_not_name_a_process_that_reads_elsewhere() -> None:
    slow_writer = Disk(SLOW_LOOP, writes=4, write_bytes=4096, write_await=900.0)
    shown = beside_vda(slow_writer, 9 * MIB, Proc(7, "pytest", read=9 * MIB))
    assert path_of(shown, UTC) == "? process (not permitted) › loop1"


def test_the_disk_that_iotop_ai_selects_names_the_writer_only_while_no_other_disk_writes() -> None:
    slow, writer = Disk(SLOW_LOOP, reads=4, read_bytes=4096, read_await=1.0), Proc(7, "cp", write=9 * MIB)
    busy = Disk(ROOT, writes=90, write_bytes=9 * MIB, write_await=9.0)

    def shown(*drives: Disk) -> Frame:
        return frame(snapshots(lambda second: Machine(drives, (writer,)), 8))

    assert path_of(shown(busy, slow), UTC) == "alice cp writes › / ext4 › vda"
    assert path_of(shown(busy, slow._replace(writes=1, write_bytes=4096)), UTC) == "? process › / ext4 › vda"


def test_a_selected_disk_that_mostly_writes_does_not_name_a_process_that_mostly_reads() -> None:
    busy = Disk(ROOT, reads=40, read_bytes=40 * MIB, read_await=1.0, writes=90, write_bytes=90 * MIB, write_await=1.0)
    other = Disk(DATA, reads=1, read_bytes=MIB, read_await=35.0, writes=1, write_bytes=4096)
    procs = (Proc(8, "copier", read=40 * MIB, write=MIB),)
    shown = frame(snapshots(lambda second: Machine((busy, other), procs), 8))
    assert path_of(shown, PINNED_ROOT) == "no process is known to write vda › / ext4 › vda"


@pytest.mark.parametrize(
    ("write", "begin"), [(200 * MIB, "? process (not permitted)"), (0, "no process reads or writes")]
)
def test_an_unreadable_process_can_be_the_writer(write: int, begin: str) -> None:
    drive = Disk(DRIVE, writes=400 if write else 0, write_bytes=write, write_await=2.0)
    procs = (Proc(7, "python"), Proc(8, "rsync", "bob", cpu=0.3, denied=True))
    shown = frame(snapshots(lambda second: Machine((drive,), procs), 8))
    assert path_of(shown, UTC).startswith(begin)


def test_an_unreadable_process_can_use_a_disk_whose_rates_are_unknown() -> None:
    procs = (Proc(7, "python"), Proc(8, "rsync", "bob", cpu=0.3, denied=True))
    shown = frame(snapshots(lambda second: Machine((Disk(DRIVE),), procs), 8))
    unknown = shown.sample._replace(block=shown.sample.block._replace(value=None))
    shown = shown._replace(sample=unknown, history=(*shown.history[:-1], unknown))
    assert path_of(shown, UTC).startswith("? process (not permitted)")


@pytest.mark.parametrize("view", [UTC, UTC._replace(device="nvme0n1")])
def test_the_path_of_a_job_names_its_own_mount_and_not_the_busiest_partition(view: View) -> None:
    whole = disk("nvme0n1")
    root = disk("nvme0n1p2", "partition", [("/", "ext4")], parent="nvme0n1")._replace(minor=2)
    data = disk("nvme0n1p3", "partition", [("/data", "xfs")], parent="nvme0n1")._replace(minor=3)
    busy: dict[str, Any] = {"reads": 90, "read_bytes": 9 * MIB, "read_await": 1.0}
    drives = (Disk(whole, **busy), Disk(root, **busy), Disk(data))
    procs = (Proc(7, "train.py"), Proc(8, "updatedb", "root", read=9 * MIB))
    shown = frame(snapshots(lambda second: Machine(drives, procs), 8))
    assert path_of(shown, view) == "root updatedb reads › / ext4 › nvme0n1p2 › nvme0"
    shown = with_job(shown, 7, JobMount("/data", "xfs", "/dev/nvme0n1p3", "8:3"))
    assert path_of(shown, view) == "alice train.py › /data xfs › nvme0n1p3 › nvme0"


@pytest.mark.parametrize("view", [UTC, UTC._replace(device="sda")])
def test_the_path_of_a_job_on_a_pool_leads_to_its_disks(view: View) -> None:
    pool = Mount("/tank", "zfs", "tank", device="0:50")
    drives = (
        Disk(disk("sda")._replace(minor=0), reads=9, read_bytes=9 * MIB, read_await=1.0),
        Disk(disk("sda1", "partition", parent="sda")._replace(mounts=(pool,), minor=1)),
        Disk(disk("sdb")._replace(mounts=(pool,), minor=16)),
        Disk(disk("sdc", mounts=[("/", "ext4")])._replace(minor=32)),
    )
    shown = frame(snapshots(lambda second: Machine(drives, (Proc(7, "train.py", read=9 * MIB),)), 8))
    shown = with_job(shown, 7, JobMount("/tank/data", "zfs", "tank/data", "0:51"))
    assert path_of(shown, view) == "alice train.py › /tank/data zfs › sda1 › sda +1"
    assert path_of(shown, view._replace(device="sdc")).startswith("no process is known to read sdc")
