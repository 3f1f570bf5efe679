"""The other machine's end of an exchange of gradients: ``python peer.py``, run in a separate network namespace.

It listens on PORT, and prints a line when it is ready. On each connection it repeatedly receives a length (8 bytes) and
that many bytes, and answers with one byte. This resembles an all-reduce, which ends when all gradients have arrived.
"""

from __future__ import annotations

import socket
import struct
import threading

PORT = 4711
LENGTH = struct.Struct("!Q")
PIECE = 1 << 18


def serve(connection: socket.socket) -> None:
    """Receive and answer until the other end closes the connection."""
    piece = bytearray(PIECE)
    with connection:
        while len(head := connection.recv(LENGTH.size, socket.MSG_WAITALL)) == LENGTH.size:
            (left,) = LENGTH.unpack(head)
            while left:
                taken = connection.recv_into(piece, min(left, PIECE))
                if not taken:
                    return
                left -= taken
            connection.sendall(b"k")


class Exchange:
    """A rank's end of the exchange: it sends its gradients and waits until they have arrived."""

    def __init__(self, host: str) -> None:
        self._socket = socket.create_connection((host, PORT), timeout=60)
        self._gradients = b""

    def run(self, size: int) -> None:
        """Exchange this many bytes."""
        if len(self._gradients) != size:
            self._gradients = bytes(size)
        self._socket.sendall(LENGTH.pack(size))
        self._socket.sendall(self._gradients)
        if self._socket.recv(1) != b"k":
            raise ConnectionError("the peer has gone")


def main() -> None:
    with socket.create_server(("0.0.0.0", PORT)) as server:
        print("listening", flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
