"""A local web server and a local mail server that keep what they receive."""

from __future__ import annotations

import contextlib
import http.server
import socketserver
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def web_server(status: int = 200) -> Iterator[tuple[str, list[bytes]]]:
    """(address, bodies of its POST requests)."""
    bodies: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with _running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/hook", bodies


@contextlib.contextmanager
def mail_server() -> Iterator[tuple[str, list[str]]]:
    """(host:port, mails)."""
    mails: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

        def handle(self) -> None:
            self.say("220 test")
            while line := self.rfile.readline():
                word = line[:4].upper()
                if word == b"DATA":
                    self.say("354 go on")
                    lines = []
                    while (line := self.rfile.readline()) not in (b".\r\n", b""):
                        lines.append(line.decode())
                    mails.append("".join(lines))
                self.say("221 bye" if word == b"QUIT" else "250 ok")
                if word == b"QUIT":
                    return

    with _running(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"127.0.0.1:{port}", mails


@contextlib.contextmanager
def _running(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
