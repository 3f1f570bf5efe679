"""The screen of one process: its state, what it does and waits for, its graphs, and below them the parts that
scroll.
"""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.process.detail import ProcessDetail, ThreadDetail, ThreadTable
from iotop_ai.model.process.records import ProcessInfo, ProcessKey, ProcessTable
from iotop_ai.model.process.stack import PythonCode
from iotop_ai.model.reading import Reading
from iotop_ai.present.process.code import code_rows, code_text
from iotop_ai.present.process.graphs import process_graph_rows, start_ns
from iotop_ai.present.process.groups import groups
from iotop_ai.present.process.screen_parts import part_rows, wait_text
from iotop_ai.present.screen.key_row import above_rows, keys_text, mode_spans, words_above
from iotop_ai.present.screen.selection import next_in_order
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fields import Field, field_rows
from iotop_ai.present.text.line import Cell, Line, Span, cut, place, plain, row, spans_cells, stack_sections
from iotop_ai.present.text.scroll import most_scroll, scroll_rows
from iotop_ai.present.text.units import UNKNOWN, clock, duration, plural, size
from iotop_ai.present.text.wrap import wrap_cells
from iotop_ai.present.verdict.banner import verdict_row

KEYS = (
    "process.back",
    "process.previous",
    "process.up",
    "process.code",
    "process.act_signal",
    "process.pause",
    "detail.back",
    "process.help",
    "app.quit",
)
"""The actions shown in the last row."""
TALL = 40
"""The height from which blank rows separate the sections, and the command and the facts may take more rows."""
_TEXT_COLUMN = 10
"""The column at which the text after a label begins."""
_LATE_S = 2.0
"""Details are shown as old if a reading is overdue by at least this long."""
_STATES = {
    "D": ("BLOCKED", "bad"),
    "R": ("RUNS", "ok"),
    "S": ("SLEEPS", "dim"),
    "I": ("SLEEPS", "dim"),
    "T": ("STOPPED", "warn"),
    "t": ("TRACED", "warn"),
    "Z": ("ZOMBIE", "warn"),
}
"""(the word for a process state, its token) by the state's letter."""


class ProcessPage(NamedTuple):
    """The state of the process screen.

    detail: the newest reading of the process; None before the first one. before: the threads in the previous reading.
    why_unreadable: why the detail cannot be read here; "" while it is being read. late_s: for how many seconds a
    reading has been overdue. scroll: the first row shown in the part that scrolls. code: the lines of Python in which
    the process was seen; None if the user has not asked for them. sampling: whether py-spy is still sampling.
    """

    key: ProcessKey
    detail: ProcessDetail | None = None
    before: Reading[ThreadTable] = Reading()
    why_unreadable: str = ""
    late_s: float = 0.0
    scroll: int = 0
    code: Reading[PythonCode] | None = None
    sampling: bool = False


def process_order(frame: Frame, view: View) -> tuple[ProcessKey, ...]:
    """The keys of all processes in the list, including those that share a row, in the list's order."""
    return tuple(key for group in groups(frame, view) for key in group.keys)


def next_process(frame: Frame, view: View, key: ProcessKey, step: int) -> ProcessKey | None:
    """The process after (step 1) or before (step -1) this one in the list, wrapping around; the first if this one is
    not in the list, None if the list is empty.
    """
    return next_in_order(process_order(frame, view), key, step)


def process_screen_rows(frame: Frame, view: View, page: ProcessPage, width: int, height: int) -> list[Line]:
    """The screen as exactly ``height`` lines of ``width`` columns."""
    top, body, room = _parts(frame, view, page, width, height - 1)
    rows = scroll_rows(body, room, page.scroll, width)
    return above_rows([*top, *rows], words_above(KEYS, view), view, width, height)


def most_process_scroll(frame: Frame, view: View, page: ProcessPage, width: int, height: int) -> int:
    """The largest scroll at which the rows still fill the screen."""
    _, body, room = _parts(frame, view, page, width, height - 1)
    return most_scroll(len(body), room)


def _parts(frame: Frame, view: View, page: ProcessPage, width: int, height: int) -> tuple[list[Line], list[Line], int]:
    """(the rows that stay in place, the rows that scroll, the number of scrolling rows that fit)."""
    top = [verdict_row(frame, view, width), *_summary_rows(frame, view, page, width, height)]
    graphs = process_graph_rows(frame, view, page.key, width, _graph_room(height - len(top)))
    top += graphs
    spread = height >= TALL
    code = code_rows(page.code, width, sampling=page.sampling, blocked=_blocked_tids(page))
    parts = part_rows(frame, view, page.key, page.detail, page.before, page.why_unreadable, width, spread=spread)
    body = stack_sections([code, parts], width, spread=spread)
    return top, body, max(0, height - len(top))


def _graph_room(left: int) -> int:
    """The number of rows for the graphs and their axis; most of the ``left`` rows go to the parts below."""
    # The axis and four graphs of two rows each, or of one row each.
    return 9 if left >= 28 else 5 if left >= 14 else 0


def _summary_rows(frame: Frame, view: View, page: ProcessPage, width: int, height: int) -> list[Line]:
    """The process's state, name, command, folder and job, what its main thread waits for, its code and other facts."""
    table, key = frame.snapshot.processes.value, page.key
    info = None if table is None else table.info.get(key)
    out = [_title(frame, view, page, info, width)]
    if table is None or info is None:
        text = "the processes are not known here"
        if table is not None:
            text = f"pid {key.pid} has {'not started yet' if _is_future(frame, key) else 'ended'}"
        return [*out, place(width, Cell(_TEXT_COLUMN, text, "dim"))]
    command = plain(" ".join(info.cmdline)) or "a kernel thread" * info.kernel or UNKNOWN
    out += _labelled_rows("runs", command, width, 3 if height >= TALL else 1)
    identity = None if page.detail is None else page.detail.identity.value
    if identity is not None and identity.cwd:
        out += _labelled_rows("in", plain(identity.cwd), width, 1, "dim")
    job = job_of(frame, key)
    if job is not None:
        out += _labelled_rows("job", _job_text(job, key), width, 1)
    main = _main_thread(page)
    if main is not None:
        token = "strong" if main.state == "D" else "text"
        prefix = "main thread: "
        text = prefix + wait_text(main, width - _TEXT_COLUMN - 1 - len(prefix))
        out += _labelled_rows("waits" if main.state != "R" else "does", text, width, 1, token)
    if page.code is not None and page.code.value is not None:
        out += _labelled_rows("code", code_text(page.code.value), width, 2, "strong")
    return [*out, *field_rows(_fact_fields(frame, view, table, page), width)[: 2 if height >= TALL else 1]]


def _is_future(frame: Frame, key: ProcessKey) -> bool:
    """Whether the process started after the time of the Frame, as it may have when the user looks back."""
    return start_ns(frame, key) > frame.snapshot.at_ns


def _title(frame: Frame, view: View, page: ProcessPage, info: ProcessInfo | None, width: int) -> Line:
    table, key = frame.snapshot.processes.value, page.key
    # The details and the table are read at different times, and the state must agree with the main thread's wait.
    main = _main_thread(page) or (None if table is None else table.stat.get(key))
    word, hue = ("UNSURE", "unsure") if info is not None else ("FUTURE" if _is_future(frame, key) else "ENDED", "dim")
    if info is not None and main is not None:
        word, hue = _STATES.get(main.state, ("UNSURE", "unsure"))
    left = [Span(f" {word}".ljust(9), f"block-{hue}")]
    if info is not None:
        left += [Span(f" {plain(info.name)}", "strong"), Span(f"  pid {key.pid}"), Span(f"  of {plain(info.user)}")]
    else:
        left.append(Span(f" pid {key.pid}", "strong"))
    order = process_order(frame, view)
    keys = keys_text("process.previous", view)
    if key not in order:
        return row(width, left, [*mode_spans(frame, view), Span(f"{keys} ", "dim")])
    mode, position = mode_spans(frame, view), f"{order.index(key) + 1} of {len(order)}"
    # "listed": the list lacks idle kernel threads and what the filter leaves out. Without room, the word is dropped.
    ends = [[*mode, Span(f"{position}{word}  {keys} ", "dim")] for word in (" listed", "")]
    return row(width, left, ends[0] if spans_cells(left) + spans_cells(ends[0]) < width else ends[1])


def _labelled_rows(label: str, text: str, width: int, most_rows: int, token: str = "text") -> list[Line]:
    lines = wrap_cells(text, max(20, width - _TEXT_COLUMN - 1), break_on_hyphens=False) or [""]
    if len(lines) > most_rows:
        lines = [*lines[: most_rows - 1], cut(" ".join(lines[most_rows - 1 :]), width - _TEXT_COLUMN - 1)]
    return [
        place(width, *([Cell(1, label, "dim")] if not i else []), Cell(_TEXT_COLUMN, t, token))
        for i, t in enumerate(lines)
    ]


def job_of(frame: Frame, key: ProcessKey) -> Job | None:
    """The training job that a process belongs to; None if it is not part of one."""
    table = frame.snapshot.jobs.value
    return None if table is None else table.job_of(key)


def _job_text(job: Job, key: ProcessKey) -> str:
    role, count = "helper", len(job.ranks)
    for index, rank in enumerate(job.ranks):
        number = index if rank.number is None else rank.number
        # If the number is not below the count of ranks here, the job has more ranks on other machines.
        ranks = f" of {count}" if number < count else f", {count} here"
        own = f"rank {number}{ranks}" if count > 1 else "trainer"
        if rank.key == key:
            role = f"{own}, {plural(len(rank.workers), 'worker')}" if rank.workers else own
        elif key in rank.workers:
            where = f" of rank {number}" if count > 1 else ""
            role = f"worker {rank.workers.index(key) + 1} of {len(rank.workers)}{where}"
    label = f"{job.label} " if job.label else ""
    return f"{label}{plain(job.name)} of {plain(job.user)}, pid {job.key.pid}: {role}"


def _blocked_tids(page: ProcessPage) -> frozenset[int]:
    """The ids of the threads in state D."""
    table = None if page.detail is None else page.detail.threads.value
    return frozenset() if table is None else frozenset(one.tid for one in table.threads if one.state == "D")


def _main_thread(page: ProcessPage) -> ThreadDetail | None:
    table = None if page.detail is None else page.detail.threads.value
    return None if table is None else next((one for one in table.threads if one.tid == page.key.pid), None)


def _fact_fields(frame: Frame, view: View, table: ProcessTable, page: ProcessPage) -> list[Field]:
    key, out = page.key, []
    identity = None if page.detail is None else page.detail.identity.value
    if identity is not None and identity.started_s is not None:
        started_ns = int(identity.started_s * 1e9)
        age_s = max(0.0, (frame.snapshot.wall_ns - started_ns) / 1e9)
        out.append(Field("started", clock(started_ns, view.utc_offset_s), f", {duration(age_s)} ago"))
    stat = table.stat.get(key)
    if stat is not None:
        out.append(Field("memory", size(stat.rss_pages * table.page_bytes)))
        threads = None if page.detail is None else page.detail.threads.value
        out.append(Field("threads", str(stat.threads if threads is None else threads.number)))
        parent = next((k for k in table.info if k.pid == stat.ppid), None)
        name = "" if parent is None else f" {plain(table.info[parent].name)}"
        out.append(Field("parent", str(stat.ppid), name))
    if identity is not None:
        if identity.nice is not None:
            out.append(Field("nice", str(identity.nice)))
        if identity.io_class not in ("", "none"):
            level = "" if identity.io_level is None else f" {identity.io_level}"
            out.append(Field("I/O priority", f"{identity.io_class}{level}"))
        if identity.cpus:
            out.append(Field("CPUs", str(len(identity.cpus))))
    if page.late_s >= _LATE_S:
        out.insert(0, Field("details", f"{duration(page.late_s)} old", ": a read has not returned", "warn"))
    return out
