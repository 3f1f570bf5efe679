"""Every training job over the whole screen, live."""

from __future__ import annotations

from typing import Protocol

from textual.app import ComposeResult
from textual.screen import Screen

from iotop_ai.model.frame import Frame
from iotop_ai.present.jobs_screen import PREFIX, job_rows, jobs_screen_rows
from iotop_ai.present.view import View
from iotop_ai.tui.bindings import JOBS_KEYS
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.widgets.lines import LinePanel, RowClicked
from iotop_ai.tui.widgets.styles import Styles


class Below(Protocol):
    """The main screen, whose Frame and View this one shows."""

    frame: Frame
    view: View

    def choose_job(self, pid: int) -> None:
        """Let the verdict be about this job."""
        ...


class JobsScreen(Screen[None]):
    """Follows the main screen's Frame; keeps which job's row is marked."""

    BINDINGS = JOBS_KEYS
    DEFAULT_CSS = "JobsScreen { overflow: hidden; } JobsScreen LinePanel { height: 1fr; }"

    def __init__(self, below: Below, book: Styles, cursor: int) -> None:
        super().__init__()
        self.below = below
        self.cursor = cursor
        self._book = book
        self.panel = LinePanel(book, id="jobs")

    def compose(self) -> ComposeResult:
        """One panel."""
        self.follow()
        yield self.panel

    def follow(self) -> None:
        """Draw what the main screen has now; only changed rows are painted."""
        width, height = self.app.size
        self.panel.show(jobs_screen_rows(self.below.frame, self.below.view, width, height, self.cursor))

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self.follow()

    def on_screen_resume(self) -> None:
        """Catch up with what came while the help was in front."""
        self.follow()

    def on_row_clicked(self, event: RowClicked) -> None:
        """A click marks a job; a click on the marked one chooses it."""
        event.stop()
        if event.key.startswith(PREFIX):
            pid = int(event.key.removeprefix(PREFIX))
            if pid == self.cursor:
                self.action_choose()
            else:
                self.cursor = pid
                self.follow()

    def action_back(self) -> None:
        """To the main screen."""
        if self.is_current:  # two keys in one read are two events
            self.app.pop_screen()

    def action_move(self, step: int) -> None:
        """Mark another job; beyond the ends stay at the end."""
        order = [one.pid for one in job_rows(self.below.frame, self.below.view)]
        if order:
            at = order.index(self.cursor) if self.cursor in order else 0
            self.cursor = order[max(0, min(len(order) - 1, at + step))]
        self.follow()

    def action_next(self) -> None:
        """Mark the next job, round the end."""
        order = [one.pid for one in job_rows(self.below.frame, self.below.view)]
        if order:
            at = order.index(self.cursor) if self.cursor in order else -1
            self.cursor = order[(at + 1) % len(order)]
        self.follow()

    def action_choose(self) -> None:
        """Let the verdict be about the marked job, and go back."""
        order = [one.pid for one in job_rows(self.below.frame, self.below.view)]
        if self.is_current:
            self.app.pop_screen()
            if order:
                self.below.choose_job(self.cursor if self.cursor in order else order[0])

    def action_help(self) -> None:
        """The help page."""
        self.app.push_screen(HelpScreen(self.below.frame, self.below.view, self._book))
