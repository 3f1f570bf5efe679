"""The real app on made-up Snapshots: every key has its effect."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from rich.color import Color
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

from iotop_ai.model.frame import Frame
from iotop_ai.model.settings import SORT_KEYS, THEMES
from iotop_ai.present.screen.actions import PANEL_KEYS
from iotop_ai.present.screen.selection import selected_device_name
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.theme import text_styles
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.help import HelpScreen
from tests.present.scenes import no_gpu, starved
from tests.tui.scene import DISKS, made_frames
from tests.tui.shown import showing as showing_frames

SIZES = [(80, 24), (160, 48)]


class Upstream(MemoryRecording):
    """A source that keeps the requests of the screen."""

    def __init__(self) -> None:
        super().__init__()
        self.intervals: list[float] = []
        self.held: list[bool] = []
        self.closed = 0

    def set_interval(self, seconds: float) -> None:
        self.intervals.append(seconds)

    def suspend_smart_queries(self, suspend: bool) -> None:
        self.held.append(suspend)

    def close(self) -> None:
        self.closed += 1


class Shown:
    """An app, its pilot, and its requests to the source."""

    def __init__(self, app: MonitorApp, pilot: Pilot[None], source: Upstream) -> None:
        self.app, self.pilot, self.source = app, pilot, source

    @property
    def view(self) -> View:
        return self.app.main.view

    async def press(self, *keys: str) -> View:
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.view

    def screen(self) -> list[str]:
        return rows(self.app)

    def text(self, panel: str) -> str:
        return "\n".join(line.text for line in self.app.main.panels[panel].lines)


def rows(app: MonitorApp) -> list[str]:
    """The text on the screen, as the compositor has it."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


@asynccontextmanager
async def showing(size: tuple[int, int] = (80, 24), theme: str = "dark", view: View = View()) -> AsyncIterator[Shown]:  # noqa: B008 - a frozen record
    all_frames = made_frames()
    source = Upstream()
    app = MonitorApp(all_frames[0], all_frames[1:], source, view, theme)
    async with app.run_test(size=size) as pilot:
        while app.main.newest is not all_frames[-1]:
            await asyncio.sleep(0.005)
        await pilot.pause()
        yield Shown(app, pilot, source)


@pytest.mark.parametrize("size", SIZES)
async def test_the_screen_is_filled_and_every_panel_in_its_place(size: tuple[int, int]) -> None:
    async with showing(size) as shown:
        screen = shown.screen()
        assert len(screen) == size[1]
        text = "\n".join(screen)
        assert "sda" in text
        assert "gpu07" in text
        tops = [(panel.region.y, name) for name, panel in shown.app.main.panels.items() if panel.display and panel.size]
        assert [name for _, name in sorted(tops)] == [name for _, name in tops]
        before = {name: panel.region for name, panel in shown.app.main.panels.items()}
        shown.app.post_message(FrameReady(made_frames(7)[-1]))
        await shown.pilot.pause()
        assert {name: panel.region for name, panel in shown.app.main.panels.items()} == before


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["dark", "light", "cvd", "ansi", "ansi-light", "mono"])
async def test_no_control_byte_of_outside_text_is_drawn(theme: str, size: tuple[int, int]) -> None:
    async with showing(size, theme) as shown:
        await shown.press("tab", "tab", "tab", "tab", "tab")
        strips = shown.app.screen._compositor.render_strips()
        text = "\n".join(strip.text for strip in strips)
        assert all(strip.text.isprintable() for strip in strips)
        assert all(not segment.control for strip in strips for segment in strip)
        assert "[/x]" in text
        assert "[@click=app.quit]" in text
        assert "\ufffd]0;owned\ufffd" in text
        for segment in (segment for strip in strips for segment in strip):
            assert segment.style is None or not segment.style.meta
        assert shown.app.is_running


async def test_a_click_on_rows_with_hostile_names_runs_nothing() -> None:
    async with showing((160, 48)) as shown:
        panel = shown.app.main.panels["process"]
        for y, line in enumerate(panel.lines):
            if line.key:
                await shown.pilot.click(panel, offset=(4, y))
                assert shown.view.cursor == line.key
        assert shown.app.is_running


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_q_and_ctrl_c_quit(key: str) -> None:
    async with showing() as shown:
        await shown.pilot.press(key)
        await shown.pilot.pause()
        assert not shown.app.is_running or shown.app._exit
    assert shown.source.closed
    assert shown.app.return_code == 0


@pytest.mark.parametrize("key", ["question_mark", "f1"])
async def test_help_opens_and_closes(key: str) -> None:
    async with showing() as shown:
        before = shown.screen()
        await shown.press(key)
        assert isinstance(shown.app.screen, HelpScreen)
        assert "any key goes back" not in "\n".join(shown.screen())
        await shown.press("space")
        assert "aqu-sz" in "\n".join(shown.screen())
        while "any key goes back" not in "\n".join(shown.screen()):
            await shown.press("space")
        shown.app.post_message(FrameReady(made_frames(6)[-1]))
        await shown.press("q")
        assert shown.app.screen is shown.app.main
        assert shown.app.is_running
        assert shown.app.main.frame.snapshot.seq == 5
        await shown.press(key, key)
        assert shown.app.screen is shown.app.main
        assert len(shown.screen()) == len(before)


async def test_after_the_terminal_has_grown_the_help_shows_its_last_page_and_can_go_back() -> None:
    async with showing((60, 15)) as shown:
        await shown.press("question_mark")
        while "any key goes back" not in "\n".join(shown.screen()):
            await shown.press("space")
        await shown.pilot.resize_terminal(100, 40)
        await shown.pilot.pause()
        assert " 3/3 " in shown.screen()[0]
        await shown.press("pageup")
        assert " 2/3 " in shown.screen()[0]


@pytest.mark.parametrize(
    ("shown", "without"), [(starved, ()), (no_gpu, ("gpu",))], ids=["all", "a machine without a GPU"]
)
async def test_tab_goes_through_all_panels_with_rows_and_back_to_the_first(
    shown: Callable[[], Frame], without: tuple[str, ...]
) -> None:
    order = [name for name in PANEL_KEYS if name not in without]
    async with showing_frames([shown()]) as (app, pilot):
        assert app.main.view.focus == "banner"
        for panel in [*order[1:], "banner"]:
            await pilot.press("tab")
            assert app.main.view.focus == panel
        await pilot.press("shift+tab")
        assert app.main.view.focus == PANEL_KEYS[-1]


@pytest.mark.parametrize(("number", "panel"), [(str(n), panel) for n, panel in enumerate(PANEL_KEYS, 1)])
async def test_numbers_hide_and_show_panels(number: str, panel: str) -> None:
    async with showing() as shown:
        before = shown.app.main.panels[panel].region.height
        await shown.press(number)
        assert shown.app.main.panels[panel].region.height == 1  # only the title is left
        assert not shown.app.main.panels[panel].can_focus
        assert len(shown.screen()) == 24
        await shown.press(number)
        assert shown.app.main.panels[panel].region.height == before


@pytest.mark.parametrize(("forward", "back"), [("n", "b"), ("right", "left")])
async def test_devices_are_selected_in_order(forward: str, back: str) -> None:
    async with showing() as shown:
        order = [d for d in ("nvme0n1", "sda", "sdb") if d in DISKS]
        first = selected_device_name(shown.app.main.frame, shown.view)
        assert first == "sda"
        assert (await shown.press(forward)).device == order[(order.index(first) + 1) % 3]
        assert (await shown.press(back)).device == "sda"
        assert (await shown.press(back)).device == order[(order.index(first) - 1) % 3]


async def test_a_click_selects_a_device() -> None:
    async with showing() as shown:
        panel = shown.app.main.panels["disk"]
        y = next(y for y, line in enumerate(panel.lines) if line.key == "disk:sdb")
        await shown.pilot.click(panel, offset=(5, y))
        await shown.pilot.pause()
        assert shown.view.device == "sdb"
        assert "sdb" in shown.text("graphs")


async def test_a_filter_is_typed_changed_and_cleared() -> None:
    async with showing((160, 48)) as shown:
        view = await shown.press("slash", "w", "o", "r", "k", "e", "r", "2", "q")
        assert view.typing
        assert view.pattern == "worker2q"
        view = await shown.press("backspace")
        assert view.pattern == "worker2"
        assert "worker2" in shown.text("keys")
        assert "worker2" in shown.text("process")
        assert "[/x]" not in shown.text("process")
        view = await shown.press("enter")
        assert not view.typing
        assert view.pattern == "worker2"
        assert (await shown.press("escape")).pattern == ""
        assert "[/x]" in shown.text("process")
        view = await shown.press("slash", "x", "escape")
        assert (view.typing, view.pattern) == (False, "")


async def test_enter_after_a_filter_opens_the_first_matching_process() -> None:
    from iotop_ai.tui.screens.process import ProcessDetailScreen

    async with showing((160, 48)) as shown:
        view = await shown.press("slash", *"worker2", "enter")
        assert view.focus == "process"
        assert view.cursor
        await shown.press("enter")
        assert isinstance(shown.app.screen, ProcessDetailScreen)
        assert (await shown.press("escape", "slash", "ctrl+u", *"no such process", "enter")).cursor == ""


async def test_a_pasted_filter_is_cleaned() -> None:
    from textual.events import Paste

    async with showing() as shown:
        shown.app.main.post_message(Paste("x\x1b[31m"))
        await shown.pilot.pause()
        assert shown.view.pattern == ""
        await shown.press("slash")
        shown.app.main.post_message(Paste("wor\x1bker\nsecond"))
        await shown.pilot.pause()
        assert shown.view.pattern == "wor\ufffdker"


async def test_reversed_texts_go_from_z_to_a() -> None:
    async with showing() as shown:
        for key in ("less_than_sign", "less_than_sign"):  # user, name
            await shown.press(key)
            assert (await shown.press("r")).message == "done: Z to A"
            assert (await shown.press("r")).message == "done: A to Z"


async def test_keys_change_and_reverse_the_sort_order() -> None:
    async with showing((160, 48)) as shown:
        assert (await shown.press("greater_than_sign")).sort == SORT_KEYS[1]
        assert (await shown.press("less_than_sign", "less_than_sign")).sort == SORT_KEYS[-1]
        await shown.press("greater_than_sign")
        before = shown.text("process").splitlines()
        assert (await shown.press("r")).reverse
        assert shown.text("process").splitlines()[1] != before[1]
        assert not (await shown.press("r")).reverse


async def test_a_key_shows_only_active_rows() -> None:
    async with showing() as shown:
        assert "nvme0" in shown.text("disk")
        assert (await shown.press("o")).only_active
        assert "nvme0" not in shown.text("disk")
        assert not (await shown.press("o")).only_active


async def test_a_key_shows_accumulated_sums() -> None:
    async with showing((160, 48)) as shown:
        await shown.press("a")
        assert shown.view.base is not None
        assert shown.view.base.seq == 4
        rates = shown.text("disk")
        shown.app.post_message(FrameReady(made_frames(8)[-1]))
        await shown.pilot.pause()
        assert shown.text("disk") != rates
        assert (await shown.press("a")).base is None


async def test_a_paused_screen_still_receives_frames() -> None:
    async with showing() as shown:
        assert (await shown.press("space")).mode == "paused"
        shown.app.post_message(FrameReady(made_frames(8)[-1]))
        await shown.pilot.pause()
        assert shown.app.main.frame.snapshot.seq == 4
        assert shown.app.main.newest.snapshot.seq == 7
        assert (await shown.press("n")).device  # keys still act on the Frame that is shown
        assert (await shown.press("space")).mode == "live"
        assert shown.app.main.frame.snapshot.seq == 7


async def test_keys_change_the_interval() -> None:
    async with showing() as shown:
        assert (await shown.press("plus")).interval_s == 2.0
        assert (await shown.press("minus", "minus", "minus", "minus", "minus")).interval_s == 0.1
        assert shown.source.intervals == [2.0, 1.0, 0.5, 0.2, 0.1]


@pytest.mark.parametrize(("panel", "tabs"), [("disk", 3), ("process", 4)])
async def test_keys_move_the_cursor(panel: str, tabs: int) -> None:
    async with showing((80, 24)) as shown:
        await shown.press(*["tab"] * tabs)
        assert shown.view.focus == panel
        keys = [line.key for line in shown.app.main.panels[panel].lines if line.key]
        first = f"disk:{selected_device_name(shown.app.main.frame, shown.view)}" if panel == "disk" else keys[0]
        at = keys.index(first)
        assert (await shown.press("down")).cursor == first
        assert (await shown.press("down")).cursor == keys[at + 1]
        assert (await shown.press("up")).cursor == first
        last = (await shown.press("end")).cursor
        lines = shown.app.main.panels[panel].lines
        assert [line.background for line in lines if line.key == last] == ["sel"]
        assert (await shown.press("home")).cursor == keys[0]
        assert (await shown.press("pagedown")).cursor != keys[0]
        assert (await shown.press("pageup")).cursor == keys[0]
        assert (await shown.press("tab")).cursor == ""


@pytest.mark.parametrize("size", SIZES)
async def test_a_message_covers_one_row_and_disappears(size: tuple[int, int]) -> None:
    async with showing(size) as shown:
        before = shown.screen()
        assert (await shown.press("r", "r")).message == "done: largest first"
        with_message = shown.screen()
        assert "done: largest first" in with_message[-1]
        assert with_message[:-1] == before[:-1]
        shown.app.main._forget_message()
        await shown.pilot.pause()
        assert shown.screen() == before


async def test_unknown_keys_change_nothing() -> None:
    async with showing() as shown:
        before = shown.view
        after = await shown.press("Z", "8", "9", "ctrl+x", "ctrl+q", "f11")
        assert after._replace(past=()) == before._replace(past=())
        assert shown.app.is_running
        assert shown.app.screen is shown.app.main


async def test_a_new_size_gives_a_new_layout() -> None:
    async with showing((160, 48)) as shown:
        for width, height in ((80, 24), (60, 15), (250, 70), (100, 30)):
            await shown.pilot.resize_terminal(width, height)
            await shown.pilot.pause()
            screen = shown.screen()
            assert len(screen) == height
            assert "sda" in "\n".join(screen)
            shown_panels = [p for p in shown.app.main.panels.values() if p.display]
            assert sum(p.size.height for p in shown_panels) == height
            assert all(p.size.width == width for p in shown_panels)


async def test_a_second_without_changes_repaints_little() -> None:
    async with showing((120, 40)) as shown:
        panels = shown.app.main.panels.values()
        before = sum(panel.rows_repainted for panel in panels)
        shown.app.main.redraw()
        assert sum(panel.rows_repainted for panel in panels) == before


async def test_smart_queries_wait_while_a_device_is_saturated() -> None:
    from iotop_ai.model.block.saturation import any_device_saturated

    frame = made_frames()[-1]
    rates = frame.sample.block.value
    assert rates is not None
    assert not any_device_saturated(frame)
    slow = {key: r._replace(await_ms=80.0) for key, r in rates.items()}
    stuck = frame._replace(sample=frame.sample._replace(block=frame.sample.block._replace(value=slow)))
    assert any_device_saturated(stuck)
    source = Upstream()
    app = MonitorApp(frame, [frame, stuck, stuck, frame], source, View(), "dark")
    async with app.run_test(size=(80, 24)) as pilot:
        while app.source_thread._thread.is_alive():
            await pilot.pause(0.005)
        assert source.held == [True, False]


async def test_a_source_that_fails_ends_the_app() -> None:
    first = made_frames(1)[0]

    def broken():
        raise ValueError("no more")
        yield first

    app = MonitorApp(first, broken(), Upstream(), View(), "dark")
    async with app.run_test(size=(80, 24)) as pilot:
        while app.failure is None:
            await pilot.pause(0.005)
    assert str(app.failure) == "no more"
    assert app.return_code == 2


async def test_the_wheel_moves_the_cursor_of_the_panel_below_the_mouse() -> None:
    async with showing((160, 48)) as shown:
        panel = shown.app.main.panels["process"]
        panel.post_message(MouseScrollDown(panel, 4, 1, 0, 0, 0, False, False, False))
        await shown.pilot.pause()
        rows = [line.key for line in panel.lines if line.key]
        assert shown.view.focus == "process"
        assert shown.view.cursor == rows[0]
        panel.post_message(MouseScrollDown(panel, 4, 1, 0, 0, 0, False, False, False))
        await shown.pilot.pause()
        assert shown.view.cursor == rows[min(3, len(rows) - 1)]
        panel.post_message(MouseScrollUp(panel, 4, 1, 0, 0, 0, False, False, False))
        await shown.pilot.pause()
        assert shown.view.cursor == rows[0]


async def test_a_click_on_a_title_sorts_and_a_second_one_reverses() -> None:
    async with showing() as shown:
        panel = shown.app.main.panels["process"]
        x = panel.lines[0].text.index("cpu%")
        await shown.pilot.click(panel, offset=(x, 0))
        await shown.pilot.pause()
        assert (shown.view.sort, shown.view.reverse) == ("cpu", False)
        await shown.pilot.click(panel, offset=(panel.lines[0].text.index("cpu%"), 0))
        await shown.pilot.pause()
        assert (shown.view.sort, shown.view.reverse) == ("cpu", True)


async def test_a_click_on_the_name_of_a_key_acts_like_the_key() -> None:
    async with showing((160, 48)) as shown:
        panel = shown.app.main.panels["keys"]
        await shown.pilot.click(panel, offset=(panel.lines[0].text.index("health"), 0))
        await shown.pilot.pause()
        assert shown.app.screen is not shown.app.main
        await shown.press("escape")
        await shown.pilot.click(panel, offset=(panel.lines[0].text.index("b/n"), 0))
        await shown.pilot.pause()
        assert shown.view.device


async def test_every_theme_can_be_selected_by_a_key() -> None:
    async with showing() as shown:
        seen = []
        for _ in THEMES:
            await shown.press("L")
            seen.append(shown.app.theme_name)
            base = text_styles(shown.app.theme_name)["bg"].bg
            strip = shown.app.main.panels["process"].render_line(1)
            colours = {
                str(s.style.bgcolor.triplet) for s in strip if s.style is not None and s.style.bgcolor is not None
            }
            wanted = Color.parse(base).triplet if base else None
            assert colours == {str(wanted)}
            assert f"theme {seen[-1]}" in "\n".join(shown.screen())
        assert sorted(seen) == sorted(THEMES)
        assert seen[-1] == "dark"


async def test_a_saved_picture_has_only_names_of_commands() -> None:
    saved: list[str] = []

    def save(svg: str) -> str:
        saved.append(svg)
        return "/tmp/picture.svg"

    async with showing((250, 48)) as shown:
        await shown.press("P")
        assert "not available: this screen cannot write" in "\n".join(shown.screen())
        shown.app._save = save
        before = "\n".join(shown.screen())
        await shown.press("f12")
        assert "done: picture in /tmp/picture.svg" in "\n".join(shown.screen())
        text = saved[0].replace("&#160;", " ")
        assert text.startswith("<svg")
        assert "sda" in text
        assert "failed:" not in text
        assert " --x" in before
        assert " --x" not in text
        assert " --x" in "\n".join(shown.screen())
        await shown.press("h", "P")
        assert len(saved) == 2
