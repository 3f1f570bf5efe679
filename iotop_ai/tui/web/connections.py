"""Limits the number and the age of the connections to ``iotop-ai web`` that have not yet requested a valid address.

Every local user can connect. Without a limit, connections that send nothing take all descriptors of the server.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

MOST_UNKNOWN = 64
"""The maximum number of connections that have not yet requested a valid address. A further one ends the oldest."""
UNKNOWN_S = 2.0
"""The seconds within which a connection must request a valid address. Browsers do so at once."""
ACCEPTED_AT_ONCE = 16
"""The maximum number of connections that asyncio accepts before it reads from them. It is less than MOST_UNKNOWN, so
that a connection's request is read before later connections can end the connection.
"""
_BACKLOG = 128
"""The maximum number of connections that wait to be accepted."""


async def listen(host: str, port: int, make_protocol: Callable[[], asyncio.Protocol]) -> asyncio.Server:
    """Accept connections to a port from now on. Raises OSError if the port is in use."""
    listener = socket.create_server((host, port))
    try:
        # asyncio's backlog is both the number of waiting connections and the number that are accepted at once.
        server = await asyncio.get_running_loop().create_server(make_protocol, sock=listener, backlog=ACCEPTED_AT_ONCE)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return server


class UnknownConnections:
    """The connections that have not yet requested a valid address, the oldest first."""

    def __init__(self) -> None:
        self._timers: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def add(self, transport: asyncio.Transport) -> None:
        """Add a new connection, and end the oldest one if there are too many."""
        self._timers[transport] = asyncio.get_running_loop().call_later(UNKNOWN_S, self._end, transport)
        if len(self._timers) > MOST_UNKNOWN:
            self._end(next(iter(self._timers)))

    def remove(self, transport: asyncio.BaseTransport | None) -> None:
        """Remove a connection that has requested a valid address, or that has ended."""
        timer = self._timers.pop(transport, None) if transport is not None else None
        if timer is not None:
            timer.cancel()

    def _end(self, transport: Any) -> None:
        self.remove(transport)
        transport.abort()


class LimitedProtocol(asyncio.Protocol):
    """Passes the events of one connection to aiohttp's protocol, and adds the connection to ``unknown``."""

    def __init__(self, protocol: Any, unknown: UnknownConnections) -> None:
        self._protocol, self._unknown = protocol, unknown
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: Any) -> None:
        """Add the connection to ``unknown``."""
        self._transport = transport
        self._unknown.add(transport)
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from ``unknown``."""
        self._unknown.remove(self._transport)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass on what the client sent."""
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that the client sends no more."""
        kept_open: bool | None = self._protocol.eof_received()
        return kept_open

    def pause_writing(self) -> None:
        """Pass on that the client reads too slowly."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client has read enough."""
        self._protocol.resume_writing()
