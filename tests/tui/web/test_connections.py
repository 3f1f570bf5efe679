"""Users without the key can connect too, but they neither block the screen in a browser nor flood the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from urllib.parse import urlsplit

from tests.cli.commands.web.test_command import Lines, free_port, needs_extra, server_of

pytestmark = needs_extra
HALF_A_HEAD = b"GET / HT"


def connected(port: int, text: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), 10)
    line.sendall(text)
    return line


async def is_closed(line: socket.socket) -> bool:
    line.setblocking(False)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            try:
                return await asyncio.get_running_loop().sock_recv(line, 1) == b""
            except ConnectionResetError:
                return True
    return False


async def test_silent_connections_take_no_more_than_their_places() -> None:
    """A page that was open before them, and one that comes after them, are answered."""
    from iotop_ai.tui.web.connections import ACCEPTED_AT_ONCE, MOST_UNKNOWN, UNKNOWN_S

    async with server_of("/bin/sleep", "100") as (page, reports, browser), contextlib.AsyncExitStack() as stack:
        port = urlsplit(page).port
        assert port is not None
        ws = await stack.enter_async_context(browser.ws_connect(f"{page}ws"))
        begun, lines = time.monotonic(), []
        for _ in range(MOST_UNKNOWN // ACCEPTED_AT_ONCE + 2):
            lines += [stack.enter_context(connected(port, HALF_A_HEAD)) for _ in range(ACCEPTED_AT_ONCE)]
            await asyncio.sleep(0.02)
        extra = len(lines) - MOST_UNKNOWN
        assert all([await is_closed(line) for line in lines[:extra]])
        if time.monotonic() - begun < UNKNOWN_S / 2:
            assert not await is_closed(lines[-1])
        async with browser.get(page) as answer:
            assert answer.status == 200
        await asyncio.sleep(UNKNOWN_S)
        assert all([await is_closed(line) for line in lines])
        assert not ws.closed
        async with browser.get(page) as answer:
            assert answer.status == 200
        assert reports == []


async def test_a_client_that_has_left_does_not_use_up_the_key() -> None:
    import aiohttp

    from iotop_ai.tui.web.server import BrowserServer

    port, opens = free_port(), Lines()
    async with BrowserServer(("/bin/true",), {}, port, opens, Lines()).listening():
        path = urlsplit(opens[0]).path
        connected(port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()).close()
        await asyncio.sleep(0.3)
        async with aiohttp.ClientSession() as browser, browser.get(opens[0]) as answer:
            assert answer.status == 200
    assert len(opens) == 2


def test_a_librarys_message_is_reported_once_a_minute() -> None:
    from iotop_ai.tui.web.server import _OneLine

    reports = Lines()
    handler = _OneLine(reports)
    for second, text in ((0, "x"), (1, "x"), (30, "y"), (61, "z")):
        record = logging.LogRecord("aiohttp", logging.ERROR, "", 0, "bad request %s\nmore", (text,), None)
        record.created = 1e9 + second
        handler.handle(record)
    assert reports == ["bad request x", "bad request z"]
