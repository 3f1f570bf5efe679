"""The screen in a browser on this machine: the page of textual-serve, protected by a key in its address.

The key is not in a cookie, because a browser sends the cookies of 127.0.0.1 to all ports, including those of other
users. The printed address works once: it leads to an address that only that browser knows, and then a new address is
printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import secrets
import select
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import jinja2
from aiohttp import WSCloseCode, web

from iotop_ai.model.clean import clean
from iotop_ai.tui.web.connections import LimitedProtocol, UnknownConnections, listen
from iotop_ai.tui.web.session import HEARTBEAT_S, LARGEST_MESSAGE, Session

HOST = "127.0.0.1"
MOST_SESSIONS = 8
"""The largest number of sessions; each of them runs a monitor."""
MOST_PAGES = 32
"""The maximum number of addresses that are valid at the same time; the oldest is dropped first."""
_KEY_BYTES = 24
_KEEP_ALIVE_S = 75.0
"""The seconds that an idle connection stays open between two requests for valid addresses."""
_MOST_MESSAGES = 256
_REPEAT_S = 60.0
"""The seconds within which a library's message is reported once. Every user can cause some messages, with any text."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BrowserServer:
    """Serves a monitor to each browser that has the key.

    argv, environment: how the monitor is started. show_address: called at the start, and each time an address has been
    used, with an address that works once. report: called with one line when a session ends, unless its user ended it,
    and for each warning of a library.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        port: int,
        show_address: Callable[[str], None],
        report: Callable[[str], None],
    ) -> None:
        self._argv, self._environment = argv, environment
        self._port = port
        self._show_address, self._report = show_address, report
        self._url = f"http://{HOST}:{port}"
        self._key = secrets.token_urlsafe(_KEY_BYTES)
        self._pages: list[str] = []
        """The secret parts of the valid addresses, the oldest first."""
        self._unknown = UnknownConnections()
        self._session_tasks: set[asyncio.Task[None] | None] = set()
        folder = Path(str(files("textual_serve")))
        self._static = {
            str(path.relative_to(folder / "static")): path
            for path in (folder / "static").rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        text = (folder / "templates" / "app_index.html").read_text(encoding="utf-8")
        self._template = jinja2.Environment(autoescape=True).from_string(text)

    def serve(self) -> None:
        """Serve until SIGINT or SIGTERM. Raises OSError if the port is in use."""
        for name in ("aiohttp", "asyncio"):
            logging.getLogger(name).addHandler(_OneLine(self._report))
        asyncio.run(self._until_signal())

    async def _until_signal(self) -> None:
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        async with self.listening():
            await ended.wait()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Serve within the block. Raises OSError if the port is in use."""
        runner = web.AppRunner(self._app(), access_log=None, keepalive_timeout=_KEEP_ALIVE_S)
        await runner.setup()
        make_protocol = runner.server
        assert make_protocol is not None

        def limited() -> LimitedProtocol:
            return LimitedProtocol(make_protocol(), self._unknown)

        try:
            listener = await listen(HOST, self._port, limited)
            self._show_next()
            try:
                yield
            finally:
                listener.close()
        finally:
            await runner.cleanup()

    def _show_next(self) -> None:
        self._show_address(f"{self._url}/{self._key}")

    def _app(self) -> web.Application:
        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app = web.Application(middlewares=[web.middleware(guard)])
        app.on_response_prepare.append(self._add_headers)
        app.on_shutdown.append(self._end_all)
        for path, handler in (
            ("/{key}", self._open),
            ("/{page}/", self._index),
            ("/{page}/ws", self._socket),
            ("/{page}/static/{name:.+}", self._file),
        ):
            app.router.add_get(path, handler, allow_head=False)
        return app

    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Refuse other host names (an attacker can make them resolve to this address), requests from other pages, and
        addresses without a valid secret part.
        """
        if request.headers.get("Host") != f"{HOST}:{self._port}":
            raise web.HTTPForbidden(text=f"open it at {self._url}\n")
        if request.headers.get("Origin", self._url) != self._url:
            raise web.HTTPForbidden(text="another page is not allowed to open this one\n")
        page = request.match_info.get("page")
        if page is not None:
            if not any(_equal(page, known) for known in self._pages):
                raise web.HTTPForbidden(text="open the last address that iotop-ai web printed\n")
            self._unknown.remove(request.transport)
        return await handler(request)

    async def _add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Forbid other sources, frames in other pages, and the referrer."""
        answer.headers.update(
            {
                "Content-Security-Policy": f"default-src 'self'; connect-src 'self' ws://{HOST}:{self._port}; "
                "script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
                "font-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Opener-Policy": "same-origin",
                "Cross-Origin-Resource-Policy": "same-origin",
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
            }
        )

    async def _open(self, request: web.Request) -> web.StreamResponse:
        """Redirect the printed address, once, to an address that is not printed."""
        if not _equal(request.match_info["key"], self._key):
            raise web.HTTPForbidden(text="open the last address that iotop-ai web printed: each works once\n")
        if "Sec-Purpose" in request.headers:  # a prefetch must not use up the key
            raise web.HTTPServiceUnavailable(text="prefetching is not allowed\n")
        if _has_left(request):  # a browser whose request timed out must not use up the key
            raise web.HTTPServiceUnavailable(text="the connection is closed\n")
        self._unknown.remove(request.transport)
        self._key, page = secrets.token_urlsafe(_KEY_BYTES), secrets.token_urlsafe(_KEY_BYTES)
        self._pages = [*self._pages, page][-MOST_PAGES:]
        self._show_next()
        raise web.HTTPSeeOther(f"/{page}/")

    async def _index(self, request: web.Request) -> web.StreamResponse:
        base = f"{HOST}:{self._port}/{request.match_info['page']}"
        text = self._template.render(
            font_size=16,
            app_websocket_url=f"ws://{base}/ws",
            config={"static": {"url": f"http://{base}/static/"}},
            application={"name": "iotop-ai"},
        )
        return web.Response(text=text, content_type="text/html")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = self._static.get(request.match_info["name"])
        if path is None:
            raise web.HTTPNotFound
        return web.FileResponse(path)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        """Open a session, unless too many are open."""
        if request.headers.get("Origin") != self._url:  # every browser sends it
            raise web.HTTPForbidden(text="only the page of iotop-ai web can open this\n")
        if len(self._session_tasks) >= MOST_SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_SESSIONS} screens are open already\n")
        task = asyncio.current_task()
        self._session_tasks.add(task)
        try:
            socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=LARGEST_MESSAGE)
            await socket.prepare(request)
            why = await self._run(socket, request)
            if why:
                self._report(f"a screen was closed: {why}")
            reason = why.encode()[:100].decode("utf-8", "ignore").encode()  # without a part of a character at the end
            await socket.close(code=WSCloseCode.POLICY_VIOLATION if why else WSCloseCode.OK, message=reason)
            return socket
        finally:
            self._session_tasks.discard(task)

    async def _run(self, socket: web.WebSocketResponse, request: web.Request) -> str:
        """Run the session; returns why it ended, "" if the user left."""
        columns, rows = _number(request.query.get("width"), 80), _number(request.query.get("height"), 24)
        try:
            return await Session(socket, self._argv, self._environment).run(columns, rows)
        except OSError as error:
            return f"the monitor could not be started: {error.strerror}"

    async def _end_all(self, _: web.Application) -> None:
        """End all sessions. Without this, aiohttp waits a minute for the browsers."""
        tasks = [task for task in self._session_tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _OneLine(logging.Handler):
    """Reports a library's log message as one line, without the traceback, and each message once in _REPEAT_S."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._report_line = report
        self._reported_s: dict[str, float] = {}
        """The Unix time in s at which a message was last reported, by the message without the values in it. If the
        library has put the values in, by its line of code, the type of the error and the first two words.
        """

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        message = str(record.msg)
        if not record.args:
            message = f"{record.pathname}:{record.lineno} {type(error).__name__} {' '.join(message.split()[:2])}"
        if abs(record.created - self._reported_s.get(message, 0.0)) < _REPEAT_S:
            return
        if len(self._reported_s) >= _MOST_MESSAGES:  # the first words may also come from clients
            self._reported_s.clear()
        self._reported_s[message] = record.created
        text = record.getMessage().partition("\n")[0]
        self._report_line(clean(f"{text}: {error!r}" if error else text, 300))


def _has_left(request: web.Request) -> bool:
    """Whether the client has closed its side of the connection, and so does not wait for the answer."""
    sock = request.transport and request.transport.get_extra_info("socket")
    if not sock or sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


def _equal(received: str, key: str) -> bool:
    return hmac.compare_digest(received.encode("utf-8", "replace"), key.encode())


def _number(text: str | None, default: int) -> int:
    """A size in an address; the default if it is not a number."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) <= 9 else default
