"""The cache of a screen changes no row, and each of its items is computed once per Frame."""

from __future__ import annotations

import pytest

from iotop_ai.model.frame import Frame
from iotop_ai.pipeline import frames
from iotop_ai.present.screen.layout import screen_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.frame_cache import FrameCache, cached_per_item
from tests.present.scenes import starved_snapshots


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
def test_the_rows_are_the_same_as_without_a_cache(size: tuple[int, int]) -> None:
    view = View(cache=FrameCache())
    for frame in frames(starved_snapshots(12, onset=2)):
        assert screen_rows(*size, frame, view) == screen_rows(*size, frame, View())


def test_each_item_is_computed_once_per_frame() -> None:
    made: list[str] = []

    @cached_per_item(str.lower)
    def shout(frame: Frame, view: View, item: str) -> str:
        made.append(item)
        return item.upper()

    first, second = list(frames(starved_snapshots(2, onset=1)))
    view = View(cache=FrameCache())
    assert [shout(first, view, item) for item in ("a", "b", "a", "A")] == ["A", "B", "A", "A"]
    assert made == ["a", "b"]
    shout(second, view, "a")
    assert made == ["a", "b", "a"]
    shout(second, view._replace(cursor="x"), "a")
    assert made == ["a", "b", "a", "a"]
