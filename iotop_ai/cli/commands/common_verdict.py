"""The parts that commands with a verdict share: watching for a while, selecting a job, and the exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from iotop_ai.cli.options.common import add_job_flag
from iotop_ai.cli.options.job import check_job
from iotop_ai.cli.stderr import print_notice
from iotop_ai.diagnosis.engine import with_job_verdict
from iotop_ai.diagnosis.facts.leading_job import job_pid, job_with, without_others
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.finding import Finding, Severity
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.records import Job
from iotop_ai.model.parse import parse_duration_s
from iotop_ai.model.verdict_class import LOSING, State
from iotop_ai.pipeline import frames
from iotop_ai.store.source import Source, stop

WATCH_S = 15.0
"""The default time to watch, in seconds."""
LONGEST_UNSURE_WATCH_S = 60.0
"""The longest time to watch without --duration while measuring, or while the state is UNSURE or STARTING.

Some causes show only after 30 s or more.
"""
SHORTEST_DURATION_S, LONGEST_DURATION_S = 1.0, 86_400.0
"""The limits of --duration, in seconds."""
_UNDECIDED = (State.UNSURE, State.STARTING)


def add_watch_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that set the duration and select the job."""
    parser.add_argument(
        "--duration",
        metavar="SEC",
        type=parse_duration,
        help=f"seconds to watch (default {WATCH_S:g}, up to {LONGEST_UNSURE_WATCH_S:g} while the verdict is unsure)",
    )
    add_job_flag(parser)


def parse_duration(text: str) -> float:
    """Return the seconds to watch, from SHORTEST_DURATION_S to LONGEST_DURATION_S. Raises ArgumentTypeError."""
    try:
        seconds = parse_duration_s(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not SHORTEST_DURATION_S <= seconds <= LONGEST_DURATION_S:
        limits = f"{SHORTEST_DURATION_S:g} s to {LONGEST_DURATION_S / 3600:g} h"
        raise argparse.ArgumentTypeError(f"{text} is outside {limits}")
    return seconds


class SelectedJob:
    """Judges each Frame for the job that --job selects, and reports a job that no Frame contains.

    pid: the pid of any process of the job; 0 selects the leading job.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._job_seen = not pid
        self.top_pid = 0
        """The pid of the job's top process; 0 until a Frame has contained the job."""
        self._jobs_seen: dict[int, str] = {}
        """Every job in the Frames so far, as text, by the pid of its top process."""

    @property
    def is_given(self) -> bool:
        """Whether --job names a job."""
        return bool(self.pid)

    def judge(self, frame: Frame) -> Frame:
        """Return the Frame with the verdict on the selected job.

        With --job, findings about other jobs are left out, unless no finding would remain. Until the job first appears
        in a Frame, the verdict is about the leading job.
        """
        if self.pid:
            selected = self._job_in(frame)
            if selected is not None:
                self._job_seen, self.top_pid = True, selected.key.pid
            table = frame.snapshot.jobs.value
            for job in () if table is None else table.jobs.values():
                self._jobs_seen[job.key.pid] = f"{job.key.pid} ({job.name} of {job.user})"
        return without_others(with_job_verdict(frame, self.top_pid), self.top_pid)

    def frame_about_job(self, judged: Frame) -> Frame | None:
        """Return the part of the Frame that concerns the selected job; None if nothing in it does.

        judged: a Frame that ``judge`` returned. Before the job begins, the result is None. When the job has ended, only
        the findings about it or about no job are left, and the verdict's job stays the selected one.
        """
        if self.is_in(judged):
            return judged
        findings = tuple(finding for finding in judged.verdict.findings if job_pid(finding) in (None, self.top_pid))
        if not self._job_seen or not findings:
            return None
        return judged._replace(verdict=judged.verdict._replace(findings=findings, job_pid=self.top_pid))

    def is_in(self, frame: Frame) -> bool:
        """Whether a Frame contains the job; always True without --job."""
        return not self.pid or self._job_in(frame) is not None

    def _job_in(self, frame: Frame) -> Job | None:
        """Return the job in this Frame; None if it is missing. The process that --job names may end before its job."""
        return job_with(frame.snapshot, self.pid) or job_with(frame.snapshot, self.top_pid)

    def check(self) -> None:
        """Raise UsageError, which lists the jobs seen, when no Frame contained the selected job."""
        if not self._job_seen:
            jobs = ", ".join(self._jobs_seen.values())
            raise UsageError(f"process {self.pid} is not part of a training job; jobs: {jobs or 'none'}")


def watch(
    source: Source, seconds: float | None, job: SelectedJob, on_frame: Callable[[Frame], None] = lambda frame: None
) -> Frame | None:
    """Watch for a while and return the last Frame, or None when there was none.

    Ctrl-C stops early; before the first Frame it raises KeyboardInterrupt. Raises UsageError if the first Frame lacks
    the process that --job names.

    seconds: the time to watch; None watches for WATCH_S, or up to LONGEST_UNSURE_WATCH_S while there is no clear
    verdict. on_frame: called with each judged Frame.
    """
    last: Frame | None = None
    announced = False
    print_status(f"watching {WATCH_S if seconds is None else seconds:g} s ...")
    stream = frames(source)
    try:
        for frame in stream:
            if last is None:
                check_job(frame.snapshot, job.pid)
            last = job.judge(frame)
            on_frame(last)
            watched_s = last.verdict.watched_s
            if watched_s >= (seconds or WATCH_S):
                measuring = last.verdict.measuring  # with a long interval, the first window has not ended yet
                undecided = measuring or last.verdict.state in _UNDECIDED
                if seconds is not None or not undecided or watched_s >= LONGEST_UNSURE_WATCH_S:
                    break
                if not announced:
                    word = "still measuring" if measuring else "unsure"
                    print_status(f"{word} after {watched_s:.0f} s: watching for up to {LONGEST_UNSURE_WATCH_S:g} s")
                announced = True
    except KeyboardInterrupt:
        if last is None:
            raise
    finally:
        stop(source, stream)
    return last


def print_status(text: str) -> None:
    """Print a line to stderr if stderr is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        print_notice(text)


def exit_code_of(finding: Finding | None) -> int:
    """Return 1 for STARVED, BLOCKED, SLOWED, FAILING or WASTED with a severity of warning or above, else 0.

    Raises UnknownError for UNSURE, STARTING and None, so call this function after all output.
    """
    if finding is None:
        raise UnknownError("too short to judge: watch longer, or give a longer part of a recording")
    if finding.state in (*LOSING, State.WASTED):
        return 1 if finding.severity is not Severity.INFO else 0
    if finding.state is State.STARTING:
        raise UnknownError("the job is still starting")
    if finding.state is State.UNSURE:
        raise UnknownError("no clear verdict")
    return 0
