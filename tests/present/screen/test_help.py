"""The help of each screen: its keys on the first page at every size, uncut hints, and only keys that work."""

from __future__ import annotations

import pytest

from iotop_ai.present.block import facts
from iotop_ai.present.block import table as block
from iotop_ai.present.fleet import jobs_screen as fleet_jobs
from iotop_ai.present.fleet import table as fleet
from iotop_ai.present.gpu import table as gpu
from iotop_ai.present.gpu.process_table import PROCESS_COLUMNS
from iotop_ai.present.health import detail
from iotop_ai.present.health import table as health
from iotop_ai.present.job import screen as jobs
from iotop_ai.present.machine import panel as network
from iotop_ai.present.process import screen_parts as parts
from iotop_ai.present.process import table as process
from iotop_ai.present.screen.actions import APP_ACTIONS, SCREENS, all_actions
from iotop_ai.present.screen.column_help import COLUMN_HELP
from iotop_ai.present.screen.help import TITLES, WITHOUT_MAIN, help_rows, page_count, screen_keys
from iotop_ai.present.screen.key_names import key_label
from iotop_ai.present.screen.key_row import keys_rows
from iotop_ai.present.screen.keymap import user_keymap
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from iotop_ai.present.text.table import Column
from iotop_ai.present.verdict import screen as reasons
from tests.present import gpu_scenes, scenes

VIEW = View(utc_offset_s=0)
SIZES = [(60, 15), (80, 24), (100, 30), (160, 48), (250, 70)]
OTHER_SCREENS = sorted(TITLES)
SCREEN_KEYS = {screen: screen_keys(VIEW, screen) for screen in OTHER_SCREENS}


def page(screen: str, width: int, height: int, view: View = VIEW, number: int = 0) -> list[str]:
    lines = help_rows(view, width, height, number, screen)
    assert len(lines) == height
    assert {cells(line.text) for line in lines} == {width}
    return [line.text for line in lines]


def test_every_screen_has_its_keys_in_the_help() -> None:
    assert set(TITLES) == set(SCREENS) - {"main"}
    assert all(SCREEN_KEYS.values())


@pytest.mark.parametrize("screen", ["gpu", "device"])
def test_in_a_replay_space_plays_and_plus_sets_the_speed(screen: str) -> None:
    words = {mode: {key.keys: key.word for key in screen_keys(View(mode=mode), screen)} for mode in ("live", "replay")}
    assert (words["live"]["Space"], words["live"]["+ -"]) == ("pause", "interval")
    assert (words["replay"]["Space"], words["replay"]["+ -"]) == ("play", "speed")
    playing = {key.keys: key.word for key in screen_keys(View(mode="replay", playing=True), screen)}
    assert (playing["Space"], playing["+ -"]) == ("pause", "speed")


@pytest.mark.parametrize("screen", OTHER_SCREENS)
def test_every_action_of_a_screen_is_in_the_help(screen: str) -> None:
    printed = {name for key in SCREEN_KEYS[screen] for name in key.actions}
    assert printed == {action.name for action in SCREENS[screen]} - {"app.interrupt", "app.suspend"}
    assert {action.name for action in APP_ACTIONS} - printed == {"app.interrupt", "app.suspend"}


@pytest.mark.parametrize("screen", OTHER_SCREENS)
def test_the_help_has_the_keys_that_work(screen: str) -> None:
    actions = all_actions()
    for key in SCREEN_KEYS[screen]:
        between = "/" if "/" in key.keys[1:-1] else " "
        printed = key.keys.split(between) if len(key.actions) > 1 else [key.keys]
        for shown, name in zip(printed, key.actions, strict=True):
            assert shown in map(key_label, actions[name].keys)
        also = key.text.partition(", also ")[2]
        assert not also or also in map(key_label, actions[key.actions[0]].keys)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", OTHER_SCREENS)
def test_keys_of_the_screen_are_on_the_first_page(screen: str, size: tuple[int, int]) -> None:
    rows = page(screen, *size)
    assert rows[0].startswith(f"── help: {TITLES[screen]}")
    assert rows[1].split()[0] == "keys"
    words = " ".join(rows).split()
    for key in SCREEN_KEYS[screen]:
        assert set(key.keys.split()) <= set(words), key
        assert set(key.text.split()) <= set(words), key
    all_text = "\n".join("\n".join(page(screen, *size, number=n)) for n in range(page_count(*size, VIEW, screen)))
    for word in (
        *(() if screen in WITHOUT_MAIN else ("keys of the main screen", "Ctrl-T")),
        *(title for title, _ in COLUMN_HELP[screen]),
    ):
        assert word in all_text, word


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", ["main", *OTHER_SCREENS])
def test_the_hint_is_not_cut(screen: str, size: tuple[int, int]) -> None:
    pages = page_count(*size, VIEW, screen)
    for number in range(pages):
        first = page(screen, *size, number=number)[0]
        assert "…" not in first
        assert "Space: " in first if number + 1 < pages else first.endswith(" any key goes back ──")
    if pages > 1:
        columns = next(n for n in range(1, pages) if page(screen, *size, number=n)[1].startswith(" columns"))
        has_room = size[0] >= 80
        assert ("column meanings; other keys go back" in page(screen, *size, number=columns - 1)[0]) is has_room


TABLES: dict[str, tuple[tuple[Column, ...], ...]] = {
    "main": (block.COLUMNS, gpu.COLUMNS, process.COLUMNS, network.LINKS),
    "gpu": (PROCESS_COLUMNS,),
    "device": (block.COLUMNS, facts.MOUNT_COLUMNS),
    "health": (health.COLUMNS, detail.ATTRIBUTE_COLUMNS),
    "jobs": (jobs.COLUMNS,),
    "process": (parts.THREAD_COLUMNS, parts.FILE_COLUMNS, parts.SOCKET_COLUMNS),
    "reasoning": (reasons.COLUMNS,),
    "fleet": (fleet.COLUMNS,),
    "fleet_jobs": (fleet_jobs.COLUMNS, fleet_jobs.PART_COLUMNS),
}


@pytest.mark.parametrize("screen", SCREENS)
def test_every_column_of_a_screen_is_explained(screen: str) -> None:
    explained = {word for title, _ in COLUMN_HELP[screen] for word in (title, *title.split())}
    titles = {column.title for table in TABLES[screen] for column in table} - {""}
    assert {title for title in titles if not {title, *title.split()} & explained} == set()


def test_keys_that_do_not_work_now_are_left_out_or_dimmed() -> None:
    for mode in ("replay", "back"):
        assert not [key for key in screen_keys(VIEW._replace(mode=mode), "gpu") if key.keys == "R"]
    assert [key for key in screen_keys(VIEW, "gpu") if key.keys == "R"]
    lines = help_rows(VIEW._replace(readonly=True), 80, 24, 0, "health")
    mute = [span.text.split() for line in lines for span in line.spans if span.token == "mute"]
    assert mute == [["T", "self-test"]]


@pytest.mark.parametrize(
    ("screen", "refused"), [("process", {"p", "k/i", "F7"}), ("device", {"m", "R"}), ("health", {"T", "u"})]
)
def test_keys_that_need_the_machine_as_it_is_now_are_not_offered_in_the_past(screen: str, refused: set[str]) -> None:
    assert refused <= {key.keys for key in screen_keys(VIEW, screen)}
    for changes in ({"mode": "replay"}, {"mode": "back"}, {"remote": True}):
        assert not refused & {key.keys for key in screen_keys(VIEW._replace(**changes), screen)}


def test_keys_that_the_user_changed_are_printed() -> None:
    view = VIEW._replace(keymap=user_keymap({"gpu.next": ["z"], "gpu.back": ["x"], "gpu.pause": []})[0])
    text = "\n".join(page("gpu", 80, 24, view))
    assert " b/z " in text
    assert " x " in text
    assert "also g" not in text
    assert " none " in text


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({}, "Enter:why"),
        ({"focus": "path"}, "Enter:jobs"),
        ({"focus": "gpu"}, "Enter:open GPU 0"),
        ({"focus": "gpu", "cursor": "gpu:GPU-0005"}, "Enter:open GPU 5"),
        ({"focus": "disk"}, "Enter:open sda"),
        ({"focus": "disk", "device": "nvme4n1"}, "Enter:open nvme4n1"),
        ({"focus": "disk", "cursor": "disk:md0"}, "Enter:open md0"),
        ({"focus": "banner", "device": "md0"}, "Enter:why"),
        ({"focus": "process", "cursor": "process:active:alice:pt_data_worker"}, "Enter:open pt_data_worker"),
        ({"focus": "graphs"}, "Enter:zoom"),
        ({"focus": "system"}, "Enter:zoom"),
        ({"focus": "timeline", "mode": "replay"}, ""),
    ],
)
@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_row_of_keys_names_what_enter_opens(width: int, changes: dict[str, object], hint: str) -> None:
    made = gpu_scenes.eight() if changes.get("focus") == "gpu" else scenes.starved()
    text = keys_rows(made, VIEW._replace(**changes), width, 1)[0].text
    assert text.startswith(f" q ? {hint} " if hint else " q ? ")
    assert text.count("Enter") == bool(hint)


@pytest.mark.parametrize("mode", ["live", "replay", "back"])
def test_the_row_of_keys_has_the_gpu_screen_only_with_a_gpu(mode: str) -> None:
    view = VIEW._replace(mode=mode)
    assert " g:GPU " in keys_rows(gpu_scenes.eight(), view, 250, 1)[0].text
    assert "GPU" not in keys_rows(scenes.no_gpu(), view, 250, 1)[0].text
