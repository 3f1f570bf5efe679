"""The metrics as a file for the textfile collector of node_exporter."""

from __future__ import annotations

import contextlib
import os

from iotop_ai.collectors.io.own_file import parent_of
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.export.prometheus.exposition import metrics, render
from iotop_ai.model.errors import InputError, UsageError
from iotop_ai.model.frame import Frame

EVERY_S = 10.0
ENDING = ".prom"
"""node_exporter reads only files with this ending."""
_MODE = 0o644
"""Other users can read the file, because node_exporter runs as another user. The metrics contain no command lines."""


class Textfile:
    """Writes the file at most every 10 s, and removes it at the end, because old metrics would look current.

    Raises UsageError for a path that node_exporter would not read.
    """

    def __init__(self, path: str, devices: tuple[str, ...] = ()) -> None:
        if not path.endswith(ENDING):
            raise UsageError(f"--textfile: the name must end in {ENDING}")
        self.path = path
        self._devices = devices
        self._tried_ns: int | None = None

    def put(self, frame: Frame) -> bool:
        """Write the Frame if a write is due; return whether it was due. Raises OSError, InputError or UsageError."""
        now_ns = frame.snapshot.at_ns
        if self._tried_ns is not None and now_ns - self._tried_ns < EVERY_S * 1e9:
            return False
        self._tried_ns = now_ns
        with OutFile(self.path, force=True) as out:
            with out.stream() as stream:
                stream.write(render(metrics(frame, self._devices), openmetrics=False))
                os.fchmod(stream.fileno(), _MODE)
            out.commit()
        return True

    def close(self) -> None:
        """Remove the file."""
        if self._tried_ns is not None:
            with contextlib.suppress(OSError, InputError):
                folder, name = parent_of(self.path)
                try:
                    os.unlink(name, dir_fd=folder)
                finally:
                    os.close(folder)
