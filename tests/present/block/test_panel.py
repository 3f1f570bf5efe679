from __future__ import annotations

import pytest

from iotop_ai.model.finding import Finding, Severity, SlowDisk, Verdict
from iotop_ai.model.fold_state import FoldState
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.health.summary import health
from iotop_ai.present.job.data_path import path_rows
from iotop_ai.present.screen.graph_panel import low_panel_graph_count
from iotop_ai.present.screen.selection import device_order, selectable, selected_device_name
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Line
from tests.present import scenes
from tests.present.make import MIB, START_NS, Disk, Machine, disk, frame, smart, snapshots

UTC = View(utc_offset_s=0)


def made(*disks: Disk, count: int = 5, carry: FoldState | None = None, **more: object) -> Frame:
    machine = Machine(disks, **more)  # type: ignore[arg-type]
    return frame(snapshots(lambda i: machine, count), carry=carry)


def busy(name: str, read: int = 10, **more: object) -> Disk:
    return Disk(disk(name, **more), reads=100, read_bytes=read * MIB, read_await=2.0, busy=0.2)  # type: ignore[arg-type]


def keys(lines: list[Line]) -> list[str]:
    return [line.key for line in lines if line.key]


def test_loop_and_ram_devices_are_hidden_until_active() -> None:
    disks = (busy("sda"), Disk(disk("loop0", "loop")), Disk(disk("zram0", "zram")), Disk(disk("sdz", size_bytes=0)))
    assert device_order(made(*disks), UTC) == ("sda",)
    woken = made(*disks, carry=FoldState(START_NS, active_ns={"loop0": START_NS}))
    assert device_order(woken, UTC) == ("sda", "loop0")
    assert device_order(made(*disks), UTC._replace(devices=("zram0",))) == ("zram0",)


def test_rows_are_in_natural_order_after_the_disk_that_the_verdict_names() -> None:
    assert device_order(made(busy("sdb"), busy("nvme10n1"), busy("nvme9n1"), busy("sda")), UTC) == (
        *("nvme9n1", "nvme10n1", "sda", "sdb"),
    )
    assert device_order(scenes.starved(61), UTC)[0] == "sda"


def test_the_busiest_disk_is_selected_unless_the_user_selects_another() -> None:
    two = made(busy("sda"), Disk(disk("sdb"), reads=500, read_bytes=MIB, read_await=9.0))
    assert selected_device_name(two, UTC) == "sdb"
    assert selected_device_name(two, UTC._replace(device="sda")) == "sda"
    idle = made(Disk(disk("sda")), Disk(disk("sdb", mounts=[("/", "ext4")])))
    assert selected_device_name(idle, UTC) == "sdb"
    assert selected_device_name(made(), UTC) == ""


def test_the_last_row_names_the_devices_without_room() -> None:
    many = made(busy("sda"), *(Disk(disk(f"sd{c}")) for c in "bcdef"))
    lines = block_rows(many, UTC, 80, 4)
    assert keys(lines) == ["disk:sda", "disk:sdb"]
    assert lines[-1].text.rstrip() == " 4 more, all idle: sdc sdd sde sdf"
    marked = block_rows(many, UTC._replace(focus="disk", cursor="disk:sdf"), 80, 4)
    assert keys(marked) == ["disk:sde", "disk:sdf"]
    assert marked[2].background == "sel"
    assert marked[-1].text.rstrip() == " 4 more: sda sdb sdc sdd"
    scrolled = block_rows(many, UTC._replace(focus="disk", cursor="disk:sde", scroll=3), 80, 4)
    assert keys(scrolled) == ["disk:sdd", "disk:sde"]


def named(class_id: str, device: str) -> Finding:
    return Finding(class_id, Severity.CRITICAL, 0.9, device, (("device", device),))


def test_each_disk_that_a_finding_names_has_its_row_before_busier_disks() -> None:
    disks = (busy("sda"), busy("sdb"), busy("sdc"), Disk(disk("sdd")), Disk(disk("loop2", "loop")))
    hung = named("failing_disk", "loop2")
    verdict = Verdict((named("storage_read", "sdc"), hung), 60.0, 10.0, 6, 6)
    one = made(*disks)._replace(verdict=verdict)
    assert device_order(one, UTC) == ("sdc", "loop2", "sda", "sdb", "sdd")
    assert keys(block_rows(one, UTC, 80, 4)) == ["disk:sdc", "disk:loop2"]
    assert keys(block_rows(one, UTC._replace(device="sdb"), 80, 5)) == ["disk:sdc", "disk:loop2", "disk:sdb"]
    assert keys(block_rows(one, UTC._replace(device="sdb"), 80, 4)) == ["disk:sdc", "disk:sdb"]
    assert keys(block_rows(one, UTC._replace(only_active=True), 80, 9))[:2] == ["disk:sdc", "disk:loop2"]
    slow = SlowDisk("sdd", "sdd", 90.0, 1.0, 0.9, 0.0, 0.0)
    assert device_order(one._replace(verdict=verdict._replace(slow_disk=slow)), UTC)[:3] == ("sdc", "sdd", "loop2")


def test_disks_whose_requests_are_not_counted_are_not_shown_as_idle() -> None:
    off = made(busy("sda"), *(Disk(disk(f"sd{c}", stats_off=True)) for c in "bcdef"))
    assert block_rows(off, UTC, 80, 4)[-1].text.rstrip() == " 4 more: sdc sdd sde sdf"


def test_partitions_are_listed_below_the_selected_disk_if_they_fit() -> None:
    root = disk("sda1", "partition", [("/", "ext4")], parent="sda")
    view = UTC._replace(device="sda")
    pair = made(busy("sda"), Disk(root, reads=100, read_bytes=10 * MIB, read_await=2.0), Disk(disk("sdb")))
    assert keys(block_rows(pair, view, 80, 5)) == ["disk:sda", "disk:sda1", "disk:sdb"]
    assert keys(block_rows(pair, view, 80, 3)) == ["disk:sda", "disk:sdb"]
    assert " sda1 " in block_rows(pair, view, 80, 5)[2].text


def test_an_idle_partition_without_a_mount_has_a_row_if_the_user_selects_it() -> None:
    root = disk("sda1", "partition", [("/", "ext4")], parent="sda")
    spare = Disk(disk("sda3", "partition", parent="sda"))
    pair = made(busy("sda"), Disk(root, reads=100, read_bytes=10 * MIB, read_await=2.0), spare)
    assert keys(block_rows(pair, UTC, 80, 5)) == ["disk:sda", "disk:sda1"]
    assert keys(block_rows(pair, UTC._replace(device="sda3"), 80, 5)) == ["disk:sda", "disk:sda1", "disk:sda3"]
    assert keys(block_rows(pair, UTC._replace(device="sda3"), 80, 3)) == ["disk:sda3", "disk:sda"]


def test_members_of_an_array_are_left_out_if_there_is_no_room() -> None:
    one = scenes.healthy()
    assert keys(block_rows(one, UTC, 80, 4)) == ["disk:md0", "disk:nvme4n1", "disk:sda"]
    assert len(keys(block_rows(one, UTC, 80, 9))) == 7
    assert " md0 x4 " in " " + block_rows(one, UTC, 80, 4)[1].text[1:]


def test_volumes_are_listed_below_their_disk_and_a_selected_one_has_a_row() -> None:
    volume = disk("dm-0", "dm", [("/", "ext4")], label="vg/root", slaves=("sda",))
    stacked = made(busy("sda", holders=("dm-0",)), Disk(volume, reads=9), busy("sdb"))
    assert device_order(stacked, UTC) == ("sda", "sdb")
    assert keys(block_rows(stacked, UTC._replace(device="sda"), 80, 5)) == ["disk:sda", "disk:dm-0", "disk:sdb"]
    assert keys(block_rows(stacked, UTC._replace(device="dm-0"), 80, 5)) == ["disk:sda", "disk:dm-0", "disk:sdb"]
    assert "disk:dm-0" in keys(block_rows(stacked, UTC._replace(device="dm-0"), 80, 3))


def test_undefined_unknown_and_zero_are_shown_differently() -> None:
    lines = block_rows(made(Disk(disk("sda"), writes=3, write_bytes=12288, write_await=2.0)), UTC, 80, 3)
    assert lines[1].text.split()[:10] == [">sda", "0", "0", "-", "-", "3", "<0.1", "2.0", "<0.1", "0"]
    first = block_rows(made(busy("sda"), count=1), UTC, 80, 3)
    assert set(first[1].text.split()[1:10]) == {"?"}


def test_an_await_below_the_kernels_resolution_of_a_millisecond_is_not_zero() -> None:
    few = block_rows(made(Disk(disk("sda"), reads=3, read_bytes=12288, read_await=0.1)), UTC, 80, 3)
    many = block_rows(made(Disk(disk("sda"), reads=90, read_bytes=12288, read_await=0.004)), UTC, 80, 3)
    assert few[1].text.split()[4] == "<1"
    assert many[1].text.split()[4] == "<0.1"


def test_sums_since_the_base_replace_rates() -> None:
    machine = Machine((busy("sda", read=10),))
    taken = snapshots(lambda i: machine, 11)
    view = UTC._replace(base=taken[0])
    lines = block_rows(frame(taken), view, 80, 3)
    assert lines[0].text.split()[2:5] == ["─────", "r", "rMB"] or " r " in lines[0].text
    assert lines[1].text.split()[1:3] == ["1000", "100"]


def test_a_list_without_an_active_device_is_reported() -> None:
    view = UTC._replace(only_active=True)
    assert "no device is active" in block_rows(made(Disk(disk("sda"))), view, 80, 3)[1].text
    assert keys(block_rows(made(Disk(disk("sda")), busy("sdb")), view, 80, 4)) == ["disk:sdb"]


def test_the_selected_disk_is_the_same_while_only_active_disks_are_listed() -> None:
    view = UTC._replace(only_active=True)
    idle = made(Disk(disk("sda")), Disk(disk("sdb", mounts=[("/", "ext4")])))
    assert selected_device_name(idle, view) == "sdb"
    assert device_order(idle, view) == selectable(idle, view, "disk", 9) == ()
    assert selectable(idle, view._replace(device="sda"), "disk", 9) == ("disk:sda",)
    assert low_panel_graph_count(idle, view) == low_panel_graph_count(idle, UTC) == 3
    assert path_rows(idle, view, 80, 3)[1].text.startswith(" no process reads or writes › / ext4 › sdb")


def test_a_failed_reading_has_its_reason() -> None:
    one = made(busy("sda"))
    failed = one._replace(
        snapshot=one.snapshot._replace(block=Reading(None, Status.FAILED, "no answer for 14 s", "reboot"))
    )
    assert block_rows(failed, UTC, 80, 4)[1].text.strip() == "? failed: no answer for 14 s (reboot)"


@pytest.mark.parametrize(
    ("reading", "word", "token"),
    [
        (smart("sda"), "ok", "dim"),
        (smart("sda", "critical", ("312 reallocated sectors",)), "FAILING", "bad"),
        (smart("sda", "warning", ("temperature 61 of 60 C",)), "warm", "warn"),
        (smart("sda", "warning", ("96 % used",)), "worn", "warn"),
        (smart("sda", "warning", ("8 pending sectors",)), "warn", "warn"),
        (Reading(None, Status.UNSUPPORTED), "no SMART", "dim"),
        (Reading(None, Status.DENIED), "? root", "unsure"),
        (Reading(None, Status.ASLEEP), "asleep", "dim"),
        (Reading(None, Status.FAILED, "no answer for 20 s"), "? hung", "unsure"),
        (Reading(None, Status.FAILED, "exit 4"), "? failed", "unsure"),
        (Reading(None, Status.PENDING), "asking", "dim"),
    ],
)
def test_health_is_shown_in_one_word(reading: Reading, word: str, token: str) -> None:
    one = made(busy("sda"), smart={"sda": reading})
    shown = health(one, "sda")
    assert (shown.word, shown.token) == (word, token)
    text = block_rows(one, UTC, 80, 3)[1].text
    assert text[71:].strip() == word
    assert text[79] == " ", "the right margin is not empty"


def test_a_missing_smartctl_and_a_disk_without_smart_are_shown_differently() -> None:
    assert health(made(busy("sda")), "sda").word == "no tool"
    assert health(made(busy("sda"), smart={}), "sda").word == "no SMART"


@pytest.mark.parametrize("width", [60, 80, 160, 250])
def test_health_that_was_not_read_has_one_word_at_every_width(width: int) -> None:
    one = made(busy("sda"), smart={"sda": Reading(None, Status.OFF)})
    assert block_rows(one, UTC, width, 3)[1].text.rstrip().endswith(" not read")


def test_an_array_is_as_healthy_as_its_worst_member() -> None:
    assert health(scenes.healthy(), "md0").word == "ok"
    one = scenes.healthy()
    readings = {**(one.snapshot.smart.value or {}), "nvme2n1": smart("nvme2n1", "critical", ("media errors",))}
    ill = one._replace(snapshot=one.snapshot._replace(smart=one.snapshot.smart._replace(value=readings)))
    assert health(ill, "md0").word == "FAILING"


def test_selectable_rows_are_those_of_the_panels() -> None:
    one = scenes.starved(61)
    assert selectable(one, UTC, "disk") == tuple(f"disk:{n}" for n in device_order(one, UTC))
    few = made(*(busy(f"sd{c}") for c in "abcdef"))
    assert selectable(few, UTC._replace(focus="disk", scroll=3), "disk", 4) == selectable(few, UTC, "disk", 9)
    assert selectable(one, UTC, "gpu", 2) == ("gpu:GPU-0000",)
    assert len(selectable(one, UTC, "gpu", 9)) == 8
    keys = selectable(one, UTC, "process")
    assert [key.rpartition(":")[2] for key in keys[:2]] == ["pt_data_worker", "train.py"]
    assert selectable(one, UTC, "graphs") == ()
