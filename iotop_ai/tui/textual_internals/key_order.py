"""Keeps keys in order when they arrive faster than screens change.

Textual queues a key for the widget in front when the key arrives, and looks up the binding when the key comes back to
the app. Another key may have opened or closed a screen in between, so that the key would be lost, act on the wrong
screen, or be overtaken by a later key. Therefore a key waits here until the previous key has been handled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from textual.app import App
from textual.dom import DOMNode
from textual.events import Key

LOST_S = 1.0
"""After this many seconds, a key no longer delays the next one: the screen that would report it as handled is gone."""


class KeyOrder:
    """Gives the app one key at a time. handle: how the app handles a key from the terminal."""

    def __init__(self, app: App[None], handle: Callable[[Key], Awaitable[None]]) -> None:
        self._app = app
        self._handle = handle
        self._waiting: deque[Key] = deque()
        self._current: Key | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, key: Key) -> None:
        """Handle a key now, or after the keys that arrived before it."""
        self._waiting.append(key)
        if self._current is None:
            await self._next()

    async def _next(self) -> None:
        key = self._waiting.popleft()
        front = self._app.focused or (self._app.screen if self._app.screen_stack else self._app)
        path = tuple(dict.fromkeys((*front.ancestors_with_self, self._app)))
        self._current = key
        self._timer = asyncio.get_running_loop().call_later(LOST_S, self._app.call_later, self._settle, key)
        await self._handle(key)
        self._follow(path, key)

    def _follow(self, path: Sequence[DOMNode], key: Key) -> None:
        """Queue a call behind the key at the first open node of the path.

        The call does the same for the rest of the path; at the last node, ``_settle`` is queued.
        """
        for i, node in enumerate(path):
            rest = path[i + 1 :]
            if node.call_later(self._follow, rest, key) if rest else node.call_later(self._settle, key):
                return

    async def _settle(self, key: Key) -> None:
        """Handle the next key.

        Called when every node has handled this key and has opened or closed its screens, or after LOST_S.
        """
        if key is not self._current:
            return
        self._current = None
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting:
            await self._next()
