"""What ``why`` and ``diagnose`` share: the watching, the job that is meant, and the exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

from iotop_ai.cli.batch import stop
from iotop_ai.cli.options import add_job_flag
from iotop_ai.diagnosis.engine import turned
from iotop_ai.diagnosis.which_job import job_with
from iotop_ai.model.errors import UnknownError, UsageError
from iotop_ai.model.finding import LOSING, Finding, Severity, State
from iotop_ai.model.frame import Frame
from iotop_ai.model.parse import parse_duration_s
from iotop_ai.pipeline import frames
from iotop_ai.store.recording import Source

WATCH_S = 15.0
LONGEST_S = 60.0
"""Some causes show themselves only over half a minute or more: so long it goes on when nothing is sure."""
LEAST_S, MOST_S = 1.0, 86_400.0
_OPEN = (State.UNSURE, State.STARTING)


def add_watch_flags(parser: argparse.ArgumentParser) -> None:
    """How long, and which job."""
    parser.add_argument(
        "--duration",
        metavar="SEC",
        type=duration,
        help=f"watch so long (default {WATCH_S:g}, and up to {LONGEST_S:g} while nothing is sure)",
    )
    add_job_flag(parser)


def duration(text: str) -> float:
    """Seconds to watch, LEAST_S to MOST_S. Raises ArgumentTypeError."""
    try:
        seconds = parse_duration_s(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not LEAST_S <= seconds <= MOST_S:
        raise argparse.ArgumentTypeError(f"{text} is outside {LEAST_S:g} s to {MOST_S / 3600:g} h")
    return seconds


class JobSeen:
    """Turns each Frame to one job and remembers whether there ever was such a job."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._found = not pid
        self._others: dict[int, str] = {}

    @property
    def chosen(self) -> bool:
        """Whether a job was asked for; else it is the one that leads."""
        return bool(self._pid)

    def turned(self, frame: Frame) -> Frame:
        """The Frame with the verdict about the job."""
        if self._pid:
            self._found = self._found or job_with(frame.snapshot, self._pid) is not None
            table = frame.snapshot.jobs.value
            for job in () if table is None else table.jobs.values():
                self._others[job.key.pid] = f"{job.key.pid} ({job.name} of {job.user})"
        return turned(frame, self._pid)

    def check(self) -> None:
        """Raises UsageError when there was no such job, naming those that there were."""
        if not self._found:
            others = ", ".join(self._others.values())
            raise UsageError(f"process {self._pid} belongs to no training job; seen: {others or 'none'}")


def watched(
    source: Source, seconds: float | None, job: JobSeen, seen: Callable[[Frame], None] = lambda frame: None
) -> Frame | None:
    """Watch for so long; the last Frame, None when there was none. Ctrl-C ends the watching early.

    seconds: None is WATCH_S, and on to LONGEST_S for as long as nothing is sure. seen: gets every Frame.
    """
    last: Frame | None = None
    told = False
    say(f"watching {WATCH_S if seconds is None else seconds:g} s ...")
    stream = frames(source)
    try:
        for frame in stream:
            last = job.turned(frame)
            seen(last)
            passed = last.verdict.watched_s
            if passed >= (seconds or WATCH_S):
                unsure = last.verdict.state in _OPEN and not last.verdict.measuring
                if seconds is not None or not unsure or passed >= LONGEST_S:
                    break
                if not told:
                    say(f"not sure after {passed:.0f} s: some causes need longer; going on, {LONGEST_S:g} s at most")
                told = True
    except KeyboardInterrupt:
        if last is None:
            raise
    finally:
        stop(source, stream)
    return last


def say(text: str) -> None:
    """A word on stderr where somebody waits at a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def ended(finding: Finding | None) -> int:
    """1 for STARVED, BLOCKED or SLOWED of warning or above, 0 for what is fine.

    Raises UnknownError, after all has been printed, for UNSURE, STARTING and nothing at all.
    """
    if finding is None:
        raise UnknownError("too short to judge: watch longer (--duration)")
    if finding.state in LOSING:
        return 1 if finding.severity is not Severity.INFO else 0
    if finding.state is State.STARTING:
        raise UnknownError("the job is still starting")
    if finding.state is State.UNSURE:
        raise UnknownError("the cause is not seen")
    return 0


def lines_out(lines: Iterator[str] | list[str]) -> None:
    """Print whole before an exit code is raised."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
