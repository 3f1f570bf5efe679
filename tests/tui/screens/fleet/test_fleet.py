"""The fleet's screens in the app, which queries a server that has the recorded answers of a real Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import pytest
from textual.pilot import Pilot

from iotop_ai.fleet.client import Address, Prometheus
from iotop_ai.present.fleet.view import FleetView
from iotop_ai.present.screen.actions import APP_ACTIONS, SCREENS
from iotop_ai.present.screen.view import View
from iotop_ai.tui.fleet_app import FleetApp
from iotop_ai.tui.screens.base import PanelScreen
from tests.rigs.fleet.answering import Answering, answering
from tests.rigs.fleet.small import WINDOW_S
from tests.rigs.threads import no_thread


class Shown(NamedTuple):
    app: FleetApp
    pilot: Pilot[None]
    server: Answering

    def rows(self) -> list[str]:
        screen = self.app.screen
        assert isinstance(screen, PanelScreen)
        return [line.text for line in screen.panel.lines]

    def names(self) -> list[str]:
        """The names of the machines in the list."""
        return [word for row in self.rows() for word in row.split()[:1] if word.startswith(("gpu", "node", "blank"))]

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, found: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not found():
            assert time.monotonic() < end, "\n".join(self.rows())
            await asyncio.sleep(0.02)
            await self.pilot.pause()


@contextlib.asynccontextmanager
async def showing(size: tuple[int, int] = (100, 30), interval_s: float = 3600.0) -> AsyncIterator[Shown]:
    with answering() as server:
        fleet_view = FleetView(View(utc_offset_s=0), server=server.url, window_s=WINDOW_S, interval_s=interval_s)
        app = FleetApp(Prometheus(Address(server.url)), fleet_view, "dark")
        async with app.run_test(size=size) as pilot:
            shown = Shown(app, pilot, server)
            await shown.until(lambda: app.state.fleet is not None)
            yield shown


async def test_the_machines_that_lost_most_are_first_and_keys_change_the_order() -> None:
    async with showing() as shown:
        assert shown.rows()[0].startswith(" FAILING  8 of 11 machines have trouble; ")
        assert shown.rows()[1].startswith(" waits    slurm 48213 for rank 8 on gpu09: data disk")
        assert set(shown.names()[:2]) == {"gpu07", "gpu08"}
        await shown.press("greater_than_sign")
        assert shown.names()[0] == "gpu05"
        await shown.press("greater_than_sign")
        assert shown.names()[:3] == ["blank02", "gpu01", "gpu02"]
        await shown.press("r")
        assert shown.names()[:2] == ["node01", "gpu09"]


async def test_the_machine_under_the_cursor_has_graphs_and_reasons() -> None:
    async with showing() as shown:
        await shown.press("greater_than_sign", "greater_than_sign", "end")
        await shown.press("up")
        await shown.until(lambda: shown.app.state.fleet_view.history.machine == "gpu09")
        text = "\n".join(shown.rows())
        assert "── gpu09 ──" in text
        assert " because  STARVED slow disk (critical" in text
        assert " job      slurm 48213 ranks.py, 9 GPUs on 3 machines" in text
        assert any('instance="gpu09:9743"' in query for query in shown.server.asked)


async def test_a_filter_is_typed_kept_and_cleared() -> None:
    async with showing() as shown:
        await shown.press("slash", *"starved q")
        assert shown.app.is_running
        await shown.press("backspace", "backspace", "enter")
        assert set(shown.names()) == {"gpu03", "gpu04", "gpu09"}
        assert "Esc:clear /starved" in shown.rows()[-1]
        await shown.press("escape")
        assert len(shown.names()) == 11
        await shown.press("slash", *"nothing like it", "enter")
        assert "no machine matches nothing like it" in "\n".join(shown.rows())


async def test_jobs_on_several_machines_name_their_straggler() -> None:
    async with showing() as shown:
        await shown.press("j")
        text = "\n".join(shown.rows())
        assert "rank 8 on gpu09: data disk" in text
        assert ">gpu09" in text
        await shown.press("down", "escape")
        assert shown.app.state.fleet_view.job.startswith("gpu04 pid 4067 ")
        assert set(shown.names()[:2]) == {"gpu07", "gpu08"}


async def test_a_server_that_stops_answering_is_reported_and_its_figures_stay() -> None:
    async with showing() as shown:
        for fault, words in ((b"", "closes the connection"), (b"<html>", "not Prometheus's JSON")):
            shown.server.fault = fault
            await shown.press("R")
            await shown.until(lambda words=words: words in shown.rows()[1])  # type: ignore[misc]
            assert " s old" in shown.rows()[0]
            assert len(shown.names()) == 11
        shown.server.fault = None
        await shown.press("R")
        await shown.until(lambda: shown.rows()[1].startswith(" waits"))


async def test_before_the_first_answer_the_reason_is_shown() -> None:
    fleet_view = FleetView(View(), server="http://127.0.0.1:9")
    app = FleetApp(Prometheus(Address("http://127.0.0.1:9")), fleet_view, "dark")
    async with app.run_test(size=(80, 24)) as pilot:
        shown = Shown(app, pilot, None)  # type: ignore[arg-type]
        await shown.until(lambda: "Connection refused" in shown.rows()[0])
        assert shown.rows()[0].startswith(" UNSURE")
        await shown.press("enter", "j", "escape", "down", "q")
    assert app.opened == ""


async def test_enter_ends_the_app_and_names_the_machine_to_open() -> None:
    async with showing() as shown:
        await shown.press("greater_than_sign", "enter")
        assert shown.app.opened == "gpu05"


async def test_help_pause_interval_and_sizes_work() -> None:
    async with showing() as shown:
        await shown.press("question_mark")
        assert shown.rows()[0].startswith("── help: fleet")
        await shown.press("x", "space")
        assert "PAUSED" in shown.rows()[0]
        await shown.press("space", "plus")
        assert shown.app.state.fleet_view.interval_s > 10
        for width, height in ((60, 15), (80, 24), (160, 48), (20, 5)):
            await shown.pilot.resize_terminal(width, height)
            await shown.pilot.pause()
            assert len(shown.rows()) == height
            assert {len(row) for row in shown.rows()} == {width}


CHANGES = {
    "fleet": (
        *("down", "up", "last", "first", "page_down", "page_up", "sort_next", "sort_previous", "reverse", "pause"),
        *("longer", "shorter", "theme"),
    ),
    "fleet_jobs": ("down", "up", "last", "first", "page_down", "page_up", "pause"),
}
"""The actions each of whose keys changes the view, in the order in which they are pressed."""
ELSEWHERE = {
    "fleet": {"open", "jobs", "find", "clear", "refresh", "help"},
    "fleet_jobs": {"back", "help"},
}
"""The actions whose keys are pressed in other tests."""


@pytest.mark.parametrize("screen", CHANGES)
async def test_each_key_does_something(screen: str) -> None:
    own = {action.name.partition(".")[2]: action for action in SCREENS[screen] if action not in APP_ACTIONS}
    assert {*CHANGES[screen], *ELSEWHERE[screen]} == set(own)
    async with showing() as shown:
        if screen == "fleet_jobs":
            await shown.press("j")
        for name in CHANGES[screen]:
            for key in own[name].keys:
                before = shown.app.state.fleet_view
                await shown.press(key)
                assert shown.app.state.fleet_view != before, name


async def test_a_refresh_paints_only_what_changed() -> None:
    async with showing() as shown:
        await shown.until(lambda: shown.app.state.fleet_view.history.machine != "")
        before = shown.app.machines_screen.panel.rows_repainted
        asked = len(shown.server.asked)
        await shown.press("R")
        await shown.until(lambda: len(shown.server.asked) >= asked + 22)
        await shown.pilot.pause()
        assert shown.app.machines_screen.panel.rows_repainted - before <= 2


async def test_each_message_stays_for_its_whole_time() -> None:
    async with showing() as shown:
        await shown.press("greater_than_sign")
        first = shown.app._message_timer
        assert first is not None
        await shown.press("greater_than_sign")
        assert shown.app.state.fleet_view.view.message
        assert shown.app._message_timer not in (None, first)


async def test_the_key_r_queries_once_while_paused() -> None:
    async with showing() as shown:
        await shown.press("space")
        assert shown.app.state.fleet_view.view.mode == "paused"
        before = shown.app.state.fleet
        await shown.press("R")
        await shown.until(lambda: shown.app.state.fleet is not before)
        assert shown.app.state.fleet_view.view.mode == "paused"


async def test_a_fleet_whose_thread_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FleetApp(Prometheus(Address("http://127.0.0.1:9")), FleetView(View()), "dark")
    start = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread, "start", lambda thread: (no_thread if thread.name == "fleet" else start)(thread)
    )
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert app.state.fleet_view.trouble == "the server is not queried: can't start new thread; start iotop-ai again"
