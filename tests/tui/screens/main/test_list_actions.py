"""Lists of devices, of columns to sort by and of columns to show; the process tree; a panel that fills the window."""

import pytest

from iotop_ai.model.settings import SORT_KEYS
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.selection import selected_device_name
from iotop_ai.present.screen.view import View
from iotop_ai.tui.screens.palette import PaletteScreen
from tests.tui.scene import DISKS
from tests.tui.test_app import Shown, showing


def list_screen(shown: Shown) -> PaletteScreen:
    screen = shown.app.screen
    assert isinstance(screen, PaletteScreen)
    return screen


async def test_a_device_is_found_by_typing() -> None:
    async with showing() as shown:
        await shown.press("d")
        assert {entry.action.name for entry in list_screen(shown).matches} > set(DISKS)
        await shown.press(*DISKS[1])
        assert [entry.action.name for entry in list_screen(shown).matches] == [DISKS[1]]
        await shown.press("enter")
        assert shown.view.device == selected_device_name(shown.app.main.frame, shown.view) == DISKS[1]
        await shown.press("d", *"busiest", "enter")
        assert shown.view.device == ""


async def test_the_device_of_the_job_is_followed_until_another_is_selected() -> None:
    async with showing() as shown:
        await shown.press("d", *"of the job", "enter")
        assert shown.view.follow_job
        assert shown.view.message.startswith("done: follows the job")
        assert shown.view.device == shown.app.main.lists.device_of_job()
        await shown.press("n")
        assert not shown.view.follow_job


@pytest.mark.parametrize(
    ("keys", "pinned", "alone"),
    [
        ({}, " pinned; d frees it", " alone; z shows all"),
        ({"device.list": ["f8"], "panels.zoom": ["Z"]}, " pinned; F8 frees it", " alone; Z shows all"),
        ({"device.list": [], "panels.zoom": ["Z"]}, " pinned", " alone; Z shows all"),
    ],
)
async def test_an_answer_names_the_key_that_the_user_has_set(
    keys: dict[str, list[str]], pinned: str, alone: str
) -> None:
    async with showing(view=View(keymap=user_keymap(keys)[0])) as shown:
        await shown.press("n")
        assert shown.view.message.endswith(pinned)
        await shown.press("Z" if keys else "z")
        assert shown.view.message.endswith(alone)


@pytest.mark.parametrize("key", ["s", "f6"])
async def test_a_column_to_sort_by_is_selected_from_a_list(key: str) -> None:
    async with showing() as shown:
        await shown.press(key)
        assert [entry.action.name for entry in list_screen(shown).matches] == list(SORT_KEYS)
        await shown.press("down", "down", "enter")
        assert shown.view.sort == SORT_KEYS[2]


@pytest.mark.parametrize("key", ["C", "f2"])
async def test_columns_are_hidden_and_shown_again(key: str) -> None:
    async with showing() as shown:
        assert "cpu%" in shown.text("process")
        for hidden in (True, False):
            await shown.press(key, *"cpu", "enter")
            assert ("cpu%" not in shown.text("process")) is hidden
        await shown.press(key)
        assert not {"read", "write", "pid"} & {entry.action.name for entry in list_screen(shown).matches}
        await shown.press("escape")
        assert shown.view.no_columns == frozenset()


@pytest.mark.parametrize("key", ["t", "f5"])
async def test_a_key_switches_the_tree_on_and_off(key: str) -> None:
    async with showing() as shown:
        view = await shown.press(key)
        assert view.tree
        assert "tree by io" in shown.text("process")
        assert not (await shown.press(key)).tree


@pytest.mark.parametrize("key", ["d", "s", "C"])
async def test_every_list_can_be_left_without_a_change(key: str) -> None:
    async with showing() as shown:
        before = shown.view
        await shown.press(key, "down", "x", "escape")
        assert shown.view == before
        assert shown.app.screen is shown.app.main


@pytest.mark.parametrize("back", ["z", "escape", "3"])
async def test_a_panel_can_fill_the_window_and_be_reduced_again(back: str) -> None:
    async with showing() as shown:
        before = [line for line in shown.screen() if line.startswith("── ")]
        await shown.press("z")  # the banner has the focus but cannot be zoomed, so the processes are
        assert shown.view.zoom == shown.view.focus == "process"
        lines = shown.screen()
        assert lines[1].startswith("━━ process ")
        assert [line for line in lines if line.startswith("── ")] == []
        await shown.press("down", back)
        assert not shown.view.zoom
        if back != "3":
            assert len([line for line in shown.screen() if line[:2] in ("──", "━━")]) == len(before)


async def test_hidden_processes_get_neither_the_focus_nor_the_window() -> None:
    async with showing() as shown:
        await shown.press("6", "down")
        assert shown.view.focus == "banner"
        assert "Enter:why" in shown.text("keys")
        assert (await shown.press("z")).zoom == "graphs"
        assert shown.view.message == "done: graphs alone; z shows all"
        await shown.press("z", "3", "4", "5", "7", "z")
        assert not shown.view.zoom
        assert shown.view.message.startswith("no panel to zoom")


@pytest.mark.parametrize("panel", ["graphs", "system"])
async def test_enter_on_a_panel_without_a_screen_lets_it_fill_the_window(panel: str) -> None:
    async with showing() as shown:
        shown.app.main._focus(panel)
        assert (await shown.press("enter")).zoom == panel
        assert "Enter:all panels" in shown.text("keys")
        assert not (await shown.press("enter")).zoom
        assert "Enter:zoom" in shown.text("keys")


async def test_zoomed_disks_have_a_cursor_and_keep_the_focus() -> None:
    async with showing(size=(160, 48)) as shown:
        shown.app.main.panels["disk"].focus()
        await shown.press("z", "down", "down")
        assert shown.view.zoom == "disk"
        assert shown.view.cursor.startswith("disk:")
        await shown.press("enter", "escape", "z")
        assert shown.view.focus == "disk"
