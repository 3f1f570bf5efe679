"""Every size from 60x15 to 250x70: the screen is filled, has the essential rows, and cuts no headline within a word."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.present.screen.layout import plan, screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import cells
from tests.present import gpu_scenes, scenes

SCENES: dict[str, Callable[[], Frame]] = {
    **{name: getattr(scenes, name) for name in ("starved", "healthy", "unsure", "no_gpu", "first")},
    "eight": gpu_scenes.eight,
}
WIDTHS = (60, 61, 66, 72, 79, 80, 81, 90, 99, 100, 119, 120, 139, 140, 159, 160, 200, 250)
HEIGHTS = (15, 18, 23, 24, 25, 30, 39, 40, 48, 70)
VIEW = View(utc_offset_s=0)
HEADLINE = 10
"""The column at which the sentence of the first row begins."""


@cache
def made(name: str) -> Frame:
    return SCENES[name]()


def headline_words(text: str) -> list[str]:
    return re.findall(r"\S+", text[HEADLINE:])


@pytest.mark.parametrize("name", SCENES)
def test_every_size_is_filled_exactly(name: str) -> None:
    all_words = set(headline_words(screen_rows(250, 70, made(name), VIEW)[0].text))
    for i, width in enumerate(WIDTHS):
        # The fullest scene is tested at all sizes, each other scene at a third of the heights for each width.
        for height in HEIGHTS if name == "eight" else HEIGHTS[i % 3 :: 3]:
            lines = screen_rows(width, height, made(name), VIEW)
            at = f"{name} at {width}x{height}"
            assert len(lines) == height, at
            assert {cells(line.text) for line in lines} == {width}, at
            first = lines[0].text
            assert "…" not in first, f"{at}: {first}"
            assert set(headline_words(first)) <= all_words, f"{at}: {first}"
            shown = {slot.panel for slot in plan(width, height, made(name), VIEW)}
            assert {"banner", "path", "disk", "keys"} <= shown, at
            assert re.match(r" q( |:)", lines[-1].text), at


@pytest.mark.parametrize(
    "hidden", [{"disk", "process"}, {"disk", "process", "graphs"}, {"disk", "process", "gpu", "graphs"}]
)
def test_the_keys_stay_visible_when_the_system_panel_takes_the_free_rows(hidden: set[str]) -> None:
    for height in range(20, 81):
        lines = screen_rows(120, height, made("eight"), VIEW._replace(hidden=frozenset(hidden)))
        assert re.match(r" q( |:)", lines[-1].text), height


@pytest.mark.parametrize("name", SCENES)
def test_nothing_essential_is_hidden_at_80x24(name: str) -> None:
    lines = [line.text for line in screen_rows(80, 24, made(name), VIEW)]
    (disk,) = (i for i, text in enumerate(lines) if text.startswith("── disk "))
    for title in ("rMB/s", "r_await", "w_await", "%util", "health"):
        assert title in lines[disk]
    assert lines[disk + 1].startswith((">", " ", "!"))
    assert re.search(r"\w", lines[disk + 1])
    for key in ("q", "?", "Enter:why", "b/n:disk", "/:find"):
        assert f" {key}" in lines[-1]
    for section in ("path", "process"):
        assert any(text.startswith(f"── {section} ") for text in lines)


@pytest.mark.parametrize("name", SCENES)
def test_graphs_leave_room_for_two_processes(name: str) -> None:
    for width in WIDTHS[::3]:
        for height in range(15, 48):
            slots = {slot.panel: slot.height for slot in plan(width, height, made(name), VIEW)}
            if "graphs" in slots:
                assert slots["process"] >= 4, f"{name} at {width}x{height}"  # the title, two processes and the last row
