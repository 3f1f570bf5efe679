"""A slow object store: ``python object_store.py URL_FILE DELAY_MS BYTES_PER_S``. GET /N returns N bytes.

It waits DELAY_MS before each answer, and sends at most BYTES_PER_S on each connection. When it is ready, it writes
host:port to URL_FILE and one line to standard output.
"""

from __future__ import annotations

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PIECE = 16 * 1024


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    delay_s = 0.0
    bytes_per_s = 0.0

    def do_GET(self) -> None:
        size = int(self.path.strip("/"))
        time.sleep(self.delay_s)
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        while size > 0:
            piece = bytes(min(PIECE, size))
            self.wfile.write(piece)
            size -= len(piece)
            time.sleep(len(piece) / self.bytes_per_s)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


def main() -> int:
    Handler.delay_s, Handler.bytes_per_s = float(sys.argv[2]) / 1000, float(sys.argv[3])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Path(sys.argv[1]).write_text(f"127.0.0.1:{server.server_address[1]}")
    print("serving", flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
