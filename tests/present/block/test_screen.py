"""The screen of one block device, at every size: its state, awaits, peaks and processes."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest

from iotop_ai.model.block.counters import BlockInfo, BlockKey, Mount
from iotop_ai.model.block.read_latency_baseline import Baseline, DeviceBaseline, bin_of
from iotop_ai.model.finding import SlowDisk
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job, JobMount, JobPlace, JobTable, Rank
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from iotop_ai.present.block import devices
from iotop_ai.present.block.figures import (
    BOUNDS_MS,
    BUSIEST,
    JOB_FILES,
    ONLY_DISK,
    await_histogram,
    device_or_selected,
    device_peaks,
    device_window,
    next_device,
    process_attribution,
    slowness,
)
from iotop_ai.present.block.screen import KEYS, TABS, DevicePage, device_screen_rows
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.screen.actions import DEVICE_ACTIONS
from iotop_ai.present.screen.key_names import key_label
from iotop_ai.present.screen.key_row import words_above
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from iotop_ai.present.text.theme import BACKGROUNDS, TOKENS
from iotop_ai.present.text.units import brief, clock
from iotop_ai.sources.recorded.source import ReplaySource
from tests.present import scenes
from tests.present.make import GIB, KIB, MIB, Disk, Machine, Proc, disk, frame, smart, snapshots, unsure

VIEW = View(utc_offset_s=0)
STARVED, HEALTHY, FIRST = scenes.starved(), scenes.healthy(), scenes.first()
SIZES = [(1, 1), (20, 5), (60, 15), (80, 24), (100, 30), (160, 48), (250, 70)]


def text(made: Frame, name: str, width: int = 80, height: int = 24, view: View = VIEW) -> str:
    return "\n".join(line.text.rstrip() for line in device_screen_rows(made, view, width, height, name))


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("name", ["sda", "sda1", "md0", "nvme0n1", "", "gone"])
def test_every_line_is_as_wide_as_the_screen(name: str, size: tuple[int, int]) -> None:
    for made in (STARVED, HEALTHY, FIRST):
        lines = device_screen_rows(made, VIEW, *size, name)
        assert [cells(line.text) for line in lines] == [size[0]] * size[1]
        assert {span.token for line in lines for span in line.spans} <= set(TOKENS)
        assert {line.background for line in lines} <= set(BACKGROUNDS)
        plain = device_screen_rows(made, VIEW._replace(ascii_only=True), *size, name)
        assert all(line.text.isascii() for line in plain)


def test_the_keys_beside_position_and_tabs_are_those_that_the_user_has_set() -> None:
    keymap, _ = user_keymap({"disk.previous": ["f11"], "disk.next": ["f12"], "disk.tab": ["f8"]})
    lines = text(STARVED, "sda", view=VIEW._replace(keymap=keymap)).splitlines()
    assert lines[1].endswith("1 of 3  F11/F12")
    assert lines[3].endswith("F8 [all] 1/4")
    no_key = text(STARVED, "sda", view=VIEW._replace(keymap=user_keymap({"disk.tab": []})[0])).splitlines()
    assert no_key[3].endswith("  [all] 1/4")


def test_while_figures_are_sums_the_table_says_so_and_the_state_is_current() -> None:
    taken = snapshots(lambda _: Machine(disks=(Disk(disk("sda"), reads=100, read_bytes=10 * MIB),)), 61)
    made = frame(taken)
    for tab in TABS:
        for base, title in ((taken[0], "sum of 60 s"), (taken[-1], "sum of ?")):
            lines = device_screen_rows(made, VIEW._replace(base=base), 80, 24, "sda", DevicePage(tab))
            assert lines[1].text.startswith(" OK ")
            assert tab == "processes" or any(line.text.startswith(f"── {title} ─") for line in lines)
            assert not any(line.text.startswith("── now ") for line in lines)


@pytest.mark.parametrize(
    ("minutes", "title"),
    [(5, "sum of 5 min"), (50, "sum 50 min"), (119, "sum 119 min"), (125, "sum of 2 h"), (1e4, "sum 6 d 22 h")],
)
def test_the_duration_of_a_long_sum_fits_a_narrow_screen(minutes: float, title: str) -> None:
    taken = snapshots(lambda _: Machine(disks=(Disk(disk("sda"), reads=100),)), 5)
    block = taken[0].block
    assert block.at_ns is not None
    base = taken[0]._replace(block=block._replace(at_ns=block.at_ns + 4 * 10**9 - round(minutes * 60e9)))
    assert f"── {title} " in text(frame(taken), "sda", view=VIEW._replace(base=base))


def test_the_screen_begins_with_state_reason_and_health() -> None:
    lines = text(STARVED, "sda").splitlines()
    assert lines[0].startswith(" STARVED  8 of 8 GPUs wait for data 78 % of the time")
    assert lines[1].startswith(" FAILING  sda  SATA SSD  Micron 5300")
    assert lines[1].endswith("1 of 3  b/n")
    assert lines[2].startswith(" latency  a read took 87.")
    assert lines[2].endswith("the typical 1.3 ms of its kind")
    assert "312 reallocated sectors" in lines[3]
    assert lines[3].endswith("temp 48 C   Tab [all] 1/4")
    wide = text(STARVED, "sda", 160, 48).splitlines()
    assert wide[3].endswith("Tab [all] latency  processes  facts")


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
def test_screens_of_common_sizes_have_all_parts(size: tuple[int, int]) -> None:
    shown = text(STARVED, "sda", *size)
    parts = (
        "r_await",
        "w_await",
        "aqu-sz",
        "%util",
        "latency, last 60 s",
        "below ms",
        "reads %",
        "writes %",
        "most in",
    )
    for part in parts:
        assert part in shown
    assert "37" in next(line for line in shown.splitlines() if line.startswith(" /data"))
    assert "  sda1  /data" in shown
    assert " pt_data_worker x64 " in shown


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, "cache unknown   FUA unknown   wbt unknown"),
        ({"write_cache": "write back", "fua": False, "wbt_us": 75_000}, "cache write back   FUA no   wbt 75 ms"),
        ({"write_cache": "write through", "fua": True, "wbt_us": 0}, "cache write through   FUA yes   wbt off"),
        ({"write_cache": "write back", "wbt_us": 2_000}, "cache write back   FUA unknown   wbt 2 ms"),
        ({"kind": "dm"}, ""),
        ({"kind": "md", "write_cache": "write back"}, "cache write back"),
    ],
)
def test_the_write_cache_fua_and_wbt_are_shown(changes: dict[str, object], fields: str) -> None:
    info = disk("sda", detail="SSD", transport="ata", rotational=False)._replace(**changes)  # type: ignore[arg-type]
    made = frame(snapshots(lambda _: Machine((Disk(info, reads=100, read_bytes=MIB, read_await=2.0),)), 12))
    shown = text(made, "sda", 160, 48)
    assert fields in shown
    for word in ("cache", "FUA", "wbt"):
        assert (f"{word} " in shown) is (word in fields)


def test_without_requests_no_latency_is_shown() -> None:
    shown = text(FIRST, "sda")
    assert "nothing is known about this disk yet" in shown
    assert "latency, last" not in shown
    assert "most in" not in shown
    assert "nothing was read in 10 s, a write took 0.1 ms" in text(STARVED, "md0")


def test_a_missing_device_is_named() -> None:
    empty = frame(snapshots(lambda _: Machine(), 3))
    assert " sda is no longer present" in text(empty, "sda")
    assert " none here" in text(empty, "")
    assert " sdz is no longer present" in text(STARVED, "sdz")
    failed = STARVED.snapshot._replace(block=Reading(None, Status.FAILED, "no answer"))
    assert " ? failed: no answer" in text(STARVED._replace(snapshot=failed), "sda")
    assert "sda is not present at this time" in text(empty, "sda", view=VIEW._replace(mode="replay"))
    assert "◄ BACK 20 s" in text(empty, "sda", view=VIEW._replace(mode="back", back_s=20.0))


def test_the_histogram_counts_requests_by_the_mean_of_their_interval() -> None:
    made = await_histogram(STARVED.history, BlockKey("sda", 1))
    assert sum(made.reads) == pytest.approx(60 * 735)
    assert sum(made.writes) == pytest.approx(60 * 2)
    assert made.reads[BOUNDS_MS.index(100.0)] == sum(made.reads)  # all awaits are between 50 and 100 ms
    calm = await_histogram(HEALTHY.history, BlockKey("nothing", 1))
    assert not sum(calm.reads)


def test_an_await_equal_to_a_bound_is_in_the_next_bin() -> None:
    info = disk("sda", detail="SSD", transport="ata", rotational=False)
    made = frame(snapshots(lambda _: Machine((Disk(info, reads=100, read_bytes=MIB, read_await=2.0),)), 12))
    found = await_histogram(made.history, BlockKey("sda", 1))
    assert found.reads[BOUNDS_MS.index(5.0)] == pytest.approx(1100)


def test_peaks_are_the_highest_interval_of_all_samples() -> None:
    most = device_peaks(STARVED.history, BlockKey("sda", 1))
    assert most.read_bytes_per_s == pytest.approx(98 * MIB, rel=0.01)
    assert most.reads_per_s == 735
    assert most.seconds == 60
    older = STARVED.history[0]._replace(seconds=5.0)
    assert device_peaks((older, *STARVED.history), BlockKey("sda", 1)).seconds == 65
    assert device_peaks((), BlockKey("sda", 1)).read_bytes_per_s is None


def fast(read_await: float, carry: FoldState | None = None) -> Frame:
    info = disk("nvme0n1", detail="NVMe", transport="nvme", serial="S1")
    drive = Disk(info, reads=500, read_bytes=500 * 64 * KIB, read_await=read_await, busy=0.5)
    return frame(snapshots(lambda _: Machine((drive,)), 15), carry=carry)


def test_the_baseline_of_a_disk_takes_precedence_over_that_of_its_kind() -> None:
    made = fast(0.9)
    device = device_or_selected(made, VIEW, "nvme0n1")
    assert device is not None
    known = device_window(made, device)
    assert not known.learned
    assert known.facts is not None
    assert slowness(known.facts) == 0

    bins = ((bin_of(0.2), 60),)
    baseline = Baseline(((1, bins),))
    learned = {"S1": DeviceBaseline(sizes=(baseline, baseline, baseline))}
    made = fast(1.8, FoldState(0, learned=learned))
    device = device_or_selected(made, VIEW, "nvme0n1")
    assert device is not None
    known = device_window(made, device)
    assert known.learned
    assert known.facts is not None
    assert known.facts.normal_ms == pytest.approx(0.2, rel=0.2)
    assert slowness(known.facts) == 2
    assert text(made, "nvme0n1").splitlines()[1].startswith(" SLOW ")
    assert "ms of this disk" in text(made, "nvme0n1")


def test_a_baseline_far_below_that_of_the_kind_is_not_called_the_disks_own() -> None:
    """The normal await is then half of the kind's, so it is not learned from this disk."""
    baseline = Baseline(((1, ((bin_of(0.01), 60),)),))
    made = fast(1.8, FoldState(0, learned={"S1": DeviceBaseline(sizes=(baseline, baseline, baseline))}))
    device = device_or_selected(made, VIEW, "nvme0n1")
    assert device is not None
    assert not device_window(made, device).learned
    assert "ms of its kind" in text(made, "nvme0n1")


@pytest.mark.parametrize(
    ("severity", "reason", "state", "shown"),
    [("critical", "312 reallocated sectors", "FAILING", "FAILING"), ("warning", "96 % used", "WORN", "worn")],
)
def test_a_normal_latency_is_not_called_the_reason_for_a_fault(
    severity: str, reason: str, state: str, shown: str
) -> None:
    drive = Disk(disk("sda", transport="ata"), reads=500, read_bytes=500 * 64 * KIB, read_await=0.3, busy=0.2)
    report = {"sda": smart("sda", severity, (reason,))}
    lines = text(frame(snapshots(lambda _: Machine((drive,), smart=report), 15)), "sda").splitlines()
    assert lines[1].startswith(f" {state} ")
    assert lines[2].startswith(" latency  a read took 0.3 ms in ")
    assert lines[3].startswith(f" health   {shown}  {reason}  temp ")


def test_the_reason_for_calling_a_disk_with_a_normal_latency_slow_is_the_verdict() -> None:
    drive = Disk(disk("sda", transport="ata"), reads=500, read_bytes=500 * 64 * KIB, read_await=0.3, busy=0.2)
    verdict = unsure()._replace(slow_disk=SlowDisk("sda", "sda", 90.0, 1.0, 0.9, 0.0, 0.0))
    lines = text(frame(snapshots(lambda _: Machine((drive,)), 15), verdict), "sda", 160, 48).splitlines()
    assert lines[1].startswith(" SLOW ")
    assert lines[2].startswith(" because  the verdict names it; a read took 0.3 ms in ")


def test_a_disk_that_seeks_is_judged_by_its_utilisation() -> None:
    info = disk("sdb", detail="HDD", transport="ata", rotational=True)
    drive = Disk(info, reads=100, read_bytes=100 * 64 * KIB, read_await=30.0, busy=0.9)
    shown = text(frame(snapshots(lambda _: Machine((drive,)), 15)), "sdb")
    assert shown.splitlines()[1].startswith(" SLOW ")
    assert "it seeks, so 90 %util is its load" in shown.replace("\n          ", " ")
    calm = text(frame(snapshots(lambda _: Machine((drive._replace(busy=0.3),)), 15)), "sdb")
    assert calm.splitlines()[1].startswith(" OK ")


def test_a_note_tells_whether_the_listed_processes_are_known_to_use_the_disk() -> None:
    one, other = disk("sda", transport="ata"), disk("sdb", transport="ata")
    reader = Proc(7, "reader", read=MIB)

    def made(more: int) -> Frame:
        sda = Disk(one, reads=10, read_bytes=MIB, read_await=1.0)
        return frame(snapshots(lambda _: Machine((sda, Disk(other, reads=more, read_bytes=more * 4096)), (reader,)), 5))

    for more, basis, note in (
        (0, ONLY_DISK, "no other disk moved a byte"),
        (9, BUSIEST, "which of them use this disk"),
    ):
        shown = made(more)
        device = device_or_selected(shown, VIEW, "sda")
        assert device is not None
        assert process_attribution(shown, VIEW, device) == (basis, "")
        assert note in text(shown, "sda")
        assert " reader " in text(shown, "sda")


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (disk("sda1", "partition", parent="sda"), disk("sda2", "partition", parent="sda")),
        (disk("dm-0", "dm", slaves=("sda",)), disk("dm-1", "dm", slaves=("sda",))),
    ],
    ids=["partitions", "volumes"],
)
def test_the_bytes_of_another_part_of_the_same_disk_are_not_attributed_to_this_part(
    part: BlockInfo, other: BlockInfo
) -> None:
    whole = disk("sda", holders=tuple(info.name for info in (part, other) if info.kind == "dm"))

    def bases(more: int) -> dict[str, str]:
        drives = (
            Disk(whole, reads=more, read_bytes=more * MIB, writes=1, write_bytes=KIB),
            Disk(part, writes=1, write_bytes=KIB),
            Disk(other, reads=more, read_bytes=more * MIB),
        )
        made = frame(snapshots(lambda _: Machine(drives), 5))
        return {d.name: process_attribution(made, VIEW, d)[0] for d in devices.all_devices(made, VIEW)}

    assert bases(500) == {"sda": ONLY_DISK, part.name: BUSIEST, other.name: BUSIEST}
    assert bases(0) == {"sda": ONLY_DISK, part.name: ONLY_DISK, other.name: BUSIEST}


def test_next_and_previous_go_through_the_devices_of_the_panel_in_a_circle() -> None:
    order = ["sda", "md0", "nvme4n1"]
    name, seen = "sda", []
    for _ in range(4):
        seen.append(name)
        name = next_device(STARVED, VIEW, name, 1)
    assert seen == [*order, "sda"]
    assert next_device(STARVED, VIEW, "sda", -1) == order[-1]
    assert next_device(STARVED, VIEW, "sda1", 1) == "md0"  # the next device after sda, on which sda1 lies
    assert next_device(frame(snapshots(lambda _: Machine(), 2)), VIEW, "sda", 1) == ""


def test_many_mounts_and_unknown_fullness_are_shown() -> None:
    info = disk("sda", mounts=[(f"/m{n}", "ext4") for n in range(7)], size_bytes=500 * GIB)
    drive = Disk(info, reads=10, read_bytes=MIB, read_await=1.0)
    made = frame(snapshots(lambda _: Machine((drive,), usage={"/m0": 0.9}), 5))
    shown = text(made, "sda", 160, 48)
    assert "── 7 mounts ─" in shown
    assert next(line for line in shown.splitlines() if line.startswith(" /m0 ")).split()[2] == "90"
    assert next(line for line in shown.splitlines() if line.startswith(" /m1 ")).split()[2:6] == ["?"] * 4
    assert "/m0 90 % used of 1T" in text(made, "sda")


def test_each_key_in_the_last_row_works() -> None:
    bound = {key_label(key) for action in DEVICE_ACTIONS for key in action.keys} | {"q"}
    for keys, _ in words_above(KEYS, View()):
        for key in keys.split("/") if "/" in keys else keys.split():
            assert key in bound


def test_the_note_names_the_job_whose_files_are_on_the_disk() -> None:
    recording = Path(__file__).parents[2] / "data" / "jobs.iotop.jsonl.gz"
    *_, made = frames(islice(ReplaySource(str(recording), allow_root=True), 60))
    slow = next(name for name in devices.infos(made) if name.startswith("loop"))
    device = device_or_selected(made, VIEW, slow)
    assert device is not None
    basis, job = process_attribution(made, VIEW, device)
    assert basis == JOB_FILES
    assert job.startswith("train.py of ")
    assert f"the files of {job} are on this disk; for other processes, see the column disk" in text(made, slow, 160)
    assert re.search(rf"^ the files of {job} are on this disk *$", text(made, slow), re.MULTILINE)


def test_files_of_the_job_are_on_each_disk_of_its_pool() -> None:
    pool = (Mount("/tank", "zfs", "tank", device="0:50"),)
    infos = [disk(name)._replace(minor=n) for n, name in enumerate(("sda", "sdb", "sdc"))]
    infos[:2] = [info._replace(mounts=pool) for info in infos[:2]]
    drives = tuple(Disk(info, reads=9, read_bytes=9 * MIB, read_await=1.0) for info in infos)
    made = frame(snapshots(lambda _: Machine(drives, (Proc(7, "python", read=9 * MIB),)), 5))
    table = made.snapshot.processes.value
    assert table is not None
    key = next(iter(table.info))
    place = JobPlace(mounts=(JobMount("/tank/data", "zfs", "tank/data", "0:51"),))
    jobs = JobTable({key: Job(key, "train.py", "alice", 1000, (Rank(key),))}, places={key: place})
    made = made._replace(snapshot=made.snapshot._replace(jobs=Reading(jobs, Status.OK)))
    found = {d.name: process_attribution(made, VIEW, d)[0] for d in devices.all_devices(made, VIEW)}
    assert found == {"sda": JOB_FILES, "sdb": JOB_FILES, "sdc": BUSIEST}


def test_hostile_names_are_plain_text() -> None:
    odd = "[/x][@click=app.quit]\ufffd训练"
    more = {"label": odd, "model": odd, "detail": odd, "serial": odd, "scheduler": odd, "firmware": odd}
    info = disk("sdb", mounts=[("/" + odd, odd)], **more)
    drive = Disk(info, reads=9, read_bytes=5 * MIB, read_await=1.0)
    made = frame(snapshots(lambda _: Machine((drive,), (Proc(7, odd, odd, read=MIB),), usage={"/" + odd: 0.5}), 5))
    for width, height in SIZES:
        lines = device_screen_rows(made, VIEW, width, height, "sdb")
        assert [cells(line.text) for line in lines] == [width] * height
        assert all(span.text.isprintable() for line in lines for span in line.spans)
    assert "[/x][@click=app.quit]" in text(made, "sdb", 160, 48)


def test_the_table_and_the_screen_have_the_same_normal_await() -> None:
    baseline = Baseline(((1, ((bin_of(0.02), 60),)),))
    learned = {"S1": DeviceBaseline(sizes=(baseline, baseline, baseline))}
    made = fast(1.8, FoldState(0, learned=learned))
    device = device_or_selected(made, VIEW, "nvme0n1")
    assert device is not None
    facts = device_window(made, device).facts
    assert facts is not None
    (row,) = (line.text for line in block_rows(made, VIEW, 160, 6) if "nvme0" in line.text)
    assert f" {brief(1.8 / facts.normal_ms)}x " in row


def test_in_the_past_the_screen_shows_the_time_instead_of_now() -> None:
    at = clock(STARVED.snapshot.wall_ns, 0)
    live = text(STARVED, "sda", 160, 48)
    back = text(STARVED, "sda", 80, 24, VIEW._replace(mode="back", back_s=20.0))
    assert f"{at} ◄ BACK 20 s  " in back.splitlines()[1]
    assert f"── {at} ─" in back
    assert any(" last 100 s " in line and f" {at} " in line for line in back.splitlines())
    assert "── now ─" in live
    assert " now " not in back


def test_a_disk_whose_requests_are_not_counted_is_not_shown_as_idle() -> None:
    off = frame(snapshots(lambda second: Machine((Disk(disk("sda", stats_off=True)),)), 12))
    lines = text(off, "sda").splitlines()
    assert lines[1].startswith(" UNSURE")
    assert lines[2] == " because  the kernel does not count its requests"
    idle = frame(snapshots(lambda second: Machine((Disk(disk("sda")),)), 12))
    assert text(idle, "sda").splitlines()[2].startswith(" because  nothing was read in ")
