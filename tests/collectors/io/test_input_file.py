"""Files that are opened to be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.collectors.io.input_file import open_input


def test_a_refused_folder_leaves_no_open_descriptor(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(20):
        with pytest.raises(IsADirectoryError):
            open_input(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with open_input(str(tmp_path / "pipe")) as file:
        assert not file.read(1)
        writer = os.open(tmp_path / "pipe", os.O_WRONLY)
        assert file.read(1) is None
        os.close(writer)


def test_a_relative_path_starts_at_the_given_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to("file")
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with open_input("file", folder=folder, flags=os.O_NOFOLLOW) as file:
            assert file.read() == b"content"
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            open_input("link", folder=folder, flags=os.O_NOFOLLOW)
    finally:
        os.close(folder)
