"""The screen of one process, over the whole terminal."""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.reading import Status
from iotop_ai.present.process.screen import ProcessPage, most_process_scroll, next_process, process_screen_rows
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.text.line import Line
from iotop_ai.tui.bindings import PROCESS_KEYS
from iotop_ai.tui.dialogs.base import Backdrop
from iotop_ai.tui.screens.detail import PAGE_OVERLAP, ScrolledScreen
from iotop_ai.tui.screens.main.machine_actions import MachineActions
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.time_actions import TimeActions
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.threads.process_detail import CodeRead, DetailRead, DetailThreads

READ_EVERY_NS = 1_000_000_000
"""The shortest time between two readings of the process."""
READ_WHOLE_EVERY_NS = 10_000_000_000
"""The shortest time between two readings of the parts that rarely change."""


class ProcessDetailScreen(ScrolledScreen):
    """The screen of one process. key: the process that it shows."""

    BINDINGS = PROCESS_KEYS
    ACTIONS = SCREENS["process"]
    screen_name = "process"

    def __init__(
        self, state: MainState, time: TimeActions, machine: MachineActions, theme_styles: ThemeStyles, key: ProcessKey
    ) -> None:
        super().__init__(state, time, theme_styles, "process-detail")
        self._machine = machine
        self._clock = Clock()
        self._threads: DetailThreads | None = None
        self._asked_ns = self._asked_whole_ns = self._answered_ns = 0
        self._sampled_key: ProcessKey | None = None
        """The process that py-spy is sampling, which may differ from the process of the page."""
        self.page = ProcessPage(key)

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows of the process."""
        return process_screen_rows(self.state.frame, self.state.view, self._shown_page(), width, height)

    def _shown_page(self) -> ProcessPage:
        """The page as it is shown now; without the details while the process cannot be read."""
        why_unreadable, late_s = self._why_unreadable(), 0.0
        # While another screen is in front, nothing is read, so only a requested reading can be late.
        if not why_unreadable and self._asked_ns > self._answered_ns > 0:
            late_s = (self._clock.monotonic_ns() - self._asked_ns) / 1e9
        detail = None if why_unreadable else self.page.detail
        return self.page._replace(why_unreadable=why_unreadable, late_s=late_s if self._live else 0.0, detail=detail)

    @property
    def _live(self) -> bool:
        return self.state.view.mode == "live"

    def _why_unreadable(self) -> str:
        """Why the process cannot be read; "" if it can."""
        return self.state.view.why_not_live or ("not available in a replay" if self._machine.root is None else "")

    def on_mount(self) -> None:
        """Begin to read the process."""
        self._read()

    def on_unmount(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.close()

    def follow(self) -> None:
        """Draw the newest Frame, and read the process again when a reading is due."""
        self._read()
        super().follow()

    def _read(self) -> None:
        """Read the process, unless the last reading is recent. A part that was never read is read even while paused."""
        root = self._machine.root
        if root is None or self._why_unreadable():
            return
        if self._threads is None:
            self._threads = DetailThreads(root, self.post_message)
        at_ns, key = self._clock.monotonic_ns(), self.page.key
        if self._is_due(self._asked_whole_ns, READ_WHOLE_EVERY_NS) and self._threads.read_whole(key, self._uid()):
            self._asked_whole_ns = at_ns
        if self._is_due(self._asked_ns, READ_EVERY_NS) and self._threads.read(key):
            self._asked_ns = at_ns

    def _is_due(self, asked_ns: int, every_ns: int) -> bool:
        return not asked_ns or (self._live and self._clock.monotonic_ns() - asked_ns >= every_ns)

    def on_detail_read(self, message: DetailRead) -> None:
        """Show the details that were read."""
        new, page = message.detail, self.page
        if new.key != page.key:
            self._read()  # the thread was busy when this screen requested the process that it shows now
            return
        before = page.before
        if page.detail is not None:
            # ``read`` and ``read_whole`` of DetailThreads may run almost at the same time; over so short a time, a CPU
            # share would be inexact.
            if (new.threads.at_ns or 0) - (page.detail.threads.at_ns or 0) >= READ_EVERY_NS // 2:
                before = page.detail.threads
            if new.identity.status is Status.PENDING:
                new = new._replace(identity=page.detail.identity, environ=page.detail.environ)
        self._answered_ns = self._clock.monotonic_ns()
        self.page = page._replace(detail=new, before=before)
        self.draw()

    def action_move(self, rows: int) -> None:
        """Scroll by this many rows, but not past the last page."""
        most = most_process_scroll(self.state.frame, self.state.view, self._shown_page(), *self.app.size)
        self.page = self.page._replace(scroll=max(0, min(most, self.page.scroll + rows)))
        self.draw()

    def action_page(self, pages: int) -> None:
        """Scroll by about half the height of the screen, as its upper rows do not scroll."""
        self.action_move(pages * max(1, self.app.size.height // 2 - PAGE_OVERLAP))

    def action_process(self, step: int) -> None:
        """Show the next or previous process of the list."""
        key = next_process(self.state.frame, self.state.view, self.page.key, step)
        if key is not None and key != self.page.key:
            self.page = ProcessPage(key, sampling=key == self._sampled_key)
            self._answered_ns = self._asked_ns = self._asked_whole_ns = 0
            self._read()
        self.draw()

    def action_code(self) -> None:
        """Begin to find the lines of Python that the process executes."""
        why_unreadable = self._why_unreadable()
        if why_unreadable:
            self.state.change(why_unreadable)
        elif self._threads is not None and self._threads.read_code(self.page.key, self._uid()):
            self._sampled_key = self.page.key
            self.page = self.page._replace(sampling=True, scroll=0)
        elif not self.page.sampling:
            self.state.change("py-spy is still sampling another process")
        self.draw()

    def on_code_read(self, message: CodeRead) -> None:
        """Show the lines of Python."""
        if message.key == self._sampled_key:
            self._sampled_key = None
        if message.key == self.page.key:
            self.page = self.page._replace(code=message.code, sampling=False)
            self.draw()

    def _uid(self) -> int | None:
        table = self.state.newest.snapshot.processes.value
        info = None if table is None else table.info.get(self.page.key)
        return None if info is None else info.uid

    def action_act(self, text: str) -> None:
        """Open the dialog that signals the process or changes its priority. text: the beginning of the command."""
        backdrop = Backdrop(self.state, self._rows_behind, self._theme_styles)
        self.app.push_screen(self._machine.single_process_dialog(self.page.key, text, backdrop))

    def _rows_behind(self) -> list[Line]:
        return self.rows(*self.app.size)
