"""The CPU's cores: a row for each with its shares of time, or several cores per row on a machine with many."""

from __future__ import annotations

from iotop_ai.model.frame import Frame
from iotop_ai.model.machine.cpu import UNKNOWN_CORE, CoreRates
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Cell, Line, Span, place, row
from iotop_ai.present.text.panel import reason_row
from iotop_ai.present.text.table import Column, ColumnSlot, head, place_columns, rule
from iotop_ai.present.text.units import percent, token_of

COLUMNS = (
    Column("busy", "busy%", 7, 0, 9),
    Column("user", "user%", 7, 1, 9),
    Column("system", "system%", 9, 2, 10),
    Column("iowait", "iowait%", 9, 3, 10),
    Column("steal", "steal%", 8, 4, 10),
)
_NUMBER_CELLS, _BAR_GAP = 7, 3
"""The width in cells of a core's number, and of the gap before its bar, if each core has its own row."""
_CORE_CELLS, _MOST_BAR_CELLS = 15, 24
"""The minimum width in cells of a core, and the maximum width of its bar, if several cores share a row."""


def core_rows(frame: Frame, view: View, width: int, height: int, hue: str = "") -> list[Line]:
    """A rule, then the cores in the order of their numbers; [] without room. hue: the colour of the busiest core if the
    verdict names the cores; otherwise "".
    """
    table, rates = frame.snapshot.cpu.value, frame.sample.cpu.value
    if table is None or height < 2:
        return [] if height < 2 else [rule(width, "cores"), reason_row(width, frame.snapshot.cpu, view)]
    numbers = sorted(table.cores)
    rates_by_core = {} if rates is None else rates.cores
    busiest = None if rates is None else rates.busiest
    cores = [(n, rates_by_core.get(n, UNKNOWN_CORE), hue if n == busiest else "") for n in numbers]
    if len(cores) <= height - 1:
        slots = place_columns(COLUMNS, _NUMBER_CELLS, min(width - 1, _NUMBER_CELLS + 55))
        return [head(width, "core", slots), *(_core_row(width, slots, *core) for core in cores)]
    return _side_by_side(width, height, cores)


def _core_row(width: int, slots: list[ColumnSlot], number: int, core: CoreRates, hue: str) -> Line:
    texts = {
        "busy": percent(core.busy_ratio),
        "user": percent(core.user_ratio),
        "system": percent(core.system_ratio),
        "iowait": percent(core.iowait_ratio),
        "steal": percent(core.steal_ratio),
    }
    figures = [slot.cell(texts[slot.column.id], hue if slot.column.id == "busy" else "") for slot in slots]
    start = slots[-1].last + 1 + _BAR_GAP
    bar = _bar(core.busy_ratio, width - 1 - start)
    return place(width, Cell(1, str(number), hue or "text"), *figures, Cell(start, bar, hue or "graph"))


def _side_by_side(width: int, height: int, cores: list[tuple[int, CoreRates, str]]) -> list[Line]:
    """Several cores per row, filled column by column. If not all fit, the busiest ones are shown, and the number of the
    others in the last row, or in the rule if there is only one row.
    """
    most_per_row = max(1, (width - 1) // _CORE_CELLS)
    rows = height - 1
    left_out = len(cores) - most_per_row * rows
    if left_out > 0:
        rows = max(1, rows - 1)
        busiest = sorted(cores, key=lambda core: -(core[1].busy_ratio or 0.0))[: most_per_row * rows]
        left_out, cores = len(cores) - len(busiest), sorted(busiest)
    per_row = -(-len(cores) // max(1, rows))
    step = (width - 1) // max(1, per_row)
    others = f"{left_out} more, less busy" if left_out > 0 else ""
    out = [rule(width, "cores", [Span(f"{others}  busy%" if others and height == 2 else "busy%", "dim")])]
    for y in range(min(rows, len(cores))):
        line: list[Cell] = []
        for i, (number, core, hue) in enumerate(cores[y::rows]):
            x, text = 1 + i * step, percent(core.busy_ratio)
            line += [Cell(x + 2, str(number), hue or "dim", True), Cell(x + 6, text, hue or token_of(text), True)]
            line.append(Cell(x + 8, _bar(core.busy_ratio, min(step - 10, _MOST_BAR_CELLS)), hue or "graph"))
        out.append(place(width, *line))
    if others and height > 2:
        out.append(row(width, [Span(f" {others}", "dim")]))
    return out


def _bar(ratio: float | None, room: int) -> str:
    return "" if ratio is None or room <= 0 else "━" * min(room, round(ratio * room))
