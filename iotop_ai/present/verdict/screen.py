"""The page of reasons: evidence for and against the verdict, other classes, advice and the last hour."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from iotop_ai.diagnosis.verdict.acknowledge import first_to_acknowledge
from iotop_ai.diagnosis.verdict.considered import (
    ACKNOWLEDGED,
    EXCLUDED,
    LEVEL,
    SAMPLES,
    WAITS,
    Considered,
    classes_without_sign,
    considered,
)
from iotop_ai.lazy.regex import pattern
from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.model.verdict_class import CLASS_SPECS, LOSING
from iotop_ai.present.job.current import current_job
from iotop_ai.present.job.time_words import NOT_RECORDED, time_is_counted, time_sentence
from iotop_ai.present.screen.key_row import above_rows, mode_spans, words_above
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import Cell, Line, Span, cut, place, row, stack_sections
from iotop_ai.present.text.scroll import most_scroll, scroll_rows
from iotop_ai.present.text.state_bar import run_spans, runs_between
from iotop_ai.present.text.states import HUE
from iotop_ai.present.text.table import Column, ColumnSlot, head, place_columns, rule
from iotop_ai.present.text.units import UNDEFINED, clock, duration, gpu_time, percent
from iotop_ai.present.text.wrap import wrap_cells
from iotop_ai.present.verdict import evidence, headline
from iotop_ai.present.verdict.advice import number, why_text
from iotop_ai.present.verdict.banner import banner_rows, first_shown_ns
from iotop_ai.present.verdict.cures import advice_text
from iotop_ai.present.verdict.evidence import MET, PLAIN, UNMET, Fact
from iotop_ai.present.verdict.facts import rule_facts

_ACKNOWLEDGE = "reason.acknowledge"
KEYS = (
    *("reason.back", "reason.up", "reason.copy", _ACKNOWLEDGE, "reason.job", "detail.next_verdict"),
    *("reason.help", "app.quit"),
)
"""The actions shown in the last row, as many as fit. _ACKNOWLEDGE is shown only while a finding can be acknowledged
here.
"""
TALL, WIDE = 40, 120
"""From the height TALL on, blank rows separate the sections; from the width WIDE on, the ids of metrics are shown. A
screen with both has a taller banner.
"""
_HOUR_NS = 3_600_000_000_000
_MARKS = {MET: ("●", "text"), UNMET: ("○", "dim"), PLAIN: (" ", "dim"), evidence.UNKNOWN: ("?", "unsure")}
"""(glyph, its token) of a row of evidence, by the standing of the evidence."""
_MOST_CHANGES = 12
"""The maximum number of changes of the verdict that are listed."""
_COLUMNS_AT = 44
"""The column at which COLUMNS start on a wide screen, after the metric in words."""
COLUMNS = (
    Column("now", "measured", 12),
    Column("limit", "threshold", 15),
    Column("metric", "metric", 20, left=True, gap=3),
)


def reasoning_rows(frame: Frame, view: View, width: int, height: int, scroll: int = 0) -> list[Line]:
    """The page as exactly ``height`` lines: the banner, the body from line ``scroll`` on, the keys."""
    top = banner_rows(frame, view, width, _banner_height(width, height))
    body = body_rows(frame, view, width, spread=height >= TALL)
    rows = scroll_rows(body, max(0, height - len(top) - 1), scroll, width)
    keys = words_above(_keys(frame, view), view)
    return above_rows([*top, *rows], keys, view, width, height, mode_spans(frame, view))


def _keys(frame: Frame, view: View) -> tuple[str, ...]:
    """The actions of KEYS that are possible now."""
    if view.why_not_live or view.readonly or first_to_acknowledge(frame.verdict.findings, frame.snapshot) is None:
        return tuple(name for name in KEYS if name != _ACKNOWLEDGE)
    return KEYS


def most_reasoning_scroll(frame: Frame, view: View, width: int, height: int) -> int:
    """The largest scroll at which the body still fills the screen."""
    room = max(0, height - _banner_height(width, height) - 1)
    return most_scroll(len(body_rows(frame, view, width, spread=height >= TALL)), room)


def _banner_height(width: int, height: int) -> int:
    """The height of the banner."""
    return 6 if height >= TALL and width >= WIDE else 4


def body_rows(frame: Frame, view: View, width: int, *, spread: bool) -> list[Line]:
    """All rows below the banner. spread: whether a blank row separates the sections."""
    primary, *others = frame.verdict.findings
    facts = evidence.facts_of(primary)
    others_considered = considered(rule_facts(frame, view), frame.carry, frame.verdict)
    parts = [
        _why_rows(frame, view, width, primary, [fact for fact in facts if fact.standing in (MET, PLAIN)]),
        _against_rows(width, [fact for fact in facts if fact.standing not in (MET, PLAIN)]),
        _not_seen_rows(frame, width),
        _ruled_out_rows(frame, width),
        _advice_rows(width, primary),
        *[_other_finding_rows(width, frame.verdict, finding) for finding in others],
        _considered_rows(frame, view, width, others_considered),
        _last_hour_rows(frame, view, width),
    ]
    return stack_sections(parts, width, spread=spread)


def _why_rows(frame: Frame, view: View, width: int, primary: Finding, facts: list[Fact]) -> list[Line]:
    title = _title(frame, view, primary)
    out = [head(width, title, _column_slots(width)) if facts else rule(width, title)]
    if frame.verdict.measuring:
        left = frame.verdict.needed_s - frame.verdict.watched_s
        out.append(
            place(
                width, Cell(3, f"still measuring: no rule has a full window yet, {max(0.0, left):.0f} s to go", "dim")
            )
        )
    out += [_fact_row(width, fact) for fact in facts]
    if not facts and not frame.verdict.measuring:
        out.append(place(width, Cell(3, "no measurement points to a cause", "dim")))
    if spent := _time_text(frame):
        out.append(place(width, Cell(3, "time:", "dim"), Cell(9, cut(spent, width - 10))))
    if primary.gpu_hours_lost:
        text = f"{gpu_time(primary.gpu_hours_lost)} lost by this job since a loss was first reported"
        out.append(place(width, Cell(1, "●"), Cell(3, text, "strong")))
    return out


def _time_text(frame: Frame) -> str:
    """How the job's time was spent during the verdict's window, or that it was not recorded; "" without a job."""
    if current_job(frame) is None:
        return ""
    return time_sentence(frame) if time_is_counted(frame) else NOT_RECORDED


def _title(frame: Frame, view: View, primary: Finding) -> str:
    since = primary.since_ns
    name = primary.class_id if primary.class_id != "unknown" else frame.verdict.state.value
    if since is None:
        return f"why {name}"
    passed = max(0, frame.snapshot.at_ns - first_shown_ns(since, frame.carry.classes, primary.class_id))
    return f"why {name}, since {clock(frame.snapshot.wall_ns - passed, view.utc_offset_s)}"


def _column_slots(width: int) -> list[ColumnSlot]:
    """The columns of the value, the limit and, on a wide screen, the metric's id."""
    if width < WIDE:
        return place_columns(COLUMNS[:2], width - 28, width - 1)
    return place_columns(COLUMNS, _COLUMNS_AT, width - 1)


def _fitted(text: str, room: int) -> str:
    """A sentence without its last clauses or words if it does not fit. No number in it is cut."""
    clauses = [Span(part) for part in pattern(r"(; |, )").split(text)]
    return headline.text_of(fit(clauses, room))


def _fact_row(width: int, fact: Fact) -> Line:
    glyph, token = _MARKS[fact.standing]
    slots = _column_slots(width)
    met = fact.standing == MET
    value_token = "strong" if met else "unsure" if fact.standing == evidence.UNKNOWN else "text"
    words = Cell(3, cut(fact.words, max(8, slots[0].first - 4)), "text" if met else "dim")
    texts = ((fact.value, value_token), (fact.limit or UNDEFINED, "dim"), (fact.metric, "dim"))
    cells = [slot.cell(text, token) for slot, (text, token) in zip(slots, texts, strict=False)]
    return place(width, Cell(1, glyph, token), words, *cells)


def _against_rows(width: int, facts: list[Fact]) -> list[Line]:
    """The evidence against the verdict."""
    return [rule(width, "evidence against"), *(_fact_row(width, fact) for fact in facts)] if facts else []


def _not_seen_rows(frame: Frame, width: int) -> list[Line]:
    """The signals that are missing, which are not evidence against the verdict."""
    missing = frame.verdict.missing
    rows = [place(width, Cell(1, "?", "unsure"), Cell(3, clause, "dim")) for clause in missing]
    return [rule(width, "not seen"), *rows] if rows else []


def _other_finding_rows(width: int, verdict: Verdict, finding: Finding) -> list[Line]:
    """Another finding with its evidence."""
    confidence = f"confidence {headline.sureness(finding.confidence)} ({finding.confidence:.2f})"
    words = headline.text_of(headline.further_headline(verdict, finding))
    out = [rule(width, f"and {finding.class_id}", [Span(confidence, "dim")])]
    token = "bad" if HUE[finding.state] == "bad" else "strong"
    state = Cell(3, finding.state.value, token if finding.state in LOSING else "dim")
    out.append(place(width, state, Cell(12, _fitted(words, width - 14))))
    return out + [_fact_row(width, fact) for fact in evidence.facts_of(finding)]


def _ruled_out_rows(frame: Frame, width: int) -> list[Line]:
    reasons = frame.verdict.primary.ruled_out
    if not reasons:
        return []
    out = [rule(width, "ruled out")]
    for reason in reasons:
        text = _fitted(why_text(reason), width - 24)
        out.append(place(width, Cell(1, "×", "dim"), Cell(3, reason.class_id), Cell(22, text, "dim")))
    return out


def _considered_rows(frame: Frame, view: View, width: int, others: tuple[Considered, ...]) -> list[Line]:
    """The other classes for which there is an indication, and the names of the classes for which there is none."""
    no_sign = classes_without_sign(frame.verdict, others)
    out = [rule(width, "considered", [Span("confidence", "dim")])]
    for other in others:
        text = _job_prefix(frame, other.finding) + _why_not(other)
        why = Cell(22, _fitted(text, width - 30), "dim")
        confidence = Cell(width - 2, f"{other.finding.confidence:.2f}", "dim", right=True)
        out.append(place(width, Cell(1, "○", "dim"), Cell(3, other.finding.class_id), why, confidence))
    fault = _fault_text(frame, view) if "gpu_fault" in no_sign else ""
    if fault:
        out.append(place(width, Cell(1, "○", "dim"), Cell(3, "gpu_fault"), Cell(22, _fitted(fault, width - 24), "dim")))
    names = ", ".join(class_id for class_id in no_sign if class_id != "gpu_fault" or not fault)
    sentence = f"no sign of {names}" if names else "every other class is listed above"
    for i, text in enumerate(wrap(sentence, max(1, width - 5))):
        out.append(place(width, Cell(3 if not i else 5, text, "dim")))
    return out


def _fault_text(frame: Frame, view: View) -> str:
    """The fault of the first faulty GPU, with all GPUs that have it: "seen on GPU 0, not in the verdict: 1 of 18
    NVLinks down".

    "" if no GPU has a fault.
    """
    if not frame.snapshot.gpu.value:
        return ""
    # imported here because many machines have no GPU
    from iotop_ai.present.gpu.context import gpu_faults
    from iotop_ai.present.gpu.groups import gpus, number_runs

    faults = gpu_faults(frame, view)
    faulty = [(gpu.state.number, faults[gpu.uuid]) for gpu in gpus(frame, view) if gpu.uuid in faults and gpu.state]
    if not faulty:
        return ""
    first = faulty[0][1]
    numbers = number_runs(number for number, fault in faulty if fault == first)
    return f"seen on GPU {numbers}, not in the verdict: {first}"


def _job_prefix(frame: Frame, finding: Finding) -> str:
    """The name of the job that the finding is about, such as "train.py: "; "" if the machine has a single job or none.

    Two jobs of one name are distinguished by the PID.
    """
    table, pid = frame.snapshot.jobs.value, number(dict(finding.args), "job_pid")
    names = {} if table is None else {key.pid: job.name for key, job in table.jobs.items()}
    if pid is None or len(names) < 2 or pid not in names:
        return ""
    name = names[int(pid)]
    return f"{name}: " if list(names.values()).count(name) == 1 else f"{name} {pid:.0f}: "


def _why_not(other: Considered) -> str:
    """Why the class is not in the verdict."""
    if other.why == SAMPLES:
        return f"seen in {other.samples} of the {other.needed} samples it needs"
    if other.why == LEVEL:
        return f"its signal is at {percent(other.level)} % of its threshold"
    if other.why == WAITS:
        return f"has held for {other.seconds:.0f} s; it must hold longer"
    if other.why == EXCLUDED:
        return "holds too, with less weight than the verdict"
    if other.why == ACKNOWLEDGED:
        return "is acknowledged; it comes back when it gets worse"
    return f"held in {percent(other.share)} % of the samples; it needs {percent(other.enter)} %"


def _advice_rows(width: int, primary: Finding) -> list[Line]:
    if not primary.advice:
        return []
    out = [rule(width, "do")]
    for rank, advice in enumerate(primary.advice, 1):
        for i, text in enumerate(wrap_cells(advice_text(advice), max(1, width - 5))):
            head = [Cell(1, str(rank), "strong")] if not i else []
            out.append(place(width, *head, Cell(3, text, "strong" if rank == 1 else "text")))
    return out


def _state_at(states: Sequence[tuple[int, str]], at_ns: int) -> str:
    """The state at this time; "" when unknown."""
    return next((word for since, word in reversed(states) if since <= at_ns), "")


def _last_hour_rows(frame: Frame, view: View, width: int) -> list[Line]:
    """The last hour: a bar of the states, and the latest verdicts with their durations, newest first.

    ``Frame.carry``, the memory of the rules, holds them.
    """
    now, classes = frame.snapshot.at_ns, frame.carry.classes
    if not classes:
        return []
    begin = max(now - _HOUR_NS, classes[0][0])
    ends = [clock(frame.snapshot.wall_ns - (now - at), view.utc_offset_s, "%H:%M") for at in (begin, now)]
    out = [rule(width, "last hour")]
    if now > begin:
        runs = run_spans(runs_between(frame.carry.states, begin, now), width - 16)
        out.append(row(width, [Span(f" {ends[0]} ", "dim"), *runs, Span(f" {ends[1]}", "dim")]))
    for i in range(len(classes) - 1, max(-1, len(classes) - 1 - _MOST_CHANGES), -1):
        at, class_id = classes[i]
        stop = classes[i + 1][0] if i + 1 < len(classes) else now
        state = _state_at(frame.carry.states, at) if class_id == "unknown" else CLASS_SPECS[class_id].state.value
        when = clock(frame.snapshot.wall_ns - (now - at), view.utc_offset_s)
        change = [Cell(1, when, "dim"), Cell(12, state), Cell(22, class_id)]
        out.append(place(width, *change, Cell(width - 2, duration((stop - at) / 1e9), "dim", right=True)))
    return out
