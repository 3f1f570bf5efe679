"""The end of a connection after a time as a whole: a timeout of a socket begins again with each byte."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Self


class Deadline:
    """Shuts a connection down after ``seconds``: its reader gets the end of the stream at once. Used with ``with``."""

    def __init__(self, seconds: float) -> None:
        self.late = False
        self._watched: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._watched is not None:
            self._watched.close()

    def watch(self, connection: socket.socket) -> None:
        """Shut this connection down when it is late; once. Raises TimeoutError when it is late already."""
        # A descriptor of its own: TLS takes the other away, and a closed one may become another file's.
        self._watched = socket.socket(fileno=os.dup(connection.fileno()))
        if self.late:
            raise TimeoutError

    def _cut(self) -> None:
        self.late = True
        if self._watched is not None:
            with contextlib.suppress(OSError):
                self._watched.shutdown(socket.SHUT_RDWR)
