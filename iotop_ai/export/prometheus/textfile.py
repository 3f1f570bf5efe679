"""The metrics as a file for the textfile collector of node_exporter."""

from __future__ import annotations

import contextlib
import errno
import os

from iotop_ai.collectors.io.own_file import parent_of
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.export.prometheus.exposition import metrics, render
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.frame import Frame

EVERY_S = 10.0
"""The shortest time between two writes, in seconds."""
ENDING = ".prom"
"""node_exporter reads only files with this ending."""
_MODE = 0o644
"""Other users can read the file, because node_exporter runs as another user. The metrics contain no command lines."""


class Textfile:
    """Writes the file at most every EVERY_S seconds. Raises UsageError for a path that node_exporter would not read.

    ``close`` removes the file, because old metrics would look current. It keeps a file that another program wrote.
    """

    def __init__(self, path: str, devices: tuple[str, ...] = ()) -> None:
        if not path.endswith(ENDING):
            raise UsageError(f"--textfile: the name must end in {ENDING}")
        self.path = path
        self._devices = devices
        self._tried_ns: int | None = None
        self._file_identity: tuple[int, int] | None = None
        """The device and inode of the last file that was written."""

    def check_folder(self) -> None:
        """Raise OSError or InputError if the file's folder does not exist or this user cannot write to it."""
        folder, _ = parent_of(self.path)
        try:
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        finally:
            os.close(folder)

    def put(self, frame: Frame) -> bool:
        """Write the Frame if a write is due; return whether one was due. Raises OSError, InputError or UsageError."""
        now_ns = frame.snapshot.at_ns
        if self._tried_ns is not None and now_ns - self._tried_ns < EVERY_S * 1e9:
            return False
        self._tried_ns = now_ns
        with OutFile(self.path, force=True) as out:
            with out.stream() as stream:
                stream.write(render(metrics(frame, self._devices), openmetrics=False))
                os.fchmod(stream.fileno(), _MODE)
                identity = _identity(os.fstat(stream.fileno()))
            out.commit()
        self._file_identity = identity
        return True

    def close(self) -> None:
        """Remove the file, unless another program has replaced it or no write has succeeded."""
        if self._file_identity is not None:
            with contextlib.suppress(OSError, InputError):
                folder, name = parent_of(self.path)
                try:
                    if _identity(os.stat(name, dir_fd=folder, follow_symlinks=False)) == self._file_identity:
                        os.unlink(name, dir_fd=folder)
                finally:
                    os.close(folder)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
