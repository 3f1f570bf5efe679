"""``iotop-ai diagnose``: the verdict over a period or a whole recording, as text or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import chain, islice

from iotop_ai.cli.commands.common_verdict import SelectedJob, add_watch_flags, exit_code_of, watch
from iotop_ai.cli.cut_off import warn_of_truncation
from iotop_ai.cli.options.common import add_source_flags, settings_of
from iotop_ai.cli.options.conditions import add_fail_if_flag, conditions_of, exit_code_of_conditions, fail_lines
from iotop_ai.cli.options.devices import resolve_devices
from iotop_ai.cli.prompt import Progress
from iotop_ai.cli.stderr import print_notice
from iotop_ai.cli.stdout import print_lines
from iotop_ai.export.json.diagnosis import Diagnosis, render_diagnosis_json
from iotop_ai.model.condition.over_run import ConditionOverRun
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.finding import Finding
from iotop_ai.model.frame import Frame
from iotop_ai.model.verdict_totals import JobTime, VerdictSpan
from iotop_ai.playback.selection import ALLOW_ROOT, RecordedFrames, corrupt_input_as_error
from iotop_ai.present.job.time_words import NOT_RECORDED, parts_for_table
from iotop_ai.present.text.units import clock, duration, percent, plural
from iotop_ai.present.verdict.class_names import class_name
from iotop_ai.present.verdict.headline import advice, because, confidence, text_of
from iotop_ai.present.verdict.plain_text import LABEL, active_time_text, in_plain_ascii, ruled_out_text
from iotop_ai.store.format.codec import TotalsLine

_MOST_LINES = 20
"""The maximum number of lines of each kind: changes of the verdict, missing parts, and clocks that were set back."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``diagnose``."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="a recording; - is stdin (default: watch this machine)")
    add_watch_flags(parser)
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print a JSON object instead of text"
    )
    parser.add_argument("--begin", metavar="T", help="start of the part of a recording: 14:32, -3m, 45%%")
    parser.add_argument("--end", metavar="T", help="end of the part of a recording")
    parser.add_argument("--allow-root", action="store_true", help=ALLOW_ROOT)
    add_fail_if_flag(parser)
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Judge this machine or a recording, and print the verdict; return the exit code.

    Without --fail-if, the code is as in ``exit_code_of``: 1 for a problem of the job or the hardware, 2 without a clear
    verdict. With --fail-if it is as in ``exit_code_of_conditions``.
    """
    conditions = [ConditionOverRun(condition) for condition in conditions_of(args)]
    job, diagnosis = SelectedJob(getattr(args, "job", 0)), Diagnosis(conditions)
    last = _diagnose_recording(args, job, diagnosis) if args.file is not None else _diagnose_live(args, job, diagnosis)
    if last is None:
        raise UnknownError("no data could be read" if args.file is None else f"{args.file}: no data in that period")
    job.check()
    diagnosis.selected_pid = job.top_pid
    print_lines([render_diagnosis_json(diagnosis, job.top_pid)] if args.json else _text(diagnosis, last, job.top_pid))
    return exit_code_of_conditions(diagnosis.outcomes()) if conditions else exit_code_of(diagnosis.primary)


def _diagnose_live(args: argparse.Namespace, job: SelectedJob, diagnosis: Diagnosis) -> Frame | None:
    if args.begin is not None or args.end is not None:
        raise UsageError("--begin and --end work with a recording only; name its file")
    settings = resolve_devices(settings_of(args))

    def add(frame: Frame) -> None:
        if (about_job := job.frame_about_job(frame)) is not None:
            diagnosis.add(about_job)

    from iotop_ai.sources.live.source import LiveSource  # imported here, because a recording needs no collectors

    return watch(LiveSource(settings, marks=True), args.duration, job, add)


def _diagnose_recording(args: argparse.Namespace, job: SelectedJob, diagnosis: Diagnosis) -> Frame | None:
    if args.duration is not None:
        raise UsageError("--duration works with this machine only; for a recording use --begin and --end")
    last = None
    with corrupt_input_as_error(args.file), Progress(after_s=1.0) as show:
        recorded = RecordedFrames(args.file, args.begin, args.end, allow_root=args.allow_root)
        warn_of_truncation(recorded)
        # The totals stored in the recording are those of its leading job, so another job needs every Frame.
        for part in recorded if job.is_given or diagnosis.needs_frames else recorded.frames_or_totals():
            if isinstance(part, TotalsLine):
                diagnosis.join(part.tally)
                show(f"diagnosing {recorded.progress(part.wall_ns)}")
                continue
            last = job.judge(part)
            if (about_job := job.frame_about_job(last)) is not None:
                diagnosis.add(about_job)
            show(f"diagnosing {recorded.progress(last.snapshot.wall_ns)}")
    for event in islice(chain.from_iterable(recorded.source.times.set_backs.values()), _MOST_LINES):
        print_notice(f"diagnose: {clock(event.wall_ns)}: {event.text}")
    return last


def _text(diagnosis: Diagnosis, last: Frame, pid: int) -> list[str]:
    """Return all lines of the text; those about the conditions of --fail-if come last."""
    return [*_lines(diagnosis, last, pid), *fail_lines(diagnosis.outcomes())]


def _lines(diagnosis: Diagnosis, last: Frame, pid: int) -> Iterator[str]:
    """Yield the findings with their evidence, the data stall, the jobs' time, missing parts, and verdicts over time."""
    findings = diagnosis.findings
    if not findings:
        yield _line("UNSURE", f"measured {diagnosis.measuring_ns / 1e9:.0f} of {diagnosis.needed_s:.0f} s")
    for number, finding in enumerate(findings):
        yield from _finding(diagnosis, findings[number:], last)
        if len(findings) > 1:
            total = diagnosis.total_of(finding)
            yield _line("lasted", active_time_text(total.active_ns / 1e9, total.primary_ns / 1e9))
    stall = diagnosis.data_stall_ratio
    # The headline's figure covers the time in which the finding was active; the figure below covers all the time.
    watched = duration(diagnosis.data_stall_seen_s)
    yield _line("stall", "unknown" if stall is None else f"{percent(stall)} % of {watched} spent waiting for data")
    for job in diagnosis.job_times(pid):
        yield from _job_time(job)
    for wall_ns, text in diagnosis.missing[:_MOST_LINES]:
        yield _line("missing", f"until {clock(wall_ns)}: {text}")
    if (more := len(diagnosis.missing) - _MOST_LINES) > 0:
        yield _line("missing", f"... {more} more")
    spans = _listed_spans(diagnosis)
    if (earlier := len(spans) - _MOST_LINES) > 0:
        yield _line("time", f"... {plural(earlier, 'earlier change')}")
    for span in spans[-_MOST_LINES:]:
        name = class_name(span.class_id, span.state)
        text = f"{clock(span.wall_ns)} {span.state.value:<8} {name} for {duration(span.seconds)}"
        yield _line("time", text)


def _listed_spans(diagnosis: Diagnosis) -> list[VerdictSpan]:
    """Return the spans of verdicts that the text lists.

    A short span is left out if its finding is not shown above. If none would be left, all spans are returned.
    """
    shown = {(finding.class_id, finding.state) for finding in diagnosis.findings}
    spans = diagnosis.spans
    listed = [s for s in spans if (s.class_id, s.state) in shown or diagnosis.lasts(s.state, s.duration_ns)]
    return listed or spans


def _job_time(job: JobTime) -> Iterator[str]:
    """Yield a table of how a job spent its time: for each activity, the share in percent and the seconds."""
    title = f"{job.name} (pid {job.key.pid})"
    parts = parts_for_table(job.counts)
    if not parts:
        yield _line("job", f"{title}: the shares of its time are {NOT_RECORDED}")
        return
    yield _line("job", f"{title}: watched for {duration(job.counts.whole_ms / 1000)}")
    for part in parts:
        seconds = getattr(job.counts, part.share) / 1000
        yield _line("", f"{part.name:<14}{part.figure:>6} %{seconds:>12.1f} s")


def _finding(diagnosis: Diagnosis, findings: tuple[Finding, ...], last: Frame) -> Iterator[str]:
    """Yield the lines about the first finding. findings: it and those after it."""
    verdict = last.verdict._replace(findings=findings, watched_s=last.verdict.needed_s)
    sentence = (text_of(diagnosis.headline(findings[0])), text_of(confidence(verdict)))
    yield _line(findings[0].state.value, "; ".join(filter(None, sentence)))
    texts = (
        ("because", text_of(because(verdict))),
        ("not", ruled_out_text(verdict)),
        ("do", text_of(advice(verdict))),
    )
    for label, text in texts:
        if text:
            yield _line(label, text)


def _line(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{in_plain_ascii(text)}"
