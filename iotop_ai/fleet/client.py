"""Asks the HTTP API of Prometheus, or of a compatible server: Thanos, Mimir, VictoriaMetrics."""

from __future__ import annotations

import base64
import http.client
import urllib.parse
from typing import TYPE_CHECKING, Any

from iotop_ai import __version__
from iotop_ai.collectors.io.deadline import Deadline
from iotop_ai.fleet.answer import Answer, BadAnswerError, Points, error_text, parse_matrix, parse_vector
from iotop_ai.model.clean import clean
from iotop_ai.model.errors import UnknownError, UsageError

if TYPE_CHECKING:
    import ssl

TIMEOUT_S = 10.0
MOST_BYTES = 64 << 20
"""The maximum size of one answer in bytes; 10,000 machines need less than half of it."""
_LONGEST_URL = 2048
_HINTS = {
    401: "401: it asks for a login; use --token-file or --user-file",
    403: "403: not permitted",
    404: "404: no /api/v1 at this address; check its path",
}


class NoAnswerError(UnknownError):
    """The server cannot be reached, or does not answer like Prometheus."""


class Address:
    """The address of a server, parsed and checked. Raises UsageError if it is invalid."""

    def __init__(self, url: str) -> None:
        if len(url) > _LONGEST_URL or not url.isprintable() or " " in url:
            raise UsageError("--prometheus: write an address such as http://prometheus:9090")
        # A password that contains # or / is not recognised as one, so no error repeats an address with an @.
        url_text = "" if "@" in url else f" {clean(url)}"
        try:
            parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
            port, host = parts.port, parts.hostname
            (host or "").encode("idna")  # raises ValueError for an empty or overlong label, as a later request would
        except ValueError:
            raise UsageError(f"--prometheus{url_text}: not an address; write http://prometheus:9090") from None
        if parts.username is not None or parts.password is not None:
            # Every user of the machine can read command lines.
            raise UsageError("--prometheus: an address with a password is visible to others; use --user-file")
        if parts.scheme not in ("http", "https") or not host or port == 0 or parts.query or parts.fragment:
            raise UsageError(f"--prometheus{url_text}: write an address such as http://prometheus:9090")
        self.secure = parts.scheme == "https"
        self.host = host
        self.port = port or (443 if self.secure else 80)
        self.path = urllib.parse.quote(parts.path.rstrip("/"), safe="/%")
        self.text = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}{parts.path}"


class _Connection(http.client.HTTPConnection):
    """A connection with a deadline for each request. The deadline covers the name lookup and the connect too."""

    _deadline: Deadline

    def ask(self, target: str, headers: dict[str, str], deadline: Deadline) -> None:
        """Send a request, over a new connection if none is open. Raises TimeoutError after the deadline."""
        self._deadline = deadline
        if self.sock is None:
            self.connect()
        else:
            deadline.watch(self.sock)
        self.request("GET", target, headers=headers)

    def connect(self) -> None:
        super().connect()
        self._deadline.watch(self.sock)


class _TlsConnection(http.client.HTTPSConnection, _Connection):
    """A TLS connection. The deadline also covers the handshake, which comes after ``_Connection.connect``."""


class Prometheus:
    """A client of one Prometheus server, for use by one thread at a time.

    token: sent as "Authorization: Bearer"; "" for none. user: "name:password" for basic authentication; "" for none.
    tls: the settings for https. timeout_s: the time limit for a complete answer, even if its bytes arrive slowly.
    """

    def __init__(
        self,
        address: Address,
        *,
        token: str = "",
        user: str = "",
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.address = address
        self._arguments: dict[str, Any] = {"token": token, "user": user, "tls": tls, "timeout_s": timeout_s}
        self._tls = tls
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json", "User-Agent": f"iotop-ai/{__version__}"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        elif user:
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        self._connection: _Connection | None = None

    def new_client(self) -> Prometheus:
        """Create another client of the same server, for another thread."""
        return Prometheus(self.address, **self._arguments)

    def instant_query(self, query: str, at_s: float | None = None) -> Answer:
        """The answer to a query at the Unix time ``at_s``, by default now. Raises NoAnswerError or BadAnswerError."""
        return parse_vector(self._get("query", {"query": query, **({} if at_s is None else {"time": f"{at_s:.3f}"})}))

    def range_query(self, query: str, begin_s: float, end_s: float, step_s: float) -> list[Points]:
        """The answer at each step from ``begin_s`` to ``end_s``. Raises NoAnswerError or BadAnswerError."""
        span = {"start": f"{begin_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
        return parse_matrix(self._get("query_range", {"query": query, **span}))

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _get(self, endpoint: str, parameters: dict[str, str]) -> bytes:
        target = f"{self.address.path}/api/v1/{endpoint}?{urllib.parse.urlencode(parameters)}"
        reused = self._connection is not None
        try:
            return self._ask(target)
        except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionError) as error:
            if not reused:
                raise self._request_error(error) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._request_error(error) from None
        try:  # the server may have closed the kept connection, so try once more
            return self._ask(target)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._request_error(error) from None

    def _ask(self, target: str) -> bytes:
        connection = self._connection = self._connection or self._new_connection()
        with Deadline(self._timeout_s) as deadline:
            try:
                connection.ask(target, self._headers, deadline)
                answer = connection.getresponse()
                body = answer.read(MOST_BYTES + 1)
            except BaseException:
                self.close()
                if deadline.late:
                    raise TimeoutError from None
                raise
        if deadline.late:
            self.close()
            raise TimeoutError
        if len(body) > MOST_BYTES:
            self.close()
            raise NoAnswerError(f"{self.address.text}: the answer is larger than {MOST_BYTES >> 20} MB")
        if answer.length:  # the number of missing bytes; None or 0 for a complete answer
            self.close()
            raise http.client.RemoteDisconnected("the answer ends early")
        if answer.status != 200:
            raise self._status_error(answer, body)
        return body

    def _new_connection(self) -> _Connection:
        address = self.address
        if address.secure:
            return _TlsConnection(address.host, address.port, timeout=self._timeout_s, context=self._tls)
        return _Connection(address.host, address.port, timeout=self._timeout_s)

    def _status_error(self, answer: http.client.HTTPResponse, body: bytes) -> UnknownError:
        status = answer.status
        if 300 <= status < 400:  # no redirect is followed, because the token would be sent to the other address too
            return NoAnswerError(
                f"{self.address.text} answers {status}: it redirects to another address; use that address"
            )
        if status in _HINTS:
            return NoAnswerError(f"{self.address.text} answers {_HINTS[status]}")
        message = error_text(body)
        # The server cannot evaluate this query, but it may answer other queries.
        return BadAnswerError(message) if message else NoAnswerError(f"{self.address.text} answers {status}")

    def _request_error(self, error: Exception) -> NoAnswerError:
        if isinstance(error, TimeoutError):
            why = f"no answer within {self._timeout_s:g} s"
        elif isinstance(error, http.client.RemoteDisconnected | http.client.IncompleteRead):
            why = "it closes the connection before the answer is complete"
        elif isinstance(error, http.client.HTTPException | ValueError):
            why = "its answer is not HTTP"
        else:
            why = _reason(error)
        return NoAnswerError(f"{self.address.text}: {clean(why, 200)}")


def _reason(error: Exception) -> str:
    """Why a request failed: OpenSSL's description of a bad certificate, else the system's error message."""
    certificate = getattr(error, "verify_message", "")
    if certificate:
        return f"its certificate is not trusted ({certificate}); use --ca-file to trust another authority"
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__)
