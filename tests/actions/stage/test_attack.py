"""Staging as root while another user changes the tree: nothing outside the copy is read, written or changed."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotop_ai.actions.stage.copy import copy_by_ourselves, copy_by_rsync, find_rsync
from iotop_ai.actions.stage.ends import resolve_ends
from iotop_ai.actions.stage.partial_files import partial_name
from iotop_ai.actions.stage.plan import plan
from iotop_ai.actions.stage.speed import measure
from iotop_ai.actions.stage.verify import verify
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.errors import InputError, IotopError, UsageError
from tests.examples import quick_or
from tests.rigs.nobody import UID, as_nobody, why_not_nobody

ROOT = Root("/")
RACE_S = quick_or(1, 5)
LEAST_ACTS = 4
pytestmark = pytest.mark.skipif(bool(why_not_nobody()), reason=why_not_nobody() or "there")


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that belongs to root and that every user can enter."""
    top = Path(tempfile.mkdtemp(prefix="iotop-ai-stage-"))
    top.chmod(0o755)
    yield top
    shutil.rmtree(top)


@pytest.fixture
def victim(open_path: Path) -> Path:
    """A folder of root's with a secret in it, which lies outside both the source and the target."""
    folder = open_path / "victim"
    folder.mkdir()
    (folder / "0").write_bytes(b"precious")
    (folder / "0").chmod(0o600)
    (folder / "sub").mkdir(mode=0o700)
    return folder


def state(top: Path) -> list[tuple[object, ...]]:
    """Everything that can change in a folder. The ctime also shows a chmod or chown that was undone."""
    out: list[tuple[object, ...]] = []
    for path in [top, *sorted(top.rglob("*"))]:
        found = path.lstat()
        out.append((str(path), found.st_mode, found.st_uid, found.st_nlink, found.st_mtime_ns, found.st_ctime_ns))
    return out


def give_to_nobody(top: Path) -> None:
    """Make the user nobody the owner of a tree, which every user can then enter."""
    for path in [top, *top.rglob("*")]:
        os.chown(path, UID, UID, follow_symlinks=False)
    top.chmod(0o755)


def make_source(top: Path, files: int = 20, size: int = 4096) -> Path:
    source = top / "data"
    (source / "sub" / "deeper").mkdir(parents=True)
    for i in range(files):
        for folder in ("", "sub", "sub/deeper"):
            (source / folder / str(i)).write_bytes(os.urandom(size))
    (top / "fast").mkdir()
    give_to_nobody(source)
    return source


def stage(source: Path, folder: Path) -> None:
    with resolve_ends(str(source), str(folder)) as ends:
        copy_by_ourselves(ends, lambda _: None)


SWAP = """
import itertools, os, sys
victim, *places = sys.argv[1:]
def quietly(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        pass
print("ready", flush=True)
for _ in itertools.count():
    for place in places:
        quietly(os.rename, place, place + ".away")
        quietly(os.symlink, victim, place)
        quietly(os.unlink, place)
        quietly(os.rename, place + ".away", place)
"""


@contextmanager
def swapping(victim: Path, *swapped: Path) -> Iterator[None]:
    """As the user ``nobody``, replace these places with links to the victim and undo that, as fast as possible."""
    argv = as_nobody(sys.executable, "-c", SWAP, str(victim), *map(str, swapped))
    child = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        yield
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()


def race(act: Callable[[], None]) -> tuple[int, int]:
    """Repeat the act for RACE_S seconds, but at least LEAST_ACTS times.

    Returns how often it succeeded and how often it was refused.
    """
    until = time.monotonic() + RACE_S
    done = refused = 0
    while time.monotonic() < until or done + refused < LEAST_ACTS:
        try:
            act()
            done += 1
        except (IotopError, OSError):
            refused += 1
    return done, refused


@pytest.mark.parametrize(
    ("mode", "uid", "above"),
    [(0o755, UID, False), (0o777, 0, False), (0o755, UID, True)],
    ids=["copy", "shared", "above"],
)
def test_folders_swapped_for_links_do_not_lead_out_of_the_target(
    open_path: Path, victim: Path, mode: int, uid: int, above: bool
) -> None:
    """above: whether the user also owns the folder that gets the copy, and swaps the copy itself."""
    source, fast = make_source(open_path), open_path / "fast"
    if above:
        give_to_nobody(fast)
    os.chown(source, uid, uid)
    source.chmod(mode)
    stage(source, fast)
    before = state(victim)
    copied = fast / "data"
    moment = time.time_ns()

    def again() -> None:
        nonlocal moment
        moment += 10_000_000_000
        for path in source.rglob("*"):
            if path.is_file():
                os.utime(path, ns=(moment, moment))  # so that every file is copied again
        with resolve_ends(str(source), str(fast)) as ends:
            plan(ends, ROOT)
            copy_by_ourselves(ends, lambda _: None)
            verify(ends, None)

    swapped = [copied / "sub", copied / "sub" / "deeper", copied / "sub" / "0", copied / "0", *[copied] * above]
    with swapping(victim, *swapped):
        done, refused = race(again)
    assert done + refused >= LEAST_ACTS
    assert state(victim) == before
    assert (victim / "0").read_bytes() == b"precious"
    if copied.is_symlink():
        copied.unlink()
    for path in list(fast.rglob("*.away")):
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
    for place in ("sub", "sub/deeper", "sub/0", "0"):
        if (copied / place).is_symlink():
            (copied / place).unlink()
        elif (copied / place).is_dir() and (copied / place).stat().st_uid != UID and not os.listdir(copied / place):
            (copied / place).rmdir()  # a swap ended the copy before it changed the owner of the new folder
    stage(source, fast)
    with resolve_ends(str(source), str(fast)) as ends:
        assert verify(ends, None).wrong == 0


def test_a_source_swapped_for_links_reveals_no_other_file(open_path: Path, victim: Path) -> None:
    source, fast = make_source(open_path), open_path / "fast"
    before = state(victim)

    def anew() -> None:
        shutil.rmtree(fast / "data", ignore_errors=True)
        stage(source, fast)

    try:
        with swapping(victim, source / "sub", source / "sub" / "deeper", source / "sub" / "0"):
            done, refused = race(anew)
            for path in (fast / "data").rglob("*"):
                assert path.is_symlink() or not path.is_file() or path.read_bytes() != b"precious"
    finally:
        assert state(victim) == before
    assert done + refused >= LEAST_ACTS


def test_a_link_that_replaces_a_copied_folder_is_refused_until_it_is_removed(open_path: Path, victim: Path) -> None:
    source, fast = make_source(open_path), open_path / "fast"
    stage(source, fast)
    before = state(victim)
    shutil.rmtree(fast / "data" / "sub")
    (fast / "data" / "sub").symlink_to(victim)
    for attempt in (lambda: stage(source, fast), lambda: verify_after_a_refused_plan(source, fast)):
        with pytest.raises(InputError, match="data/sub is a link or a file, not a folder"):
            attempt()
    assert state(victim) == before
    (fast / "data" / "sub").unlink()
    stage(source, fast)
    assert (fast / "data" / "sub" / "7").read_bytes() == (source / "sub" / "7").read_bytes()


def verify_after_a_refused_plan(source: Path, folder: Path) -> None:
    with resolve_ends(str(source), str(folder)) as ends:
        with pytest.raises(InputError):
            plan(ends, ROOT)
        verify(ends, None)


def test_root_resumes_the_copy_of_another_users_data(open_path: Path) -> None:
    source, fast = make_source(open_path, files=2), open_path / "fast"
    stage(source, fast)
    assert {path.stat().st_uid for path in (fast / "data").rglob("*")} == {UID}
    (source / "sub" / "new").write_bytes(b"new")
    (source / "sub" / "more").mkdir()
    (source / "sub" / "more" / "file").write_bytes(b"more")
    give_to_nobody(source / "sub")
    stage(source, fast)
    with resolve_ends(str(source), str(fast)) as ends:
        found = plan(ends, ROOT)[0]
        assert (found.left_files, found.differing) == (0, 0)
        assert verify(ends, None).wrong == 0
    assert {path.stat().st_uid for path in (fast / "data").rglob("*")} == {UID}
    assert (fast / "data" / "sub").stat().st_mtime_ns == (source / "sub").stat().st_mtime_ns


def test_an_interrupted_copy_belongs_to_root_until_it_is_complete(open_path: Path) -> None:
    source, fast = make_source(open_path, size=1 << 20), open_path / "fast"
    calls = 0

    def stop(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt

    with resolve_ends(str(source), str(fast)) as ends, pytest.raises(KeyboardInterrupt):
        copy_by_ourselves(ends, stop)
    found = (fast / "data").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o700)
    stage(source, fast)
    found = (fast / "data").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (UID, 0o755)
    with resolve_ends(str(source), str(fast)) as ends:
        assert verify(ends, None).wrong == 0


def test_a_partial_file_in_another_users_folder_is_never_continued(open_path: Path, victim: Path) -> None:
    """Otherwise a file of root's, moved there under a partial file's name, would be completed and given to the user."""
    source, fast = make_source(open_path, files=2), open_path / "fast"
    give_to_nobody(fast)
    stage(source, fast)
    assert (fast / "data").stat().st_uid == UID
    secret = fast / "data" / partial_name("0", (source / "0").stat())
    (victim / "0").rename(secret)
    (fast / "data" / "0").unlink()
    secret_fd = os.open(secret, os.O_RDONLY)
    stage(source, fast)
    found = os.fstat(secret_fd)
    assert (found.st_uid, stat.S_IMODE(found.st_mode), os.read(secret_fd, 99)) == (0, 0o600, b"precious")
    os.close(secret_fd)
    assert (fast / "data" / "0").read_bytes() == (source / "0").read_bytes()


def test_a_folder_of_roots_that_was_moved_into_the_target_is_not_given_away(open_path: Path, victim: Path) -> None:
    source, fast = make_source(open_path, files=2), open_path / "fast"
    give_to_nobody(fast)
    (victim / "sub").rename(fast / "data")
    with pytest.raises(InputError, match="fast/data exists and belongs to another user"):
        stage(source, fast)
    found = (fast / "data").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o700)


def test_setuid_and_setgid_are_not_copied(open_path: Path) -> None:
    source, fast = make_source(open_path, files=3), open_path / "fast"
    (source / "0").chmod(0o6755)
    (source / "sub").chmod(0o1777)
    (source / "sub" / "deeper").chmod(0o2775)
    stage(source, fast)
    modes = [stat.S_IMODE((fast / "data" / name).stat().st_mode) for name in ("0", "sub", "sub/deeper")]
    assert modes == [0o755, 0o755, 0o775]  # without the sticky bit, others must not write to the folder


def test_a_pipe_in_place_of_a_file_does_not_block(open_path: Path) -> None:
    source, fast = make_source(open_path, files=2), open_path / "fast"
    stage(source, fast)
    with resolve_ends(str(source), str(fast)) as ends:
        sample = plan(ends, ROOT)[1]
        (fast / "data" / "0").unlink()
        os.mkfifo(fast / "data" / "0")
        done = verify(ends, None)
        assert (done.wrong, done.first_wrong) == (1, "0: not a regular file")
        for path in [path for path in source.rglob("*") if path.is_file()]:
            path.unlink()
            os.mkfifo(path)
        assert measure(ends.pinned, sample, ends.folder, None, Clock()).sample_files == 0


def test_links_that_replace_the_ends_after_they_are_resolved_are_not_followed(open_path: Path, victim: Path) -> None:
    source, fast = make_source(open_path, files=2), open_path / "fast"
    with resolve_ends(str(source), str(fast)) as ends:
        source.rename(open_path / "away")
        source.symlink_to(victim)
        fast.rename(open_path / "fast.away")
        fast.symlink_to(victim)
        copy_by_ourselves(ends, lambda _: None)
        assert verify(ends, None).wrong == 0
    assert (open_path / "fast.away" / "data" / "sub" / "1").exists()
    assert sorted(os.listdir(victim)) == ["0", "sub"]


@pytest.mark.parametrize("end", ["source", "folder"])
def test_root_follows_another_users_link_only_to_that_users_files(open_path: Path, victim: Path, end: str) -> None:
    source, fast = make_source(open_path, files=2), open_path / "fast"
    link = open_path / "link"
    link.symlink_to(victim)
    os.chown(link, UID, UID, follow_symlinks=False)
    pair = (str(link), str(fast)) if end == "source" else (str(source), str(link))
    with pytest.raises(InputError, match="link: another user's symbolic link leads to"):
        resolve_ends(*pair)
    link.unlink()
    link.symlink_to(source)
    os.chown(link, UID, UID, follow_symlinks=False)
    with resolve_ends(str(link), str(fast)) as ends:
        assert ends.source == str(source)


def test_another_filesystem_in_the_target_is_refused(open_path: Path) -> None:
    source, fast = make_source(open_path, files=2), open_path / "fast"
    stage(source, fast)
    mount = ["mount", "-t", "tmpfs", "-o", f"uid={UID}", "none", str(fast / "data" / "sub")]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(InputError, match="is not on the filesystem of the copy"):
            stage(source, fast)
        assert not os.listdir(fast / "data" / "sub")
    finally:
        subprocess.run(["umount", str(fast / "data" / "sub")], check=True)


def test_rsync_is_not_run_as_root(open_path: Path) -> None:
    source, fast = make_source(open_path, files=1), open_path / "fast"
    with resolve_ends(str(source), str(fast)) as ends, pytest.raises(UsageError, match="not run as root"):
        copy_by_rsync(find_rsync() or "/usr/bin/rsync", ends, lambda _: None)
    assert not os.listdir(fast)


def test_paths_are_resolved(open_path: Path) -> None:
    (open_path / "a" / "b").mkdir(parents=True)
    (open_path / "to").mkdir()
    (open_path / "c").symlink_to("a/b")
    (open_path / "loop").symlink_to("loop")
    with resolve_ends(f"{open_path}/./c/..//b/", f"{open_path}/c/../../to") as ends:
        assert (ends.source, ends.target) == (f"{open_path}/a/b", f"{open_path}/to/b")
    with pytest.raises(InputError, match="Too many levels of symbolic links"):
        resolve_ends(str(open_path / "loop"), str(open_path / "to"))
