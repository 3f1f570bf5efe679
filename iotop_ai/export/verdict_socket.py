"""A Unix socket on which an unprivileged process asks for the verdict on its own jobs, by HTTP.

``curl --unix-socket PATH http://localhost/`` prints the JSON of ``export.json.own_verdict``. The kernel identifies the
process that asks (SO_PEERCRED, unix(7)), and /proc/PID/cgroup gives its cgroup. So a client cannot obtain the verdicts
on others' jobs by a forged request.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading

from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.socket_file import SocketFile
from iotop_ai.collectors.process.parse import parse_cgroup
from iotop_ai.export.json.own_verdict import Peer, render_own_verdict_json
from iotop_ai.export.limited_threads import REQUEST_S, AnswerHandler, LimitedThreads
from iotop_ai.model.frame import Frame

_CREDENTIALS = struct.Struct("iII")
"""struct ucred: pid, uid and gid. User ids range from 0 to 2**32 - 2."""


class VerdictServer(LimitedThreads, socketserver.UnixStreamServer):
    """Answers from the newest Frame until ``stop``. Raises OSError or IotopError if it cannot listen."""

    def __init__(self, path: str, root: Root) -> None:
        self._path = path
        self.root = root
        self._frame_lock = threading.Lock()
        self._frame: Frame | None = None
        self._answers: dict[Peer, bytes] = {}
        super().__init__(path, _Handler)
        self._thread = threading.Thread(target=self.serve_forever, name="verdict-socket", daemon=True)

    def server_bind(self) -> None:
        """Bind the socket so that every user may connect."""
        self._file = SocketFile(self.socket, self._path, 0o666)

    def client(self, request: socket.socket, address: object) -> int:
        """The user id of the process at the other end.

        Clients are limited by user, so that one user cannot occupy all slots.
        """
        return credentials(request)[1]

    def put(self, frame: Frame) -> None:
        """Set the newest Frame."""
        with self._frame_lock:
            self._frame, self._answers = frame, {}

    def answer(self, peer: Peer) -> bytes | None:
        """The JSON for a peer; None before the first Frame.

        It is rendered once per Frame and peer, because clients may ask in a loop.
        """
        with self._frame_lock:
            if self._frame is not None and peer not in self._answers:
                self._answers[peer] = render_own_verdict_json(self._frame, peer).encode()
            return self._answers.get(peer)

    def start(self) -> None:
        """Start answering on threads."""
        self._thread.start()

    def stop(self) -> None:
        """Remove the socket's path and stop answering. Raises OSError if the path cannot be removed."""
        try:
            self._file.unlink()
        finally:
            if self._thread.is_alive():
                self.shutdown()
                self._thread.join(REQUEST_S)
            self.server_close()


def credentials(request: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process that connected, from the kernel; pid 0 for a process outside this pid namespace."""
    pid, uid, _ = _CREDENTIALS.unpack(request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid


def peer_of(request: socket.socket, root: Root) -> Peer | None:
    """The process at the other end; None if /proc does not show it, or if its pid now belongs to another user."""
    pid, uid = credentials(request)
    if not pid:
        return None
    try:
        status, cgroup = (root.read(f"proc/{pid}/{name}") for name in ("status", "cgroup"))
    except OSError:
        return None
    uids = next((line.split()[1:] for line in status.splitlines() if line.startswith(b"Uid:")), [])
    return Peer(uid, parse_cgroup(cgroup)) if b"%d" % uid in uids else None


class _Handler(AnswerHandler):
    server: VerdictServer

    def do_GET(self) -> None:  # noqa: N802 - http.server's name
        """Send the verdict on the peer's jobs."""
        peer = peer_of(self.connection, self.server.root)
        if peer is None:
            self._json(
                403, b'{"error": "the monitor does not see your process; run the monitor in the host\'s pid namespace"}'
            )
        elif (answer := self.server.answer(peer)) is None:
            self._json(503, b'{"error": "nothing has been read yet"}')
        else:
            self._json(200, answer)

    def _json(self, code: int, body: bytes) -> None:
        self.answer(code, body + b"\n", "application/json")
