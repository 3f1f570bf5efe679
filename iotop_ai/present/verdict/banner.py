"""The banner: the state in one word, the cause, a second finding, and the advice. Its height is fixed, so that the
panels below it do not jump.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.frame import Frame
from iotop_ai.model.verdict_class import LOUD, State
from iotop_ai.present.screen.staleness import dimmed, is_silent, silence_spans
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.fit import fit
from iotop_ai.present.text.line import Line, Span, cells, cut, cut_spans, row, spans_cells
from iotop_ai.present.text.panel import panel
from iotop_ai.present.text.states import HUE
from iotop_ai.present.text.units import clock, duration
from iotop_ai.present.verdict import headline

_TEXT_COLUMN = 10
"""The column of the screen at which a row's text begins, after the state or the label."""
HEADLINE_MARK = ""
"""A headline cut inside a clause has no ellipsis: it loses only words such as "of the time"."""
SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 60 * MINUTE_NS
_WHOLE_HOUR_MIN = 59
"""The states of at least this many minutes are labelled "hour", because a recording of an hour lacks a few seconds."""


@panel
def banner_rows(frame: Frame, view: View, width: int, height: int) -> list[Line]:
    """The banner. Its 4 rows are the state, ``because``, ``and``, ``do``; with 6 rows, ``not`` and ``hour`` are added.

    The confidence is at the right end of the row that it is about, ``because``; with 4 rows, in which the cause needs
    the room, of the row below it. Without a second finding, the third of 6 rows shows when the state began; the third
    of 4 rows shows the classes ruled out (for UNSURE) or the states of the last hour.
    """
    verdict = frame.verdict
    hue = HUE[verdict.state]
    because = ("because", headline.because(verdict))
    second = ("and", headline.second(verdict))
    ruled_out = ("not", headline.ruled_out(verdict))
    do = ("do", headline.advice(verdict))
    confidence = headline.confidence(verdict)
    if confidence:
        confidence = [*confidence, Span(" ")]
    confidence_cells = spans_cells(confidence) + 1 if confidence and height < 6 else 0
    last_hour = _last_hour(frame, view, width - confidence_cells)
    if height >= 6:
        if not second[1] and last_hour[0] != "since":
            # Without the duration, which the bar below shows, the row is not drawn anew each second.
            second = ("since", _since_spans(frame, view)[:1])
        rows = [because, second, ruled_out, do, last_hour]
    else:
        other = second if second[1] else ruled_out if verdict.state is State.UNSURE and ruled_out[1] else last_hour
        rows = [because, other, do]
    if is_silent(view):
        return _outdated_rows(frame, view, width, rows)
    out = [_state_row(frame, width, hue)]
    right_row = 0 if height >= 6 else 1
    out += [
        _labelled_row(width, hue, label, spans, confidence if i == right_row else [])
        for i, (label, spans) in enumerate(rows)
    ]
    return out


def verdict_row(frame: Frame, view: View, width: int) -> Line:
    """The banner's first row alone, for the top of the other screens."""
    if is_silent(view):
        return _outdated_rows(frame, view, width, [])[0]
    return _state_row(frame, width, HUE[frame.verdict.state])


def _outdated_rows(frame: Frame, view: View, width: int, rows: list[tuple[str, list[Span]]]) -> list[Line]:
    """The last verdict, dimmed, with its age and the reason why no newer reading has arrived.

    The reason has its own row, so the last of ``rows`` is left out.
    """
    age = Span(f"{duration(view.silent_s or 0)} old ", "warn")
    room = width - _TEXT_COLUMN - 2 - cells(age.text)
    words = "".join(s.text for s in fit(headline.headline(frame.verdict), room, HEADLINE_MARK))
    out = [row(width, [Span(f" {frame.verdict.state:<8}", "block-dim"), Span(f" {words}", "dim")], [age])]
    out.append(_labelled_row(width, "dim", "now", silence_spans(view), []))
    return out + [dimmed(_labelled_row(width, "dim", label, spans, []), width) for label, spans in rows[:-1]]


def _state_row(frame: Frame, width: int, hue: str) -> Line:
    """The state on its coloured block, the headline, and the lost GPU time at the right end."""
    state = frame.verdict.state
    block = Span(f" {state:<8}", f"block-{hue}")
    lost = cut_spans([Span(s.text, "dim") for s in headline.loss(frame.verdict)], width - 30)
    room = width - _TEXT_COLUMN - 2 - (spans_cells(lost) + 1 if lost else 0)
    words = "".join(s.text for s in fit(headline.headline(frame.verdict), room, HEADLINE_MARK))
    if state not in LOUD:
        return row(width, [block, Span(" "), Span(words, "strong")], [*lost, Span(" ")])
    strong, rest = f"tint-{hue}-strong", f"tint-{hue}"
    words = cut(words, room)
    end = "".join(s.text for s in lost) + " "
    gap = " " * (width - _TEXT_COLUMN - cells(words) - cells(end))
    return Line(tuple(cut_spans([block, Span(" " + words, strong), Span(gap + end, rest)], width)))


def _labelled_row(width: int, hue: str, label: str, spans: list[Span], right: list[Span]) -> Line:
    # Only the state's block may be red in the banner, so text with the token "bad" gets the token "strong".
    spans = [Span(s.text, "strong") if s.token == "bad" else s for s in spans]
    edge = Span("▌", f"edge-{hue}")
    if not spans:
        return row(width, [edge], right)
    room = width - _TEXT_COLUMN - 1 - (spans_cells(right) + 1 if right else 0)
    text = fit(spans, room)
    if not text and right:
        text, right = fit(spans, width - _TEXT_COLUMN - 1), []
    pad = " " * (_TEXT_COLUMN - 1 - cells(label))
    return row(width, [edge, Span(label + pad, "dim"), *text], right)


def _last_hour(frame: Frame, view: View, width: int) -> tuple[str, list[Span]]:
    """(label, text): the states of the last hour as a bar, labelled "7 min" while only 7 minutes are known; during the
    first minute, when the state began; for a job that died, when it died. The states are in ``Frame.carry``, the memory
    of the rules.
    """
    now, states = frame.snapshot.at_ns, frame.carry.states
    begin = max(now - HOUR_NS, states[0][0]) if states else now
    if now - begin < MINUTE_NS or frame.verdict.primary.class_id == "job_died":
        return "since", _since_spans(frame, view)
    first, last = (clock(frame.snapshot.wall_ns - (now - at), view.utc_offset_s, "%H:%M") for at in (begin, now))
    room = width - _TEXT_COLUMN - cells(first) - cells(last) - 4
    from iotop_ai.present.text.state_bar import run_spans, runs_between  # not needed in the first minute

    runs = run_spans(runs_between(states, begin, now), room)
    minutes = round((now - begin) / MINUTE_NS)
    label = "hour" if minutes >= _WHOLE_HOUR_MIN else f"{minutes} min"
    return label, [Span(first + " ", "dim"), *runs, Span(" " + last, "dim")]


def first_shown_ns(since_ns: int, changes: Sequence[tuple[int, str]], word: str) -> int:
    """The monotonic time in ns at which the screen first showed a finding. The finding may have begun earlier, while
    the verdict was still measuring. since_ns: the time at which the finding began.

    changes: the changes of the last hour, as (time, state or class). word: the finding's state or class.
    """
    return max(since_ns, next((at for at, name in reversed(changes) if name == word), since_ns))


def _since_spans(frame: Frame, view: View) -> list[Span]:
    """When the current state began and how long it has lasted; [] if unknown or while the verdict is measuring."""
    snapshot, since = frame.snapshot, frame.verdict.primary.since_ns
    if since is None or frame.verdict.measuring:
        return []
    passed = max(0, snapshot.at_ns - first_shown_ns(since, frame.carry.states, frame.verdict.state))
    at = clock(snapshot.wall_ns - passed, view.utc_offset_s)
    passed_text = "less than 1 s" if passed < SECOND_NS else duration(passed / 1e9)
    return [Span(at), Span(f", {frame.verdict.state} for ", "dim"), Span(passed_text)]
