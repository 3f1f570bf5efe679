"""Files that we create, append to and, as root, read, while another user puts other files in their place."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.collectors.io.own_file import (
    create,
    create_part,
    give_name,
    open_as_root,
    open_to_append,
    parent_of,
    try_lock,
    unlock_and_close,
)
from iotop_ai.model.errors import InputError

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's files")


def spoil(kind: str, path: Path) -> None:
    """Put something else in place of a file."""
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    elif kind in ("link", "link to nothing"):
        if kind == "link":
            (path.parent / "target").write_text("theirs")
        path.symlink_to(path.parent / "target")
    else:
        path.write_text("theirs")
        path.chmod({"group": 0o660, "others": 0o606}.get(kind, 0o600))
        if kind == "another user":
            os.chown(path, NOBODY, NOBODY)
        elif kind == "second name":
            os.link(path, path.parent / "second")


NOT_REGULAR = ("folder", "fifo", "socket", "link", "link to nothing")
NOT_OURS = ("group", "others", "second name", *(("another user",) if os.geteuid() == 0 else ()))


@pytest.mark.parametrize("kind", [*NOT_REGULAR, *NOT_OURS])
def test_only_a_file_of_our_own_is_appended_to(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    spoil(kind, path)
    with pytest.raises((OSError, InputError)):
        open_to_append(str(path))
    if kind in NOT_OURS:
        assert path.read_text() == "theirs"
    assert not (tmp_path / "target").exists() or (tmp_path / "target").read_text() == "theirs"


@pytest.mark.parametrize("kind", [*NOT_REGULAR, *NOT_OURS, "plain"])
def test_a_new_file_does_not_replace_anything(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    spoil(kind, path)
    before = path.lstat().st_ino
    with pytest.raises(FileExistsError):
        create(str(path))
    assert path.lstat().st_ino == before


def test_our_own_file_is_appended_to_and_a_new_one_made(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for text in (b"one", b"two"):
        fd = open_to_append(str(path))
        os.write(fd, text)
        os.close(fd)
    assert path.read_bytes() == b"onetwo"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def wide(folder: Path, mode: int = 0o1777) -> Path:
    folder.mkdir()
    folder.chmod(mode)
    return folder


@as_root
@pytest.mark.parametrize("opener", [create, open_to_append, open_as_root])
def test_a_link_of_another_user_in_a_shared_folder_is_not_followed(
    tmp_path: Path, opener: Callable[[str], int]
) -> None:
    shared, secret = wide(tmp_path / "shared"), tmp_path / "secret"
    secret.mkdir(mode=0o700)
    (secret / "there").write_text("secret")
    (shared / "way").symlink_to(secret)
    os.chown(shared / "way", NOBODY, NOBODY, follow_symlinks=False)
    for name in ("way/new", "way/there", "./way/../way/there"):
        with pytest.raises(InputError, match="belongs to another user"):
            opener(f"{shared}/{name}")
    assert [p.name for p in secret.iterdir()] == ["there"]


@as_root
@pytest.mark.parametrize("opener", [create, open_to_append, open_as_root])
def test_root_follows_no_link_of_another_user_in_that_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opener: Callable[[str], int]
) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    for folder in (theirs, own):
        folder.mkdir(mode=0o700)
    (own / "there").write_text("root's")
    (theirs / "way").symlink_to(own)
    for path in (theirs, theirs / "way"):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    for name in ("way/new", "way/there"):
        with pytest.raises(InputError, match="belongs to another user"):
            opener(f"{theirs}/{name}")
    assert [(p.name, p.read_text()) for p in own.iterdir()] == [("there", "root's")]
    # A user who became root may use links that the user owns.
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    os.close(opener(f"{theirs}/way/{'new' if opener is create else 'there'}"))


def test_our_own_links_in_a_path_are_followed(tmp_path: Path) -> None:
    shared, mine = wide(tmp_path / "shared"), tmp_path / "mine"
    mine.mkdir()
    (shared / "absolute").symlink_to(mine)
    (shared / "relative").symlink_to("../mine")
    (shared / "twice").symlink_to("relative/.")
    for number, name in enumerate(("absolute", "relative", "twice", "twice/../mine")):
        os.close(create(f"{shared}/{name}/{number}"))
    assert sorted(p.name for p in mine.iterdir()) == ["0", "1", "2", "3"]
    (shared / "round").symlink_to("round")
    with pytest.raises(OSError, match="Too many levels"):
        create(f"{shared}/round/a")
    with pytest.raises(NotADirectoryError):
        create(f"{mine}/0/a")


def test_folders_of_a_path_are_opened_so_that_an_automount_point_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    program = f"""
import os, sys
from iotop_ai.collectors.io.own_file import parent_of
sys.addaudithook(lambda event, args: print(args[2] & os.O_DIRECTORY != 0) if event == "open" else None)
parent_of({str(tmp_path / "data" / "run")!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"True"}


def test_a_folder_in_which_every_user_can_replace_files_is_refused(tmp_path: Path) -> None:
    shared = wide(tmp_path / "shared", 0o777)
    for opener in (create, open_to_append):
        with pytest.raises(InputError, match="every user can write"):
            opener(f"{shared}/a")


def test_parts_of_dead_processes_are_removed_and_open_parts_are_kept(tmp_path: Path) -> None:
    folder, _ = parent_of(str(tmp_path / "x"))
    (tmp_path / "a.part").write_text("left over")
    fd = create_part("a.part", folder)
    os.write(fd, b"new")
    with pytest.raises(FileExistsError):
        create_part("a.part", folder)
    give_name(fd, "a.part", "a", folder, replace=False)
    os.close(fd)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "new")]
    fd = create_part("a.part", folder)
    with pytest.raises(FileExistsError):
        give_name(fd, "a.part", "a", folder, replace=False)
    give_name(fd, "a.part", "a", folder, replace=True)
    os.close(fd)
    os.close(folder)
    assert (tmp_path / "a").read_text() == ""


@pytest.mark.parametrize("kind", ["link", "folder", "fifo", *(("another user",) if os.geteuid() == 0 else ())])
def test_another_file_in_place_of_a_part_is_an_error(tmp_path: Path, kind: str) -> None:
    folder, _ = parent_of(str(tmp_path / "x"))
    spoil(kind, tmp_path / "a.part")
    with pytest.raises(FileExistsError):
        create_part("a.part", folder)
    os.close(folder)
    assert (tmp_path / "a.part").exists()
    assert not (tmp_path / "target").exists() or (tmp_path / "target").read_text() == "theirs"


def test_a_part_that_was_replaced_does_not_get_the_final_name(tmp_path: Path) -> None:
    folder, _ = parent_of(str(tmp_path / "x"))
    fd = create_part("a.part", folder)
    (tmp_path / "a.part").unlink()
    (tmp_path / "a.part").write_text("theirs")
    with pytest.raises(FileNotFoundError):
        give_name(fd, "a.part", "a", folder, replace=True)
    os.close(fd)
    os.close(folder)
    assert not (tmp_path / "a").exists()


def test_a_left_over_is_opened_for_writing_because_a_lock_on_nfs_needs_it(tmp_path: Path) -> None:
    (tmp_path / "a.part").touch()
    program = f"""
import os, sys
from iotop_ai.collectors.io.own_file import remove_left_over
sys.addaudithook(lambda event, args: print(args[2] & os.O_ACCMODE) if event == "open" and args[0] == "a.part" else None)
print(remove_left_over("a.part", os.open({str(tmp_path)!r}, os.O_RDONLY)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(os.O_RDWR), "True"]
    assert not (tmp_path / "a.part").exists()


def test_the_lock_of_a_part_excludes_others(tmp_path: Path) -> None:
    folder, _ = parent_of(str(tmp_path / "x"))
    fd = create_part("a.part", folder)
    other = os.open(tmp_path / "a.part", os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    for one in (fd, other, folder):
        os.close(one)


def test_a_child_that_is_being_started_does_not_keep_a_file_locked(tmp_path: Path) -> None:
    """Between its fork and its exec, a child has a copy of every descriptor, and with it a share of the lock."""
    path = str(tmp_path / "a")
    fd = open_to_append(path)
    assert try_lock(fd)
    copy, other = os.dup(fd), open_to_append(path)
    assert not try_lock(other)
    unlock_and_close(fd)
    assert try_lock(other)
    for one in (copy, other):
        os.close(one)


@as_root
def test_root_reads_only_files_that_belong_to_root(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("mine")
    path.chmod(0o644)
    fd = open_as_root(str(path))
    assert os.read(fd, 9) == b"mine"
    os.close(fd)
    (tmp_path / "link").symlink_to(path)
    for spoiled, why in ((0o664, "other users can write"), (0o646, "other users can write"), (None, "user 65534")):
        if spoiled is None:
            path.chmod(0o600)
            os.chown(path, NOBODY, NOBODY)
        else:
            path.chmod(spoiled)
        with pytest.raises(InputError, match=why) as refused:
            open_as_root(str(path))
        assert "--allow-root" in str(refused.value)
    with pytest.raises(InputError, match=r"symbolic link.*--allow-root"):
        open_as_root(str(tmp_path / "link"))


@as_root
def test_under_sudo_a_file_of_the_calling_user_is_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("mine")
    path.chmod(0o600)
    os.chown(path, NOBODY, NOBODY)
    monkeypatch.setenv("SUDO_UID", "4711")
    with pytest.raises(InputError, match="user 65534"):
        open_as_root(str(path))
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    os.close(open_as_root(str(path)))
    path.chmod(0o622)
    with pytest.raises(InputError, match="other users can write"):
        open_as_root(str(path))
