"""A storage check from the live screen: real reads of a real folder, completed or stopped with Esc."""

from __future__ import annotations

import pwd
import threading
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from iotop_ai.present.screen.view import Problem
from iotop_ai.tui.app import MonitorApp
from iotop_ai.tui.dialogs.drop_caches import DropCachesScreen
from iotop_ai.tui.dialogs.notice import NoticeScreen
from iotop_ai.tui.dialogs.process import DelayScreen
from iotop_ai.tui.dialogs.storage_check import CheckScreen
from iotop_ai.tui.threads import storage_check
from iotop_ai.tui.threads.doctor import ProblemsFound
from tests.rigs.threads import no_thread
from tests.tui.scene import made_frames
from tests.tui.shown import showing, text


def open_check(app: MonitorApp, path: Path, notes: list[str], seconds: float) -> CheckScreen:
    dialog = CheckScreen(app.main._backdrop(), str(path), write=True, note=notes.append)
    dialog.seconds = seconds
    app.push_screen(dialog)
    return dialog


async def until(pilot: Pilot[None], dialog: CheckScreen, word: str) -> None:
    for _ in range(1200):
        await pilot.pause(0.05)
        if word in text(pilot.app) or dialog.check.error:  # type: ignore[arg-type]
            return
    raise AssertionError(text(pilot.app))  # type: ignore[arg-type]


async def test_without_a_thread_the_check_is_refused_and_the_screen_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    async with showing(made_frames(4)) as (app, pilot):
        dialog = open_check(app, tmp_path, notes, 2.0)
        await pilot.pause()
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", no_thread)
            await pilot.press("enter")
            await pilot.pause()
        assert "can't start new thread" in text(app)
        assert dialog._thread is None
        assert notes == []
        await pilot.press("enter")
        await until(pilot, dialog, "Esc:close")
        assert dialog.check.report is not None


@pytest.mark.parametrize("open_dialog", ["drop_caches", "delay_accounting"])
async def test_without_a_thread_a_kernel_switch_cannot_be_set(
    open_dialog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with showing(made_frames(4)) as (app, pilot):
        screen = {"drop_caches": DropCachesScreen, "delay_accounting": DelayScreen}[open_dialog]
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", no_thread)
            app.push_screen(screen(app.main._backdrop(), app.main.action_threads))
            await pilot.pause()
            await pilot.pause()
        assert "can't start new thread" in text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


async def test_without_a_thread_an_eviction_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with showing(made_frames(4)) as (app, pilot):
        dialog = DropCachesScreen(app.main._backdrop(), app.main.action_threads)
        app.push_screen(dialog)
        await pilot.pause()
        await pilot.press("4", *"/gone")
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", no_thread)
            await pilot.press("enter")
            await pilot.pause()
        assert (dialog.drop.doing, dialog.drop.error) == ("", "failed: can't start new thread")
        assert "evicting" not in text(app)


async def test_a_folder_is_measured_and_no_file_is_left(tmp_path: Path) -> None:
    notes: list[str] = []
    async with showing(made_frames(4)) as (app, pilot):
        dialog = open_check(app, tmp_path, notes, 2.0)
        await pilot.press("enter")
        await until(pilot, dialog, "Esc:close")
        assert dialog.check.error == ""
        assert dialog.check.report is not None
        assert {one.name for one in dialog.check.report.results} >= {"write", "sequential", "random"}
        assert "random read 4 KB" in text(app)
        assert notes == [f"storage check of {tmp_path}"]
        assert list(tmp_path.iterdir()) == []
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is app.main


async def test_escape_stops_a_check_at_once_and_the_file_is_removed(tmp_path: Path) -> None:
    async with showing(made_frames(4)) as (app, pilot):
        dialog = open_check(app, tmp_path, [], 60.0)
        await pilot.press("enter")
        await until(pilot, dialog, " of 16: ")
        await pilot.press("x", "escape")  # the letter is ignored and is not taken as a command
        await until(pilot, dialog, "Esc:close")
        assert dialog._thread is not None
        assert dialog._thread.wait(10)
        assert list(tmp_path.iterdir()) == []
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


async def test_a_typed_path_replaces_the_proposed_one_and_an_invalid_one_is_refused(tmp_path: Path) -> None:
    async with showing(made_frames(4)) as (app, pilot):
        dialog = open_check(app, tmp_path, [], 2.0)
        await pilot.press("d", "a", "enter")
        assert dialog.text == "da"
        assert "type a full path" in text(app)
        await pilot.press("ctrl+u", *("slash" if c == "/" else c for c in "/nowhere/here"), "enter")
        await until(pilot, dialog, "No such file")
        assert "No such file" in text(app)
        assert dialog._thread is None


async def test_a_home_is_found_and_an_unknown_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with showing(made_frames(4)) as (app, pilot):
        for path, error in (("~/gone", f"{tmp_path}/gone: No such file"), ("~nouser/set", "~nouser is not known")):
            dialog = open_check(app, Path(path), [], 2.0)
            await pilot.press("enter")
            await until(pilot, dialog, "~~~")
            assert error in dialog.check.error
            await pilot.press("escape")


async def test_a_name_service_that_hangs_does_not_hang_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hanging(name: str) -> pwd.struct_passwd:
        assert threading.current_thread() is not threading.main_thread()
        release.wait()
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", hanging)
    monkeypatch.setattr(storage_check, "ANSWER_S", 0.2)
    async with showing(made_frames(4)) as (app, pilot):
        dialog = open_check(app, Path("~bob/set"), [], 2.0)
        await pilot.press("enter")
        await until(pilot, dialog, "~~~")
        assert dialog.check.error == "~bob/set: the home of ~bob is not known: no answer for 0.2 s"
        assert dialog._thread is None
    release.set()


async def test_a_pasted_path_and_a_dot_replace_the_proposed_path(tmp_path: Path) -> None:
    async with showing(made_frames(4)) as (app, pilot):
        dialog = open_check(app, tmp_path, [], 2.0)
        dialog.post_message(Paste("/scratch\n"))
        await pilot.pause()
        assert dialog.text == "/scratch"
        await pilot.press("escape")
        dialog = open_check(app, tmp_path, [], 2.0)
        await pilot.press("d", "enter")
        assert "type a full path" in text(app)
        dialog.post_message(Paste("/scratch"))
        await pilot.pause()
        assert "type a full path" not in text(app)
        await pilot.press("escape")
        dialog = open_check(app, tmp_path, [], 2.0)
        await pilot.press("full_stop", "d")
        assert dialog.text == ".d"
        await pilot.press("escape")
        dialog = open_check(app, tmp_path, [], 2.0)
        await pilot.press("backspace", "x")
        assert dialog.text == f"{str(tmp_path)[:-1]}x"


async def test_a_screen_without_a_live_machine_refuses_a_check_with_a_reason() -> None:
    async with showing(made_frames(4)) as (app, pilot):
        await pilot.press("m")
        await pilot.pause()
        assert isinstance(app.screen, NoticeScreen)
        assert "only on the live screen of the machine itself" in text(app)


async def test_the_row_of_doctor_can_be_dismissed_for_good() -> None:
    shm, link = Problem("shared memory", "/dev/shm has 64 MB"), Problem("sda link", "PCIe 1x1 of 4x4")
    async with showing(made_frames(4)) as (app, pilot):
        app.main.post_message(ProblemsFound((shm,)))
        await pilot.pause()
        assert " doctor  /dev/shm has 64 MB" in text(app)
        await pilot.press("X")
        assert "doctor  " not in text(app)
        assert app.main.view.dismissed == {"shared memory"}
        app.main.post_message(ProblemsFound((shm, link)))
        await pilot.pause()
        assert " doctor  PCIe 1x1 of 4x4" in text(app)


@pytest.fixture
def binary() -> object:
    from iotop_ai.present.text.units import use_units

    yield
    use_units("binary")


@pytest.mark.usefixtures("binary")
async def test_a_key_changes_the_size_of_a_megabyte_on_every_screen() -> None:
    async with showing(made_frames(4)) as (app, pilot):
        assert "  12.5  128K" in text(app)  # this is 100 reads of 128 KiB
        await pilot.press("B")
        await pilot.pause()
        assert "  13.1  128K" in text(app)
        assert "MB=10^6 B" in text(app)
        assert "1 MB/s is 1,000,000 B/s" in text(app)
        await pilot.press("B")
        await pilot.pause()
        assert "  12.5  128K" in text(app)
        assert "MB=10^6 B" not in text(app)
