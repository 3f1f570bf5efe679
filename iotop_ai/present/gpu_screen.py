"""One GPU over the whole screen: what it means, graphs, facts, instances, processes."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu import GpuInstance
from iotop_ai.present.columns import Column, chosen, head, placed, rule
from iotop_ai.present.fields import field_rows
from iotop_ai.present.gpu_around import detail_of, said
from iotop_ai.present.gpu_facts import facts
from iotop_ai.present.gpu_graphs import gpu_graph_rows, gpu_graphs
from iotop_ai.present.gpu_groups import Gpu, chosen_gpu, gpus, short_model
from iotop_ai.present.gpu_meaning import Meaning, worst
from iotop_ai.present.gpu_people import User, users
from iotop_ai.present.graphs import room
from iotop_ai.present.keys import above_rows, mode_spans
from iotop_ai.present.line import Cell, Line, Span, blank, cells, cut, place, row, spans_cells
from iotop_ai.present.select import after
from iotop_ai.present.units import GIB, UNDEFINED, UNKNOWN, brief, percent, size
from iotop_ai.present.view import View

KEYS = (
    ("Esc", "back"),
    ("b/n", "GPU"),
    ("Space", "pause"),
    ("+ -", "interval"),
    ("?", "help"),
    ("q", "quit"),
)
"""Every one of them works on this screen."""
TALL = 40
WORDS = {"bad": "FAULT", "warn": "WASTE", "ok": "OK", "text": "OK", "dim": "IDLE", "unsure": "UNSURE"}
_SLOWED = frozenset(("hw_thermal", "sw_thermal", "power_brake", "width", "replays", "generation", "link_full"))
_BLOCK = 9
_MOST_MEANINGS = 4
_PROCESS_COLUMNS = (
    Column("user", "user", 10, 3, 12, left=True),
    Column("mem", "mem", 7, 0, 9),
    Column("sm", "SM%", 6, 0, 8),
    Column("kind", "kind", 10, 4, left=True, gap=2),
    Column("job", "job", 16, 5, 24, left=True, gap=2),
    Column("command", "command", 14, 6, left=True, gap=2),
)
_NAME = 26


def gpu_after(frame: Frame, view: View, uuid: str, step: int) -> str:
    """UUID of the next (+1) or previous (-1) GPU, round the end; "" without any."""
    order = [g.uuid for g in gpus(frame, view)]
    return after(order, uuid, step) or ""


def gpu_screen_rows(frame: Frame, view: View, width: int, height: int, uuid: str) -> list[Line]:
    """Exactly ``height`` lines of ``width`` columns."""
    gpu = chosen_gpu(frame, view, uuid)
    if gpu is None:
        out = [rule(width, "GPU"), row(width, [Span(" none here", "dim")])]
    else:
        out = _body(frame, view, width, height - 1, gpu)
    return above_rows(out, KEYS, view, width, height)


def _body(frame: Frame, view: View, width: int, height: int, gpu: Gpu) -> list[Line]:
    found = said(frame, view, gpu)
    top = _top(frame, view, width, gpu, found)
    spare = int(height >= TALL)
    if gpu.state is None:
        return [*top, *[blank(width)] * spare, *gpu_graph_rows(frame, view, gpu.uuid, width, height - len(top))]
    listed = users(frame, view, gpu.state)
    count = 1 if not listed else len(listed)
    fields = field_rows(facts(gpu.state, gpu.rates, detail_of(frame, gpu.uuid)), width)
    instances = _instance_rows(width, gpu.state.instances)
    left = height - len(top) - 3 * spare - len(instances) - (1 + len(fields) if fields else 0) - (1 + min(count, 3))
    wanted = 1 + 2 * len(gpu_graphs(frame, view, gpu.uuid, 2 * room(width).cells))
    graphs = gpu_graph_rows(frame, view, gpu.uuid, width, max(0, min(left, wanted)))
    out = [*top]
    for part in (graphs, [rule(width, "now"), *fields] if fields else [], instances):
        out += part
        if part and spare:
            out.append(blank(width))
    return out + _process_rows(width, listed, height - len(out))


def _top(frame: Frame, view: View, width: int, gpu: Gpu, found: list[Meaning]) -> list[Line]:
    """The state's block with who it is, then the sentences and what to do."""
    every = gpus(frame, view)
    token = worst(found)
    word = WORDS.get(token, "UNSURE")
    if found and found[0].id in _SLOWED:
        word = "SLOWED"
    if gpu.state is None:
        word = "LOST"
    hue = {"text": "ok"}.get(token, token)
    name = "" if gpu.state is None else short_model(gpu.state.name)
    number = cut(gpu.uuid, 16) if gpu.state is None else f"GPU {gpu.state.number}"
    more = "" if gpu.state is None else f"  {gpu.state.bus_id}"
    if width >= 100 and gpu.state is not None:
        more += f"  {gpu.uuid}"
    at = next((i for i, g in enumerate(every, 1) if g.uuid == gpu.uuid), 0)
    left = [
        Span(f" {word}".ljust(_BLOCK), f"block-{hue}"),
        Span(f" {number}", "strong"),
        Span(f"  {name}"),
        Span(more, "dim"),
    ]
    out = [row(width, left, [*mode_spans(view), Span(f"{at} of {len(every)}  b/n ", "dim")])]
    for i, one in enumerate(found[:_MOST_MEANINGS]):
        label = "because" if i == 0 else "and"
        do = [Span("  do ", "dim"), Span(one.do + " ", "strong")] if one.do else []
        lines = wrap(one.text, max(20, width - _BLOCK - 2))
        if _BLOCK + 1 + cells(lines[-1]) + spans_cells(do) > width:
            do = []
        for j, text in enumerate(lines):
            head_of = f" {label}" if j == 0 else ""
            spans = [Span(head_of.ljust(_BLOCK + 1), "dim"), Span(text, _weight(one))]
            out.append(row(width, spans, do if j == len(lines) - 1 else []))
    return out


def _weight(one: Meaning) -> str:
    return {"bad": "bad", "warn": "strong", "ok": "text"}.get(one.token, one.token)


def _instance_rows(width: int, instances: tuple[GpuInstance, ...] | None) -> list[Line]:
    if instances is None:
        return []
    out = [rule(width, f"{len(instances)} MIG instances", [Span("SM%  occupancy%  tensor%  DRAM%       mem", "dim")])]
    for one in instances:
        shares = (one.sm_percent, one.occupancy_percent, one.tensor_percent, one.dram_percent)
        memory = f"{size(one.memory_used_bytes)}/{size(one.memory_total_bytes)}"
        texts = [UNKNOWN if share is None else percent(share / 100) for share in shares]
        ends = (width - 39, width - 27, width - 18, width - 11)
        found = [Cell(end, text, right=True) for end, text in zip(ends, texts, strict=True)]
        name = cut(f"{one.number}  {short_model(one.name)}", max(4, width - 45))
        out.append(place(width, Cell(1, name), *found, Cell(width - 2, memory, right=True)))
    return out


def _process_rows(width: int, listed: tuple[User, ...] | None, height: int) -> list[Line]:
    """Titles, then the processes with most memory; the last row counts those that did not fit."""
    if height <= 0:
        return []
    at = placed(chosen(_PROCESS_COLUMNS, width - _NAME - 1), _NAME, width - 1)
    out = [head(width, "processes", at)]
    if not listed:
        text = "none" if listed is not None else "? the driver does not list them"
        return [*out, row(width, [Span(f" {text}", "dim" if listed is not None else "unsure")])][:height]
    fit = height - 1 if len(listed) <= height - 1 else height - 2
    for user in listed[: max(0, fit)]:
        process = user.process
        texts = {
            "user": user.user,
            "mem": size(process.memory_bytes),
            "sm": UNKNOWN if process.sm_percent is None else str(process.sm_percent),
            "kind": process.kind if process.instance is None else f"{process.kind} {process.instance}",
            "job": user.job or UNDEFINED,
            "command": user.command or UNDEFINED,
        }
        name = f"{user.name} {process.pid}" if user.known else f"{process.pid} (not seen from here)"
        found = [spot.cell(texts[spot.column.id]) for spot in at]
        out.append(place(width, Cell(1, cut(name, _NAME - 2)), *found, key=f"process:{process.pid}"))
    rest = listed[max(0, fit) :]
    if rest and len(out) < height:
        held = sum(one.process.memory_bytes or 0 for one in rest)
        out.append(row(width, [Span(f" {len(rest)} more with {brief(held / GIB)} GB", "dim")]))
    return out[:height]
