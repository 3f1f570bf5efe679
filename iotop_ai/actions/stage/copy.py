"""Copies a tree with rsync, or with our own code. Both replace files that differ; neither deletes other files.

The only exception: our own code deletes the partial files that interrupted runs left in the target.

A file appears under its name only when it is complete. A file with the same size and modification time is not copied
again, so the same command resumes an interrupted copy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial

from iotop_ai.actions.stage.ends import Ends
from iotop_ai.actions.stage.partial_files import PARTIAL, partial_name
from iotop_ai.actions.stage.plan import same_file, same_link
from iotop_ai.actions.stage.target import Folder, Target, mode_of
from iotop_ai.collectors.io.own_file import is_named, try_lock, unlock_and_close
from iotop_ai.collectors.io.programs import SYSTEM_PATH, find_program
from iotop_ai.collectors.io.spawn import start
from iotop_ai.collectors.machine.dataset_files import Entry, Tree
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError

CHUNK = 8 << 20
OnBytes = Callable[[int], None]
"""A function that is called with the number of bytes copied so far."""
_PROGRESS = re.compile(rb"^\s*(\d+)\s+\d+%")
"""Matches the beginning of rsync's progress line: the bytes so far, and the percentage."""
_TRIES = 4
"""The maximum number of attempts to open a partial file, which another process may replace meanwhile."""
WHY_NOT_ROOT = "it follows paths that other users can change meanwhile; use --by own, which does not"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class _SourceError(OSError):
    """An error while reading the original, and not while writing its copy."""


@contextlib.contextmanager
def _source_errors() -> Iterator[None]:
    """Turn an OSError of the ``with`` block into a _SourceError."""
    try:
        yield
    except OSError as error:
        raise _SourceError(error.errno, error.strerror) from None


def find_rsync() -> str:
    """Return the path of rsync; "" if it is not installed."""
    return find_program("rsync")


def copy_by_rsync(rsync: str, ends: Ends, on_bytes: OnBytes) -> None:
    """Copy with ``rsync -rlptgo`` into the target's folder. Raises UnknownError with rsync's message, or OSError.

    Raises UsageError for root: rsync resolves paths repeatedly, and a user who can change a path could redirect it.
    on_bytes: called with the bytes copied so far.
    """
    if os.geteuid() == 0:
        raise UsageError(f"rsync is not run as root: {WHY_NOT_ROOT}")
    argv = [
        *(rsync, "-rlptgo", "--one-file-system", f"--partial-dir={PARTIAL}", "--no-whole-file", "--chmod=ug-s,Fo-t"),
        *("--no-human-readable", "--info=progress2", "--", ends.source, os.path.dirname(ends.target) + "/"),
    ]
    env = {"LC_ALL": "C", "PATH": SYSTEM_PATH}
    with tempfile.TemporaryFile() as stderr:
        child = start(argv, stdout=subprocess.PIPE, stderr=stderr, env=env)
        try:
            _report_progress(child, on_bytes)
            code = child.wait()
        except BaseException:
            # rsync keeps the partial file, so that the next run continues it.
            child.terminate()
            child.wait()
            raise
        finally:
            if child.stdout is not None:
                child.stdout.close()
        stderr.seek(0)
        text = stderr.read(1 << 16).decode("utf-8", "replace")
    if code:
        first_line = next((line for line in text.splitlines() if line.strip()), f"exit {code}")
        raise UnknownError(
            f"rsync could not copy everything: {clean(first_line, 200)}; the same command resumes the copy"
        )


def _report_progress(child: subprocess.Popen[bytes], on_bytes: OnBytes) -> None:
    assert child.stdout is not None
    rest = b""
    while block := os.read(child.stdout.fileno(), 1 << 14):
        *lines, rest = re.split(rb"[\r\n]", rest + block)
        for line in lines[-1:]:
            if (progress := _PROGRESS.match(line)) is not None:
                on_bytes(int(progress[1]))
        rest = rest[-(1 << 14) :]


def copy_by_ourselves(ends: Ends, on_bytes: OnBytes) -> None:
    """Copy with the standard library alone. on_bytes: called with the bytes written so far.

    Raises UnknownError if an entry cannot be copied, InputError for an untrusted folder of the target, and OSError.
    """
    copied_bytes, path = 0, ""
    tree = Tree(ends.pinned)
    with Target(ends, change=True) as target:
        try:
            if ends.pinned.name == ".":
                target.enter("", os.fstat(ends.pinned.folder))
            for entry in tree:
                path = entry.path
                copied_bytes += _copy(entry, target, partial(_report_total, on_bytes, copied_bytes))
            path = ""
            target.finish()
            if ends.pinned.name != ".":
                target.remove_partial_files()
        except OSError as error:
            advice = "free some space; " if error.errno in _NO_ROOM else ""
            place = target.display_path(path)
            if isinstance(error, _SourceError):
                place = clean(os.path.join(ends.source, path) if path else ends.source)
            raise UnknownError(f"{place}: {error.strerror}; {advice}the same command resumes the copy") from None
    if tree.unreadable:
        raise UnknownError(f"{clean(tree.first_unreadable)}; the same command resumes the copy")


def _report_total(on_bytes: OnBytes, before: int, copied: int) -> None:
    on_bytes(before + copied)


def _copy(entry: Entry, target: Target, on_bytes: OnBytes) -> int:
    """Copy one entry of the tree; return the bytes written. Pipes, sockets and devices are left out."""
    if entry.is_folder:
        target.enter(entry.path, entry.stat)
        return 0
    folder, name = target.place(entry.path)
    if entry.is_link:
        _copy_link(entry, folder.handle, name)
    elif entry.regular and not same_file(entry, folder.handle, name):
        return _copy_file(entry, folder, name, on_bytes)
    return 0


def _copy_link(entry: Entry, folder: int, name: str) -> None:
    """Copy one link if the target does not have it. Another file or link of that name is replaced."""
    with _source_errors():
        link_target = entry.read_link()
    if same_link(link_target, folder, name):
        return
    part = partial_name(name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    os.symlink(link_target, part, dir_fd=folder)
    try:
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise


def _copy_file(entry: Entry, folder: Folder, name: str, on_bytes: OnBytes) -> int:
    """Copy one file; return the bytes written.

    A partial file of the same original is continued. Its content is not checked here, but by the verification.
    """
    with _source_errors():
        source = entry.open()
    try:
        # The open file is copied, even if another file has its name by now.
        original = os.fstat(source)
        part = partial_name(name, original)
        out, offset = _open_part(folder, part, original)
        try:
            written = _copy_bytes(out, source, offset, original.st_size, on_bytes)
            _set_attributes(out, original)
            os.rename(part, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)
            return written
        except BaseException:
            if not folder.is_private:
                # ``_open_part`` would not continue the partial file in this folder.
                with contextlib.suppress(OSError):
                    os.unlink(part, dir_fd=folder.handle)
            raise
        finally:
            unlock_and_close(out)
    finally:
        os.close(source)


def _open_part(folder: Folder, part: str, original: os.stat_result) -> tuple[int, int]:
    """Open or create the partial file; return its descriptor, and the number of bytes that it already holds.

    A partial file is continued only in a folder that no other user can change. In any other folder, another user could
    have moved a different file of ours to this name. Continuing would give that file a new owner and mode.

    The file stays locked while it is open, so that no other run writes to it or removes it as left over.

    Raises OSError, also if another entry has this name or another run is copying the file.
    """
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    why = f"{part} is in the way; move it away"
    for _ in range(_TRIES):
        with contextlib.suppress(FileExistsError):
            out = os.open(part, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder.handle)
            if try_lock(out) and is_named(out, part, folder.handle):
                return out, 0
            unlock_and_close(out)
            continue
        with contextlib.suppress(FileNotFoundError):  # another run has just finished or removed it
            part_status = os.stat(part, dir_fd=folder.handle, follow_symlinks=False)
            if not stat.S_ISREG(part_status.st_mode):
                break
            trusted = folder.is_private and part_status.st_uid == os.geteuid() and part_status.st_nlink == 1
            # A file that replaced the source may have an older mtime (tar, rsync -t), but not an older ctime.
            is_newer = part_status.st_mtime_ns >= max(original.st_mtime_ns, original.st_ctime_ns)
            if trusted and part_status.st_size <= original.st_size and is_newer:
                out = os.open(part, flags, dir_fd=folder.handle)
                if not try_lock(out):
                    why = "another run is copying this file"
                elif os.path.samestat(os.fstat(out), part_status) and is_named(out, part, folder.handle):
                    return out, part_status.st_size
                unlock_and_close(out)
            else:
                os.unlink(part, dir_fd=folder.handle)
    raise OSError(errno.EEXIST, why)


def _copy_bytes(out: int, source: int, offset: int, size: int, on_bytes: OnBytes) -> int:
    """Copy the bytes of the source from ``offset`` to ``size``; return how many bytes were written. Raises OSError."""
    begin = offset
    os.lseek(out, offset, os.SEEK_SET)
    while offset < size:
        copied_bytes = os.sendfile(out, source, offset, min(CHUNK, size - offset))
        if not copied_bytes:
            raise _SourceError(errno.EIO, "became shorter during the copy")
        offset += copied_bytes
        on_bytes(offset - begin)
    return offset - begin


def _set_attributes(out: int, original: os.stat_result) -> None:
    """Set the original's mode and times, and its owner when run as root."""
    if os.geteuid() == 0:
        os.fchown(out, original.st_uid, original.st_gid)
    os.fchmod(out, mode_of(original))
    os.utime(out, ns=(original.st_atime_ns, original.st_mtime_ns))
