"""Keys keep their order if they come faster than screens open and close; each acts on the screen it was typed for."""

from __future__ import annotations

import time
from typing import ClassVar

import pytest
from textual.app import App
from textual.binding import BindingType
from textual.events import Event, Key
from textual.screen import Screen
from textual.widget import Widget

from iotop_ai.tui.textual_internals.key_order import KeyOrder

SLOW_S = 0.02


class Above(Screen[None]):
    """A screen that opens slowly, and that any key closes."""

    def on_key(self, event: Key) -> None:
        assert isinstance(self.app, Main)
        self.app.seen.append(f"above {event.key}")
        event.stop()
        if self.is_current:
            self.app.pop_screen()


class Focused(Widget, can_focus=True):
    """A widget that gets the keys first."""


class Below(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [("o", "open"), ("n", "note")]

    def compose(self) -> list[Widget]:  # type: ignore[override]
        return [Focused()]

    def action_open(self) -> None:
        time.sleep(SLOW_S)
        self.app.push_screen(Above())

    def action_note(self) -> None:
        assert isinstance(self.app, Main)
        self.app.seen.append("below n")


class Main(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.order = KeyOrder(self, super().on_event)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key) and not event.is_forwarded:
            await self.order.take(event)
        else:
            await super().on_event(event)

    def get_default_screen(self) -> Screen[None]:
        return Below()


@pytest.mark.parametrize(
    ("keys", "seen", "open_screens"),
    [
        ("oxo", ["above x"], 2),
        ("oxn", ["above x", "below n"], 1),
        ("onnn", ["above n", "below n", "below n"], 1),
        ("oxoxox", ["above x"] * 3, 1),
        ("zoxzn", ["above x", "below n"], 1),
        ("nzonoxn", ["below n", "above n", "above x", "below n"], 1),
    ],
)
async def test_each_key_of_a_burst_acts_on_the_screen_that_the_previous_key_left_in_front(
    keys: str, seen: list[str], open_screens: int
) -> None:
    app = Main()
    async with app.run_test() as pilot:
        for key in keys:
            app.post_message(Key(key, key))
        for _ in range(20):
            await pilot.pause(SLOW_S)
            if app.seen == seen and len(app.screen_stack) == open_screens:
                break
        await pilot.pause(SLOW_S)
        assert (app.seen, len(app.screen_stack)) == (seen, open_screens)
