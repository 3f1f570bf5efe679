"""Rows of the processes on one GPU or on all GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.present.gpu.users import GpuUser
from iotop_ai.present.text.line import Cell, Line, cut, place
from iotop_ai.present.text.table import Column, ColumnSlot, fit_columns, place_columns
from iotop_ai.present.text.units import UNDEFINED, UNKNOWN, size

NAME_CELLS = 26
"""The width of the first column, which holds name and pid."""
PROCESS_COLUMNS = (
    Column("user", "user", 10, 3, 12, left=True),
    Column("mem", "mem", 7, 0, 9),
    Column("sm", "SM%", 6, 0, 8),
    Column("kind", "kind", 10, 4, left=True, gap=2),
    Column("job", "job", 16, 5, 24, left=True, gap=2),
    Column("command", "command", 14, 6, left=True, gap=2),
)


def process_slots(columns: Sequence[Column], width: int) -> list[ColumnSlot]:
    """The columns that fit after the name."""
    return place_columns(fit_columns(columns, width - NAME_CELLS - 1), NAME_CELLS, width - 1)


def process_row(width: int, columns: Sequence[ColumnSlot], user: GpuUser, gpu: str = "", key: str = "") -> Line:
    """The row of a process. gpu: the GPU's number, for a table with that column. key: the key of the row."""
    process = user.process
    texts = {
        "gpu": gpu,
        "user": user.user,
        "mem": size(process.memory_bytes),
        "sm": UNKNOWN if process.sm_percent is None else str(process.sm_percent),
        "kind": process.kind if process.instance is None else f"{process.kind} {process.instance}",
        "job": user.job or UNDEFINED,
        "command": user.command or UNDEFINED,
    }
    name = f"{user.name} {process.pid}" if user.visible else f"{process.pid} (not visible from here)"
    cells = [slot.cell(texts[slot.column.id]) for slot in columns]
    return place(width, Cell(1, cut(name, NAME_CELLS - 2)), *cells, key=key)
