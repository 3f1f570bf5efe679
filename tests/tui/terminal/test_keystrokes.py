"""The real app answers each question of docs/screen.md after the number of keys that the page states."""

from __future__ import annotations

from pathlib import Path

from iotop_ai.present.screen.actions import MAIN_ACTIONS
from iotop_ai.tui.screens.main.time_actions import LEAP_S
from tests.cli.program import TOP
from tests.present.scenes import starved
from tests.tui.recorded import record, stalling
from tests.tui.scene import starved_frames
from tests.tui.screens.test_replay import replaying
from tests.tui.shown import showing, text


def documented_keys() -> dict[str, int]:
    """The number of keys in each row of the table, by its question."""
    rows = [line.split("|") for line in (TOP / "docs" / "screen.md").read_text().splitlines() if line.startswith("| (")]
    return {row[1].strip(): int(row[2].split()[0]) for row in rows}


KEYS = documented_keys()


async def test_most_questions_need_no_key() -> None:
    without_keys = [question[:3] for question, keys in KEYS.items() if keys == 0]
    assert without_keys == ["(a)", "(b)", "(c)", "(d)"]
    async with showing([starved_frames()[-1], starved(61)]) as (app, _):
        lines = text(app).splitlines()
    (disks,) = (i for i, line in enumerate(lines) if line.startswith("── disk "))
    (processes,) = (i for i, line in enumerate(lines) if line.startswith("── process "))
    assert lines[processes + 1].startswith(" pt_data_worker x64 ")
    assert "r_await" in lines[disks]
    assert lines[disks + 1].startswith(">sda ")
    assert " 85.0 " in lines[disks + 1]
    assert lines[disks + 1].rstrip().endswith("FAILING")
    assert lines[0].startswith(" STARVED  8 of 8 GPUs wait for data ")
    assert "r_await" in lines[1]


async def test_sorting_by_reads_alone_takes_one_key() -> None:
    keys = [">"]
    assert KEYS["(a) the same, by what it reads alone"] == len(keys)
    async with showing(starved_frames()[-1:]) as (app, pilot):
        await pilot.press("greater_than_sign")
        await pilot.pause()
        assert app.main.view.sort == "read"


def test_going_back_ten_minutes_takes_one_key() -> None:
    (leap,) = (action for action in MAIN_ACTIONS if action.command == "leap(-1)")
    assert KEYS["(e) ten minutes ago, live"] == len(leap.keys) == 1
    assert LEAP_S == 600


async def test_going_to_a_time_yesterday_takes_the_documented_keys(tmp_path: Path) -> None:
    live = stalling(90)
    keys = ["at", "0", "8", "colon", "5", "4", "enter"]
    assert KEYS["(f) yesterday at 14:30, with a recording open"] == len(keys)
    async with replaying(record(tmp_path / "a.iotop.jsonl", live)) as replay:
        await replay.press(*keys)
        await replay.until(lambda: "08:54:00" in replay.text("path"))
