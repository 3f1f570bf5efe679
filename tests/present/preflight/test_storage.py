from __future__ import annotations

from datetime import datetime

from iotop_ai.model.job.records import IoLimit
from iotop_ai.model.preflight.dataset import DATASET, Dataset, Demand
from iotop_ai.model.preflight.history import Change, Compared
from iotop_ai.model.preflight.place import Nominal, Place
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import (
    CACHED,
    FILES,
    MIB,
    NAMED_FILE,
    RANDOM,
    READAHEAD,
    SEQUENTIAL,
    WRITE,
    Latency,
    Measured,
    Phase,
    Target,
    Threshold,
)
from iotop_ai.present.preflight.storage import (
    earlier_text,
    findings_text,
    legend_text,
    missing_text,
    phase_title,
    place_text,
    progress_text,
    target_text,
)

EXT4 = Place("/data", "ext4", "/dev/nvme0n1p1", "/data", device="nvme0n1p1", disks=("nvme0n1",), kind="NVMe", key="S7")
READ = Measured(SEQUENTIAL, MIB, 8, 100, 100 * MIB, 1.0)
OWN = Target("own", 512 * MIB, True, 512 * MIB)


def test_the_place_of_a_path_is_described() -> None:
    assert place_text(EXT4) == "/data: ext4 on nvme0n1p1 on nvme0n1 (NVMe)"
    assert place_text(Place("/dev/sda", device="sda", disks=("sda",), kind="HDD")) == "/dev/sda: sda (HDD)"
    memory = Place("/dev/shm", "tmpfs", "tmpfs", "/dev/shm", memory=True)
    assert place_text(memory) == "/dev/shm: tmpfs, in memory: the figures are those of memory, not of a disk"
    nfs = Place("/nfs/in21k", "nfs4", "srv:/in21k", "/nfs", remote=True)
    network = "the figures include the network and the server's memory"
    assert place_text(nfs) == f"/nfs/in21k: nfs4 from srv:/in21k: {network}"
    assert place_text(nfs._replace(fstype="fuse.sshfs")) == f"/nfs/in21k: fuse.sshfs from srv:/in21k: {network}"
    fuse = Place("/mnt/x", "fuse.own", "own", "/mnt/x", remote=None)
    assert place_text(fuse) == "/mnt/x: fuse.own (own): unknown whether its data is remote"
    bind = Place("/mnt/x", "fuse.bindfs", "/data", "/mnt/x", disks=("sda",), kind="HDD")
    assert place_text(bind) == "/mnt/x: fuse.bindfs (/data): a program of this machine serves it, on sda (HDD)"
    overlay = Place("/", "overlay", "overlay", "/", why_no_disk="its overlay's layers cannot be seen from here")
    assert place_text(overlay).endswith("folders: its overlay's layers cannot be seen from here")
    zfs = Place("/tank", "zfs", "tank/data", "/tank", why_no_disk="its disks are those of the ZFS pool tank")
    assert place_text(zfs) == "/tank: zfs (its disks are those of the ZFS pool tank)"


def test_the_measured_figures_are_described() -> None:
    assert target_text(OWN, "fio-3.33") == (
        "read: a test file, 512 MB, removed again; by fio-3.33, past the page cache (O_DIRECT)"
    )
    assert "parts may come from memory" in target_text(Target("file", MIB, False), "own")
    assert target_text(Target("file", MIB, True, 0, "mounted read-only"), "own").startswith(
        "read: the largest file there"
    )
    assert target_text(Target("file", MIB, True, 0, NAMED_FILE), "own").startswith("read: the file itself, ")


def test_phases_have_titles_and_progress() -> None:
    assert phase_title(Phase(WRITE, MIB, 1, 1.0)) == "write + fsync"
    assert phase_title(Phase(RANDOM, 4096, 16, 1.0)) == "random read 4 KB"
    assert progress_text(Phase(RANDOM, 4096, 16, 1.0), 600, 600 * 4096, 0.5) == "random read 4 KB x16, 1200/s"
    assert progress_text(Phase(SEQUENTIAL, MIB, 1, 1.0), 6, 6 * MIB, 0.5) == "sequential read 1 MB, 12.0 MB/s"
    assert progress_text(Phase(FILES, 128 << 10, 1, 1.0), 0, 0, 0.0) == "small files 128 KB ..."


def findings(place: Place = EXT4, **fields: object) -> list[str]:
    return findings_text(Report(place, 1, OWN, "own", (READ,))._replace(**fields))


def test_storage_that_hangs_is_reported_first() -> None:
    found = findings(hung_s=7.2, notes=("its own process waits",))
    assert found == ["hangs: no answer from disk nvme0n1p1 for 7 s", "its own process waits"]


def test_a_narrow_link_and_a_limit_are_named() -> None:
    nominal = Nominal(3000e6, "NVMe, PCIe 4x4", "1x1 of 4x4")
    assert findings(EXT4._replace(nominal=nominal)) == [
        "3 % of its nominal speed: 100 MB/s of NVMe, PCIe 4x4 that should give about 2.8 GB/s",
        "its PCIe link runs at 1x1 of 4x4: due to the slot or its configuration, not the disk",
    ]
    limits = (IoLimit("259:0", "read_bytes", 20 << 20, "job/io.max"), IoLimit("259:0", "read_ios", 50, "job/io.max"))
    # The limit explains the low speed.
    assert findings(EXT4._replace(nominal=nominal._replace(reduced=""), limits=limits)) == [
        "a limit of this process's cgroup applies: 20MB/s of reads (job/io.max)",
        "a limit of this process's cgroup applies: 50 reads/s (job/io.max)",
    ]
    assert findings(EXT4._replace(nominal=Nominal(150e6, "HDD"))) == []


def test_thresholds_are_reported_in_words() -> None:
    thresholds = (
        Threshold("--min-read", 500 * MIB, 100 * MIB),
        Threshold("--min-files", 2000, None),
        Threshold("--max-await", 20.0, 0.25, at_most=True),
    )
    assert findings(thresholds=thresholds) == [
        "FAILS: 100 MB/s (--min-read 500 MB/s)",
        "?: not measured (--min-files 2000/s)",
        "ok: 0.2 ms (--max-await 20 ms)",
    ]
    assert missing_text(Report(EXT4, 1, thresholds=thresholds)) == "--min-files: not measured here"


def test_the_reason_why_a_check_has_no_answer_is_reported() -> None:
    empty = Report(EXT4, 1, OWN, "own", (READ,), dataset=Dataset(0, 0, complete=True))
    assert missing_text(empty) == "the dataset has no file with content"
    unread = Report(EXT4, 1, OWN, "own", (READ,), demand=Demand(100.0, 2, 0.0, 2.0))
    assert missing_text(unread) == "no forecast: what the storage gives was not measured"
    assert missing_text(unread._replace(failed="Input/output error")) == "Input/output error"
    assert missing_text(Report(EXT4, 1)) == "nothing could be measured"


def test_storage_slower_than_before_is_reported() -> None:
    change = Change("read", 200.0 * MIB, 120.0 * MIB, 1_794_884_000)
    found = findings(changes=(change,))
    assert found[0].startswith("sequential read: 40 % slower than on 2026-11-")
    assert found[0].endswith("(120 MB/s, was 200 MB/s)")
    compared = (Compared("read", 120.0 * MIB, 120.0 * MIB, 200.0 * MIB),)
    assert earlier_text(Report(EXT4, 1, earlier=3, changes=(change,), compared=compared)) == ""
    assert earlier_text(Report(EXT4._replace(key=""), 1)).startswith("not kept for later")


def test_figures_that_are_not_slower_are_shown_beside_the_range_of_the_earlier_checks() -> None:
    compared = (
        Compared("read", 563.0 * MIB, 546.0 * MIB, 884.0 * MIB),
        Compared("files", 5541.0, 5541.0, 7556.0),
        Compared("write", 699.0 * MIB, 650.0 * MIB, 1387.0 * MIB),
    )
    assert earlier_text(Report(EXT4, 1, earlier=3, compared=compared)) == (
        "now (and in 3 earlier checks): sequential read 563 MB/s (546 to 884 MB/s), small files 5541/s (5541 to "
        "7556/s), write + fsync 699 MB/s (650 MB/s to 1.4 GB/s)"
    )
    once = (Compared("random", 400.0, 500.0, 500.0),)
    assert earlier_text(Report(EXT4, 1, earlier=1, compared=once)) == (
        "now (and in 1 earlier check): random 4 KB reads 400/s (500/s)"
    )
    assert earlier_text(Report(EXT4, 1)) == ""


def test_an_earlier_check_of_the_same_day_is_named_by_its_time() -> None:
    then_s = int(datetime(2026, 11, 27, 6, 1).timestamp())
    change = Change("read", 195.0 * MIB, 117.0 * MIB, then_s)
    figures = "(117 MB/s, was 195 MB/s)"
    assert findings(changes=(change,), wall_s=then_s + 240) == [
        f"sequential read: 40 % slower than at 06:01 today {figures}"
    ]
    assert findings(changes=(change,), wall_s=then_s + 86_400) == [
        f"sequential read: 40 % slower than on 2026-11-27 {figures}"
    ]


def test_the_reason_why_nothing_is_written_is_reported() -> None:
    target = Target("file", 9 * MIB, True, 0, "mounted read-only")
    assert findings(target=target) == [
        "nothing is written: mounted read-only; so figures of writing, metadata and small files are missing"
    ]


def test_each_mark_of_the_table_has_a_legend() -> None:
    floor, unknown = "+ marks a floor", "? under p99: unknown, fewer than 100 operations"
    without_p99, with_p99 = Latency(1.0, 1.0, 1.0, None, 2.0), Latency(1.0, 1.0, 1.0, 1.5, 2.0)
    assert legend_text((READ, READ._replace(latency=with_p99))) == []
    for name in (SEQUENTIAL, READAHEAD, DATASET, WRITE):
        (line,) = legend_text((READ._replace(name=name, cpu_bound=True),))
        assert line.startswith(floor)
    # Reading memory is the work of the CPU, so that row is not a floor of the storage.
    assert legend_text((READ._replace(name=CACHED, cpu_bound=True),)) == []
    assert legend_text((READ._replace(latency=without_p99),))[0].startswith(unknown)
    assert legend_text((READ._replace(name=WRITE, latency=without_p99),)) == []


def test_a_row_of_a_dataset_names_the_mean_size_of_its_files() -> None:
    row = Measured(DATASET, 128 << 10, 4, 3682, 115 * MIB, 0.5)
    assert phase_title(row) == "dataset files, mean 32 KB"
    assert phase_title(Phase(DATASET, 0, 4, 1.0)) == "dataset files"
    files = Dataset(21, 64 * MIB + 4000, True, most_bytes=64 * MIB, sampled=21)
    assert (
        "? the files read by 4 readers average 32 KB, those of the dataset 3 MB: this row's rates are not those of an "
        "epoch" in findings(dataset=files, results=(row,))
    )


def test_text_from_outside_is_cleaned() -> None:
    shown = place_text(Place("/d\ufe0fx", "ext4", "/dev/sda", disks=("sda",), kind="HDD"))
    assert "\ufe0f" not in shown
