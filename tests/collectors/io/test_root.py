"""Reading a directory of symbolic links through Root."""

from __future__ import annotations

import os
from pathlib import Path

from iotop_ai.collectors.io.root import Root


def test_links_of_a_directory(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "7" / "fd"
    folder.mkdir(parents=True)
    for number, target in ((0, "/dev/null"), (1, "pipe:[9]"), (2, "socket:[10]")):
        (folder / str(number)).symlink_to(target)
    (folder / "3").write_text("not a link")
    root = Root(str(tmp_path))
    everything = {"0": "/dev/null", "1": "pipe:[9]", "2": "socket:[10]"}
    assert root.links("proc/7/fd", 100) == everything
    some = root.links("proc/7/fd", 2)
    assert some is not None
    assert some.items() <= everything.items()
    assert len(some) <= 2


def test_links_of_a_missing_directory_and_of_a_file_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Root(str(tmp_path)).links("missing", 9) is None
    assert Root(str(tmp_path)).links("file", 9) is None


def test_links_of_open_descriptors() -> None:
    reader, writer = os.pipe()
    try:
        links = Root().links("proc/self/fd", 512)
        assert links is not None
        assert links[str(reader)] == links[str(writer)] == f"pipe:[{os.fstat(reader).st_ino}]"
    finally:
        os.close(reader)
        os.close(writer)
