"""The keys about the verdict: choose its job, copy the verdict, acknowledge a finding."""

from __future__ import annotations

from collections.abc import Callable

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.state.acknowledged import Acknowledged
from iotop_ai.collectors.state.folder import state_folder
from iotop_ai.diagnosis.facts.leading_job import job_with
from iotop_ai.diagnosis.verdict.acknowledge import DEATH, first_to_acknowledge, value_of
from iotop_ai.present.job.screen import job_after
from iotop_ai.present.verdict.plain_text import verdict_block
from iotop_ai.tui.clipboard import copy_text
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.threads.actions import ActionResult, ActionThreads

DETECTION_S = 10.0
"""While fewer seconds than this have been watched, the chosen process may still be detected as part of a job, because
detection takes a few samples.
"""
NOTHING_TO_ACKNOWLEDGE = "only a failing disk or GPU, or a job that died, can be acknowledged"


class VerdictActions:
    """The controller of the keys about the verdict.

    why_not: returns why the machine cannot be changed from this screen, or "" if it can. osc52: copies to the
    terminal's clipboard.
    """

    def __init__(
        self, state: MainState, threads: ActionThreads, why_not: Callable[[], str], osc52: Callable[[str], None]
    ) -> None:
        self._state = state
        self._threads = threads
        self._why_not = why_not
        self._osc52 = osc52
        self._pid_without_job = 0
        """The pid for which the screen has already shown that it belongs to no job."""

    def choose_job(self, pid: int) -> None:
        """Choose the job of this process for the verdict. pid: 0 to let the diagnosis choose the job."""
        state = self._state
        state.update(job=pid)
        state.frame = state.received
        job = job_with(state.frame.snapshot, pid) if pid else None
        state.change("done: the job that loses most" if job is None else f"done: {job.name} of {job.user}, pid {pid}")

    def watch_job(self) -> None:
        """If the chosen job has ended, show that, and let the diagnosis choose a job. If the chosen pid belongs to no
        job, show that once.
        """
        state = self._state
        pid, frame = state.view.job, state.received
        if not pid or frame.snapshot.jobs.value is None or job_with(frame.snapshot, pid) is not None:
            return
        name, seen_pid = state.last_seen_job
        if seen_pid == pid:
            state.last_seen_job = ("", 0)
            state.update(job=0)
            state.frame = frame
            state.change(f"done: {name}, pid {pid}, has ended; j chooses the next job")
        elif self._pid_without_job != pid and frame.verdict.watched_s >= DETECTION_S:
            self._pid_without_job = pid
            state.change(f"failed: process {pid} belongs to no training job")

    def step_job(self, step: int) -> None:
        """Choose the next or previous job."""
        state = self._state
        current = state.frame.verdict.job_pid or 0
        following = job_after(state.frame, state.view, current, step)
        if not following:
            ended = dict(state.frame.verdict.primary.args).get("job") or "the job"
            died = state.frame.verdict.primary.class_id == DEATH
            state.change(f"{ended} has ended; no other training job seen" if died else "no training job seen")
        elif following == current:
            state.change("done: it is the only job")
        else:
            self.choose_job(following)

    def copy(self) -> None:
        """Copy the text that ``iotop-ai why`` prints."""
        text = "".join(f"{line}\n" for line in verdict_block(self._state.frame, self._state.view))
        self._threads.run("copy", lambda: ActionResult(copy_text(text, self._osc52)))

    def acknowledge(self) -> None:
        """Acknowledge the first finding that does not clear by itself, or the death of a job."""
        state = self._state
        target = first_to_acknowledge(state.frame.verdict.findings, state.frame.snapshot)
        if target is None:
            state.change(NOTHING_TO_ACKNOWLEDGE)
        elif why := self._why_not():
            state.change(why)
        else:
            finding, name = target
            value, answer = value_of(finding), f"{name} is muted until it gets worse"
            if finding.class_id == DEATH:
                answer = f"the end of {dict(finding.args)['job'] or 'the job'} is acknowledged"
            self._threads.run("acknowledge", lambda: _acknowledge(name, value, answer))


def _acknowledge(name: str, value: str, answer: str) -> ActionResult:
    acknowledged = Acknowledged(state_folder())
    try:
        acknowledged.add(name, value, Clock().wall_ns() // 10**9)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return ActionResult(f"failed: {acknowledged.path}: {reason}")
    return ActionResult(f"done: {answer}")
