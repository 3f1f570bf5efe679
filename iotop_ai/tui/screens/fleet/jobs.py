"""The screen of the jobs that run on several machines. It shows the machine for which a job's other machines wait."""

from __future__ import annotations

from iotop_ai.present.fleet.jobs_screen import PREFIX, jobs_screen_rows, selected_job
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.text.line import Line
from iotop_ai.tui.bindings import FLEET_JOBS_KEYS
from iotop_ai.tui.screens.base import LiveScreen
from iotop_ai.tui.screens.fleet.state import FleetState
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.widgets.lines import RowClicked, Wheeled

_PAGE = 10
"""The number of jobs that the page keys move by."""


class FleetJobsScreen(LiveScreen):
    """The jobs of the fleet, drawn again after each refresh."""

    BINDINGS = FLEET_JOBS_KEYS
    ACTIONS = SCREENS["fleet_jobs"]

    def __init__(self, state: FleetState, theme_styles: ThemeStyles) -> None:
        super().__init__(theme_styles, "fleet_jobs")
        self.state = state
        self._theme_styles = theme_styles

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows of all jobs."""
        return jobs_screen_rows(self.state.fleet, self.state.fleet_view, width, height)

    def _mark(self, key: str) -> None:
        self.state.fleet_view = self.state.fleet_view._replace(job=key)
        self.draw()

    def on_row_clicked(self, event: RowClicked) -> None:
        """Mark the job whose row was clicked."""
        event.stop()
        self._mark(event.key.removeprefix(PREFIX))

    def on_wheeled(self, event: Wheeled) -> None:
        """Move as the arrow keys do."""
        event.stop()
        self.action_move(event.step)

    def action_move(self, step: int) -> None:
        """Mark the job this many rows below, but do not go past the first or the last."""
        jobs = self.state.fleet.jobs if self.state.fleet is not None else ()
        if jobs:
            at = selected_job(jobs, self.state.fleet_view)
            self._mark(jobs[max(0, min(len(jobs) - 1, at + step))].key)

    def action_page(self, pages: int) -> None:
        """Move by a page."""
        self.action_move(pages * _PAGE)

    def action_pause(self) -> None:
        """Pause the refreshes, or resume them."""
        self.state.pause()

    def action_back(self) -> None:
        """Return to the machines."""
        self.leave()

    def action_help(self) -> None:
        """Open the help page."""
        self.app.push_screen(HelpScreen(self.state.fleet_view.view, self._theme_styles, "fleet_jobs"))
