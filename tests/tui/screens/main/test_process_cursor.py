"""The cursor in the list of processes: it stays on its group, whichever of its processes are active."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.view import View
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.main.machine_actions import choose_first_text
from iotop_ai.tui.screens.process import ProcessDetailScreen
from tests.present.make import MIB, Machine, Proc, frame, snapshots
from tests.tui.screens.test_health import Own
from tests.tui.shown import text

WORKERS = (100, 200, 300)


def reading(*pids: int, alive: tuple[int, ...] = WORKERS) -> Frame:
    """A Frame in which the workers with these pids read, while the others that are alive are idle."""

    def machine(tick: int) -> Machine:
        busy = pids if tick == 4 else ()
        workers = (Proc(pid, "worker", read=9 * MIB if pid in busy else 0) for pid in alive)
        return Machine(procs=(Proc(50, "train.py", read=30 * MIB, cpu=1.0), *workers))

    return frame(snapshots(machine, 5))


class Shown:
    def __init__(self, app: MonitorApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> str:
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return text(self.app)

    async def show(self, one: Frame) -> None:
        self.app.post_message(FrameReady(one))
        await self.pilot.pause()

    @property
    def marked(self) -> list[str]:
        """The first words of the rows under the cursor."""
        rows = self.app.main.panels["process"].lines
        return [" ".join(line.text.split()[:2]) for line in rows if line.background == "sel"]


@asynccontextmanager
async def showing(one: Frame, **choices: object) -> AsyncIterator[Shown]:
    app = MonitorApp(one, (), Own(), View(utc_offset_s=0, **choices), "dark")  # type: ignore[arg-type]
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        yield Shown(app, pilot)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "row"),
    [((200, 300), WORKERS, "worker x3"), (WORKERS, (200, 300), "worker x2"), (WORKERS, (), "worker x3")],
)
async def test_the_cursor_stays_on_its_group(before: tuple[int, ...], after: tuple[int, ...], row: str) -> None:
    async with showing(reading(*before)) as shown:
        await shown.press("down", "down")
        await shown.show(reading(*after))
        assert shown.marked == [row]
        assert row in await shown.press("k")
        assert f"{row} tagged" in await shown.press("escape", "T")


async def test_the_cursor_returns_to_the_active_row() -> None:
    async with showing(reading(*WORKERS)) as shown:
        await shown.press("down", "down")
        await shown.show(reading())
        assert shown.marked == ["worker x3"]
        await shown.show(reading(300))
        assert shown.marked == ["worker alice"]
        assert "worker, pid 300" in await shown.press("k")
        await shown.press("escape", "up")
        assert shown.marked == ["train.py alice"]


async def test_the_cursor_on_an_idle_row_stays_on_that_row() -> None:
    async with showing(reading(200, 300)) as shown:
        await shown.press("down", "end")
        await shown.show(reading(300))
        assert shown.marked == ["worker x2"]
        await shown.show(reading(*WORKERS))
        assert shown.marked == ["worker x3"]


async def test_a_click_moves_the_cursor_to_the_group() -> None:
    async with showing(reading(200, 300)) as shown:
        panel = shown.app.main.panels["process"]
        row = next(y for y, line in enumerate(panel.lines) if "worker x2" in line.text)
        await shown.pilot.click(panel, offset=(3, row))
        await shown.pilot.pause()
        assert shown.marked == ["worker x2"]
        await shown.show(reading(*WORKERS))
        assert shown.marked == ["worker x3"]


@pytest.mark.parametrize("key", ["k", "T", "enter"])
@pytest.mark.parametrize("tree", [False, True])
async def test_no_key_acts_while_the_row_of_the_cursor_is_missing(tree: bool, key: str) -> None:
    async with showing(reading(*WORKERS), tree=tree) as shown:
        await shown.press("down", "down")
        assert shown.marked
        await shown.show(reading(alive=()))
        assert shown.marked == []
        assert "Enter:" not in text(shown.app)
        assert choose_first_text(shown.app.main.view) in await shown.press(key)
        assert not shown.app.main.view.tagged
        assert not isinstance(shown.app.screen, ProcessDetailScreen)


async def test_without_a_cursor_the_keys_act_on_the_row_named_in_the_key_help() -> None:
    async with showing(reading(*WORKERS)) as shown:
        assert choose_first_text(shown.app.main.view) in await shown.press("k")
        await shown.press("escape")
        shown.app.main.panels["process"].focus()
        await shown.pilot.pause()
        assert "Enter:open train.py" in text(shown.app)
        assert "train.py, pid 50" in await shown.press("k")
        assert "train.py tagged" in await shown.press("escape", "T")
        assert shown.marked == ["worker x3"]


async def test_without_a_cursor_enter_opens_the_first_process() -> None:
    async with showing(reading(*WORKERS)) as shown:
        shown.app.main.panels["process"].focus()
        await shown.press("enter")
        assert isinstance(shown.app.screen, ProcessDetailScreen)
        assert shown.app.screen.page.key.pid == 50


NAMES = ("first", "second", "third", "fourth")


@pytest.mark.parametrize("pattern", ["tagged", "not tagged"])
@pytest.mark.parametrize("tree", [False, True])
async def test_after_a_tagged_row_has_left_the_list_the_cursor_is_on_the_next_row(pattern: str, tree: bool) -> None:
    procs = [Proc(100 + n, name, read=(40 - n) * MIB) for n, name in enumerate(NAMES)]
    one = frame(snapshots(lambda _tick: Machine(procs=procs), 5))
    async with showing(one, tree=tree) as shown:
        shown.app.main.panels["process"].focus()
        if pattern == "tagged":
            await shown.press(*"TTTT")
        await shown.press("slash", *pattern, "enter", "home", "down")
        sign = "*" if pattern == "tagged" else ""
        assert shown.marked == [f"{sign}second alice"]
        for following in ("third", "fourth", "first"):
            answer = await shown.press("T")
            assert "tagged" in answer
            assert shown.marked == [f"{sign}{following} alice"]
        await shown.press("T")
        assert shown.marked == []
        assert len(shown.app.main.view.tagged) == (0 if pattern == "tagged" else 4)
