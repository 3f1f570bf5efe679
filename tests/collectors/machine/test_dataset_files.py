"""The walk over the files of a dataset: links, hostile names, deep trees and folders that change meanwhile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from iotop_ai.collectors.machine.dataset_files import FOLDER, Pinned, Tree, open_below
from tests.rigs.nobody import UID, as_user


def names(top: Path | str) -> dict[str, str]:
    tree = Tree(str(top))
    kinds = {e.path: "folder" if e.is_folder else "file" if e.regular else "other" for e in tree}
    assert not tree.unreadable
    return kinds


def test_every_entry_is_listed_once_and_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "one").write_text("1")
    (top / "a" / "b" / "two").write_text("22")
    (top / "link").symlink_to(outside)
    (top / "a" / "out").symlink_to(outside / "secret")
    os.mkfifo(top / "pipe")
    assert names(top) == {
        "a": "folder",
        "a/b": "folder",
        "a/b/two": "file",
        "a/one": "file",
        "a/out": "other",
        "link": "other",
        "pipe": "other",
    }
    assert names(tmp_path / "top" / "link") == {"secret": "file"}  # the path that the user gave may be a link
    assert names(top / "a" / "one") == {"": "file"}


def test_an_empty_path_does_not_mean_the_current_folder() -> None:
    with pytest.raises(FileNotFoundError):
        Tree("")


def test_hostile_names_are_listed(tmp_path: Path) -> None:
    raw = [b"-rf", b"a\nb", b"\x1b]0;x\x07", b"\xff\xfe", "[x] …".encode()]
    for name in raw:
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(b"1")
    assert {os.fsencode(path) for path in names(tmp_path)} == set(raw)


def test_a_tree_of_hundreds_of_levels_is_listed(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert len(names(tmp_path)) == 600


def test_an_entry_that_became_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for entry in Tree(str(tmp_path)):
        (tmp_path / "file").unlink()
        (tmp_path / "file").symlink_to("/etc/passwd")
        with pytest.raises(OSError, match=r"symbolic|loop"):
            entry.open()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_folder_that_can_be_entered_but_not_listed_leads_to_its_files(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "file").write_text("x")
    inner.chmod(0o711)
    (tmp_path / "link").symlink_to(inner)
    top = Pinned(os.open(tmp_path, FOLDER), ".", str(tmp_path))
    tmp_path.chmod(0o755)
    try:
        assert as_user(UID, lambda: os.close(open_below(top, "inner/file")[0])) == 0
        with pytest.raises(NotADirectoryError):
            open_below(top, "link/file")
    finally:
        os.close(top.folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_file_in_a_folder_that_cannot_be_listed_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    top = Pinned(os.open(tmp_path, FOLDER), "file", str(tmp_path / "file"))
    tmp_path.chmod(0o711)

    def read() -> None:
        (content,) = (os.read(entry.open(), 9) for entry in Tree(top))
        assert content == b"x"

    try:
        assert as_user(UID, read) == 0
    finally:
        os.close(top.folder)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    before = set(os.listdir("/proc/self/fd"))
    for entry in Tree(str(tmp_path)):
        assert entry.is_folder
        break
    assert set(os.listdir("/proc/self/fd")) - before <= {str(max(map(int, os.listdir("/proc/self/fd"))))}
    assert len(list(Tree(str(tmp_path)))) == 2
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_another_filesystem_is_left_out_and_counted(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "none", str(other)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (other / "file").write_text("x")
        tree = Tree(str(tmp_path))
        assert [entry.path for entry in tree] == []
        assert tree.elsewhere == 1
    finally:
        subprocess.run(["umount", str(other)], check=True)


@pytest.mark.parametrize("becomes", ["link", "folder"])
def test_a_folder_replaced_during_the_walk_is_not_entered(tmp_path: Path, becomes: str) -> None:
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    tree = Tree(str(tmp_path / "top"))
    paths = []
    for entry in tree:
        paths.append(entry.path)
        (tmp_path / "top" / "sub").rename(tmp_path / "away")
        if becomes == "link":
            (tmp_path / "top" / "sub").symlink_to(tmp_path / "other")
        else:
            (tmp_path / "other").rename(tmp_path / "top" / "sub")
    assert paths == ["sub"]
    assert tree.unreadable == 1
