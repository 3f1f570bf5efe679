"""The parts that ``report`` and ``compare`` share: flags, reading a run as a Story (its data), and the output."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from types import TracebackType

from iotop_ai.cli.commands.common_verdict import SelectedJob
from iotop_ai.cli.cut_off import warn_of_truncation
from iotop_ai.cli.options.common import settings_of
from iotop_ai.cli.prompt import Progress
from iotop_ai.cli.stdout import print_lines
from iotop_ai.diagnosis.verdict.totals import time_of_jobs
from iotop_ai.export.atomic_file import OutFile
from iotop_ai.export.report.builder import StoryBuilder
from iotop_ai.export.report.story import Story
from iotop_ai.model.clean import clean
from iotop_ai.model.condition.grammar import Condition
from iotop_ai.model.condition.over_run import ConditionOverRun
from iotop_ai.model.frame import Frame
from iotop_ai.playback.run_reader import JudgedSpan, RatedSnapshot, RunItem, RunReader
from iotop_ai.playback.selection import RecordedFrames, corrupt_input_as_error
from iotop_ai.present.screen.bounds import clamp_size

STREAM = "-"
"""The name that stands for standard input as a recording, and for standard output as OUT."""
_SIZE = (100, 45)
"""The columns and lines of an output that is not a terminal."""
_LEAST_JOB_S = 5.0
"""Only a job that was watched for longer than this, in seconds, counts as another job beside the recorded command's."""


def add_reading_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that set how a run is read and how its page is written."""
    parser.add_argument(
        "--every",
        action="store_true",
        help="read every interval of a long run (slower; default: one per minute or fewer)",
    )
    parser.add_argument("--ascii", action="store_true", default=argparse.SUPPRESS, help="ASCII only")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT")


def add_html_flag(form: argparse._MutuallyExclusiveGroup) -> None:
    """Add the flag --html."""
    form.add_argument("--html", metavar="OUT", help="write one self-contained HTML file; - is standard output")


def text_layout(args: argparse.Namespace) -> tuple[int, bool]:
    """Return the width of standard output in columns, and whether it accepts only ASCII."""
    plain = settings_of(args).ascii_only or not (sys.stdout.encoding or "").lower().startswith("utf")
    width, _ = clamp_size(*shutil.get_terminal_size(_SIZE))
    return width, plain


class HtmlOut:
    """Writes the HTML page to the file that --html names, or the page, text or JSON to standard output.

    The file appears only when it is complete. Without --force, an existing file is refused before the recording is
    read, because reading may take a long time.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        to_file = args.html not in (None, STREAM)
        self._file = OutFile(args.html, force=args.force) if to_file else None

    def put(self, text: str) -> None:
        """Write the page, text or JSON."""
        if self._file is None:
            print_lines([text])
            return
        with self._file.stream() as out:
            out.write(f"{text}\n".encode())
        self._file.commit()

    def __enter__(self) -> HtmlOut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.__exit__(kind, error, trace)


def judged_story(
    file: str, args: argparse.Namespace, conditions: list[Condition], pid: int = 0
) -> tuple[Story, StoryBuilder]:
    """Return the Story of a file and the builder that made it.

    The Story is judged for the job that has the process ``pid``. Without ``pid`` it is judged for the recorded
    command's job, or else for the leading job; for a stream, which can be read only once, for the leading job.

    args: the flags of ``add_replay_flags`` and ``add_reading_flags``, except the file.
    """
    story, builder = _read(file, args, conditions, pid)
    main = story.main_job
    others = [job for job in story.jobs if job is not main and job.counts.whole_ms > _LEAST_JOB_S * 1000]
    if not pid and main is not None and main.is_recorded_command and others and file != STREAM:
        # The verdict may be about another job of the machine, so the file is read again for the command's job.
        return _read(file, args, conditions, main.pid, is_second_read=True)
    return story, builder


def _read(
    file: str, args: argparse.Namespace, conditions: list[Condition], pid: int, *, is_second_read: bool = False
) -> tuple[Story, StoryBuilder]:
    """Read the file for the job with the process ``pid``. is_second_read: whether the warnings are printed already."""
    conditions_over_run = tuple(ConditionOverRun(condition) for condition in conditions)
    job = SelectedJob(pid)
    with corrupt_input_as_error(file), Progress(after_s=1.0) as show:
        recorded = RecordedFrames(file, args.begin, args.end, allow_root=args.allow_root)
        if not is_second_read:
            warn_of_truncation(recorded)
        folded = job.is_given or any(condition.needs_frames for condition in conditions_over_run)
        reader = RunReader(recorded, every=True if args.every else None, folded=folded)
        builder = StoryBuilder(*_span(recorded), conditions_over_run)
        for item in _items(reader, job):
            builder.add(item)
            if not isinstance(item, JudgedSpan):
                show(f"reading {recorded.progress(item.snapshot.wall_ns)}")
        job.check()
        story = builder.story(clean(os.path.basename(file)), recorded.about(), reader.spacing_s, job.top_pid)
    return story, builder


def _items(reader: RunReader, job: SelectedJob) -> Iterator[RunItem]:
    """Yield the items.

    With --job, a Frame without that job and without findings about it is replaced by its figures and its jobs' time.
    """
    for item in reader:
        if not isinstance(item, Frame) or not job.is_given:
            yield item
            continue
        about_job = job.frame_about_job(job.judge(item))
        if about_job is not None:
            yield about_job
        else:
            yield RatedSnapshot(item.snapshot, item.sample)
            yield JudgedSpan(time_of_jobs(item), end_ns=item.snapshot.wall_ns)


def _span(recorded: RecordedFrames) -> tuple[int | None, int | None]:
    """Return the begin and the end of the selected part.

    The begin is None without --begin. The end is None for a stream without --end.
    """
    if recorded.source.is_stream:
        return recorded.begin_ns, recorded.end_ns
    first_ns, last_ns = recorded.source.span()
    begin_ns = None if recorded.begin_ns is None else max(first_ns, recorded.begin_ns)
    return begin_ns, last_ns if recorded.end_ns is None else min(last_ns, recorded.end_ns)
