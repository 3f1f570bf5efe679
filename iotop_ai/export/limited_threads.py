"""Base classes of an HTTP server that limits its threads, one per request, and the time of each request."""

from __future__ import annotations

import contextlib
import logging
import socketserver
import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

from iotop_ai.collectors.io.deadline import Deadline

log = logging.getLogger(__name__)

MOST_REQUESTS = 16
"""Requests answered at one time; a further request ends the longest one, since silent clients may hold all places."""
MOST_THREADS = 2 * MOST_REQUESTS
"""Threads at one time, including those of ended requests; a further request is closed at once."""
MOST_PER_CLIENT = 4
"""Requests of one client answered at one time, where a server tells clients apart."""
REQUEST_S = 10.0
"""Longest time of a whole request, even if its bytes arrive slowly."""
HEAD_S = 2.0
"""Longest time until a request's head has arrived: clients send it at once, so a silent one soon frees its place."""


class LimitedThreads(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """A mixin for a class of ``socketserver``, placed before it in the list of base classes."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lock = threading.Lock()
        self._at_work: Counter[Hashable] = Counter()
        self._running: list[Deadline] = []
        """The deadlines of the running requests, the oldest request first."""
        super().__init__(*args, **kwargs)

    def wrap(self, request: Any) -> Any:
        """The socket that the handler reads: a subclass may add TLS."""
        return request

    def client(self, request: Any, address: Any) -> Hashable:
        """The client's identity; None where clients are not told apart."""
        return None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread, unless too many threads or requests of this client are at work."""
        client = self.client(request, client_address)
        with self._lock:
            free = self._at_work.total() < MOST_THREADS and (client is None or self._at_work[client] < MOST_PER_CLIENT)
            self._at_work[client] += free
        if not free:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._leave(client)
            raise

    @contextlib.contextmanager
    def _place(self, deadline: Deadline) -> Iterator[None]:
        """Hold a place; if all are taken, take the longest request's."""
        with self._lock:
            self._running.append(deadline)
            if len(self._running) > MOST_REQUESTS:
                self._running.pop(0).cut()
        try:
            yield
        finally:
            with self._lock:
                if deadline in self._running:
                    self._running.remove(deadline)

    def _leave(self, client: Hashable) -> None:
        with self._lock:
            self._at_work[client] -= 1
            self._at_work += Counter()  # drops counts of 0

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request, so that a silent client does not delay the others."""
        client = self.client(request, client_address)
        try:
            request.settimeout(REQUEST_S)
            with Deadline(REQUEST_S) as deadline:
                deadline.watch(request)
                with self._place(deadline):
                    request = self.wrap(request)
                    self.finish_request(request, client_address)
        except OSError as error:  # also errors of TLS, and of a client that left
            log.debug("request: %s", error)
        except Exception:
            log.exception("request")
        finally:
            self.shutdown_request(request)
            self._leave(client)


class AnswerHandler(BaseHTTPRequestHandler):
    """Base class of handlers: one answer per connection, without Python's version in its headers, and not logged."""

    server_version = "iotop-ai"
    sys_version = ""
    timeout = REQUEST_S

    def handle(self) -> None:
        """Read and answer a request; its head has to come within HEAD_S."""
        with contextlib.ExitStack() as self._head:
            self._head.enter_context(Deadline(HEAD_S)).watch(self.connection)
            super().handle()

    def parse_request(self) -> bool:
        """Read the rest of the head, and end its time limit."""
        with self._head:
            return super().parse_request()

    def answer(
        self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8", headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Send a response. kind: its media type. headers: further ones."""
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Do not log requests."""
