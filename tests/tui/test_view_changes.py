"""Changes of a View by keys."""

import pytest

from iotop_ai.model.settings import SORT_KEYS
from iotop_ai.present.screen.view import View
from iotop_ai.tui.view_changes import INTERVALS_S, device_after, interval_after, moved, sort_after, typed


def test_intervals_step_and_stop_at_both_ends() -> None:
    up = [0.1]
    for _ in range(10):
        up.append(interval_after(up[-1], 1))
    assert up[:9] == list(INTERVALS_S)
    assert up[9:] == [60.0, 60.0]
    assert interval_after(0.1, -1) == 0.1
    assert (interval_after(3.0, 1), interval_after(3.0, -1)) == (5.0, 2.0)
    assert (interval_after(3600.0, -1), interval_after(3600.0, 1)) == (60.0, 60.0)


def test_sort_goes_round() -> None:
    assert sort_after(SORT_KEYS[-1], 1) == SORT_KEYS[0]
    assert sort_after(SORT_KEYS[0], -1) == SORT_KEYS[-1]


@pytest.mark.parametrize(
    ("current", "step", "expected"),
    [("sda", 1, "sdb"), ("sdc", 1, "sda"), ("sda", -1, "sdc"), ("gone", 1, "sda"), ("", -1, "sdc")],
)
def test_devices_go_round(current: str, step: int, expected: str) -> None:
    assert device_after(("sda", "sdb", "sdc"), current, step) == expected
    assert device_after((), current, step) == ""


def test_the_cursor_stays_in_sight() -> None:
    keys = [f"process:{n}" for n in range(10)]
    view = moved(View(), keys, 1, 4)
    assert (view.cursor, view.scroll) == ("process:0", 0)
    for _ in range(5):
        view = moved(view, keys, 1, 4)
    assert (view.cursor, view.scroll) == ("process:5", 2)
    view = moved(view, keys, 1_000_000, 4)
    assert (view.cursor, view.scroll) == ("process:9", 6)
    view = moved(view, keys, -4, 4)
    assert (view.cursor, view.scroll) == ("process:5", 5)
    view = moved(view, keys, -1_000_000, 4)
    assert (view.cursor, view.scroll) == ("process:0", 0)
    assert moved(View(), [], 1, 4) == View()
    assert moved(View(cursor="process:77"), keys, -1, 4).cursor == "process:9"
    first = moved(View(), keys, 1, 4, enter="process:6")
    assert (first.cursor, first.scroll) == ("process:6", 3)
    assert moved(first, keys, 1, 4, enter="process:6").cursor == "process:7"
    assert moved(View(), keys, 1, 4, enter="process:gone").cursor == "process:0"


def test_only_visible_characters_are_typed() -> None:
    assert typed("ab", "c", "c") == "abc"
    assert typed("ab", "backspace", "\x7f") == "a"
    assert typed("ab", "ctrl+u", None) == ""
    assert typed("ab", "f5", None) == "ab"
    assert typed("ab", "ctrl+g", "\x07") == "ab"
