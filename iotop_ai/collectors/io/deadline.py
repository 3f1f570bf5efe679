"""Limits the total time of a connection. A socket's timeout is not enough: it starts again with each byte."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from typing import Self


class Deadline:
    """A context manager that shuts a connection down after ``seconds``.

    A pending read then gets the end of the stream. late: whether the time is over, or ``cut`` was called. Raises
    OSError on entry when this user has too many threads.
    """

    def __init__(self, seconds: float) -> None:
        self.late = False
        self._watched: socket.socket | None = None
        self._timer = threading.Timer(seconds, self.cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        try:
            self._timer.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._watched is not None:
            self._watched.close()

    def watch(self, connection: socket.socket) -> None:
        """Guard this connection from now on. Call this method once. Raises TimeoutError when ``late`` is True."""
        # Duplicate the descriptor: TLS takes over the caller's, and the number of a closed descriptor may be reused.
        self._watched = socket.socket(fileno=os.dup(connection.fileno()))
        if self.late:
            raise TimeoutError

    def cut(self) -> None:
        """Shut the connection down now."""
        self.late = True
        if self._watched is not None:
            with contextlib.suppress(OSError):
                self._watched.shutdown(socket.SHUT_RDWR)
