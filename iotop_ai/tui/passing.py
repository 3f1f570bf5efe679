"""Keys that come faster than screens change."""

from __future__ import annotations

from textual.events import Key
from textual.screen import Screen


def passed_on(screen: Screen[None], event: Key) -> bool:
    """Whether a key reached a screen that has been left meanwhile: it is for the one in front, and goes there."""
    if screen in screen.app.screen_stack:
        return False
    screen.app.post_message(Key(event.key, event.character))
    return True
