"""What the cursor can stand on, in the order of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from iotop_ai.model.frame import Frame
from iotop_ai.present import devices
from iotop_ai.present.block import shown
from iotop_ai.present.gpu import gpu_keys
from iotop_ai.present.groups import groups
from iotop_ai.present.view import View

T = TypeVar("T")


def after(order: Sequence[T], now: T, step: int) -> T | None:
    """What stands ``step`` places on, round the end; the first when ``now`` has no place, None in an empty order."""
    if not order:
        return None
    return order[(order.index(now) + step) % len(order)] if now in order else order[0]


def device_order(frame: Frame, view: View) -> tuple[str, ...]:
    """Kernel names of the devices that have a row, top to bottom."""
    return tuple(d.name for d in devices.listed(frame, view))


def chosen_device(frame: Frame, view: View) -> str:
    """Kernel name of the device whose graphs are shown; "" when there is none."""
    found = devices.chosen(frame, view)
    return "" if found is None else found.name


def selectable(frame: Frame, view: View, panel: str, height: int = 0) -> tuple[str, ...]:
    """Row keys of a panel, top to bottom; () for a panel without rows to choose.

    height: the panel's rows on the screen, by which GPUs and disks are folded or not.
    """
    if panel == "disk":
        if not height:
            return tuple(d.row_key for d in devices.listed(frame, view))
        rows, rest = shown(frame, view, height - 1)
        return (*(d.row_key for d, _ in rows), *(d.row_key for d in rest))
    if panel == "process":
        return tuple(g.row_key for g in groups(frame, view))
    if panel == "gpu":
        return gpu_keys(frame, view, height)
    return ()
