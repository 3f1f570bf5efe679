"""The view that the screen remembers from one run to the next."""

import json
import os
from pathlib import Path

import pytest

from iotop_ai.cli.commands.monitor.remembered_view import (
    NAME,
    UNREADABLE_VIEW,
    RememberedView,
    read_view,
    restored_device,
    restored_settings,
    view_to_remember,
    write_view,
)
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.present.screen.view import View
from tests.present.make import Disk, Machine, disk, frame, snapshots

ALL_FIELDS = RememberedView(
    "cpu",
    True,
    False,
    frozenset({"gpu", "system"}),
    "cvd",
    ("sda", "S1", "M1", "sda"),
    True,
    frozenset({"rss"}),
    "decimal",
    frozenset({"shared memory"}),
    ("sdb", "S2", "M1"),
)


def frame_of(*disks: BlockInfo) -> Frame:
    return frame(snapshots(lambda i: Machine(disks=tuple(map(Disk, disks))), 3))


def test_a_view_survives_writing_and_reading(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert read_view(folder) == (RememberedView(), "")
    write_view(folder, ALL_FIELDS)
    assert read_view(folder) == (ALL_FIELDS, "")
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600
    write_view(folder, RememberedView())
    assert read_view(folder) == (RememberedView(), "")
    assert [path.name for path in folder.iterdir()] == [NAME]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 2}',
        '{"version": 1, "sort": "pink"}',
        '{"version": 1, "sort": ["cpu"]}',
        '{"version": 1, "reverse": 1}',
        '{"version": 1, "hidden": ["x"]}',
        '{"version": 1, "hidden": [[]]}',
        '{"version": 1, "no_columns": [[]]}',
        '{"version": 1, "no_columns": ["x"]}',
        '{"version": 1, "tree": 1}',
        '{"version": 1, "theme": "\\u001b[31m"}',
        '{"version": 1, "device": ["sda"]}',
        '{"version": 1, "device": [1, 2, 3, 4]}',
        '{"version": 1, "whole_disk": ["sda", "S1"]}',
        "[" * 60_000,
        "\xff",
    ],
)
def test_a_broken_file_is_ignored_and_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(text.encode("latin-1"))
    assert read_view(tmp_path) == (RememberedView(), UNREADABLE_VIEW)


def test_a_symbolic_link_or_a_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "there").write_text(json.dumps({"version": 1, "sort": "cpu"}))
    (tmp_path / NAME).symlink_to(tmp_path / "there")
    view, message = read_view(tmp_path)
    assert view == RememberedView()
    assert message.startswith("failed: ")
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    assert read_view(tmp_path)[0] == RememberedView()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_another_users_file_and_folder_are_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    write_view(folder, ALL_FIELDS)
    os.chown(folder / NAME, 65534, 65534)
    view, message = read_view(folder)
    assert view == RememberedView()
    assert "belongs to another user" in message
    os.chown(folder, 65534, 65534)
    with pytest.raises(PermissionError):
        write_view(folder, ALL_FIELDS)


def test_a_device_name_has_no_control_characters(tmp_path: Path) -> None:
    write_view(tmp_path, ALL_FIELDS._replace(device=("a\x1b[31m", "", "", "")))
    view, _ = read_view(tmp_path)
    assert view.device is not None
    assert view.device[0].isprintable()


def test_flags_of_this_run_take_precedence() -> None:
    assert restored_settings(Settings(), RememberedView()) == Settings()
    found = restored_settings(Settings(), ALL_FIELDS)
    assert (found.sort, found.reverse, found.hidden, found.theme) == ("cpu", False, ("gpu", "system"), "cvd")
    flagged = Settings(sort="write", theme="light", chosen=frozenset({"sort", "theme"}))
    assert (restored_settings(flagged, ALL_FIELDS).sort, restored_settings(flagged, ALL_FIELDS).theme) == (
        "write",
        "light",
    )
    assert restored_settings(flagged, ALL_FIELDS).tree
    assert not restored_settings(flagged, ALL_FIELDS._replace(only_active=True)).only_active


def test_the_device_is_found_by_its_identity() -> None:
    a, b = disk("sda", serial="S1", model="M1"), disk("sdb", serial="S2", model="M1")
    assert restored_device(frame_of(a, b), ALL_FIELDS) == "sda"
    moved = [disk("sda", serial="S2", model="M1"), disk("sdb", serial="S1", model="M1")]
    assert restored_device(frame_of(*moved), ALL_FIELDS) == "sdb"
    assert restored_device(frame_of(b), ALL_FIELDS) == ""
    plain = RememberedView(device=("vda", "", "", "vda"))
    assert restored_device(frame_of(disk("vda")), plain) == "vda"
    assert restored_device(frame_of(a), plain) == ""
    assert restored_device(frame_of(a), RememberedView()) == ""


def partition(name: str, parent: str) -> BlockInfo:
    return BlockInfo(name, 8, 1, "partition", name, "partition", parent=parent)


def test_a_partition_is_found_through_its_disk(tmp_path: Path) -> None:
    parts = partition("nvme0n1p1", "nvme0n1"), partition("nvme1n1p1", "nvme1n1"), partition("vda1", "vda")
    data, boot = disk("nvme0n1", serial="DATA", model="M1"), disk("nvme1n1", serial="BOOT", model="M1")
    before = frame_of(data, boot, disk("vda"), *parts)
    swapped = frame_of(data._replace(serial="BOOT"), boot._replace(serial="DATA"), disk("vda"), *parts)

    def after(shown: Frame, device: str) -> str:
        write_view(tmp_path, view_to_remember(View(device=device), "", before, Settings(), RememberedView()))
        return restored_device(shown, read_view(tmp_path)[0])

    assert after(before, "nvme0n1p1") == "nvme0n1p1"
    assert after(swapped, "nvme0n1p1") == "nvme1n1p1"
    assert after(frame_of(boot, *parts[1:]), "nvme0n1p1") == ""
    assert after(frame_of(data, parts[1]), "nvme0n1p1") == ""
    assert after(swapped, "vda1") == "vda1"  # a disk without a serial number


@pytest.mark.parametrize(
    ("pinned", "found"),
    [
        (disk("loop1", "loop"), ""),
        (disk("zram0", "zram"), ""),
        (disk("ram0", "ram"), ""),
        (disk("nbd0"), ""),
        (disk("dm-0", "dm"), ""),
        (disk("dm-0", "dm", label="vg-data"), "dm-0"),
        (disk("md0", "md"), "md0"),
        (disk("vda"), "vda"),
        (disk("nbd0", serial="S9"), "nbd0"),
    ],
)
def test_a_device_is_remembered_only_if_something_identifies_it(pinned: BlockInfo, found: str) -> None:
    """The kernel numbers loop devices in the order of their use, so a name may be another device the next time."""
    shown = frame_of(pinned)
    kept = view_to_remember(View(device=pinned.name), "", shown, Settings(), RememberedView())
    assert restored_device(shown, kept) == found
    assert (kept.device is not None) == bool(found)
    older_file = RememberedView(device=(pinned.name, pinned.serial, pinned.model, pinned.label))
    assert restored_device(shown, older_file) == found
    at_exit = view_to_remember(View(device=found), "", shown, Settings(), older_file)
    assert (at_exit.device is not None) == bool(found)
    following = view_to_remember(View(device=pinned.name, follow_job=True), "", shown, Settings(), older_file)
    assert (following.device is not None) == bool(found)


def test_a_partition_of_a_loop_device_is_not_remembered() -> None:
    shown = frame_of(disk("loop1", "loop"), partition("loop1p1", "loop1"))
    kept = view_to_remember(View(device="loop1p1"), "", shown, Settings(), RememberedView())
    assert kept.device is None


def test_a_device_that_is_absent_for_a_session_stays_remembered() -> None:
    absent = frame_of(disk("sdb", serial="S2", model="M1"))
    now = view_to_remember(View(), "", absent, Settings(), ALL_FIELDS)
    assert (now.device, now.whole_disk) == (ALL_FIELDS.device, ALL_FIELDS.whole_disk)


def test_a_remembered_device_does_not_override_the_devices_of_this_run() -> None:
    shown = frame_of(disk("sda", serial="S1", model="M1"), disk("sdb", serial="S2", model="M1"))
    other, same = Settings(devices=("sdb",)), Settings(devices=("sda", "sdb"))
    assert restored_device(shown, ALL_FIELDS, other.devices) == ""
    assert restored_device(shown, ALL_FIELDS, same.devices) == "sda"
    # It stays remembered if it was not selected because of the devices of this run.
    assert view_to_remember(View(), "", shown, other, ALL_FIELDS).device == ALL_FIELDS.device
    assert view_to_remember(View(), "", shown, same, ALL_FIELDS).device is None
    now = view_to_remember(View(device="sdb"), "", shown, other, ALL_FIELDS).device
    assert now is not None
    assert now[0] == "sdb"


def test_the_view_at_exit_is_remembered() -> None:
    shown = frame_of(disk("sda", serial="S1", model="M1"))
    defaults = Settings()
    assert view_to_remember(View(), "", shown, defaults, RememberedView()) == RememberedView()
    view = View(sort="cpu", device="sda", hidden=frozenset({"gpu"}))
    now = view_to_remember(view, "light", shown, defaults, RememberedView())
    assert (now.sort, now.reverse, now.hidden, now.theme) == ("cpu", None, {"gpu"}, "light")
    assert now.device is not None
    assert now.device[:2] == ("sda", "S1")
    after = view_to_remember(View(reverse=True, only_active=True), "", shown, defaults, ALL_FIELDS)
    assert (after.reverse, after.only_active) == (None, None)
    # A flag of this run is not remembered, but a later change by a key is.
    flagged = Settings(sort="write", chosen=frozenset({"sort"}))
    was = RememberedView(sort="delay")
    assert view_to_remember(View(sort="write"), "", shown, flagged, was).sort == "delay"
    assert view_to_remember(View(sort="cpu"), "", shown, flagged, was).sort == "cpu"
    # A device that was removed stays remembered.
    assert view_to_remember(View(device="sdz"), "", shown, defaults, ALL_FIELDS).device == ALL_FIELDS.device
    assert view_to_remember(View(), "", shown, defaults, ALL_FIELDS).device is None


def test_the_device_of_a_followed_job_is_not_remembered() -> None:
    shown, defaults = frame_of(disk("sda", serial="S1", model="M1")), Settings()
    follows = View(device="sda", follow_job=True)
    assert view_to_remember(follows, "", shown, defaults, RememberedView()).device is None
    another = RememberedView(device=("sdb", "S2", "M1", "sdb"))
    assert view_to_remember(follows, "", shown, defaults, another).device == another.device
