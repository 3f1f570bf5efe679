"""The dialog of a storage check on the live screen: the question, the running phase, the figures."""

from __future__ import annotations

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.preflight.report import Report
from iotop_ai.model.preflight.storage import CACHED, FILES, MIB, READAHEAD, SEQUENTIAL, WRITE, Latency, Measured
from iotop_ai.present.block import devices
from iotop_ai.present.job.current import current_job, job_mount
from iotop_ai.present.preflight.dataset import speed
from iotop_ai.present.preflight.storage import earlier_text, findings_text, phase_title, place_text
from iotop_ai.present.screen.dialog import LABEL_CELLS, Row, input_row, labelled_rows
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import Span, plain
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.present.text.units import UNKNOWN, brief, count

TITLE = "CHECK STORAGE"
SECONDS = 10.0
"""The duration of a check in seconds."""
MOST_BYTES = 512 * MIB
"""The maximum size of the test file in bytes."""
_NAME_CELLS, _RATE_CELLS = 25, 10
"""The width in columns of a phase's name, and of its rate."""
_MOST_FINDINGS = 4
"""The maximum number of sentences about the results."""


class CheckView(NamedTuple):
    """The state of the dialog.

    typed: the path that the user typed. error: why the path was refused, or why the check failed; "" otherwise. step:
    the running phase in words; "" while none runs. done, phases: the number of completed phases, and of all phases.
    report: the measurements so far; None before the check. ended: whether the check is over. stopping: whether the user
    has asked the check to stop. write: whether the check may write a test file.
    """

    typed: TypedText = TypedText()
    error: str = ""
    step: str = ""
    done: int = 0
    phases: int = 0
    report: Report | None = None
    ended: bool = False
    stopping: bool = False
    write: bool = True


def proposed_path(frame: Frame, view: View, device: str = "") -> str:
    """The path that the dialog proposes: the mount of the job's data, otherwise a mount of the selected disk, otherwise
    the disk itself; "" without disks.

    device: the disk of the page that is open, which takes precedence; "" on the main screen.
    """
    job = None if device or devices.chosen_name(frame, view) else current_job(frame)
    mount = None if job is None else job_mount(frame, job)
    if mount is not None:
        return mount.path
    if not device:
        selected = devices.selected_device(frame, view)
        device = "" if selected is None else selected.name
    if not device:
        return ""
    mounts = devices.mounts(device, frame)
    return mounts[0].path if mounts else f"/dev/{device}"


def check_body(view: CheckView, width: int) -> tuple[list[Row], list[Row]]:
    """(rows of the explanation or the figures, rows of the input or the keys)."""
    if view.report is None:
        return _question(view, width)
    head = labelled_rows("where", place_text(view.report.place), width)
    if not view.ended:
        head += labelled_rows("now", f"{view.done + 1} of {view.phases}: {view.step}" if view.step else "...", width)
        head.append(_bar(view, width))
    head += [[], *result_rows(view.report.results)] if view.report.results else []
    if view.ended:
        findings = [*findings_text(view.report), *filter(None, [earlier_text(view.report)])]
        head += [[]] if findings else []
        for text in findings[:_MOST_FINDINGS]:
            head += labelled_rows("", plain(text), width)
    if view.error:
        head += labelled_rows("failed", view.error, width, token="warn")
    if view.ended:
        return head, [[Span("   Enter", "key"), Span(" or ", "dim"), Span("Esc", "key"), Span(":close", "dim")]]
    word = "stopping; its file is being removed" if view.stopping else ":stop"
    return head, [[Span("   Esc", "key"), Span(word if word.startswith(":") else f" {word}", "dim")]]


def _question(view: CheckView, width: int) -> tuple[list[Row], list[Row]]:
    head = labelled_rows("measures", "what a folder, file or device gives a training job: sequential and random reads "
                    "past the page cache, small files, write + fsync", width)  # fmt: skip
    head += labelled_rows("takes", f"{SECONDS:g} s, in which everything else that uses the disk is slower", width)
    own = f"a test file of at most {MOST_BYTES // MIB} MB, which is removed; a device is only read"
    head += labelled_rows("writes", own if view.write else "nothing: this screen is read-only", width)
    tail: list[Row] = [input_row([Span("path ", "dim")], view.typed, width)]
    if view.error:
        tail.insert(0, [Span(f"   {view.error}", "warn")])
    tail.append([Span("   Enter", "key"), Span(":begin", "dim")])
    return head, tail


def _bar(view: CheckView, width: int) -> Row:
    room = max(4, width - LABEL_CELLS - 2)
    filled = round(room * view.done / max(1, view.phases))
    return [Span(" " * LABEL_CELLS), Span("━" * filled, "graph"), Span("─" * (room - filled), "faint")]


def result_rows(results: tuple[Measured, ...]) -> list[Row]:
    """The rows of each kind of operation: the figures at the lowest depth (the number of reads in flight, or of
    readers), then those at a higher depth if it is faster.
    """
    by_title: dict[str, list[Measured]] = {}
    for measured in results:
        by_title.setdefault(phase_title(measured), []).append(measured)
    out = []
    for title, depths in by_title.items():
        lowest, best = min(depths, key=lambda measured: measured.depth), max(depths, key=_rate)
        out.append(_result(title, lowest))
        if best.depth > lowest.depth:
            out.append(_result(f"  {best.depth} {'readers' if best.name == FILES else 'in flight'}", best))
    return out


def _is_in_bytes(measured: Measured) -> bool:
    """Whether the rate is shown in bytes per second; otherwise it is in operations per second."""
    return measured.name in (WRITE, CACHED, READAHEAD, SEQUENTIAL)


def _rate(measured: Measured) -> float:
    return (measured.bytes_per_s if _is_in_bytes(measured) else measured.ops_per_s) or 0.0


def _result(title: str, measured: Measured) -> Row:
    figure = speed(measured.bytes_per_s) if _is_in_bytes(measured) else f"{count(measured.ops_per_s)}/s"
    out = [Span(f"   {title:<{_NAME_CELLS}}", "dim"), Span(f"{figure:>{_RATE_CELLS}}", "strong")]
    if measured.latency is not None and measured.name != WRITE:
        out.append(Span(f"  {_latency(measured.latency)}", "text"))
    return out


def _latency(latency: Latency) -> str:
    return f"p50 {_ms(latency.p50_ms)} p99 {_ms(latency.p99_ms)} ms"


def _ms(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return brief(value) if value >= 1 else f"{value:.2f}" if value >= 0.01 else "<0.01"
