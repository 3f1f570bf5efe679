"""The verdict as a few lines of plain text for pasting: whole sentences, without the command lines of processes."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.finding import Severity, Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.present.job.current import current_job, job_waits
from iotop_ai.present.job.data_path import hops
from iotop_ai.present.job.steps import steps_text
from iotop_ai.present.job.time_words import time_sentence
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.units import clock, duration
from iotop_ai.present.verdict import headline
from iotop_ai.present.verdict.headline import text_of

LABEL = 10
"""The width of the first column, which holds the state or the line's label, as in the banner."""
_PATH_CELLS = 400
_WAITS_CELLS = 80
"""The widths for which the path and the workers' waits are laid out."""
_MOST_FURTHER = 3
"""The largest number of findings that are shown after the first."""
_BAR = "━─"
"""The glyphs of a bar, which is left out."""


def verdict_block(frame: Frame, view: View = View()) -> list[str]:  # noqa: B008 - a frozen record
    """The banner's sentences at full length, the job's time and steps, the path of the data, the waits of the workers,
    and where and when the verdict was seen.

    A line without text is left out. The lines are ASCII, except for names from outside.
    """
    verdict = frame.verdict
    state = "; ".join(filter(None, (text_of(headline.headline(verdict)), text_of(headline.loss(verdict)))))
    lines = [(verdict.state.value, state)]
    parts = (
        ("because", headline.because),
        ("and", headline.second),
    )
    lines += [(label, text_of(part(verdict))) for label, part in parts]
    others = [finding for finding in headline.further(verdict)[1:] if finding.severity is not Severity.INFO]
    lines += [("and", text_of(headline.further_headline(verdict, finding))) for finding in others[: _MOST_FURTHER - 1]]
    lines.append(("not", ruled_out_text(verdict)))
    lines.append(("do", text_of(headline.advice(verdict))))
    lines.append(("time", time_sentence(frame)))
    job = current_job(frame)
    lines.append(("steps", "" if job is None else steps_text(frame, job)))
    # A disk that the user has pinned is not on the path of the job that the other lines are about.
    path_view = view if job is None else view._replace(device="")
    lines += [("path", text_of(hops(frame, path_view, _PATH_CELLS))), ("workers", _waits_text(frame))]
    lines.append(("seen", _seen_text(frame, view)))
    return [f"{label:<{LABEL}}{in_plain_ascii(text)}" for label, text in lines if text]


def in_plain_ascii(text: str) -> str:
    """A sentence of the screen, with › and ≤ replaced by ASCII."""
    return text.replace("›", ">").replace("≤", "<=")


def active_time_text(active_s: float, primary_s: float) -> str:
    """How long a finding was active: "44 s"; if it was not always the verdict, "46 s, 2 s of it as the verdict"."""
    as_verdict = duration(primary_s) if primary_s else "never"
    if as_verdict == duration(active_s):
        return as_verdict
    return f"{duration(active_s)}, {as_verdict} {'of it ' if primary_s else ''}as the verdict"


def ruled_out_text(verdict: Verdict) -> str:
    """The causes ruled out, and why: "the CPU: workers compute in 3 % of the wait; GPU-bound: no GPU"."""
    return in_plain_ascii(text_of(headline.ruled_out(verdict)))


def _waits_text(frame: Frame) -> str:
    """The share of the workers' time in each state, without the bar; "" when unknown."""
    line = job_waits(frame, _WAITS_CELLS)
    job = current_job(frame)
    if line is None or job is None:
        return ""
    words = line.text.split()
    subject = "" if words[0] == "workers" else f"{words[0]} "
    return subject + " ".join(word for word in words[1:] if word.strip(_BAR))


def _seen_text(frame: Frame, view: View) -> str:
    """Host, job, date and time, how long iotop-ai has watched, and its confidence."""
    snapshot, verdict = frame.snapshot, frame.verdict
    job = current_job(frame)
    out = [snapshot.host.name]
    if job is not None:
        out.append(f"job {job.label or job.key.pid} of {job.user}")
    out.append(clock(snapshot.wall_ns, view.utc_offset_s, "%Y-%m-%d %H:%M:%S"))
    out.append(f"watched {verdict.watched_s:.0f} s")
    confidence = text_of(headline.confidence(verdict))
    return ", ".join([*out, *([confidence] if confidence else [])])


def code_block(lines: Sequence[str]) -> list[str]:
    """The lines as a fenced block of Markdown. The fence is longer than any run of back-ticks in the lines."""
    longest = max((len(run) for line in lines for run in _ticks(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]


def _ticks(line: str) -> list[str]:
    return "".join(c if c == "`" else " " for c in line).split()
