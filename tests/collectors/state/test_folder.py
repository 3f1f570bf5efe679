"""Files of the state folder: private, written as a whole or not at all, and never through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from iotop_ai.collectors.state.folder import keep_file, open_folder, put_file


def test_a_file_is_private_and_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "iotop-ai"
    keep_file(folder, "a.json", b"first, and longer")
    keep_file(folder, "a.json", b"second", lasting=True)
    assert (folder / "a.json").read_bytes() == b"second"
    assert stat.S_IMODE((folder / "a.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(folder) == ["a.json"]


def test_an_open_file_keeps_its_content_when_it_is_replaced(tmp_path: Path) -> None:
    keep_file(tmp_path / "state", "a.json", b"old")
    with (tmp_path / "state" / "a.json").open("rb") as reader:
        keep_file(tmp_path / "state", "a.json", b"new")
        assert reader.read() == b"old"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    folder, other = tmp_path / "state", tmp_path / "other"
    other.write_text("another's")
    folder.mkdir()
    (folder / "a.json").symlink_to(other)
    keep_file(folder, "a.json", b"ours")
    assert other.read_text() == "another's"
    assert not (folder / "a.json").is_symlink()


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    handle = open_folder(folder)
    try:
        (folder / "a.json").mkdir()
        with pytest.raises(OSError):  # noqa: PT011 - EISDIR or EEXIST, by filesystem
            put_file(handle, "a.json", b"no file can have this name")
    finally:
        os.close(handle)
    assert os.listdir(folder) == ["a.json"]
    assert (folder / "a.json").is_dir()
