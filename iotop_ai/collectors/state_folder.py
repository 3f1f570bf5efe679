"""The folder in which the monitor keeps what must outlive it, ``$XDG_STATE_HOME/iotop-ai``, mode 0700, and where the
settings file is.

Source: XDG Base Directory Specification, https://specifications.freedesktop.org/basedir-spec/latest/
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Mapping

from iotop_ai.model.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "iotop-ai"
CONFIG = "config.toml"
CONFIG_VARIABLE = "IOTOP_AI_CONFIG"


def home_path(environ: Mapping[str, str] = os.environ) -> str:
    """The user's home; of root its own, whatever ``sudo`` left in HOME."""
    home = environ.get("HOME", "")
    if os.geteuid() == 0 or not home.startswith("/"):
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            home = home or "/"
    return home


def state_path(environ: Mapping[str, str] = os.environ) -> str:
    """Where the folder is, whether it exists or not; for the start, which does without pathlib."""
    given = environ.get("XDG_STATE_HOME", "")
    # The specification: a path that is not absolute is to be ignored.
    return os.path.join(given if given.startswith("/") else os.path.join(home_path(environ), ".local/state"), FOLDER)


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """As ``state_path``."""
    from pathlib import Path

    return Path(state_path(environ))


def settings_file(environ: Mapping[str, str], given: str | None = None) -> str:
    """Where the settings file is or would be: as given, by $IOTOP_AI_CONFIG, or below $XDG_CONFIG_HOME or ~/.config.

    Of root its own home's, whatever ``sudo`` left in HOME.
    """
    if given or environ.get(CONFIG_VARIABLE):
        return os.path.expanduser(given or environ[CONFIG_VARIABLE])
    base = environ.get("XDG_CONFIG_HOME", "")
    # The specification: a path that is not absolute is to be ignored.
    return os.path.join(base if base.startswith("/") else os.path.join(home_path(environ), ".config"), FOLDER, CONFIG)


def config_path(environ: Mapping[str, str], given: str | None = None) -> Path:
    """As ``settings_file``."""
    from pathlib import Path

    return Path(settings_file(environ, given))


def open_folder(folder: Path | str) -> int:
    """A descriptor of the folder, made if needed, private to its owner. Raises OSError.

    PermissionError when it belongs to somebody else: what stands in it could be made up.
    """
    from pathlib import Path

    folder = Path(folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise PermissionError(1, "belongs to somebody else", str(folder))
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(handle, 0o700)
    except OSError:
        os.close(handle)
        raise
    return handle


def put_file(folder: int, name: str, raw: bytes, *, lasting: bool = False) -> None:
    """Write a file of an opened folder, 0600, in the place of what is there: whole or not at all. Raises OSError.

    lasting: that it stands there under its name must outlive the machine's power, too.
    """
    new = f".{name}.{os.getpid()}.new"
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
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
    """The same in a folder that is made if needed, private to its owner. Raises OSError."""
    handle = open_folder(folder)
    try:
        put_file(handle, name, raw, lasting=lasting)
    finally:
        os.close(handle)
