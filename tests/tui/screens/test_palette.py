"""The list of all actions: a key opens it, typing searches it, and Enter or a click runs an action."""

import pytest
from textual.events import Key

from iotop_ai.cli.subcommands import shell_commands
from iotop_ai.present.screen.actions import SCREENS, all_actions
from iotop_ai.present.screen.help import TITLES
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.palette import SEARCH_WORDS, Entry, entries, matching_entries, palette_rows
from iotop_ai.present.screen.view import View
from iotop_ai.tui.screens.palette import PaletteScreen
from tests.tui.shown import text
from tests.tui.test_app import Shown, showing


def palette(shown: Shown) -> PaletteScreen:
    screen = shown.app.screen
    assert isinstance(screen, PaletteScreen)
    return screen


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_typing_selects_an_action_and_enter_runs_it(key: str) -> None:
    async with showing() as shown:
        await shown.press(key)
        assert [entry.action for entry in palette(shown).matches] == list(SCREENS["main"])
        await shown.press(*"no such action")
        assert palette(shown).matches == ()
        await shown.press("enter")
        assert "no action matches" in "\n".join(shown.screen())
        await shown.press("ctrl+u", *"reverse ord", "enter")
        assert shown.app.screen is shown.app.main
        assert shown.view.reverse
        await shown.press(key, *"quit", "escape")
        assert shown.app.screen is shown.app.main
        assert shown.app.is_running


@pytest.mark.parametrize(("opens", "screen"), [("enter", "reasoning"), ("J", "jobs"), ("h", "health")])
async def test_the_list_has_the_actions_of_the_screen_below_it(opens: str, screen: str) -> None:
    async with showing() as shown:
        await shown.press(opens)
        front = shown.app.screen
        await shown.press("colon")
        assert [entry.action for entry in palette(shown).matches] == list(SCREENS[screen])
        await shown.press(*"help", "enter")
        assert f"help: {TITLES[screen]}" in shown.screen()[0]
        await shown.press("escape")
        assert shown.app.screen is front


async def test_all_keys_that_arrive_together_go_into_the_search() -> None:
    async with showing() as shown:
        await shown.pilot.press("colon", *"oar")
        await shown.pilot.pause()
        assert palette(shown).typed == "oar"
        assert not shown.view.only_active
        assert shown.view.base is None


async def test_a_second_enter_before_the_list_has_gone_runs_nothing() -> None:
    async with showing() as shown:
        await shown.press("h", "colon", *"next")
        screen, health = palette(shown), shown.app.screen_stack[-2]
        screen.on_key(Key("enter", "\r"))
        screen.on_key(Key("enter", "\r"))
        await shown.pilot.pause()
        assert shown.app.screen is health


async def test_a_colon_typed_in_a_filter_does_not_open_the_list() -> None:
    async with showing() as shown:
        await shown.press("slash", "a", "colon", "b")
        assert shown.view.pattern == "a:b"
        assert shown.app.screen is shown.app.main


async def test_the_cursor_and_a_click_select_an_action() -> None:
    async with showing() as shown:
        await shown.press("colon", *"panel", "down", "down", "up")
        screen = palette(shown)
        chosen = screen.matches[1].action
        assert screen.panel.lines[3].key == f"act:{chosen.name}"
        assert screen.panel.lines[3].background == "sel"
        y = next(y for y, line in enumerate(screen.panel.lines) if line.key == "act:panel.gpu")
        await shown.pilot.click(screen.panel, offset=(20, y))
        await shown.pilot.pause()
        assert shown.view.hidden == {"gpu"}


async def test_the_program_can_be_left_from_the_list() -> None:
    async with showing() as shown:
        await shown.pilot.press("colon", *"app.quit", "enter")
        await shown.pilot.pause()
        assert not shown.app.is_running or shown.app._exit


async def test_the_list_has_the_actions_of_the_health_screen() -> None:
    async with showing() as shown:
        await shown.press("h", "ctrl+p")
        assert {entry.action.name for entry in palette(shown).matches} == {action.name for action in SCREENS["health"]}
        await shown.press(*"health.main", "enter")
        assert shown.app.screen is shown.app.main
        await shown.press("question_mark", "ctrl+p")  # from the help, the list is that of the screen below the help
        assert {entry.action.name for entry in palette(shown).matches} == {action.name for action in SCREENS["main"]}
        await shown.press("escape")
        assert shown.app.screen is shown.app.main


@pytest.mark.parametrize(("key", "screen"), [("J", "jobs"), ("enter", "reasoning")])
async def test_the_list_has_the_actions_of_the_screens_about_jobs(key: str, screen: str) -> None:
    async with showing() as shown:
        await shown.press(key, "colon")
        assert {entry.action.name for entry in palette(shown).matches} == {action.name for action in SCREENS[screen]}


async def test_the_screens_have_only_ascii_when_requested() -> None:
    async with showing(view=View(ascii_only=True)) as shown:
        for key in ("colon", "s", "C", "question_mark"):
            await shown.press(key)
            assert shown.app.screen is not shown.app.main
            assert text(shown.app).isascii(), key
            await shown.press("escape")


@pytest.mark.parametrize(
    "action", [action for action in SCREENS["main"] if action.name.startswith(("sort.", "rows.", "device."))]
)
async def test_an_entry_does_the_same_as_its_key(action: object) -> None:
    async with showing() as shown:
        await shown.press(action.keys[0])  # type: ignore[attr-defined]
        by_key = shown.view
    async with showing() as shown:
        await shown.press("colon", *action.name.replace("_", " "), "enter")  # type: ignore[attr-defined]
        assert shown.view._replace(base=None, cache=None) == by_key._replace(base=None, cache=None)


def test_the_typed_words_match_in_any_order() -> None:
    all_entries = entries(SCREENS["main"])
    names = [entry.action.name for entry in matching_entries(all_entries, "panel gpu")]
    assert names == ["panel.gpu"]
    assert [entry.action.name for entry in matching_entries(all_entries, "F10")] == ["app.quit"]
    assert matching_entries(all_entries, "no such thing") == ()
    assert matching_entries(all_entries, "Quit")[0].action.text == "Quit"


def test_the_list_shows_keys_that_the_user_changed() -> None:
    keymap = user_keymap({"filter.open": ["f7"], "rows.active": []})[0]
    lines = palette_rows(entries(SCREENS["main"], keymap), 0, "", 80, 60)
    row = {line.key: line.text for line in lines}
    assert row["act:filter.open"].startswith(" F7 ")
    assert row["act:rows.active"].startswith(" - ")


@pytest.mark.parametrize(("width", "height"), [(60, 15), (80, 24), (160, 48), (250, 70)])
def test_rows_fill_the_width_of_the_screen(width: int, height: int) -> None:
    all_entries = entries(SCREENS["main"])
    for at in (0, len(all_entries) // 2, len(all_entries) - 1):
        lines = palette_rows(all_entries, at, "", width, height)
        assert len(lines) == height
        assert {len(line.text) for line in lines} == {width}
        assert [line.background for line in lines].count("sel") == 1
    assert len(palette_rows((), 0, "x", width, height)) == height


@pytest.mark.parametrize("typed", ["latency", "p99"])
def test_the_latency_of_a_disk_is_found_on_the_main_screen_and_on_the_disks_page(typed: str) -> None:
    for screen, name in (("main", "device.list"), ("main", "row.open"), ("device", "disk.tab")):
        assert name in [entry.action.name for entry in matching_entries(entries(SCREENS[screen]), typed)]


def test_the_search_words_belong_to_actions() -> None:
    assert set(SEARCH_WORDS) <= set(all_actions())


async def test_a_command_of_the_shell_is_answered_with_that_command() -> None:
    async with showing(size=(80, 24)) as shown:
        shown.app.shell_commands = shell_commands()
        for name in ("compare", "doctor", "check", "diag"):
            await shown.press("colon", *name)
            rows = "\n".join(shown.screen())
            assert "in the shell" in rows
            assert f" iotop-ai {name}" in rows
            assert "no action matches" not in rows
            await shown.press("escape")
        await shown.press("colon", *"compare", "enter")
        assert isinstance(shown.app.screen, PaletteScreen)
        assert "Enter" not in shown.screen()[-1]
        await shown.press("ctrl+u", *"co")  # too short for the beginning of a command
        assert "in the shell" not in "\n".join(shown.screen())


def test_the_commands_leave_room_for_the_actions() -> None:
    listed = entries(SCREENS["main"])
    lines = palette_rows(listed, 0, "re", 80, 24, commands=shell_commands())
    assert len(lines) == 24
    assert {len(line.text) for line in lines} == {80}
    assert sum(line.text.startswith(" in the shell ") for line in lines) == 10
    assert lines[2].background == "sel"


async def test_keys_that_the_user_changed_work_on_the_screen() -> None:
    keymap = user_keymap({"rows.active": ["f7", "x"], "sort.reverse": []})[0]
    async with showing(view=View(keymap=keymap)) as shown:
        await shown.press("o", "r")
        assert not shown.view.only_active
        assert not shown.view.reverse
        assert (await shown.press("f7")).only_active
        assert not (await shown.press("x")).only_active


async def test_from_the_help_only_the_users_key_opens_the_list() -> None:
    keymap = user_keymap({"app.palette": ["f7"]})[0]
    async with showing(view=View(keymap=keymap)) as shown:
        await shown.press("question_mark", "f7")
        assert {entry.action.name for entry in palette(shown).matches} == {action.name for action in SCREENS["main"]}
        await shown.press("escape", "question_mark", "colon")
        assert shown.app.screen is shown.app.main


@pytest.mark.parametrize(
    ("word", "action"),
    [
        ("light", "theme.next"),
        ("dark", "theme.next"),
        ("why", "row.open"),
        ("SMART", "health.open"),
        ("screenshot", "app.picture"),
        ("history", "time.leap_back"),
        ("latency", "row.open"),
        ("files", "row.open"),
        ("measure", "act.check"),
        ("pin", "device.list"),
        ("freeze", "time.pause"),
    ],
)
def test_words_used_by_other_monitors_find_the_right_action(word: str, action: str) -> None:
    listed = [Entry(one, " ".join(one.keys)) for one in SCREENS["main"]]
    assert matching_entries(listed, word)[0].action.name == action
