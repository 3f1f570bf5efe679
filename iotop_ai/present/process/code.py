"""The lines of Python code that a process was seen in: "78 % of 100 samples in train.py:88, next(iter(loader))"."""

from __future__ import annotations

from iotop_ai.model.process.stack import CodeLine, PythonCode, StackFrame, ThreadCode
from iotop_ai.model.reading import Reading
from iotop_ai.present.text.line import Cell, Line, Span, cells, cut, place, plain, row
from iotop_ai.present.text.panel import reason_row
from iotop_ai.present.text.table import rule
from iotop_ai.present.text.units import percent, plural
from iotop_ai.store.format.secrets import note_redacted

_MOST_THREADS = 6
SAMPLING = "py-spy samples its stack for 5 s without stopping it ..."


def code_text(code: PythonCode) -> str:
    """The line in which the first thread was seen most often, and the calls made from that line; "" without samples."""
    if not code.threads or not code.threads[0].lines:
        return ""
    first = code.threads[0]
    line = first.lines[0]
    out = f"{percent(line.samples / first.samples)} % of {first.samples} samples in {place_text(line.frame)}"
    if line.text:
        out += f", {source_text(line)}"
    if line.calls:
        out += f"; there in {calls_text(line)}"
    return out


def place_text(frame: StackFrame) -> str:
    """The file name and line of a frame: "train.py:88"; only the file name if the line is unknown."""
    name = plain(frame.file.rsplit("/", 1)[-1])
    return f"{name}:{frame.line}" if frame.line else name


def source_text(line: CodeLine) -> str:
    """The line's source, without the parts that look like secrets."""
    return note_redacted(plain(line.text))


def calls_text(line: CodeLine) -> str:
    """The calls made from a line: "_next_data > Queue.get > Condition.wait (threading.py:320)"."""
    names = " > ".join(map(plain, line.calls))
    return f"{names} ({place_text(line.inner)})" if line.inner is not None else names


def code_rows(code: Reading[PythonCode] | None, width: int, *, sampling: bool, blocked: frozenset[int]) -> list[Line]:
    """The section "code" of a process's screen; [] if the user has not asked for it.

    code: None before the first result. sampling: whether py-spy is still sampling. blocked: the ids of the threads that
    wait in the kernel for a device; they come directly after the first thread.
    """
    if sampling:
        return [rule(width, "code"), row(width, [Span(f" {SAMPLING}", "dim")])]
    if code is None:
        return []
    if code.value is None:
        return [rule(width, "code"), reason_row(width, code)]
    note = [Span(f"{code.value.samples} samples in {code.value.seconds:.0f} s by py-spy", "dim")]
    out = [rule(width, "code", note)]
    first, *others = code.value.threads
    others.sort(key=lambda one: one.tid not in blocked)
    for thread in [first, *others[: _MOST_THREADS - 1]]:
        out += _thread_rows(thread, width)
    more = len(others) + 1 - _MOST_THREADS
    return [*out, row(width, [Span(f" {plural(more, 'more thread')}", "dim")])] if more > 0 else out


def _thread_rows(thread: ThreadCode, width: int) -> list[Line]:
    out: list[Line] = []
    for line in thread.lines:
        name = [] if out else [Cell(1, cut(plain(thread.name) or str(thread.tid or "thread"), 15), "dim")]
        share = percent(line.samples / thread.samples)
        where = place_text(line.frame)
        line_cells = [*name, Cell(20, share, "strong" if not out else "text", right=True), Cell(22, "%", "dim")]
        at = 24 + cells(where) + 2
        line_cells += [
            Cell(24, where),
            Cell(at, cut(source_text(line), max(0, width - at - 1)), "strong" if not out else "text"),
        ]
        out.append(place(width, *line_cells))
        if line.calls:
            out.append(place(width, Cell(24, cut(f"in {calls_text(line)}", width - 25), "dim")))
    return out
