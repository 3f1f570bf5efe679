"""Keys that come faster than screens change."""

from __future__ import annotations

from textual.events import Key
from textual.screen import Screen


def forward_if_closed(screen: Screen[None], event: Key) -> bool:
    """Send a key that reached a closed screen to the screen in front; whether it did.

    Textual queues a key for the screen in front when the key comes, not for the one in front when it is handled.
    """
    if screen in screen.app.screen_stack:
        return False
    screen.app.post_message(Key(event.key, event.character))
    return True
