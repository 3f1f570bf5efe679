"""One panel in the whole window, and what a tall window shows."""

from __future__ import annotations

import pytest

from iotop_ai.present.screen.graph_panel import graph_heights
from iotop_ai.present.screen.layout import ZOOMABLE, listed_rows, plan, screen_rows
from iotop_ai.present.screen.view import Timeline, View
from iotop_ai.present.text.line import cells
from tests.present import gpu_scenes, scenes
from tests.present.make import NS, Disk, Machine, Proc, disk, frame, snapshots

UTC = View(utc_offset_s=0)


@pytest.mark.parametrize("panel", ZOOMABLE)
@pytest.mark.parametrize(("width", "height"), [(60, 15), (80, 24), (160, 48), (250, 70)])
def test_a_zoomed_panel_has_all_rows_except_the_verdict_and_the_keys(panel: str, width: int, height: int) -> None:
    scene = gpu_scenes.eight()
    view = UTC._replace(zoom=panel, focus=panel)
    assert [tuple(slot) for slot in plan(width, height, scene, view)] == [
        ("banner", 0, 1),
        (panel, 1, height - 2),
        ("keys", height - 1, 1),
    ]
    lines = screen_rows(width, height, scene, view)
    assert {cells(line.text) for line in lines} == {width}
    assert len(lines) == height
    assert " z:all " in lines[-1].text


def test_a_hidden_panel_is_not_zoomed_and_the_timeline_stays() -> None:
    names = [s.panel for s in plan(80, 24, scenes.starved(61), UTC._replace(zoom="gpu", hidden=frozenset({"gpu"})))]
    assert {"path", "disk", "process"} <= set(names)
    past = UTC._replace(zoom="disk", timeline=Timeline(0, 60 * NS, 60 * NS))
    assert [s.panel for s in plan(80, 24, scenes.starved(61), past)] == ["banner", "timeline", "disk", "keys"]


def test_zoomed_gpus_are_shown_with_their_users_and_processes_by_memory() -> None:
    lines = [line.text for line in screen_rows(80, 24, scenes.starved(61), UTC._replace(zoom="gpu", focus="gpu"))]
    (users,) = (i for i, text in enumerate(lines) if text.startswith("── users of GPUs"))
    (processes,) = (i for i, text in enumerate(lines) if text.startswith("── processes on GPUs"))
    assert lines[users + 1].split() == ["alice", "0-7", "480G", "8"]
    assert lines[processes + 1].split()[:5] == ["train.py", "48213", "0", "alice", "60G"]


def test_the_zoomed_system_panel_lists_the_cores() -> None:
    lines = [line.text for line in screen_rows(80, 24, scenes.no_gpu(), UTC._replace(zoom="system", focus="system"))]
    (title,) = (i for i, text in enumerate(lines) if text.startswith("── core"))
    assert lines[title].split()[3:] == ["busy%", "user%", "system%", "iowait%", "steal%"]
    assert lines[title + 1].split()[0] == "0"
    node_lines = [
        line.text for line in screen_rows(80, 24, scenes.starved(61), UTC._replace(zoom="system", focus="system"))
    ]
    (title,) = (i for i, text in enumerate(node_lines) if text.startswith("── cores"))
    assert "more, less busy" in node_lines[-4]  # there are 192 cores


def machine_with(count: int) -> Machine:
    return Machine((Disk(disk("sda")),), procs=tuple(Proc(100 + n, f"p{n}", cpu=0.01) for n in range(count)))


@pytest.mark.parametrize(("count", "least"), [(5, 20), (60, 7)])
def test_rows_that_the_list_does_not_need_make_the_graphs_taller(count: int, least: int) -> None:
    scene = frame(snapshots(lambda i: machine_with(count), 5))
    slots = {slot.panel: slot for slot in plan(250, 70, scene, UTC)}
    assert slots["graphs"].height >= least
    assert slots["process"].height >= min(count + 2, 30)


@pytest.mark.parametrize("size", [(250, 70), (160, 60)])
@pytest.mark.parametrize("count", range(1, 24))
def test_a_tall_window_has_at_most_four_blank_rows_below_the_list(count: int, size: tuple[int, int]) -> None:
    scene = frame(snapshots(lambda i: machine_with(count), 5))
    slots = {slot.panel: slot for slot in plan(*size, scene, UTC)}
    lines = screen_rows(*size, scene, UTC)
    process = lines[slots["process"].y : slots["process"].y + slots["process"].height]
    assert sum(not line.text.strip() for line in process) <= 4
    graphs = lines[slots["graphs"].y : slots["graphs"].y + slots["graphs"].height]
    assert len(graphs) == slots["graphs"].height
    assert graphs[-1].text.strip(), "the last graph lacks its scale"


@pytest.mark.parametrize(("rows", "heights"), [(3, [1, 1, 1]), (7, [3, 2, 2]), (8, [3, 3, 2]), (9, [3, 3, 3])])
def test_remaining_rows_go_to_the_first_graphs(rows: int, heights: list[int]) -> None:
    assert graph_heights(rows, 3) == heights


def test_one_more_process_moves_no_panel() -> None:
    heights = {plan(250, 70, frame(snapshots(lambda i, n=n: machine_with(n), 5)), UTC) for n in range(7, 11)}  # type: ignore[misc]
    assert len(heights) == 1


@pytest.mark.parametrize(("kept", "count", "rows"), [(0, 10, 12), (12, 10, 12), (12, 3, 12), (12, 2, 4), (12, 11, 16)])
def test_rows_reserved_for_the_list_are_released_late(kept: int, count: int, rows: int) -> None:
    scene = frame(snapshots(lambda i: machine_with(count), 5))
    assert listed_rows(scene, UTC._replace(listed=kept)) == rows
