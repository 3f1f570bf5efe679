"""The fleet's screen: the summary, a row for each machine, and graphs and facts of the machine under the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.fleet.records import Fleet, FleetFinding, FleetJob, FleetMachine
from iotop_ai.model.verdict_class import State
from iotop_ai.present.fleet.table import WIDE, column_slots, machine_row
from iotop_ai.present.fleet.view import HISTORY_WINDOWS, FleetView, History, listed_machines, selected_machine
from iotop_ai.present.fleet.words import SORTS, finding_words, share_words, straggler_words, summary
from iotop_ai.present.job.time_words import parts_of
from iotop_ai.present.screen.graphs import LEAST_GRAPH_CELLS, Graph, Room, graph_lines, room
from iotop_ai.present.screen.key_row import above_rows, typing_row, words_above
from iotop_ai.present.text.braille import Series
from iotop_ai.present.text.glyphs import in_ascii
from iotop_ai.present.text.line import Cell, Line, Span, cells, cut, fill_rows, place, row, spans_cells
from iotop_ai.present.text.panel import scroll_to
from iotop_ai.present.text.states import HUE
from iotop_ai.present.text.table import head, note_room, rule
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.present.text.units import clock, duration, percent, plural
from iotop_ai.present.text.wrap import wrap_cells

KEYS = (
    *("app.quit", "fleet.help", "fleet.open", "fleet.jobs", "fleet.find", "fleet.sort_previous", "fleet.reverse"),
    *("fleet.pause", "fleet.longer", "app.palette"),
)
"""The actions shown in the last row."""
BANNER_ROWS = 2
"""The number of rows of ``banner_rows``."""
_DETAIL_HEIGHT, _TALL_HEIGHT = 18, 36
"""The minimum height of a screen that shows details of the machine under the cursor (_DETAIL_HEIGHT), and of one on
which the graphs among them are tall (_TALL_HEIGHT).
"""
_GRAPHS = (("lost", "lost", 0.2), ("gpu", "GPU busy", None), ("disk", "disk util", 0.98))
"""(the name in History.values, the label, the limit) of each graph."""
_TEXT_AT = 10
"""The column in which the text after a label starts."""


def fleet_screen_rows(fleet: Fleet | None, fleet_view: FleetView, width: int, height: int) -> list[Line]:
    """The screen as exactly ``height`` lines. fleet: None before the first answer."""
    machines = listed_machines(fleet, fleet_view)
    current = selected_machine(machines, fleet_view)
    out = banner_rows(fleet, fleet_view, width)
    detail: list[Line] = []
    if current is not None and height >= _DETAIL_HEIGHT:
        detail = _detail(fleet, fleet_view, current, width, height)
    out += _list(fleet, fleet_view, machines, current, width, list_height(height))
    out = [*fill_rows(out, width, height - 1 - len(detail)), *detail]
    if fleet_view.view.typing:
        typed = TypedText(fleet_view.view.pattern, fleet_view.view.text_right)
        line = typing_row(width, "/", typed, "keep", "clear")
        return in_ascii([*fill_rows(out, width, height - 1), line][:height], fleet_view.view.ascii_only)
    return above_rows(out, _keys(fleet_view), fleet_view.view, width, height)


def _keys(fleet_view: FleetView) -> list[tuple[str, str]]:
    words = words_above(KEYS, fleet_view.view)
    return [("Esc", f"clear /{cut(fleet_view.view.pattern, 16)}"), *words] if fleet_view.view.pattern else words


def detail_height(height: int) -> int:
    """The number of rows about the machine under the cursor: name, graphs and facts; 0 on a short screen."""
    if height < _DETAIL_HEIGHT:
        return 0
    return 1 + len(_GRAPHS) * _graph_rows(height) + (5 if height >= _TALL_HEIGHT else 3)


def list_height(height: int) -> int:
    """The number of rows of the list, including its title."""
    return max(2, height - 1 - BANNER_ROWS - detail_height(height))


def _graph_rows(height: int) -> int:
    return 3 if height >= _TALL_HEIGHT else 1


def banner_rows(fleet: Fleet | None, fleet_view: FleetView, width: int) -> list[Line]:
    """The worst state and the summary; below them, the reason for old or missing figures, otherwise a straggler, the
    alerts or the server's address. Before the first answer: the server's address, or why it does not answer.
    """
    if fleet is None:
        sentence = fleet_view.trouble or f"asking {fleet_view.server}"
        state = State.UNSURE if fleet_view.trouble else State.STARTING
        block = Span(f" {state.value:<8}", f"block-{HUE[state]}")
        return [row(width, [block, Span(f" {cut(sentence, width - 12)}")]), row(width, [Span("")])]
    state, text = summary(fleet)
    old = bool(fleet_view.trouble)
    right = [Span(f"{clock(int(fleet.at_s * 1e9), fleet_view.view.utc_offset_s)} ", "dim")]
    if fleet_view.view.mode == "paused":
        right = [Span("PAUSED  ", "mode"), *right]
    if old:
        right = [Span(f"{duration(fleet_view.age_s)} old ", "warn")]
    sentence = fitting_clauses(text, width - 12 - spans_cells(right))
    block = Span(f" {state.value:<8}", "block-dim" if old else f"block-{HUE[state]}")
    first_line = row(width, [block, Span(f" {sentence}", "dim" if old else "text")], right)
    return [first_line, _second_row(fleet, fleet_view, width)]


def _second_row(fleet: Fleet, fleet_view: FleetView, width: int) -> Line:
    late_job = next((job for job in fleet.jobs if job.straggler is not None), None)
    if fleet_view.trouble:
        label, text, token = "now", fleet_view.trouble, "warn"
    elif fleet.unanswered:
        label, text, token = "partial", f"queries without an answer: {', '.join(fleet.unanswered)}", "warn"
    elif late_job is not None and late_job.straggler is not None:
        label, text, token = "waits", f"{late_job.name} for {straggler_words(late_job, late_job.straggler)}", "text"
    elif fleet.alerts:
        token = "warn" if any(alert.reports_trouble for alert in fleet.alerts) else "text"
        label, text = "alerts", ", ".join(alert.name for alert in fleet.alerts)
    else:
        label, text, token = "source", f"{fleet_view.server}, window {duration(fleet_view.window_s)}", "dim"
    return place(width, Cell(1, label, "dim"), Cell(_TEXT_AT, fitting_clauses(text, width - _TEXT_AT - 1), token))


def fitting_clauses(text: str, width: int) -> str:
    """The sentence without its last clauses if they do not fit; a first clause that does not fit is cut."""
    clauses = text.split("; ")
    while len(clauses) > 1 and cells("; ".join(clauses)) > width:
        clauses.pop()
    return cut("; ".join(clauses), max(0, width))


def _list(
    fleet: Fleet | None,
    fleet_view: FleetView,
    machines: Sequence[FleetMachine],
    current: FleetMachine | None,
    width: int,
    height: int,
) -> list[Line]:
    """The title and the machines' rows that fit, as near to the scroll position as the cursor allows."""
    slots = column_slots(width)
    visible = height - 1
    # The machine under the cursor is always shown, because Enter opens it.
    at_cursor = 0 if current is None else machines.index(current)
    start = scroll_to(at_cursor, fleet_view.view.scroll, len(machines), visible)
    title = "machines"
    if len(machines) > visible:
        title = f"{start + 1}-{start + visible}" + (f" of {len(machines)}" if width >= WIDE else "")
    order = f"by {SORTS[fleet_view.sort]}{', reversed' if fleet_view.view.reverse else ''}"
    note = order if len(order) <= note_room(width, title, slots) else ""
    out = [head(width, title, slots, focus=True, marked=(fleet_view.sort,), note=note)]
    out += [machine_row(machine, width, marked=machine is current) for machine in machines[start : start + visible]]
    if fleet is not None and fleet.machines and not machines:
        out.append(row(width, [Span(f" no machine matches {fleet_view.view.pattern}", "dim")]))
    return out


def first_row(row_count: int, scroll: int, visible: int) -> int:
    """The index of the first row shown. row_count, visible: the number of all rows, and of those that fit."""
    return max(0, min(scroll, row_count - visible))


def _detail(fleet: Fleet | None, fleet_view: FleetView, machine: FleetMachine, width: int, height: int) -> list[Line]:
    """The machine under the cursor: graphs over the last HISTORY_WINDOWS windows, then facts in words."""
    where = room(width)
    right = [Span(f"last {duration(HISTORY_WINDOWS * fleet_view.window_s)}  peak", "dim")]
    out = [rule(width, machine.name, right)]
    if where.cells >= LEAST_GRAPH_CELLS:
        history = fleet_view.history if fleet_view.history.machine == machine.name else History()
        for graph in _history_graphs(history, where):
            out += graph_lines(graph, fleet_view.view, width, where, _graph_rows(height))
    for label, text in _facts(fleet, machine):
        for i, piece in enumerate(wrap_cells(text, max(20, width - _TEXT_AT - 2))):
            out.append(place(width, *([Cell(1, label, "dim")] if not i else []), Cell(_TEXT_AT, piece)))
    return fill_rows(out, width, detail_height(height))


def _history_graphs(history: History, where: Room) -> list[Graph]:
    slots = 2 * where.cells
    out = []
    for name, label, limit in _GRAPHS:
        values = tuple(history.values.get(name, ()))[-slots:]
        padded = (*(None,) * (slots - len(values)), *values)
        out.append(Graph(label, "%", Series(padded, len(values)), 0.01, 1.0, percent, limit))
    return out


def _facts(fleet: Fleet | None, machine: FleetMachine) -> list[tuple[str, str]]:
    """(label, text) of each fact: findings, time, jobs, alerts and sources."""
    out = []
    if machine.findings:
        out.append(("because", "; ".join(map(_finding_text, machine.findings))))
    if seconds := machine.seconds:
        parts = [f"{share_words(part.share)} {part.figure} %" for part in parts_of(seconds) if part.figure != "<1"]
        out.append(("time", ", ".join(parts)))
    if machine.job_parts:
        jobs = [job for job in (fleet.jobs if fleet else ()) if any(part.machine == machine.name for part in job.parts)]
        out.append(("job", "; ".join(map(job_text, jobs))))
    if machine.alerts:
        out.append(("alerts", ", ".join(alert.name for alert in machine.alerts)))
    age_text = "" if machine.age_s is None else f", reading {duration(machine.age_s)} old"
    out.append(("from", f"{', '.join(machine.sources)}: {machine.instance}{age_text}"))
    return out


def _finding_text(finding: FleetFinding) -> str:
    lost = "" if finding.lost_ratio is None else f", {percent(finding.lost_ratio)} % lost"
    return f"{finding.state} {finding_words(finding)} ({finding.severity}{lost})"


def job_text(job: FleetJob) -> str:
    """A job in words: "slurm 48213 train.py, 8 GPUs on 3 machines"."""
    name = job.name if job.script in job.name else f"{job.name} {job.script}"
    gpus = "" if job.gpus is None else f", {plural(job.gpus, 'GPU')}"
    return f"{name}{gpus} on {plural(job.machine_count, 'machine')}"
