"""The keys about the verdict: which job, why, every job, copy it, take note of it.

A part of the main screen of its own file. The Frame that is shown has its verdict about the chosen job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from iotop_ai.collectors.acknowledged import Acknowledged
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.state_folder import state_folder
from iotop_ai.diagnosis.acknowledge import LASTING, identity, value_of
from iotop_ai.diagnosis.engine import turned
from iotop_ai.diagnosis.which_job import job_with
from iotop_ai.model.frame import Frame
from iotop_ai.present.jobs_screen import job_after
from iotop_ai.present.paste import verdict_block
from iotop_ai.tui.clipboard import copied
from iotop_ai.tui.screens.acting import Acting

LOOKED_AT_S = 10.0
"""A young process is looked at a few times until it is known whether it trains."""
NOTHING_LASTS = "failed: only what never clears by itself is acknowledged: a failing disk or GPU"


class Answered(Message):
    """What came of a copy or an acknowledgement."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class Answers(Acting):
    """What the main screen needs to speak of its verdict."""

    _whole: Frame
    """The Frame as it came, its verdict about the job that it chose by itself."""
    _turned: Frame
    _followed = ("", 0)
    """Name and a process of the chosen job, since it was seen."""
    _missed = 0
    """A process of which it was said that it belongs to no job."""

    if not TYPE_CHECKING:  # to the type checker it is the attribute that Moments declares

        @property
        def frame(self) -> Frame:
            """The Frame on the screen, with its verdict about the chosen job."""
            return self._turned

        @frame.setter
        def frame(self, frame: Frame) -> None:
            self._whole = frame
            self._turned = turned(frame, self.view.job)
            job = job_with(frame.snapshot, self.view.job) if self.view.job else None
            if job is not None:
                self._followed = (job.name, self.view.job)

    def choose_job(self, pid: int) -> None:
        """Let the verdict be about this job; 0: as it chooses by itself."""
        self.view = self.view._replace(job=pid)
        self.frame = self._whole
        job = job_with(self.frame.snapshot, pid) if pid else None
        self.change("done: the job that loses most" if job is None else f"done: {job.name} of {job.user}, pid {pid}")

    def watch_job(self) -> None:
        """Say once that the chosen job has ended, which gives the verdict free, or that there is none such."""
        pid, frame = self.view.job, self._whole
        if not pid or frame.snapshot.jobs.value is None or job_with(frame.snapshot, pid) is not None:
            return
        if self._followed[1] == pid:
            name, self._followed = self._followed[0], ("", 0)
            self.view = self.view._replace(job=0)
            self.frame = frame
            self.change(f"done: {name}, pid {pid}, is over; j turns to the next job")
        elif self._missed != pid and frame.verdict.watched_s >= LOOKED_AT_S:
            self._missed = pid
            self.change(f"failed: process {pid} belongs to no training job")

    def action_job(self, step: int) -> None:
        """The next job."""
        now = self.frame.verdict.job_pid or 0
        following = job_after(self.frame, self.view, now, step)
        if not following:
            self.change("failed: no training job seen")
        elif following == now:
            self.change("done: it is the only job")
        else:
            self.choose_job(following)

    def action_jobs(self) -> None:
        """Every job."""
        from iotop_ai.tui.screens.jobs import JobsScreen

        self.app.push_screen(JobsScreen(self, self._book, self.frame.verdict.job_pid or 0))

    def action_why(self) -> None:
        """The verdict's reasoning."""
        from iotop_ai.tui.screens.reasoning import ReasoningScreen

        self.app.push_screen(ReasoningScreen(self, self._book))

    def clicked(self, panel: str) -> bool:
        """Whether a click on a panel opens something: the banner its reasons, the path the jobs."""
        opens = {"banner": self.action_why, "path": self.action_jobs}.get(panel)
        if opens is not None:
            opens()
        return opens is not None

    def action_copy(self) -> None:
        """Copy what ``iotop-ai why`` prints."""
        text = "".join(f"{line}\n" for line in verdict_block(self.frame, self.view))
        app = self.app

        def send(text: str) -> None:
            app.call_from_thread(app.copy_to_clipboard, text)

        self.work("copy", lambda: Answered(copied(text, send)))

    def action_acknowledge(self) -> None:
        """Take note of the first finding that never clears by itself."""
        found = next((one for one in self.frame.verdict.findings if one.class_id in LASTING), None)
        why = self.why_no_action()
        if found is None or why:
            self.change(f"failed: {why}" if found is not None else NOTHING_LASTS)
            return
        name, value = identity(found, self.frame.snapshot), value_of(found)
        self.work("acknowledge", lambda: Answered(_acknowledged(name, value)))

    def on_answered(self, message: Answered) -> None:
        """Say it."""
        self.change(message.text)


def _acknowledged(name: str, value: str) -> str:
    kept = Acknowledged(state_folder())
    try:
        kept.add(name, value, Clock().wall_ns() // 10**9)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        return f"failed: {kept.path}: {what}"
    return f"done: {name} is silent until it gets worse"
