"""The state folder, ``$XDG_STATE_HOME/iotop-ai``, mode 0700, and the path of the settings file.

Source: XDG Base Directory Specification, https://specifications.freedesktop.org/basedir-spec/latest/
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, call_with_timeout

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "iotop-ai"
CONFIG = "config.toml"
CONFIG_VARIABLE = "IOTOP_AI_CONFIG"


def home_path(environ: Mapping[str, str] = os.environ) -> str:
    """The user's home; for root, root's own home even if sudo kept HOME."""
    home = environ.get("HOME", "")
    if os.geteuid() == 0 or not home.startswith("/"):
        # The name service (LDAP, sssd) may not answer.
        try:
            home = call_with_timeout(HOME_TIMEOUT_S, "passwd", lambda: pwd.getpwuid(os.geteuid()).pw_dir)
        except (KeyError, TimeoutError):
            home = home or "/"
    return home


def state_path(environ: Mapping[str, str] = os.environ) -> str:
    """Path of the state folder, existing or not; a str, since the start does not import pathlib."""
    given = environ.get("XDG_STATE_HOME", "")
    # The specification says to ignore a relative path.
    return os.path.join(given if given.startswith("/") else os.path.join(home_path(environ), ".local/state"), FOLDER)


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """``state_path`` as a Path."""
    from pathlib import Path

    return Path(state_path(environ))


def settings_file(environ: Mapping[str, str], given: str | None = None) -> str:
    """Where the settings file is or would be: as given, by $IOTOP_AI_CONFIG, or below $XDG_CONFIG_HOME or ~/.config.

    For root it is below root's own home even if sudo kept HOME.
    """
    if given or environ.get(CONFIG_VARIABLE):
        return os.path.expanduser(given or environ[CONFIG_VARIABLE])
    base = environ.get("XDG_CONFIG_HOME", "")
    # The specification says to ignore a relative path.
    return os.path.join(base if base.startswith("/") else os.path.join(home_path(environ), ".config"), FOLDER, CONFIG)


def config_path(environ: Mapping[str, str], given: str | None = None) -> Path:
    """``settings_file`` as a Path."""
    from pathlib import Path

    return Path(settings_file(environ, given))


def open_folder(folder: Path | str) -> int:
    """A descriptor of the folder, made if needed, private to its owner. Raises OSError.

    PermissionError when it belongs to another user, whose content must not be trusted.
    """
    from pathlib import Path

    folder = Path(folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise PermissionError(1, "belongs to another user", str(folder))
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(handle, 0o700)
    except OSError:
        os.close(handle)
        raise
    return handle


def put_file(folder: int, name: str, raw: bytes, *, lasting: bool = False) -> None:
    """Write or replace a file of an open folder atomically, mode 0600. Raises OSError.

    lasting: flush the folder as well, so that the name survives a power cut.
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
    """``put_file`` in a folder that is created if needed, private to its owner. Raises OSError."""
    handle = open_folder(folder)
    try:
        put_file(handle, name, raw, lasting=lasting)
    finally:
        os.close(handle)


def read_file(folder: Path | str, name: str, limit: int) -> bytes:
    """A regular file of the folder, at most ``limit`` bytes of it, without waiting. Raises OSError."""
    handle = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(22, "not a regular file", name)
        return file.read(limit)
