"""The keys that change the machine: where they are refused, and that their dialog takes every key."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.events import Key, Paste
from textual.pilot import Pilot

from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.view import View
from iotop_ai.store.source import MemoryRecording
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.dialogs.base import DialogScreen
from iotop_ai.tui.dialogs.drop_caches import DropCachesScreen
from iotop_ai.tui.dialogs.notice import NoticeScreen
from iotop_ai.tui.dialogs.process import ProcessScreen
from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.screens.main import screen
from tests.present.make import frame
from tests.present.scenes import starved_snapshots
from tests.tui.screens.test_health import Own
from tests.tui.shown import text

SNAPSHOTS = starved_snapshots(6, onset=2)
FRAME, LATER = frame(SNAPSHOTS[:5]), frame(SNAPSHOTS)
VIEW = View(interval_s=1.0, utc_offset_s=0)
CHANGES = ("D", "ctrl+t", "k", "f9", "i", "f7")
"""The keys that change the machine."""


class Shown:
    def __init__(self, app: MonitorApp, pilot: Pilot[None], source: Own) -> None:
        self.app, self.pilot, self.source = app, pilot, source

    async def press(self, *keys: str) -> str:
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.text

    async def until(self, seen: Callable[[str], bool]) -> str:
        for _ in range(400):
            if seen(self.text):
                return self.text
            await self.pilot.pause(0.05)
        raise AssertionError(self.text)

    @property
    def text(self) -> str:
        return text(self.app)

    @property
    def asking(self) -> bool:
        return isinstance(self.app.screen, DialogScreen)


@asynccontextmanager
async def showing(
    view: View = VIEW, source: MemoryRecording | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Shown]:
    source = Own() if source is None else source
    app = MonitorApp(FRAME, (), source, view, "dark")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Shown(app, pilot, source)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (VIEW._replace(readonly=True), "this screen is read-only"),
        (VIEW._replace(remote=True), "not available from another machine"),
        (VIEW._replace(mode="replay"), "not available in a replay"),
        (VIEW._replace(mode="back"), "not available for the past"),
    ],
)
async def test_where_changes_are_refused_a_notice_is_shown_and_takes_the_keys(
    view: View, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "MESSAGE_S", 3600.0)  # no message disappears between two looks at the View
    async with showing(view) as shown:
        for key in CHANGES:
            assert why in await shown.press(key), key
            before = shown.app.main.view
            await shown.press(*"trdq")
            assert isinstance(shown.app.screen, NoticeScreen), key
            assert shown.app.main.view == before, key
            assert why not in await shown.press("escape"), key
            assert not shown.asking, key


async def test_nothing_can_be_changed_on_a_recorded_machine() -> None:
    async with showing(source=MemoryRecording()) as shown:
        for key in CHANGES:
            assert "only on the live screen" in await shown.press(key), key
            assert isinstance(shown.app.screen, NoticeScreen), key
            assert "only on the live screen" not in await shown.press("escape"), key


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (160, 48)])
async def test_the_dialog_is_over_the_screen_and_escape_closes_it(size: tuple[int, int]) -> None:
    async with showing(size=size) as shown:
        text = await shown.press("D")
        assert "DROP CACHES" in text
        assert "type drop and press Enter" in text or "folder or file" in text
        shown.app.post_message(FrameReady(LATER))
        await shown.pilot.pause()
        assert shown.app.main.newest is LATER
        assert "DROP CACHES" in shown.text
        await shown.press("q")  # q is typed into the dialog and does not quit
        assert shown.asking
        await shown.press("escape")
        assert not shown.asking
        assert "DROP CACHES" not in shown.text
        assert not shown.source.events


async def test_all_keys_that_arrive_together_go_into_the_dialog() -> None:
    async with showing() as shown:
        await shown.press("D", "d", "r")
        assert isinstance(shown.app.screen, DropCachesScreen)
        assert not shown.app.main.view.reverse  # on the main screen, r would reverse the order


async def test_a_wrong_word_drops_nothing() -> None:
    async with showing() as shown:
        await shown.press("D", "1")
        await shown.until(lambda text: "checking permissions" not in text)
        await shown.press("1", *"yes", "enter")
        assert 'type "drop" to confirm' in shown.text or "not permitted" in shown.text
        assert not shown.source.events


async def test_a_dataset_is_evicted_and_recorded(disk_folder: Path) -> None:
    (disk_folder / "file").write_bytes(b"x" * (1 << 20))
    async with showing(size=(120, 40)) as shown:
        await shown.press("D", "4")
        assert "full path" in await shown.press(*"data", "enter")
        await shown.press("ctrl+u", *str(disk_folder), "enter")
        await shown.until(lambda text: "Enter or Esc:close" in text)
        assert shown.source.events == [("action", f"evicted 1 file of {disk_folder}: 1 MB -> 0 B in memory")]
        await shown.press("enter")
        assert not shown.asking


async def test_an_eviction_that_finds_no_file_is_not_shown_as_done(disk_folder: Path) -> None:
    async with showing(size=(120, 40)) as shown:
        await shown.press("D", "4", *str(disk_folder), "enter")
        await shown.until(lambda text: "0 files evicted" in text)
        dialog = shown.app.screen
        assert isinstance(dialog, DropCachesScreen)
        assert (dialog.drop.evicted, dialog.drop.error) == (None, "0 files evicted")
        assert not shown.source.events


async def test_text_pasted_during_an_eviction_is_not_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def exists(path: str) -> bool:
        assert release.wait(30)
        return False

    monkeypatch.setattr("iotop_ai.tui.dialogs.drop_caches.os.path.exists", exists)
    async with showing(size=(120, 40)) as shown:
        await shown.press("D", "4", *"/dead", "enter")
        dialog = shown.app.screen
        assert isinstance(dialog, DropCachesScreen)
        dialog.post_message(Paste("/home"))
        await shown.pilot.pause()
        assert dialog.text == ""
        release.set()
        await shown.until(lambda text: "type the full path" in text)
        dialog.post_message(Paste("/data"))
        await shown.pilot.pause()
        assert dialog.text == "/data"


async def test_a_path_that_does_not_answer_does_not_block_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def exists(path: str) -> bool:
        assert release.wait(30)
        return False

    monkeypatch.setattr("iotop_ai.tui.dialogs.drop_caches.os.path.exists", exists)
    async with showing(size=(120, 40)) as shown:
        await shown.press("D", "4", *"/dead", "enter")
        assert "evicting" in shown.text
        await shown.press("escape")
        assert not shown.asking
        release.set()
        await shown.until(lambda text: "type the full path" in text)
        assert not shown.source.events


async def test_the_delay_accounting_dialog_can_be_left() -> None:
    async with showing() as shown:
        text = await shown.press("ctrl+t")
        assert "DELAY ACCOUNTING" in text
        await shown.until(lambda text: "checking permissions" not in text)
        text = await shown.press(*"maybe", "enter")
        assert "to confirm" in text or "not permitted" in text
        assert not shown.source.events
        await shown.press("escape")
        assert not shown.asking


async def test_a_process_must_be_selected_first() -> None:
    async with showing() as shown:
        assert "choose a process first" in await shown.press("k", *"term")
        await shown.press("enter")
        assert not shown.app.main.view.tree
        assert not shown.asking


async def test_the_answer_that_something_must_be_selected_names_the_users_key() -> None:
    async with showing(VIEW._replace(keymap=user_keymap({"cursor.down": ["f2"]})[0])) as shown:
        assert "choose a process first: F2 moves to it" in await shown.press("k")
        assert "choose a row first: Tab to a panel, then F2" in await shown.press("escape", "y")
    async with showing(VIEW._replace(keymap=user_keymap({"cursor.down": []})[0])) as shown:
        assert "moves to it" not in await shown.press("k")


async def test_an_invalid_command_does_nothing() -> None:
    async with showing(size=(120, 40)) as shown:
        shown.app.main.panels["process"].focus()
        await shown.press("down")
        assert shown.app.main.view.cursor.startswith("process:")
        text = await shown.press("k")
        assert "PROCESS" in text
        assert "kill" in text
        assert "unknown command" in await shown.press(*"segv", "enter")
        assert "unknown command" not in await shown.press("backspace")
        await shown.press("escape")
        assert not shown.asking
        text = await shown.press("i")
        assert "press Enter: io " in text
        await shown.press("escape")
        assert "press Enter: nice " in await shown.press("f7")
        await shown.press("escape")
        assert not shown.source.events


async def test_a_cursor_key_takes_effect_before_the_key_that_follows_it() -> None:
    async with showing() as shown:
        for _ in range(12):
            if shown.app.main.view.focus == "process":
                break
            await shown.press("tab")
        shown.app.post_message(Key("down", None))
        shown.app.post_message(Key("k", "k"))
        await shown.pilot.pause()
        assert isinstance(shown.app.screen, ProcessScreen)
