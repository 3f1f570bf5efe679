"""The screen of one GPU: its state in sentences, graphs, facts, MIG instances, processes."""

from __future__ import annotations

from textwrap import wrap

from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuInstance
from iotop_ai.model.reading import Status
from iotop_ai.model.verdict_class import LOSING
from iotop_ai.present.gpu.context import detail_of, gpu_sentences
from iotop_ai.present.gpu.facts import facts
from iotop_ai.present.gpu.graphs import MOST_GRAPH_ROWS, gpu_graph_rows, gpu_graphs
from iotop_ai.present.gpu.groups import Gpu, gpus, selected_gpu, short_model
from iotop_ai.present.gpu.meaning import Meaning, worst_token
from iotop_ai.present.gpu.process_table import PROCESS_COLUMNS, process_row, process_slots
from iotop_ai.present.gpu.users import GpuUser, gpu_users
from iotop_ai.present.job.current import current_job
from iotop_ai.present.screen.graphs import room, time_shown
from iotop_ai.present.screen.key_row import above_rows, keys_text, mode_spans, words_above
from iotop_ai.present.screen.selection import next_in_order
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fields import field_rows
from iotop_ai.present.text.line import Cell, Line, Span, blank, cells, cut, place, row, spans_cells
from iotop_ai.present.text.panel import missing_row
from iotop_ai.present.text.table import head, rule
from iotop_ai.present.text.units import GIB, UNKNOWN, brief, percent, plural, size
from iotop_ai.present.verdict.banner import verdict_row

KEYS = ("gpu.back", "gpu.previous", "gpu.pause", "gpu.longer", "detail.back", "gpu.help", "app.quit")
"""The actions shown in the last row."""
TALL = 40
"""If there are at least this many rows between the verdict and the keys, blank rows separate the sections."""
STATE_WORDS = {"bad": "FAULT", "warn": "WARN", "ok": "OK", "text": "OK", "dim": "IDLE", "unsure": "UNSURE"}
"""The state word for the token of the most severe sentence."""
_WORDS = {
    "partly": ("PARTLY", "text"),
    "gaps": ("WAITS", "warn"),
    "spinning": ("WAITS", "warn"),
    "held": ("WASTED", "warn"),
    "tiny": ("WASTED", "warn"),
    "small_kernels": ("WASTED", "warn"),
    "unused": ("FREE", "dim"),
    "mig": ("MIG", "dim"),
}
"""(state word, token) by the id of a sentence whose severity alone would mislead: a GPU that is 20 % busy is not OK."""
_SLOWED = frozenset(
    (
        "hw_thermal",
        "sw_thermal",
        "power_brake",
        "power_cap",
        "sync_boost",
        "width",
        "replays",
        "generation",
        "link_full",
    )
)
"""The ids of the sentences that make the state word SLOWED if they come first."""
_STATE_CELLS = 9
"""The width in columns of the words on the left (the state, "because" and "and"), without the blank after them."""
_MOST_SENTENCES = 4
"""The maximum number of sentences below the row with the GPU's state and identity."""


def next_gpu(frame: Frame, view: View, uuid: str, step: int) -> str:
    """The UUID of the next (step 1) or previous (step -1) GPU, wrapping around; "" if there are no GPUs."""
    order = [g.uuid for g in gpus(frame, view)]
    return next_in_order(order, uuid, step) or ""


def gpu_screen_rows(frame: Frame, view: View, width: int, height: int, uuid: str) -> list[Line]:
    """The screen as exactly ``height`` lines of ``width`` columns."""
    gpu = selected_gpu(frame, view, uuid)
    if gpu is None:
        out = [rule(width, "GPU", mode_spans(frame, view)), missing_row(width, uuid, frame.snapshot.gpu, view)]
    else:
        out = _body(frame, view, width, height - 2, gpu)
    out = [verdict_row(frame, view, width), *out]
    return above_rows(out, words_above(KEYS, view), view, width, height)


def _body(frame: Frame, view: View, width: int, height: int, gpu: Gpu) -> list[Line]:
    sentences = gpu_sentences(frame, view, gpu)
    top = _top(frame, view, width, gpu, sentences)
    gap_rows = int(height >= TALL)
    if gpu.state is None:
        return [*top, *[blank(width)] * gap_rows, *gpu_graph_rows(frame, view, gpu.uuid, width, height - len(top))]
    users = gpu_users(frame, view, gpu.state)
    process_lines = len(users) if users else 1
    fields = field_rows(facts(gpu.state, gpu.rates, detail_of(frame, gpu.uuid)), width)
    instances = _instance_rows(width, gpu.state.instances)
    rows_left = height - len(top) - 3 * gap_rows - len(instances) - (1 + len(fields) if fields else 0)
    rows_left -= 1 + min(process_lines, 3)
    graph_count = len(gpu_graphs(frame, view, gpu.uuid, 2 * room(width).cells))
    # Graphs get two rows each first, then all processes get rows, then the graphs become taller.
    rows_beside_processes = rows_left - (process_lines - min(process_lines, 3))
    graph_height = max(
        min(rows_left, 1 + 2 * graph_count), min(rows_beside_processes, 1 + MOST_GRAPH_ROWS * graph_count)
    )
    graphs = gpu_graph_rows(frame, view, gpu.uuid, width, max(0, graph_height))
    out = [*top]
    for section in (graphs, [rule(width, time_shown(frame, view)), *fields] if fields else [], instances):
        out += section
        if section and gap_rows:
            out.append(blank(width))
    return out + _process_rows(width, users, height - len(out))


def _job_loses_time(frame: Frame, uuid: str) -> bool:
    """Whether the verdict above is about a loss of the job that uses this GPU. A green OK below it would contradict."""
    job, verdict = current_job(frame), frame.verdict
    if job is None or uuid not in job.gpus or verdict.state not in LOSING:
        return False
    return dict(verdict.primary.args).get("job_pid") == job.key.pid


def _top(frame: Frame, view: View, width: int, gpu: Gpu, sentences: list[Meaning]) -> list[Line]:
    """The state word and the GPU's identity, then the sentences with their remedies."""
    all_gpus = gpus(frame, view)
    token = worst_token(sentences)
    word, hue = STATE_WORDS.get(token, "UNSURE"), {"text": "ok"}.get(token, token)
    if sentences:
        word, hue = _WORDS.get(sentences[0].id, (word, hue))
    if sentences and sentences[0].id in _SLOWED:
        word = "SLOWED"
    if word == "OK" and _job_loses_time(frame, gpu.uuid):
        word, hue = _WORDS["partly"]
    if gpu.state is None:
        # A GPU whose query failed is lost. If the query is not permitted or still pending, the state is unknown.
        word = "LOST" if gpu.reading.status is Status.FAILED else "UNSURE"
    name = "" if gpu.state is None else short_model(gpu.state.name)
    number = cut(gpu.uuid, 16) if gpu.state is None else f"GPU {gpu.state.number}"
    position = next((i for i, g in enumerate(all_gpus, 1) if g.uuid == gpu.uuid), 0)
    left = [
        Span(f" {word}".ljust(_STATE_CELLS), hue),
        Span(f" {number}", "strong"),
        Span(f"  {name}"),
    ]
    keys = keys_text("gpu.previous", view)
    right = [*mode_spans(frame, view), Span(f"{position} of {len(all_gpus)}  {keys} ", "dim")]
    free = width - spans_cells(left) - spans_cells(right) - 1
    ids = () if gpu.state is None else (f"  {gpu.state.bus_id}  {gpu.uuid}", f"  {gpu.state.bus_id}")
    left.append(Span(next((text for text in ids if cells(text) <= free), ""), "dim"))
    out = [row(width, left, right)]
    for i, sentence in enumerate(sentences[:_MOST_SENTENCES]):
        label = "because" if i == 0 else "and"
        remedy = [Span("  do ", "dim"), Span(sentence.remedy + " ", "strong")] if sentence.remedy else []
        lines = wrap(sentence.text, max(20, width - _STATE_CELLS - 2))
        fits = _STATE_CELLS + 1 + cells(lines[-1]) + spans_cells(remedy) <= width
        for j, text in enumerate(lines):
            left = [
                Span((f" {label}" if j == 0 else "").ljust(_STATE_CELLS + 1), "dim"),
                Span(text, _text_token(sentence)),
            ]
            out.append(row(width, left, remedy if fits and j == len(lines) - 1 else []))
        # Without this row, the first remedy on the screen would be that of a less severe sentence.
        if i == 0 and remedy and not fits:
            out.append(row(width, [Span(" do".ljust(_STATE_CELLS + 1), "dim"), Span(sentence.remedy, "strong")]))
    return out


def _text_token(sentence: Meaning) -> str:
    return {"bad": "bad", "warn": "strong", "ok": "text"}.get(sentence.token, sentence.token)


def _instance_rows(width: int, instances: tuple[GpuInstance, ...] | None) -> list[Line]:
    if instances is None:
        return []
    out = [
        rule(width, plural(len(instances), "MIG instance"), [Span("SM%  occupancy%  tensor%  DRAM%       mem", "dim")])
    ]
    for instance in instances:
        shares = (instance.sm_percent, instance.occupancy_percent, instance.tensor_percent, instance.dram_percent)
        memory = f"{size(instance.memory_used_bytes)}/{size(instance.memory_total_bytes)}"
        texts = [UNKNOWN if share is None else percent(share / 100) for share in shares]
        ends = (width - 42, width - 30, width - 21, width - 14)
        figures = [Cell(end, text, right=True) for end, text in zip(ends, texts, strict=True)]
        name = cut(f"{instance.number}  {short_model(instance.name)}", max(4, width - 48))
        out.append(place(width, Cell(1, name), *figures, Cell(width - 4, memory, right=True)))
    return out


def _process_rows(width: int, users: tuple[GpuUser, ...] | None, height: int) -> list[Line]:
    """The titles, then the processes with the most memory; the last row counts those that did not fit."""
    if height <= 0:
        return []
    slots = process_slots(PROCESS_COLUMNS, width)
    out = [head(width, "processes", slots)]
    if not users:
        text = "none" if users is not None else "? the driver does not list them"
        return [*out, row(width, [Span(f" {text}", "dim" if users is not None else "unsure")])][:height]
    fit = height - 1 if len(users) <= height - 1 else height - 2
    out += [process_row(width, slots, user, key=f"process:{user.process.pid}") for user in users[: max(0, fit)]]
    rest = users[max(0, fit) :]
    if rest and len(out) < height:
        sizes = [user.process.memory_bytes for user in rest]
        known_sizes = [held_bytes for held_bytes in sizes if held_bytes is not None]
        memory = f"{brief(sum(known_sizes) / GIB)} GB" if len(known_sizes) == len(sizes) else UNKNOWN
        out.append(row(width, [Span(f" {len(rest)} more with {memory}", "dim")]))
    return out[:height]
