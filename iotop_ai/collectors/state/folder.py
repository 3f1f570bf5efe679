"""The state folder, ``$XDG_STATE_HOME/iotop-ai``, which has mode 0700, and the path of the settings file.

Source: XDG Base Directory Specification, https://specifications.freedesktop.org/basedir-spec/latest/
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "iotop-ai"
CONFIG = "config.toml"
CONFIG_VARIABLE = "IOTOP_AI_CONFIG"


def home_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return the user's home. For root, return root's own home even if sudo kept the caller's HOME.

    If the user is unknown or the name service does not answer, return HOME, or "/" if HOME is not set.
    """
    home = environ.get("HOME", "")
    if os.geteuid() == 0 or not home.startswith("/"):
        # The lookup may hang: the name service (LDAP, sssd) may not answer.
        try:
            home = call_with_timeout(HOME_TIMEOUT_S, "passwd", lambda: pwd.getpwuid(os.geteuid()).pw_dir)
        except (KeyError, TimeoutError):
            home = home or "/"
    return home


def state_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the state folder, which may not exist yet; a str, because start-up does not load pathlib."""
    base = environ.get("XDG_STATE_HOME", "")
    # The specification says to ignore a relative path.
    return os.path.join(base if base.startswith("/") else os.path.join(home_path(environ), ".local/state"), FOLDER)


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``state_path`` as a Path."""
    from pathlib import Path

    return Path(state_path(environ))


def settings_file(environ: Mapping[str, str], option: str | None = None) -> str:
    """Return the path of the settings file, which may not exist.

    The path is ``option`` (--config), or $IOTOP_AI_CONFIG, or below $XDG_CONFIG_HOME or ~/.config. For root, ~/.config
    is in root's own home even if sudo kept the caller's HOME.
    """
    if option or environ.get(CONFIG_VARIABLE):
        return os.path.expanduser(option or environ[CONFIG_VARIABLE])
    base = environ.get("XDG_CONFIG_HOME", "")
    # The specification says to ignore a relative path.
    return os.path.join(base if base.startswith("/") else os.path.join(home_path(environ), ".config"), FOLDER, CONFIG)


def config_path(environ: Mapping[str, str], option: str | None = None) -> Path:
    """Return ``settings_file`` as a Path."""
    from pathlib import Path

    return Path(settings_file(environ, option))


def open_folder(folder: Path | str) -> int:
    """Return a descriptor of the folder, which is created if needed and made private to its owner. Raises OSError.

    On a read-only filesystem, the folder keeps its mode. Raises PermissionError when the folder belongs to another
    user, because its content must not be trusted.
    """
    from pathlib import Path

    folder = Path(folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
        if stat.S_IMODE(status.st_mode) & 0o077:
            _make_private(handle)
    except OSError:
        os.close(handle)
        raise
    return handle


def _make_private(folder: int) -> None:
    try:
        os.fchmod(folder, 0o700)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise


def put_file(folder: int, name: str, raw: bytes, *, lasting: bool = False) -> None:
    """Write or replace a file of an open folder atomically, with mode 0600. Raises OSError.

    lasting: also flush the folder to disk, so that the file's name survives a power cut.
    """
    from iotop_ai.collectors.io.own_file import create_part

    new = f".{name}.{os.getpid()}.new"
    handle = create_part(new, folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise
    if lasting:
        os.fsync(folder)


def keep_file(folder: Path | str, name: str, raw: bytes, *, lasting: bool = False) -> None:
    """Write a file like ``put_file``, in a folder that is created if needed and made private to its owner.

    Raises OSError.
    """
    handle = open_folder(folder)
    try:
        put_file(handle, name, raw, lasting=lasting)
    finally:
        os.close(handle)


def open_file(path: str) -> BinaryIO:
    """Open a file to read it, without following a link or waiting for a writer. Raises OSError, also for a folder."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK))


def read_file(folder: Path | str, name: str, limit: int) -> bytes:
    """Return at most ``limit`` bytes of a regular file of the folder, without waiting for a writer. Raises OSError."""
    with open_file(os.path.join(folder, name)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        return file.read(limit)
