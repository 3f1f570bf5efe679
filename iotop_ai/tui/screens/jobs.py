"""The screen of all training jobs, over the whole terminal."""

from __future__ import annotations

from iotop_ai.present.job.screen import PREFIX, job_after, job_rows, jobs_screen_rows
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.text.line import Line
from iotop_ai.tui.bindings import JOBS_KEYS
from iotop_ai.tui.screens.detail import DetailScreen
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.time_actions import TimeActions
from iotop_ai.tui.screens.main.verdict_actions import VerdictActions
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.widgets.lines import RowClicked, Wheeled


class JobsScreen(DetailScreen):
    """The screen of all jobs. cursor: the pid of the job whose row is marked."""

    BINDINGS = JOBS_KEYS
    ACTIONS = SCREENS["jobs"]
    screen_name = "jobs"

    def __init__(
        self, state: MainState, time: TimeActions, verdict: VerdictActions, theme_styles: ThemeStyles, cursor: int
    ) -> None:
        super().__init__(state, time, theme_styles, "jobs")
        self._verdict = verdict
        self.cursor = cursor

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows of all jobs."""
        return jobs_screen_rows(self.state.frame, self.state.view, width, height, self.cursor)

    def _pids(self) -> list[int]:
        return [row.pid for row in job_rows(self.state.frame, self.state.view)]

    def on_row_clicked(self, event: RowClicked) -> None:
        """Mark the job whose row was clicked; choose it if it was marked already."""
        event.stop()
        if event.key.startswith(PREFIX):
            pid = int(event.key.removeprefix(PREFIX))
            if pid == self.cursor:
                self.action_choose()
            else:
                self.cursor = pid
                self.draw()

    def on_wheeled(self, event: Wheeled) -> None:
        """Move as the arrow keys do."""
        event.stop()
        self.action_move(event.step)

    def action_move(self, step: int) -> None:
        """Mark another job, but do not go past the first or the last."""
        pids = self._pids()
        if pids:
            at = pids.index(self.cursor) if self.cursor in pids else 0
            self.cursor = pids[max(0, min(len(pids) - 1, at + step))]
        self.draw()

    def action_next(self) -> None:
        """Mark the next job; after the last, the first."""
        self.cursor = job_after(self.state.frame, self.state.view, self.cursor, 1) or self.cursor
        self.draw()

    def action_choose(self) -> None:
        """Choose the marked job for the verdict, and return to the main screen."""
        pids = self._pids()
        if self.is_current:
            self.app.pop_screen()
            if pids:
                self._verdict.choose_job(self.cursor if self.cursor in pids else pids[0])
