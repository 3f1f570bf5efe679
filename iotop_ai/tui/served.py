"""The screen in a browser on this machine: textual-serve behind a key, the right names and a limit.

textual-serve alone would show every process to each user of the machine, and to any page that a browser here has open.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web
from textual_serve.server import Server

HOST = "127.0.0.1"
COOKIE = "iotop-ai-key"
MOST_SESSIONS = 8
"""Each is a monitor of its own."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BrowserServer(Server):  # type: ignore[misc]
    """Serves a command to who has the key. ready: is told the address, key included, once it can be opened.

    Requests under another name than ours are refused (a foreign name may be made to mean this address), so are those
    that another page makes.
    """

    def __init__(self, command: str, port: int, ready: Callable[[str], None]) -> None:
        super().__init__(command, host=HOST, port=port, title="iotop-ai")
        self.key = secrets.token_urlsafe(24)
        self._ready = ready
        self._sessions = 0

    def serve(self, debug: bool = False) -> None:
        """Serve until SIGINT or SIGTERM. Raises OSError for a port that cannot be had."""
        address = f"{self.public_url}/?key={self.key}"
        # aiohttp says by ``print`` that it listens.
        web.run_app(self._make_app(), host=HOST, port=self.port, print=lambda *_: self._ready(address), access_log=None)

    async def on_startup(self, app: web.Application) -> None:
        """Nothing is said before the port is ours."""

    async def _make_app(self) -> web.Application:
        app: web.Application = await super()._make_app()

        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app.middlewares.append(web.middleware(guard))
        return app

    async def _guarded(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        if request.headers.get("Host") not in (f"{HOST}:{self.port}", self.public_url.removeprefix("http://")):
            raise web.HTTPForbidden(text=f"open {self.public_url}\n")
        if request.headers.get("Origin", self.public_url) != self.public_url:
            raise web.HTTPForbidden(text="another page may not open this one\n")
        if self._right(request.query.get("key", "")) and request.path == "/":
            found = web.HTTPSeeOther("/")
            found.set_cookie(COOKIE, self.key, httponly=True, samesite="Strict", path="/")
            raise found
        if not self._right(request.cookies.get(COOKIE, "")):
            raise web.HTTPForbidden(text="open the address that iotop-ai web has printed\n")
        answer = await handler(request)
        if not answer.prepared:
            answer.headers.update(self._headers())
        return answer

    def _right(self, key: str) -> bool:
        return hmac.compare_digest(key.encode("utf-8", "replace"), self.key.encode())

    def _headers(self) -> dict[str, str]:
        """Nothing is fetched from elsewhere, and no other page may show this one."""
        ours = f"'self' ws://{HOST}:{self.port}"
        return {
            "Content-Security-Policy": f"default-src 'self'; connect-src {ours}; script-src 'self' 'unsafe-inline'; "
            "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A session, if there are not too many."""
        if self._sessions >= MOST_SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"{MOST_SESSIONS} screens are open already\n")
        self._sessions += 1
        try:
            answer: web.WebSocketResponse = await super().handle_websocket(request)
            return answer
        finally:
            self._sessions -= 1
