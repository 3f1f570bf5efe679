"""Base classes of an HTTP server that uses a thread per request, with limits on the threads and on a request's time."""

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
"""The most requests that are answered at the same time. A further request ends the oldest one, because silent clients
might otherwise occupy all slots."""
MOST_THREADS = 2 * MOST_REQUESTS
"""The most threads at the same time, including those of ended requests. A further request is closed at once."""
MOST_PER_CLIENT = 4
"""The most threads of one client at the same time, if the server distinguishes clients."""
REQUEST_S = 10.0
"""The time limit for a whole request in seconds, even if its bytes arrive slowly."""
HEAD_S = 2.0
"""The time limit for a request's head in seconds. Clients send the head at once, so only silent clients exceed it."""


class LimitedThreads(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """A mixin that limits the threads of a ``socketserver`` class. List it before that class in the bases."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lock = threading.Lock()
        self._threads_by_client: Counter[Hashable] = Counter()
        self._running: list[Deadline] = []
        """The deadlines of the running requests, the oldest request first."""
        super().__init__(*args, **kwargs)

    def wrap(self, request: Any) -> Any:
        """The socket that the handler reads; a subclass may add TLS."""
        return request

    def client(self, request: Any, address: Any) -> Hashable:
        """The client's identity; None if clients are not distinguished."""
        return None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread; close the connection if too many threads run, in total or for this client."""
        client = self.client(request, client_address)
        with self._lock:
            threads = self._threads_by_client
            accepted = threads.total() < MOST_THREADS and (client is None or threads[client] < MOST_PER_CLIENT)
            if accepted:
                threads[client] += 1
        if not accepted:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._release_thread(client)
            raise

    @contextlib.contextmanager
    def _slot(self, deadline: Deadline) -> Iterator[None]:
        """Occupy a slot; if none is free, end the oldest request and take its slot."""
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

    def _release_thread(self, client: Hashable) -> None:
        with self._lock:
            self._threads_by_client[client] -= 1
            self._threads_by_client += Counter()  # removes clients with a count of 0

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one request. It runs on the request's own thread, so a silent client does not delay other clients."""
        client = self.client(request, client_address)
        try:
            request.settimeout(REQUEST_S)
            with Deadline(REQUEST_S) as deadline:
                deadline.watch(request)
                with self._slot(deadline):
                    request = self.wrap(request)
                    self.finish_request(request, client_address)
        except OSError as error:  # raised after a time limit, by TLS, or if the client has disconnected
            log.debug("request: %s", error)
        except Exception:
            log.exception("request")
        finally:
            self.shutdown_request(request)
            self._release_thread(client)


class AnswerHandler(BaseHTTPRequestHandler):
    """Base class of handlers: one answer per connection.

    Requests are not logged, and headers do not name Python's version.
    """

    server_version = "iotop-ai"
    sys_version = ""
    timeout = REQUEST_S

    def handle(self) -> None:
        """Read and answer a request; its head must arrive within HEAD_S."""
        with contextlib.ExitStack() as self._head_deadline:
            self._head_deadline.enter_context(Deadline(HEAD_S)).watch(self.connection)
            super().handle()

    def parse_request(self) -> bool:
        """Read the rest of the head, and end the time limit of the head."""
        with self._head_deadline:
            return super().parse_request()

    def answer(
        self, code: int, body: bytes, kind: str = "text/plain; charset=utf-8", headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Send a response. kind: its media type. headers: further headers."""
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
