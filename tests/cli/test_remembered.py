"""What the screen keeps from one time to the next."""

import json
import os
from pathlib import Path

import pytest

from iotop_ai.cli.remembered import BROKEN, NAME, Remembered, as_left, device_as_left, keep, left, recall
from iotop_ai.model.block import BlockInfo
from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import Settings
from iotop_ai.present.view import View
from tests.present.make import Disk, Machine, disk, frame, snapshots

WHOLE = Remembered(
    "cpu", True, False, frozenset({"gpu", "system"}), "cvd", ("sda", "S1", "M1", "sda"), True, frozenset({"rss"})
)


def frame_of(*disks: BlockInfo) -> Frame:
    return frame(snapshots(lambda i: Machine(disks=tuple(map(Disk, disks))), 3))


def test_there_and_back(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert recall(folder) == (Remembered(), "")
    keep(folder, WHOLE)
    assert recall(folder) == (WHOLE, "")
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600
    keep(folder, Remembered())
    assert recall(folder) == (Remembered(), "")
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
        "[" * 60_000,
        "\xff",
    ],
)
def test_a_broken_file_is_ignored_and_said(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(text.encode("latin-1"))
    assert recall(tmp_path) == (Remembered(), BROKEN)


def test_what_is_no_file_of_ours(tmp_path: Path) -> None:
    (tmp_path / "there").write_text(json.dumps({"version": 1, "sort": "cpu"}))
    (tmp_path / NAME).symlink_to(tmp_path / "there")
    was, said = recall(tmp_path)
    assert was == Remembered()
    assert said.startswith("failed: ")
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    assert recall(tmp_path)[0] == Remembered()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_another_users_file_and_folder(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    keep(folder, WHOLE)
    os.chown(folder / NAME, 65534, 65534)
    was, said = recall(folder)
    assert was == Remembered()
    assert "belongs to somebody else" in said
    os.chown(folder, 65534, 65534)
    with pytest.raises(PermissionError):
        keep(folder, WHOLE)


def test_a_clear_device_name(tmp_path: Path) -> None:
    keep(tmp_path, WHOLE._replace(device=("a\x1b[31m", "", "", "")))
    was, _ = recall(tmp_path)
    assert was.device is not None
    assert was.device[0].isprintable()


def test_what_was_chosen_for_this_run_goes_first() -> None:
    assert as_left(Settings(), Remembered()) == Settings()
    found = as_left(Settings(), WHOLE)
    assert (found.sort, found.reverse, found.hidden, found.theme) == ("cpu", True, ("gpu", "system"), "cvd")
    flagged = Settings(sort="write", theme="light", chosen=frozenset({"sort", "theme"}))
    assert (as_left(flagged, WHOLE).sort, as_left(flagged, WHOLE).theme) == ("write", "light")
    assert as_left(flagged, WHOLE).reverse


def test_the_device_is_found_by_what_it_is() -> None:
    a, b = disk("sda", serial="S1", model="M1"), disk("sdb", serial="S2", model="M1")
    assert device_as_left(frame_of(a, b), WHOLE) == "sda"
    moved = [disk("sda", serial="S2", model="M1"), disk("sdb", serial="S1", model="M1")]
    assert device_as_left(frame_of(*moved), WHOLE) == "sdb"
    assert device_as_left(frame_of(b), WHOLE) == ""
    plain = WHOLE._replace(device=("vda", "", "", "vda"))
    assert device_as_left(frame_of(disk("vda")), plain) == "vda"
    assert device_as_left(frame_of(a), plain) == ""
    assert device_as_left(frame_of(a), Remembered()) == ""


def test_what_is_left() -> None:
    shown = frame_of(disk("sda", serial="S1", model="M1"))
    nothing = Settings()
    assert left(View(), "", shown, nothing, Remembered()) == Remembered()
    view = View(sort="cpu", device="sda", hidden=frozenset({"gpu"}))
    now = left(view, "light", shown, nothing, Remembered())
    assert (now.sort, now.reverse, now.hidden, now.theme) == ("cpu", None, {"gpu"}, "light")
    assert now.device is not None
    assert now.device[:2] == ("sda", "S1")
    # A flag of this run is not remembered; what a key has made of it is.
    flagged = Settings(sort="write", chosen=frozenset({"sort"}))
    was = Remembered(sort="delay")
    assert left(View(sort="write"), "", shown, flagged, was).sort == "delay"
    assert left(View(sort="cpu"), "", shown, flagged, was).sort == "cpu"
    # A device that has gone stays remembered.
    assert left(View(device="sdz"), "", shown, nothing, WHOLE).device == WHOLE.device
    assert left(View(), "", shown, nothing, WHOLE).device is None
