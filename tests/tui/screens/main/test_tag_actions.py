"""The keys for tags, which belong to processes and not to rows, and actions on all tagged processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.tui.messages import FrameReady
from iotop_ai.tui.threads.actions import ActionResult
from tests.tui.screens.main.test_machine_actions import LATER, VIEW, showing


@pytest.fixture
def copied_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("TMUX", raising=False)
    return tmp_path / "iotop-ai" / "copied.txt"


@pytest.mark.parametrize("mode", ["live", "paused", "replay", "back"])
async def test_a_tag_stays_as_long_as_its_process(mode: str) -> None:
    async with showing(VIEW._replace(mode=mode), size=(120, 40)) as shown:
        main = shown.app.main
        assert "choose a process first" in await shown.press("T")
        main.panels["process"].focus()
        text = await shown.press("down", "T")
        assert "pt_data_worker x64 tagged, 64 in total" in text
        assert "*pt_data_worker x64" in text
        assert "process 64 tagged" in text
        assert "train.py x8 tagged, 72 in total" in await shown.press("T")  # after a tag the cursor is on the next row
        await shown.press("s", *"name", "enter", "slash", *"train", "enter", "t")
        assert len(main.view.tagged) == 72
        main.state.newest = LATER
        await shown.press("t", "escape")
        main.state.change(mode="live")
        shown.app.post_message(FrameReady(LATER))
        await shown.pilot.pause()
        assert len(main.view.tagged) == 72
        assert "72 untagged" in await shown.press("U")
        assert not main.view.tagged
        assert "nothing is tagged" in await shown.press("U")


async def test_an_ended_process_is_untagged() -> None:
    async with showing(size=(120, 40)) as shown:
        main = shown.app.main
        main.panels["process"].focus()
        await shown.press("down", "T")
        (ended, *_), left = sorted(main.view.tagged), len(main.view.tagged) - 1
        processes = LATER.snapshot.processes
        table = processes.value
        assert table is not None
        table = table._replace(info={key: info for key, info in table.info.items() if key != ended})
        later = LATER._replace(snapshot=LATER.snapshot._replace(processes=processes._replace(value=table)))
        shown.app.post_message(FrameReady(later))
        await shown.pilot.pause()
        assert len(main.view.tagged) == left
        assert ended not in main.view.tagged
        assert f"process {left} tagged" in shown.text


@pytest.mark.parametrize(
    ("view", "why"),
    [(VIEW._replace(mode="replay"), "not available in a replay"), (VIEW._replace(readonly=True), "read-only")],
)
async def test_tags_are_used_only_where_actions_are_allowed(view: object, why: str) -> None:
    async with showing(view, size=(120, 40)) as shown:  # type: ignore[arg-type]
        shown.app.main.panels["process"].focus()
        await shown.press("down", "T")
        for key in ("k", "i", "f7"):
            assert why in await shown.press(key)
            await shown.press("escape")
            assert not shown.asking


async def test_one_dialog_opens_for_all_tagged_processes() -> None:
    async with showing(size=(80, 24)) as shown:
        shown.app.main.panels["process"].focus()
        await shown.press("down", "T")
        shown.app.main.panels["banner"].focus()
        text = await shown.press("i")
        assert "64 tagged" in text
        assert "+60 more" in text
        assert "it applies to all 64 of them" in text
        assert "press Enter: io " in text
        await shown.press("escape")
        assert not shown.source.events


async def test_every_tagged_process_has_its_event(copied_file: Path) -> None:
    async with showing(size=(120, 40)) as shown:
        main = shown.app.main
        main.panels["process"].focus()
        await shown.press("down", "T", "k", *"nice 5", "enter")
        # These processes are made up, so any real process with one of their pids has another start time.
        text = await shown.until(lambda text: "of 64 tagged" in text)
        assert "failed: nice 5: 0 of 64 tagged processes; failed for pt_data_worker (" in text
        assert not shown.source.events
        done = ActionResult.of_action(True, "nice 5: 2 of 3 tagged processes", ("nice 5: a (1)", "nice 5: b (2)"))
        main.action_threads.run("nice", lambda: done)
        await shown.until(lambda text: "2 of 3 tagged processes" in text)
        assert shown.source.events == [("action", "nice 5: a (1)"), ("action", "nice 5: b (2)")]


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_one_row_or_all_tagged_rows_are_copied(copied_file: Path, ascii_only: bool) -> None:
    async with showing(VIEW._replace(ascii_only=ascii_only), size=(120, 40)) as shown:
        main = shown.app.main
        assert "choose a row first" in await shown.press("y")
        main.panels["process"].focus()
        await shown.press("down", "down", "y")
        await shown.until(lambda text: "the text is in" in text)
        lines = copied_file.read_text().splitlines()
        assert len(lines) == 1 + 8
        assert {line.split()[0] for line in lines[1:]} == {"train.py"}
        await shown.press("home", "T", "y")
        await shown.until(lambda _: len(copied_file.read_text().splitlines()) == 1 + 64)
        main.panels["disk"].focus()
        await shown.press("down", "y")
        await shown.until(lambda _: "r_await" in copied_file.read_text())
        titles, row = copied_file.read_text().splitlines()
        assert row[1:].split()[0] == main.view.cursor.removeprefix("disk:")
        assert titles.index("r_await") < len(row)
        assert titles.startswith("   disk ")
        assert not any(dashes in titles for dashes in ("--", "==", "──", "━━"))
