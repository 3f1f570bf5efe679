"""``iotop-ai diagnose``: the verdict over a while or over a whole recording, for people or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from iotop_ai.cli.ask import Progress
from iotop_ai.cli.options import add_source_flags, settings_of
from iotop_ai.cli.played import Played, sound
from iotop_ai.cli.select import resolved
from iotop_ai.cli.verdict import JobSeen, add_watch_flags, ended, lines_out, watched
from iotop_ai.export.diagnosis_json import Diagnosis, render_diagnosis_json
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.finding import Finding, Verdict
from iotop_ai.model.frame import Frame
from iotop_ai.present import finding as words
from iotop_ai.present.paste import LABEL, ruled_out_text
from iotop_ai.present.units import clock, percent
from iotop_ai.present.units import duration as length
from iotop_ai.sources.live import LiveSource
from iotop_ai.store.codec import Tallied

_MOST_CHANGES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of ``diagnose``."""
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a recording instead of this machine; - is stdin (default: watch)"
    )
    add_watch_flags(parser)
    parser.add_argument("--json", action="store_true", help="the JSON object instead of text")
    parser.add_argument("--begin", metavar="T", help="of a recording, from this time on: 14:32, -3m, 45%%")
    parser.add_argument("--end", metavar="T", help="of a recording, up to this time")
    parser.add_argument("--allow-root", action="store_true", help="read the recording although you are root")
    add_source_flags(parser, sub=True)


def run(args: argparse.Namespace) -> int:
    """Judge, print; 1 when something held the job back, 2 when that cannot be told."""
    job, diagnosis = JobSeen(getattr(args, "job", 0)), Diagnosis()
    last = _recorded(args, job, diagnosis) if args.file is not None else _live(args, job, diagnosis)
    if last is None:
        raise UnknownError("nothing was read" if args.file is None else f"{args.file}: nothing was recorded then")
    job.check()
    lines_out([render_diagnosis_json(diagnosis)] if args.json else _text(diagnosis, last))
    return ended(diagnosis.primary)


def _live(args: argparse.Namespace, job: JobSeen, diagnosis: Diagnosis) -> Frame | None:
    if args.begin is not None or args.end is not None:
        raise UsageError("--begin and --end are for a recording; name its file")
    settings = resolved(settings_of(args))
    return watched(LiveSource(settings), args.duration, job, diagnosis.add)


def _recorded(args: argparse.Namespace, job: JobSeen, diagnosis: Diagnosis) -> Frame | None:
    if args.duration is not None:
        raise UsageError("--duration is for this machine; of a recording --begin and --end choose a part")
    last = None
    with sound(args.file), Progress(after_s=1.0) as tell:
        played = Played(args.file, args.begin, args.end, allow_root=args.allow_root)
        # What was counted while it was recorded is about the job that led then.
        for part in played if job.chosen else played.counted():
            if isinstance(part, Tallied):
                diagnosis.join(part.tally)
                tell(f"diagnosing {played.done(part.wall_ns)}")
                continue
            last = job.turned(part)
            diagnosis.add(last)
            tell(f"diagnosing {played.done(last.snapshot.wall_ns)}")
    return last


def _text(diagnosis: Diagnosis, last: Frame) -> list[str]:
    """The verdict, each finding with its evidence, and when what stood."""
    return list(_lines(diagnosis, last))


def _lines(diagnosis: Diagnosis, last: Frame) -> Iterator[str]:
    findings = diagnosis.findings
    if not findings:
        yield _line("UNSURE", f"measured {diagnosis.measuring_ns / 1e9:.0f} of {diagnosis.needed_s:.0f} s")
    for number, one in enumerate(findings):
        yield from _finding(one, findings[number + 1 :], last)
    stall = diagnosis.data_stall_ratio
    yield _line("stall", "unknown" if stall is None else f"{percent(stall)} % of the time without data")
    shown = diagnosis.stretches[-_MOST_CHANGES:]
    if len(shown) < len(diagnosis.stretches):
        yield _line("time", f"... {len(diagnosis.stretches) - len(shown)} changes before these")
    for stood in shown:
        text = f"{clock(stood.wall_ns)} {stood.state.value:<8} {stood.class_id} for {length(stood.seconds)}"
        yield _line("time", text)


def _finding(one: Finding, others: tuple[Finding, ...], last: Frame) -> Iterator[str]:
    verdict = last.verdict._replace(findings=(one, *others), watched_s=last.verdict.needed_s)
    yield _line(one.state.value, _sentence(verdict, last))
    texts = (
        ("because", words.text_of(words.because(verdict, last))),
        ("not", ruled_out_text(verdict)),
        ("do", words.text_of(words.advice(verdict, last))),
    )
    for label, text in texts:
        if text:
            yield _line(label, text)


def _sentence(verdict: Verdict, last: Frame) -> str:
    one = verdict.primary
    ends = [words.text_of(words.right_end(verdict, last)), one.class_id]
    return "; ".join(filter(None, (words.text_of(words.headline(verdict, last)), *ends)))


def _line(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{text}"
