"""Keys that come faster than screens change.

Textual queues a key for the widget in front when the key comes, and looks for its binding when it comes back to the
app. In between another key may have opened or closed a screen: the key would be lost, act on the wrong screen, or be
overtaken by a later one. So a key waits here until the one before it has been handled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from textual.app import App
from textual.dom import DOMNode
from textual.events import Key

LOST_S = 1.0
"""After this time a key no longer holds up the next one: its screen is gone, and it cannot be followed."""


class KeyOrder:
    """Gives the app one key at a time. handle: the app's own handling of a key that comes from the terminal."""

    def __init__(self, app: App[None], handle: Callable[[Key], Awaitable[None]]) -> None:
        self._app = app
        self._handle = handle
        self._waiting: deque[Key] = deque()
        self._on_its_way: Key | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, key: Key) -> None:
        """Handle a key now, or after those before it."""
        self._waiting.append(key)
        if self._on_its_way is None:
            await self._next()

    async def _next(self) -> None:
        key = self._waiting.popleft()
        front = self._app.focused or (self._app.screen if self._app.screen_stack else self._app)
        path = tuple(dict.fromkeys((*front.ancestors_with_self, self._app)))
        self._on_its_way = key
        self._timer = asyncio.get_running_loop().call_later(LOST_S, self._app.call_later, self._settled, key)
        await self._handle(key)
        self._follow(path, key)

    def _follow(self, path: Sequence[DOMNode], key: Key) -> None:
        """Queue a call after the key at each node that it comes to; closed nodes are passed over."""
        for i, node in enumerate(path):
            rest = path[i + 1 :]
            if node.call_later(self._follow, rest, key) if rest else node.call_later(self._settled, key):
                return

    async def _settled(self, key: Key) -> None:
        """Go on once the key has been handled everywhere: its screens are open or closed."""
        if key is not self._on_its_way:
            return
        self._on_its_way = None
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting:
            await self._next()
