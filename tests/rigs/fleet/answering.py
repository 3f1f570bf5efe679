"""A server that replays the recorded answers of a real Prometheus to the same queries."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator

from iotop_ai.fleet.queries import queries
from tests.rigs.fleet.small import ANSWERS, WINDOW_S

_RANGE = json.dumps(
    {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1795402100, "0.5"]]}]},
    }
).encode()


class Answering(http.server.ThreadingHTTPServer):
    """The server. fault: the bytes sent in place of every answer; b"" closes the connection, None sends the answers."""

    daemon_threads = True

    def __init__(self) -> None:
        with gzip.open(ANSWERS) as file:
            bodies = json.load(file)
        self.bodies = {query: bodies[name].encode() for name, query in queries(WINDOW_S).items()}
        self.fault: bytes | None = None
        self.asked: list[str] = []
        self._going = threading.Event()
        self._going.set()
        super().__init__(("127.0.0.1", 0), _Answer)

    def hang(self) -> None:
        """Answer no request until ``go_on``."""
        self._going.clear()

    def go_on(self) -> None:
        """Answer the waiting requests and all later ones."""
        self._going.set()

    def wait(self) -> None:
        """Block while the server hangs, for at most 60 s."""
        self._going.wait(60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Answering)
        path, _, query_string = self.path.partition("?")
        query = urllib.parse.parse_qs(query_string)["query"][0]
        server.asked.append(query)
        server.wait()
        body = server.fault
        if body is None:
            body = _RANGE if path.endswith("query_range") else server.bodies[query]
        if not body:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@contextlib.contextmanager
def answering() -> Iterator[Answering]:
    """Run the server until the end of the block."""
    with Answering() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
