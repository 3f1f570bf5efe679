"""A live session that is paused, shows the past or ends: which Frame is shown, with which sums and graphs."""

from __future__ import annotations

import pytest

from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.view import View
from iotop_ai.tui.messages import SourceEnded
from iotop_ai.tui.screens.main import time_actions
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


@pytest.mark.parametrize("seconds", [3600, 5, 0])
async def test_a_paused_screen_steps_back_from_its_frame_after_the_clock_was_set_back(seconds: int) -> None:
    live = clock_set_back(130, 60, seconds)
    async with live_session(kept_count=99, frames=live) as session:
        await session.press("space")
        await session.arrive(100, 129)
        await session.press("left_square_bracket")
        await session.until(lambda: session.shown == live[98])


@pytest.mark.parametrize("seconds", [3600, 5, 0])
async def test_a_leap_back_crosses_the_moment_at_which_the_clock_was_set_back(
    seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_actions, "LEAP_S", 45.0)
    live = clock_set_back(100, 60, seconds)
    async with live_session(kept_count=99, frames=live) as session:
        await session.press("left_curly_bracket")
        await session.until(lambda: session.shown == live[54])


async def test_a_leap_back_from_a_paused_screen_begins_at_its_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_actions, "LEAP_S", 45.0)
    live = stalling()
    async with live_session(kept_count=80, frames=live) as session:
        await session.press("space")
        await session.arrive(81, 99)
        await session.press("left_curly_bracket")
        await session.until(lambda: session.shown == live[35])


@pytest.mark.parametrize(("keys", "base"), [((), 80), (("a",), 60), (("a", "a"), None)])
async def test_sums_continue_after_a_look_back_to_before_their_start(keys: tuple[str, ...], base: int | None) -> None:
    async with live_session(kept_count=80) as session:
        await session.press("a")
        await session.arrive(81, 90)
        await session.press("at", *"-30s", "enter")
        await session.until(lambda: session.shown == stalling()[60] and session.app.main.view.base is None)
        await session.press(*keys, "end")
        assert session.shown == stalling()[90]
        assert session.app.main.view.base == (None if base is None else stalling()[base].snapshot)


async def test_the_graphs_have_no_hole_after_a_source_ends_while_the_screen_is_paused() -> None:
    async with live_session(view=View(utc_offset_s=0, remote=True)) as session:
        await session.arrive(1, 20)
        await session.press("space")
        for first in (21, 51, 81):
            await session.arrive(first, first + 29)
        session.app.post_message(SourceEnded())
        await session.pilot.pause()
        assert session.shown == stalling()[110]
        samples = (*session.app.main.view.past, *session.shown.history)
        assert [sample.at_ns for sample in samples] == [one.sample.at_ns for one in stalling()[:111]]


async def test_a_jump_to_before_the_kept_time_says_where_it_stopped() -> None:
    async with live_session(kept_count=80, view=View(utc_offset_s=0)) as session:
        await session.press("left_curly_bracket")
        await session.until(lambda: session.shown == stalling()[0])
        assert "are kept" in session.text("keys")
        await session.press("left_curly_bracket")
        await session.until(lambda: "nothing is kept before 08:53:20" in session.text("keys"))
        await session.press("right_curly_bracket")
        await session.until(lambda: session.app.main.view.mode == "live")
        assert "done: now" in session.text("keys")


async def test_answers_about_pause_and_past_fit_the_keys_that_the_user_has_set() -> None:
    keymap = user_keymap({"time.pause": ["p"], "cursor.last": ["G"]})[0]
    async with live_session(kept_count=80, view=View(utc_offset_s=0, keymap=keymap)) as session:
        await session.press("p")
        assert "paused; the same key resumes" in session.screen()
        assert "done: paused" not in session.screen()
        await session.press("p", "left_square_bracket")
        await session.until(lambda: session.app.main.view.mode == "back")
        assert "; G goes back to now" in session.screen()
        await session.press("k")
        assert "not available for the past: G returns to now" in session.screen()
        await session.press("escape", "G")
        assert session.app.main.view.mode == "live"
