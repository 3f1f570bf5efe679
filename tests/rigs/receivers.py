"""A local web server and a local mail server, which keep what they receive."""

from __future__ import annotations

import base64
import contextlib
import http.server
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType


@contextlib.contextmanager
def web_server(
    status: int = 200, refusals: int | None = None, headers: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, list[bytes]]]:
    """The address of the server, and the bodies of its POST requests.

    status: the answer to the first ``refusals`` requests (None: to all); later ones are answered with 200.
    """
    bodies: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status if refusals is None or len(bodies) <= refusals else 200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with _running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/hook", bodies


@contextlib.contextmanager
def mail_server(
    tls: str = "no",
    certificate: tuple[Path, Path] | None = None,
    login: tuple[str, str] | None = None,
    refuses: str = "",
    farewell: str = "221 bye",
) -> Iterator[tuple[str, list[str]]]:
    """The host:port of the server, and the mails.

    tls: "no", "starttls" or "tls", with a certificate and its key. login: the login that it requires by AUTH PLAIN.
    refuses: a recipient that it does not accept. farewell: its answer to QUIT.
    """
    mails: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate is not None:
        context.load_cert_chain(*certificate)

    class Handler(socketserver.BaseRequestHandler):
        def say(self, *lines: str) -> None:
            for number, line in enumerate(lines, 1):
                self.wire.sendall(f"{line[:3]}{' ' if number == len(lines) else '-'}{line[4:]}\r\n".encode())

        def use(self, wire: socket.socket) -> None:
            self.wire, self.lines = wire, wire.makefile("rb")

        def handle(self) -> None:
            with contextlib.suppress(OSError):  # the client may refuse the certificate
                self.use(context.wrap_socket(self.request, server_side=True) if tls == "tls" else self.request)
                self.talk()

        def talk(self) -> None:
            self.say("220 test")
            may_send = login is None
            while line := self.lines.readline():
                word, _, rest = line.decode().strip().partition(" ")
                word = word.upper()
                if word == "EHLO":
                    more = ["250 STARTTLS"] if tls == "starttls" and not isinstance(self.wire, ssl.SSLSocket) else []
                    self.say("250 test", *more, "250 AUTH PLAIN")
                elif word == "STARTTLS":
                    self.say("220 go on")
                    self.use(context.wrap_socket(self.request, server_side=True))
                elif word == "AUTH":
                    may_send = base64.b64decode(rest.split()[-1]).decode().split("\0")[1:] == [*(login or ())]
                    self.say("235 ok" if may_send else "535 no")
                elif word == "DATA" and may_send:
                    self.say("354 go on")
                    lines = []
                    while (line := self.lines.readline()) not in (b".\r\n", b""):
                        lines.append(line.decode())
                    mails.append("".join(lines))
                    self.say("250 ok")
                elif word == "RCPT" and refuses and f"<{refuses}>" in rest:
                    self.say("550 no such user")
                elif word == "QUIT":
                    self.say(farewell)
                    return
                else:
                    self.say("250 ok" if may_send else "530 log in first")

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
