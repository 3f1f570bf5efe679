"""Keys that come faster than screens change.

Textual queues a key for the screen in front when the key comes. What no screen stops comes back to the app, which looks
for its binding on the screen in front by then. In between another key may have opened or closed a screen, and the key
would be lost, or act on the wrong one.
"""

from __future__ import annotations

from textual.app import App
from textual.events import Event, Key
from textual.screen import Screen


def forward_to_front(screen: Screen[None], event: Event) -> bool:
    """Send a key that reached a closed or covered screen to the one in front; whether it did."""
    if not isinstance(event, Key):
        return False
    event.set_sender(screen)
    return _forward(screen.app, event)


def forward_from_covered(app: App[None], event: Key, settled: Screen[None]) -> bool:
    """The same for a key that came back to the app from a screen that ``forward_to_front`` has seen.

    settled: the screen that looks for its own bindings as each key comes, so that what comes back from it had none.
    """
    sender = event._sender
    if not isinstance(sender, Screen) or sender is settled or not _forward(app, event):
        return False
    event.stop()
    event.prevent_default()
    return True


def _forward(app: App[None], event: Key) -> bool:
    stack = app.screen_stack
    if not stack or event._sender is stack[-1]:
        return False
    app.post_message(Key(event.key, event.character))
    return True
