"""The rows of the GPU panel: one for each GPU, or for each group of similar GPUs."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuRates
from iotop_ai.model.sample import Sample
from iotop_ai.present.gpu.context import gpu_faults, gpu_sentences
from iotop_ai.present.gpu.groups import (
    LEAST_THROTTLE_SHARE,
    Gpu,
    gpus,
    group_key,
    link_text,
    number_runs,
    panel_groups,
    short_model,
    throttle_share,
    throttle_text,
)
from iotop_ai.present.gpu.meaning import figures
from iotop_ai.present.gpu.users import gpu_ranks, gpu_users
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.braille import SlidingSeries, series_spans
from iotop_ai.present.text.frame_cache import cache_part, cached_per_item
from iotop_ai.present.text.graph_cache import GraphCache
from iotop_ai.present.text.line import Cell, Line, Span, cells, cut, place, plain, row
from iotop_ai.present.text.panel import reason_spans, scroll_to
from iotop_ai.present.text.phrases import whole_clauses
from iotop_ai.present.text.table import Column, ColumnSlot, fit_columns, head, place_columns
from iotop_ai.present.text.units import GIB, UNDEFINED, UNKNOWN, brief, percent, token_of
from iotop_ai.present.verdict.culprit import culprit_of

COLUMNS = (
    Column("job", "job", 10, 93, 14, left=True, gap=2),
    Column("rank", "rank", 6, 92, left=True, gap=2),
    Column("user", "user", 12, 97, left=True, gap=2),
    Column("process", "process", 20, 90, left=True, gap=2),
    Column("busy", "busy%", 6, 0, 8),
    Column("graph", "last 60 s", 32, 99, left=True, gap=2),
    Column("sm", "SM%", 6, 5, 8),
    Column("bw", "bw%", 6, 30, 8),
    Column("mem", "mem G", 8, 0, 10),
    Column("temp", "temp C", 7, 20, 9),
    Column("power", "power W", 10, 10, 12),
    Column("mhz", "MHz", 7, 80, 10),
    Column("fan", "fan%", 6, 85, 7),
    Column("link", "link", 8, 40, 10),
    Column("throttle", "throttle", 11, 35, 14, left=True, gap=2),
    Column("meaning", "meaning", 30, 94, left=True, gap=2),
)
_NAME_CELLS, _NARROW_NAME_CELLS = 23, 20
"""The width in cells of a GPU's name, and its width on a narrow screen."""
_WIDE = 140
"""On a screen of at least this width, the columns of process and user are dropped before the columns of the last 60 s
and the job.
"""
_WIDE_DROP = {"process": 99, "user": 98, "graph": 91}
"""The ``drop`` numbers on a wide screen, where they differ from those of COLUMNS."""
_GRAPH_S = 60.0
"""The seconds that the column of the last 60 s shows, at any interval."""
_Groups = tuple[tuple[Gpu, ...], ...]
_PLAIN_THROTTLE = ("none", "power", UNKNOWN)
"""The throttle words that need no attention. "none": nothing lowers the clocks; "power": only the power limit does,
which is normal at full load; "?": unknown.
"""

_SHORT_THROTTLE = ((" %", "%"), ("thermal hw", "therm"), ("thermal", "therm"), ("power brake", "brake"))
"""(part of a throttle word, its short form for a narrow column)."""


def table_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The rows of ``gpu_rows`` on a machine with a GPU."""
    all_gpus = gpus(frame, view)
    groups = panel_groups(frame, view, height)
    name_cells = _NAME_CELLS if width >= 72 else _NARROW_NAME_CELLS
    slots = _useful_slots(frame, view, width, name_cells, _columns(frame, view, width, height, all_gpus), groups)
    out = [head(width, _title(all_gpus), slots, focus=view.focus == "gpu")]
    visible = groups if len(groups) < height else _visible(frame, view, groups, max(1, height - 2))
    several_models = len({g.state.name for g in all_gpus if g.state is not None}) > 1
    out += [_row(frame, view, width, group, slots, several_models=several_models) for group in visible]
    rest = [gpu for group in groups if group not in visible for gpu in group]
    return [*out, _rest_row(width, rest)] if rest and height > 2 else out


def _useful_slots(
    frame: Frame, view: View, width: int, name_cells: int, useful: list[Column], groups: _Groups
) -> list[ColumnSlot]:
    """The useful columns that fit. If the meaning would be cut, the columns of users, processes and jobs first shrink
    to their texts; if that is not enough, the columns less important than the meaning are left out.
    """
    columns = fit_columns(useful, width - name_cells - 1)
    slots = place_columns(columns, name_cells, width - 1)
    if not slots or slots[-1].column.id != "meaning":
        return slots
    texts = [_meaning_text(frame, view, group[0])[0] for group in groups]
    if all(cells(text) <= _room(slots[-1]) for text in texts):
        return slots
    narrow = [_narrow_column(frame, view, column, groups)._replace(wide=0) for column in columns]
    slots = place_columns(narrow, name_cells, width - 1)
    room = _room(slots[-1])
    if all(cells(whole_clauses(text, room)) <= room for text in texts):
        return slots
    return place_columns([column for column in narrow if column.drop <= narrow[-1].drop], name_cells, width - 1)


def _room(slot: ColumnSlot) -> int:
    return slot.last + 1 - slot.first


def _narrow_column(frame: Frame, view: View, column: Column, groups: _Groups) -> Column:
    """A column of users, processes or jobs, made as narrow as its longest text allows; any other column unchanged."""
    if column.id not in ("user", "process", "job"):
        return column
    slot = ColumnSlot(column, 0, column.width - column.gap - 1)
    texts = [_cells(frame, view, group, slot)[0].text for group in groups if group[0].state is not None]
    longest = max((cells(text) for text in (column.title, *texts)), default=column.width)
    return column._replace(width=min(column.width, longest + column.gap))


def _columns(frame: Frame, view: View, width: int, height: int, all_gpus: tuple[Gpu, ...]) -> list[Column]:
    """The useful columns.

    Left out are graph, user, process, job and rank if a row may stand for several GPUs; fan, SM%, user, process, job
    and rank if no GPU has a value; and job and rank on a narrow screen.
    """
    useless = set() if height - 1 >= len(all_gpus) else {"graph", "user", "process", "job", "rank"}
    if not any(g.state is not None and g.state.fan_percent is not None for g in all_gpus):
        useless.add("fan")
    if not any(g.state is not None and g.state.processes for g in all_gpus):
        useless |= {"user", "process"}
    ranks = [rank for _, rank in gpu_ranks(frame, view).values()]
    if not ranks or width < _WIDE:
        useless.add("job")
    if width < _WIDE or all(rank.number is None for rank in ranks):
        useless.add("rank")
    drops = dict(_WIDE_DROP) if width >= _WIDE else {}
    if any(g.rates is not None and g.rates.sm_ratio is not None for g in all_gpus):
        drops["bw"] = 96  # with SM activity known, the memory bandwidth is dropped early
    else:
        useless.add("sm")
    return [c._replace(drop=drops.get(c.id, c.drop)) for c in COLUMNS if c.id not in useless]


def _visible(frame: Frame, view: View, groups: _Groups, room: int) -> _Groups:
    """The groups around the cursor; without a cursor, the most severe and then the largest ones, in the usual order."""
    cursor_index = next((i for i, group in enumerate(groups) if group_key(group, view) == view.cursor), None)
    if view.focus == "gpu" and cursor_index is not None:
        start = scroll_to(cursor_index, view.scroll, len(groups), room)
        return groups[start : start + room]
    precedences = [_precedence(frame, view, group) for group in groups]
    indexes = sorted(range(len(groups)), key=lambda i: (precedences[i], -len(groups[i]), i))[:room]
    return tuple(groups[i] for i in sorted(indexes))


def _precedence(frame: Frame, view: View, group: tuple[Gpu, ...]) -> int:
    """The rank of a group by importance, 0 for the most important: a group with the verdict's culprit, then a group
    that does not answer or has lowered clocks, then the others by the severity of the sentences about them.
    """
    if any(gpu.uuid in culprit_of(frame, view).gpus for gpu in group):
        return 0
    if any(gpu.state is None or throttle_text(gpu.state) not in _PLAIN_THROTTLE for gpu in group):
        return 1
    return min({"bad": 2, "strong": 3}.get(_meaning_text(frame, view, gpu)[1], 4) for gpu in group)


def _rest_row(width: int, rest: list[Gpu]) -> Line:
    """How many GPUs do not fit, and their numbers."""
    numbers = number_runs(gpu.state.number for gpu in rest if gpu.state is not None)
    return row(width, [Span(f" {len(rest)} more{': ' if numbers else ''}{numbers}", "dim")])


def _title(all_gpus: tuple[Gpu, ...]) -> str:
    names = {short_model(g.state.name) for g in all_gpus if g.state is not None}
    if len(names) == 1:
        return f"{len(all_gpus)} x {names.pop()}" if len(all_gpus) > 1 else f"GPU {names.pop()}"
    return f"{len(all_gpus)} GPUs"


def _row(
    frame: Frame, view: View, width: int, group: tuple[Gpu, ...], slots: list[ColumnSlot], *, several_models: bool
) -> Line:
    """The row of a group. several_models: whether the machine has more than one model; a row then names its own, unless
    it says that its GPUs are faulty or alike.
    """
    first, key = group[0], group_key(group, view)
    background = "sel" if view.focus == "gpu" and view.cursor == key else ""
    if first.state is None:
        why = [Span(" ? ", "unsure"), Span(cut(first.uuid, 16) + "  ", "text"), *reason_spans(first.reading, view)]
        return row(width, why, key=key, background=background)
    numbers = number_runs(g.state.number for g in group if g.state is not None)
    room = slots[0].first - 2 if slots else width
    culprit = culprit_of(frame, view)
    is_named = any(gpu.uuid in culprit.gpus for gpu in group)
    out = [Cell(0, ">", culprit.hue)] if is_named else []
    out.append(Cell(1, cut(numbers, room), culprit.hue if is_named else "text"))
    fault = "" if slots and slots[-1].column.id == "meaning" else _fault(frame, view, group)
    if fault:
        out.append(Cell(2 + cells(numbers), cut(fault, max(0, room - 2 - cells(numbers))), "bad"))
    elif len(group) > 1 and cells(numbers) <= 10:
        out.append(Cell(2 + cells(numbers), "all alike" if len(group) == len(gpus(frame, view)) else "alike", "dim"))
    elif several_models:
        out.append(Cell(4, cut(short_model(first.state.name), room - 4), "dim"))
    for slot in slots:
        column_cells = _cells(frame, view, group, slot)
        if is_named and slot.column.id == culprit.gpu_cell and column_cells:
            column_cells[0] = column_cells[0]._replace(token=culprit.hue)
        out += column_cells
    return place(width, *out, background=background, key=key)


def _fault(frame: Frame, view: View, group: tuple[Gpu, ...]) -> str:
    """The mark of a group with a faulty GPU, for a row without the meaning: "FAULT", "FAULT: 2"; else ""."""
    faults = gpu_faults(frame, view)
    faulty = [gpu.state.number for gpu in group if gpu.state is not None and gpu.uuid in faults]
    return "" if not faulty else "FAULT" if len(faulty) == len(group) else f"FAULT: {number_runs(faulty)}"


def _cells(frame: Frame, view: View, group: tuple[Gpu, ...], slot: ColumnSlot) -> list[Cell]:
    id_ = slot.column.id
    first, state = group[0], group[0].state
    if state is None:
        return []
    if id_ == "mem":
        used = _group_text(group, lambda r: _in_unit(r.memory_used_bytes, GIB), brief)
        return _value_and_limit(slot, used, _group_text(group, lambda r: _in_unit(r.memory_total_bytes, GIB)))
    if id_ == "power":
        return _value_and_limit(
            slot, _group_text(group, lambda r: r.power_watts), _group_text(group, lambda r: r.power_limit_watts)
        )
    if id_ == "graph":
        return _graph(frame, view, first, slot)
    if id_ in ("user", "process"):
        return _users(frame, view, first, slot)
    if id_ in ("job", "rank"):
        return [_job(frame, view, first, slot)]
    if id_ == "throttle":
        return [_throttle(group, slot)]
    if id_ == "meaning":
        return [_meaning(frame, view, first, slot)]
    if id_ == "link":
        text = link_text(state)
        text = text if cells(text) <= slot.last + 1 - slot.first else text.replace(" ", "")
        return [slot.cell(text, "strong" if "/" in text else "")]
    if id_ == "fan":
        return [slot.cell(_fitting_range(_range_text([g.state.fan_percent if g.state else None for g in group]), slot))]
    return [slot.cell(_fitting_range(_group_text(group, _FIGURES[id_]), slot))]


@cached_per_item(lambda gpu: gpu.uuid)
def _meaning_text(frame: Frame, view: View, gpu: Gpu) -> tuple[str, str]:
    """(the most severe sentence without the figures that the row already shows, its token); "-" if there is none."""
    worst = next(iter(gpu_sentences(frame, view, gpu)), None)
    if worst is None:
        return UNDEFINED, "none"
    text = worst.text
    if gpu.rates is not None and text.startswith(start := figures(gpu.rates)):
        rest = text.removeprefix(start)
        text = rest[2:] if rest.startswith("; ") else rest.partition(": ")[2] or "partly busy"
    if gpu.state is not None:
        text = text.replace(f" at {gpu.state.temperature_celsius} C", "", 1)
    return text, {"bad": "bad", "warn": "strong", "unsure": "unsure"}.get(worst.token, "dim")


def _meaning(frame: Frame, view: View, gpu: Gpu, slot: ColumnSlot) -> Cell:
    """The meaning, without the last clauses if they do not fit."""
    text, token = _meaning_text(frame, view, gpu)
    return slot.cell(whole_clauses(text, slot.last + 1 - slot.first), token)


def _throttle(group: tuple[Gpu, ...], slot: ColumnSlot) -> Cell:
    """The throttle reason; if the GPUs count its time, with the largest share of time in the group: "power 64 %"."""
    state = group[0].state
    word = reason = UNKNOWN if state is None else throttle_text(state)
    shares = [throttle_share(g) for g in group]
    known_shares = [entry for entry in shares if entry is not None]
    if known_shares:
        reason, share = max(known_shares, key=lambda entry: entry[1])
        reason = "none" if share < LEAST_THROTTLE_SHARE else reason
        word = reason if share < LEAST_THROTTLE_SHARE else f"{reason} {percent(share)} %"
    if cells(word) > slot.last - slot.first + 1:
        for long, short in _SHORT_THROTTLE:
            word = word.replace(long, short)
    return slot.cell(word, "unsure" if reason == UNKNOWN else "dim" if reason in _PLAIN_THROTTLE else "strong")


_FIGURES: dict[str, Callable[[GpuRates], float | None]] = {
    "busy": lambda r: _in_unit(r.busy_ratio, 0.01),
    "sm": lambda r: _in_unit(r.sm_ratio, 0.01),
    "bw": lambda r: _in_unit(r.memory_busy_ratio, 0.01),
    "temp": lambda r: r.temperature_celsius,
    "mhz": lambda r: r.sm_mhz,
}


def _in_unit(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _rounded(value: float) -> str:
    return f"{value:.0f}"


def _group_text(
    group: tuple[Gpu, ...], value: Callable[[GpuRates], float | None], text: Callable[[float], str] = _rounded
) -> str:
    if len(group) == 1:
        rates = group[0].rates
        number = None if rates is None else value(rates)
        return UNKNOWN if number is None else text(number)
    return _range_text([None if g.rates is None else value(g.rates) for g in group], text)


def _range_text(values: list[float | None], text: Callable[[float], str] = _rounded) -> str:
    """The range of a group's values: "21-23", "14"; "?" if any is unknown."""
    known_values = [v for v in values if v is not None]
    if len(known_values) < len(values) or not known_values:
        return UNKNOWN
    low, high = text(min(known_values)), text(max(known_values))
    return low if low == high else f"{low}-{high}"


def _fitting_range(text: str, slot: ColumnSlot) -> str:
    """A range or a single figure. If a range does not fit, its lower end with a sign ("≥98"); for the temperature,
    which matters when it is high, its upper end ("≤105").
    """
    low, dash, high = text.partition("-")
    if not dash or cells(text) <= _room(slot):
        return text
    return f"≤{high}" if slot.column.id == "temp" else f"≥{low}"


def _value_and_limit(slot: ColumnSlot, value: str, limit: str) -> list[Cell]:
    """A value, and after a slash its dimmed limit. If they do not fit, only the upper end of a range is shown; if that
    does not help, the limit is left out.
    """
    tail = "" if limit == UNKNOWN else "/" + limit.rsplit("-", 1)[-1]
    room = slot.last - slot.first + 1
    if cells(value) + cells(tail) > room:
        value = value.rsplit("-", 1)[-1]
    if cells(value) + cells(tail) > room:
        tail = ""
    return [
        Cell(slot.last - cells(tail), value, token_of(value), True),
        Cell(slot.last, tail, "dim", True),
    ]


def _sliding_series() -> dict[str, SlidingSeries]:
    """An empty cache of the utilisation series by UUID. With 8 GPUs, the cache saves 0.4 ms per refresh."""
    return {}


def _graph(frame: Frame, view: View, gpu: Gpu, slot: ColumnSlot) -> list[Cell]:
    def busy(sample: Sample) -> float | None:
        rates = (sample.gpu.value or {}).get(gpu.uuid)
        return None if rates is None else rates.busy_ratio

    width = min(30, slot.last - slot.first + 1)
    sliding = cache_part(view, _sliding_series).setdefault(gpu.uuid, SlidingSeries())
    data = sliding.series((gpu.uuid,), frame.history, busy, 2 * width, _GRAPH_S / (2 * width))
    out, x = [], slot.first
    for span in series_spans(cache_part(view, GraphCache).area(data.values, 1.0)[0], data):
        out.append(Cell(x, span.text, span.token))
        x += cells(span.text)
    return out


def _job(frame: Frame, view: View, gpu: Gpu, slot: ColumnSlot) -> Cell:
    """The number of the batch job, otherwise the script's name; for the column "rank", the rank; "-" if the GPU has no
    job.
    """
    job_and_rank = gpu_ranks(frame, view).get(gpu.uuid)
    if job_and_rank is None:
        return slot.cell(UNDEFINED)
    job, rank = job_and_rank
    if slot.column.id == "rank":
        return slot.cell(UNKNOWN if rank.number is None else f"r{rank.number}")
    return slot.cell(job.label.rpartition(" ")[2] or plain(job.name), "text")


def _users(frame: Frame, view: View, gpu: Gpu, slot: ColumnSlot) -> list[Cell]:
    """The process with the most memory on the GPU and the number of the others ("+2"); for the column "user", its user.
    "-" if there is none, the pid if it is not in /proc, "?" if the driver does not list the processes.
    """
    processes = None if gpu.state is None else gpu_users(frame, view, gpu.state)
    if processes is None:
        return [slot.cell(UNKNOWN)]
    if not processes:
        return [slot.cell(UNDEFINED)]
    main = processes[0]
    more = f" +{len(processes) - 1}" if len(processes) > 1 else ""
    if slot.column.id == "user":
        return [slot.cell(main.user, "unsure" if main.user == UNKNOWN else "dim")]
    return [slot.cell(cut(main.name, slot.last + 1 - slot.first - len(more)) + more, "text")]
