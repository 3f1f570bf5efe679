"""The HTTP server for Prometheus. It answers GET /metrics from the newest Frame, and reads no device.

A web page can make a browser send requests to any address, under a host name that the page's owner controls (DNS
rebinding). So a request is refused if its Host header does not name this machine, and no answer allows another origin
to read it.
"""

from __future__ import annotations

import gzip
import hmac
import ipaddress
import os
import socket
import threading
from collections.abc import Collection, Hashable
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from iotop_ai.export.limited_threads import REQUEST_S, AnswerHandler, LimitedThreads
from iotop_ai.export.prometheus.exposition import (
    OPENMETRICS_TYPE,
    TEXT_TYPE,
    allowed_in,
    metrics,
    render,
    wants_openmetrics,
)
from iotop_ai.model.frame import Frame

if TYPE_CHECKING:
    import ssl

PATH = "/metrics"
GZIP_LEVEL = 1
"""Level 1 compresses a scrape of a large machine to 13 % in 0.2 ms; level 6 reaches 12 % in three times that time."""
_HINT = b"iotop-ai: the metrics are at /metrics\n"


class ScrapeText:
    """The text of the newest Frame, made once per Frame, format and encoding."""

    def __init__(self, devices: Collection[str] = ()) -> None:
        self._devices = devices
        self._lock = threading.Lock()
        self._frame: Frame | None = None
        self._texts: dict[tuple[bool, bool], bytes] = {}

    def put(self, frame: Frame) -> None:
        """Set the newest Frame."""
        with self._lock:
            self._frame, self._texts = frame, {}

    def text(self, *, openmetrics: bool, gzipped: bool = False) -> bytes | None:
        """The text of the newest Frame; None before the first Frame."""
        with self._lock:
            frame, texts = self._frame, self._texts
            if frame is None:
                return None
            if (plain := (openmetrics, False)) not in texts:
                texts[plain] = render(metrics(frame, self._devices), openmetrics=openmetrics)
            if gzipped and (openmetrics, True) not in texts:
                texts[openmetrics, True] = gzip.compress(texts[plain], GZIP_LEVEL, mtime=0)
            return texts[openmetrics, gzipped]


def allowed_host(header: str, names: Collection[str]) -> bool:
    """Whether a Host header is allowed: any IP address, localhost, or one of ``names`` (in lower case)."""
    host = header.strip().lower()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    if host == "localhost" or host in names:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class MetricsServer(LimitedThreads, ThreadingHTTPServer):
    """Serves metrics until ``stop``. Raises OSError if it cannot listen.

    token: the token that requests must have; "" for none. tls: the settings of TLS; None for plain HTTP. names: the
    names that a Host header may use besides the address.
    """

    def __init__(
        self,
        address: tuple[str, int],
        scrape: ScrapeText,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        names: Collection[str] = (),
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.scrape = scrape
        self.token = token.encode()
        self.names = frozenset(name.lower() for name in (*names, address[0]) if name)
        self._tls = tls
        super().__init__(address, _Handler)
        self._thread = threading.Thread(target=self.serve_forever, name="metrics", daemon=True)

    def server_bind(self) -> None:
        """Bind without looking up the host's name, because the lookup may wait for a name server."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def client(self, request: Any, address: Any) -> Hashable:
        """The client's address (for IPv6, its network); None for a loopback address, which has no limit per client."""
        ip = ipaddress.ip_address(address[0].partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if ip.is_loopback:
            return None
        return ip if ip.version == 4 else ip.packed[:8]

    def start(self) -> None:
        """Start answering on threads."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and close the socket, even if ``start`` was never called."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join(REQUEST_S)
        self.server_close()

    def wrap(self, request: Any) -> Any:
        """The request's socket, with TLS if it is used. The handshake runs on the request's thread."""
        return request if self._tls is None else self._tls.wrap_socket(request, server_side=True)


class _Handler(AnswerHandler):
    server: MetricsServer

    def do_GET(self) -> None:  # noqa: N802 - http.server's name
        """Send the metrics if the request is allowed; for another path, a line that names the path of the metrics."""
        if not allowed_host(self.headers.get("Host", ""), self.server.names):
            self.answer(421, b"this is not a name of this machine; --allow-host NAME allows it\n")
        elif not self._authorized():
            self.answer(401, b"a bearer token is needed\n", headers=(("WWW-Authenticate", "Bearer"),))
        elif self.path.partition("?")[0] == "/":
            self.answer(200, _HINT)
        elif self.path.partition("?")[0] != PATH:
            self.answer(404, _HINT)
        else:
            openmetrics = wants_openmetrics(self.headers.get("Accept", ""))
            gzipped = allowed_in(self.headers.get("Accept-Encoding", ""), "gzip")
            text = self.server.scrape.text(openmetrics=openmetrics, gzipped=gzipped)
            if text is None:
                self.answer(503, b"nothing has been read yet\n")
            else:
                encoding = (("Content-Encoding", "gzip"),) if gzipped else ()
                headers = (("Vary", "Accept, Accept-Encoding"), *encoding)
                self.answer(200, text, OPENMETRICS_TYPE if openmetrics else TEXT_TYPE, headers)

    def _authorized(self) -> bool:
        if not self.server.token:
            return True
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.server.token)


def own_names() -> tuple[str, ...]:
    """The names of this machine that are known without a name server."""
    name = os.uname().nodename
    return (name, name.partition(".")[0])
