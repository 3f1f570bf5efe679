"""Every training job over the whole screen, live."""

from __future__ import annotations

from typing import Any

from iotop_ai.present.jobs_screen import PREFIX, job_after, job_rows, jobs_screen_rows
from iotop_ai.present.keymap import SCREENS
from iotop_ai.present.line import Line
from iotop_ai.tui.bindings import JOBS_KEYS
from iotop_ai.tui.screens.detail import DetailScreen
from iotop_ai.tui.widgets.lines import RowClicked
from iotop_ai.tui.widgets.styles import Styles


class JobsScreen(DetailScreen):
    """Follows the main screen's Frame; keeps which job's row is marked."""

    BINDINGS = JOBS_KEYS
    ACTS = SCREENS["jobs"]
    name_of_screen = "jobs"
    panel_id = "jobs"

    def __init__(self, below: Any, book: Styles, cursor: int) -> None:
        super().__init__(below, book)
        self.cursor = cursor

    def rows(self, width: int, height: int) -> list[Line]:
        """Every job."""
        return jobs_screen_rows(self.below.frame, self.below.view, width, height, self.cursor)

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

    def action_move(self, step: int) -> None:
        """Mark another job; beyond the ends stay at the end."""
        order = [one.pid for one in job_rows(self.below.frame, self.below.view)]
        if order:
            at = order.index(self.cursor) if self.cursor in order else 0
            self.cursor = order[max(0, min(len(order) - 1, at + step))]
        self.follow()

    def action_next(self) -> None:
        """Mark the next job, round the end."""
        self.cursor = job_after(self.below.frame, self.below.view, self.cursor, 1) or self.cursor
        self.follow()

    def action_choose(self) -> None:
        """Let the verdict be about the marked job, and go back."""
        order = [one.pid for one in job_rows(self.below.frame, self.below.view)]
        if self.is_current:
            self.app.pop_screen()
            if order:
                self.below.choose_job(self.cursor if self.cursor in order else order[0])
