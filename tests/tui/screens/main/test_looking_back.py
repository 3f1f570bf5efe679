"""Looking back in a live session: which Frame is shown, and what returns to now with it."""

from __future__ import annotations

import pytest

from tests.store.scenario import clock_set_back
from tests.tui.recorded import stalling
from tests.tui.screens.main.test_time_actions import live_session


@pytest.mark.parametrize("seconds", [3600, 5, 0])
async def test_a_step_back_shows_the_frame_before_after_the_clock_was_set_back(seconds: int) -> None:
    live = clock_set_back(100, 60, seconds)
    async with live_session(kept_count=99, frames=live) as session:
        await session.press("left_square_bracket", "left_square_bracket")
        await session.until(lambda: session.shown == live[97])
        await session.press("end")
        assert session.shown == live[99]


@pytest.mark.parametrize(("keys", "base"), [((), 80), (("a",), 60), (("a", "a"), None)])
async def test_sums_go_on_after_a_look_back_to_before_them(keys: tuple[str, ...], base: int | None) -> None:
    async with live_session(kept_count=80) as session:
        await session.press("a")
        await session.arrive(81, 90)
        await session.press("at", *"-30s", "enter")
        await session.until(lambda: session.shown == stalling()[60] and session.app.main.view.base is None)
        await session.press(*keys, "end")
        assert session.shown == stalling()[90]
        assert session.app.main.view.base == (None if base is None else stalling()[base].snapshot)
