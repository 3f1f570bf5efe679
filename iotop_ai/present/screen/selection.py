"""The devices and rows that the cursor can select, in the order of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from iotop_ai.model.frame import Frame
from iotop_ai.present.block import devices
from iotop_ai.present.block.table import ordered_rows
from iotop_ai.present.gpu.panel import gpu_keys
from iotop_ai.present.process.groups import group_at_cursor, groups
from iotop_ai.present.screen.view import View

T = TypeVar("T")


def next_in_order(order: Sequence[T], current: T, step: int) -> T | None:
    """The item ``step`` places after ``current``, wrapping around; the first item if ``current`` is not in ``order``,
    None if ``order`` is empty.
    """
    if not order:
        return None
    return order[(order.index(current) + step) % len(order)] if current in order else order[0]


def device_order(frame: Frame, view: View) -> tuple[str, ...]:
    """The kernel names of the devices that have a row, from top to bottom."""
    return tuple(d.name for d in devices.panel_devices(frame, view))


def selected_device_name(frame: Frame, view: View) -> str:
    """The kernel name of the device that the graphs show; "" if there is none."""
    device = devices.selected_device(frame, view)
    return "" if device is None else device.name


def selectable(frame: Frame, view: View, panel: str, height: int = 0) -> tuple[str, ...]:
    """The keys of a panel's rows, from top to bottom; () for a panel without selectable rows.

    height: the number of the panel's rows on the screen, on which the grouping of GPUs and disks depends.
    """
    if panel == "disk":
        return tuple(d.row_key for d, _ in ordered_rows(frame, view, height - 1))
    if panel == "process":
        at_cursor = group_at_cursor(frame, view)
        keys = tuple(g.row_key for g in groups(frame, view))
        # When a group becomes active or idle, its row key changes, but the cursor keeps the earlier key.
        return keys if at_cursor is None else tuple(view.cursor if key == at_cursor.row_key else key for key in keys)
    if panel == "gpu":
        return gpu_keys(frame, view, height)
    return ()
