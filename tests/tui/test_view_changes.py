"""How keys change a View."""

import pytest

from iotop_ai.model.settings import SORT_KEYS
from iotop_ai.present.block.table import block_rows
from iotop_ai.present.gpu.panel import gpu_rows
from iotop_ai.present.screen.selection import selectable
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.panel import Rows
from iotop_ai.tui.view_changes import (
    INTERVALS_S,
    TO_THE_END,
    device_after,
    interval_after,
    pasted_line,
    sort_after,
    view_after_move,
)
from tests.present.make import Disk, Machine, disk, frame, gpu, snapshots


def test_intervals_change_in_steps_and_stop_at_both_ends() -> None:
    up = [0.1]
    for _ in range(10):
        up.append(interval_after(up[-1], 1))
    assert up[:9] == list(INTERVALS_S)
    assert up[9:] == [60.0, 60.0]
    assert interval_after(0.1, -1) == 0.1
    assert (interval_after(3.0, 1), interval_after(3.0, -1)) == (5.0, 2.0)
    assert (interval_after(3600.0, -1), interval_after(3600.0, 1)) == (60.0, 3600.0)


def test_the_sort_keys_wrap_around() -> None:
    assert sort_after(SORT_KEYS[-1], 1) == SORT_KEYS[0]
    assert sort_after(SORT_KEYS[0], -1) == SORT_KEYS[-1]


@pytest.mark.parametrize(
    ("current", "step", "expected"),
    [("sda", 1, "sdb"), ("sdc", 1, "sda"), ("sda", -1, "sdc"), ("gone", 1, "sda"), ("", -1, "sdc")],
)
def test_the_devices_wrap_around(current: str, step: int, expected: str) -> None:
    assert device_after(("sda", "sdb", "sdc"), current, step) == expected
    assert device_after((), current, step) == ""


def test_the_cursor_stays_visible() -> None:
    keys = [f"process:{n}" for n in range(10)]
    view = view_after_move(View(), keys, 1, 4)
    assert (view.cursor, view.scroll) == ("process:0", 0)
    for _ in range(5):
        view = view_after_move(view, keys, 1, 4)
    assert (view.cursor, view.scroll) == ("process:5", 2)
    view = view_after_move(view, keys, 1_000_000, 4)
    assert (view.cursor, view.scroll) == ("process:9", 6)
    view = view_after_move(view, keys, -4, 4)
    assert (view.cursor, view.scroll) == ("process:5", 5)
    view = view_after_move(view, keys, -1_000_000, 4)
    assert (view.cursor, view.scroll) == ("process:0", 0)
    assert view_after_move(View(), [], 1, 4) == View()
    assert view_after_move(View(cursor="process:77"), keys, -1, 4).cursor == "process:9"
    for cursor in ("", "process:77"):  # without a row of the cursor
        assert view_after_move(View(cursor=cursor, scroll=5), keys, -TO_THE_END, 4) == View(cursor="process:0")
        assert view_after_move(View(cursor=cursor), keys, TO_THE_END, 4).cursor == "process:9"
    first = view_after_move(View(), keys, 1, 4, enter="process:6")
    assert (first.cursor, first.scroll) == ("process:6", 3)
    assert view_after_move(first, keys, 1, 4, enter="process:6").cursor == "process:7"
    assert view_after_move(View(), keys, 1, 4, enter="process:gone").cursor == "process:0"


@pytest.mark.parametrize(("panel", "rows", "height"), [("disk", block_rows, 4), ("gpu", gpu_rows, 5)])
def test_the_cursor_reaches_every_row_and_is_always_visible(panel: str, rows: Rows, height: int) -> None:
    disks = tuple(Disk(disk(f"sd{c}"), reads=c in "fj", read_await=2.0, busy=0.1) for c in "abcdefghijkl")
    gpus = tuple(gpu(n, 90 - 10 * n, pcie_width=16 >> n // 2, clock_reasons=0x40 * (n == 7)) for n in range(8))
    one = frame(snapshots(lambda _second: Machine(disks, gpus=gpus), 6))
    for step in (1, -1):
        view, marked = View(focus=panel), []
        for _ in range(12):
            keys = selectable(one, view, panel, height)
            view = view_after_move(view, keys, step, sum(bool(line.key) for line in rows(one, view, 80, height)))
            marked += [line.key for line in rows(one, view, 80, height) if line.background == "sel"]
            assert marked[-1] == view.cursor
            assert "more" in rows(one, view, 80, height)[-1].text
        assert tuple(dict.fromkeys(marked)) == selectable(one, View(), panel, height)[::step]


@pytest.mark.parametrize(
    "text", ["/data/set", "/data/set\r", "/data/set\n", "/data/set\r\nsecond", "/data/set\rsecond\r"]
)
def test_only_the_first_line_of_a_pasted_text_counts(text: str) -> None:
    assert pasted_line(text) == "/data/set"
    assert pasted_line("") == ""
