"""Copy a tree: by rsync where that is there, else by ourselves. Nothing is ever deleted, at the source or the target.

A file appears under its name only when it is whole; what is there with the same size and time is not copied again, so
the same command goes on where one was interrupted.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable

from iotop_ai.actions.kernel import first_there
from iotop_ai.actions.stage_plan import below, same_file
from iotop_ai.actions.sync import sync_filesystem_of
from iotop_ai.collectors.dataset import Entry, Tree
from iotop_ai.collectors.spawn import nothing_blocked
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError

RSYNC_PATHS = ("/usr/bin/rsync", "/bin/rsync", "/usr/local/bin/rsync", "/run/current-system/sw/bin/rsync")
PARTIAL = ".iotop-ai-partial"
CHUNK = 8 << 20
Tell = Callable[[int], None]
_PROGRESS = re.compile(rb"^\s*(\d+)\s+\d+%")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def find_rsync() -> str:
    """Its path; "" without one."""
    return first_there(RSYNC_PATHS)


def copy_by_rsync(rsync: str, source: str, target: str, tell: Tell) -> None:
    """rsync -rlptgo into the target's folder. tell: bytes so far. Raises UnknownError with what rsync says."""
    argv = [
        *(rsync, "-rlptgo", "--one-file-system", f"--partial-dir={PARTIAL}", "--no-whole-file"),
        *("--no-human-readable", "--info=progress2", "--", source, os.path.dirname(target) + "/"),
    ]
    env = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    with tempfile.TemporaryFile() as words, nothing_blocked():
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words, env=env)
        try:
            _follow(child, tell)
            code = child.wait()
        except BaseException:
            # It saves the file that it is at, so that the next run goes on there.
            child.terminate()
            child.wait()
            raise
        finally:
            if child.stdout is not None:
                child.stdout.close()
        words.seek(0)
        said = words.read(1 << 16).decode("utf-8", "replace")
    if code:
        first = next((line for line in said.splitlines() if line.strip()), f"exit {code}")
        raise UnknownError(f"rsync could not copy everything: {clean(first, 200)}; the same command goes on")


def _follow(child: subprocess.Popen[bytes], tell: Tell) -> None:
    assert child.stdout is not None
    rest = b""
    while block := os.read(child.stdout.fileno(), 1 << 14):
        *lines, rest = re.split(rb"[\r\n]", rest + block)
        for line in lines[-1:]:
            if (found := _PROGRESS.match(line)) is not None:
                tell(int(found[1]))
        rest = rest[-(1 << 14) :]


def copy_by_ourselves(source: str, target: str, tell: Tell) -> None:
    """The same with the standard library alone. Raises UnknownError or OSError."""
    done = 0
    folders: list[tuple[str, os.stat_result]] = []
    tree = Tree(source)
    top = os.stat(tree.top)
    if stat.S_ISDIR(top.st_mode):
        _make_folder(target)
        folders.append((target, top))
    for entry in tree:
        place = below(target, entry.path)
        try:
            if entry.is_folder:
                _make_folder(place)
                folders.append((place, entry.stat))
            elif stat.S_ISLNK(entry.stat.st_mode):
                _copy_link(entry, place)
            elif entry.regular and not same_file(entry, target):
                before = done

                def tell_more(copied: int, before: int = before) -> None:
                    tell(before + copied)

                done += _copy_file(entry, place, tell_more)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise UnknownError(f"{clean(place)}: {error.strerror}; make room, the same command goes on") from None
            raise UnknownError(f"{clean(place)}: {error.strerror}; the same command goes on") from None
    for place, found in reversed(folders):
        _like(place, found)


def _make_folder(place: str) -> None:
    try:
        os.mkdir(place, 0o700)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(place).st_mode):
            raise


def _like(place: str, found: os.stat_result) -> None:
    """Mode and time of the original, and its owner where we may."""
    if os.geteuid() == 0:
        os.chown(place, found.st_uid, found.st_gid, follow_symlinks=False)
    os.chmod(place, stat.S_IMODE(found.st_mode))
    os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))


def _copy_link(entry: Entry, place: str) -> None:
    to = os.readlink(entry.name, dir_fd=entry.folder)
    try:
        os.symlink(to, place)
    except FileExistsError:
        if not os.path.islink(place) or os.readlink(place) != to:
            raise


def part_of(place: str) -> str:
    """Where a file grows until it is whole: beside its place, under a name that is short enough for any filesystem."""
    folder, name = os.path.split(place)
    told = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
    return os.path.join(folder, f"{PARTIAL}-{told}")


def _copy_file(entry: Entry, place: str, tell: Tell) -> int:
    """Bytes written. A part that an interrupted run left is continued; what it holds is verified in the end."""
    part = part_of(place)
    source = entry.open()
    try:
        out = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            here, found = os.fstat(out), os.fstat(source)
            if not stat.S_ISREG(here.st_mode) or here.st_nlink > 1:
                raise OSError(errno.EEXIST, "is there and not ours", part)
            at = here.st_size if here.st_size <= found.st_size and here.st_mtime_ns >= found.st_mtime_ns else 0
            os.ftruncate(out, at)
            os.lseek(out, at, os.SEEK_SET)
            begun = at
            while at < found.st_size:
                moved = os.sendfile(out, source, at, min(CHUNK, found.st_size - at))
                if not moved:
                    raise OSError(errno.EIO, "became shorter while it was copied", entry.path)
                at += moved
                tell(at - begun)
        finally:
            os.close(out)
        _like(part, found)
        os.rename(part, place)
        return at - begun
    finally:
        os.close(source)


def sync_filesystem(folder: str) -> None:
    """Have what was copied written to the disk; only its filesystem, not everybody's. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_filesystem_of(handle)
    finally:
        os.close(handle)
