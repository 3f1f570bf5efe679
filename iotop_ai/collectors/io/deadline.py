"""Limits the whole time of a connection: a socket's own timeout begins again with each byte."""

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
        self._timer = threading.Timer(seconds, self.cut)
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
        """Shut this connection down when the time is over; call once. Raises TimeoutError when it is over already."""
        # A descriptor of its own: TLS takes over the caller's, and the number of a closed one may be reused.
        self._watched = socket.socket(fileno=os.dup(connection.fileno()))
        if self.late:
            raise TimeoutError

    def cut(self) -> None:
        """Shut the connection down now."""
        self.late = True
        if self._watched is not None:
            with contextlib.suppress(OSError):
                self._watched.shutdown(socket.SHUT_RDWR)
