"""The main screen, which stacks its panels and hands the keys to controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.events import DescendantFocus, Key, Paste, ScreenResume
from textual.timer import Timer

from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Status
from iotop_ai.present.gpu.groups import gpus, selected_gpu
from iotop_ai.present.process.groups import selected_group
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.screen.layout import ZOOMABLE, Slot, listed_rows, plan, tall_enough
from iotop_ai.present.screen.mouse import sort_at
from iotop_ai.present.screen.palette import Entry, Wording
from iotop_ai.present.screen.selection import selectable, selected_device_name
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.line import DISK_PREFIX, Line, fill_rows
from iotop_ai.store.source import Source
from iotop_ai.tui.bindings import MAIN_KEYS
from iotop_ai.tui.dialogs.base import Backdrop, DialogScreen
from iotop_ai.tui.screens.base import RootScreen
from iotop_ai.tui.screens.main.list_actions import ListActions
from iotop_ai.tui.screens.main.live_updates import LiveUpdates
from iotop_ai.tui.screens.main.machine_actions import MachineActions, choose_first_text
from iotop_ai.tui.screens.main.panel import UNFOCUSABLE, FramePanel, make_panels
from iotop_ai.tui.screens.main.recording_actions import RecordingActions, RecordingResult
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.tag_actions import TagActions
from iotop_ai.tui.screens.main.time_actions import PAGE_S, TimeActions
from iotop_ai.tui.screens.main.verdict_actions import VerdictActions
from iotop_ai.tui.screens.palette import PaletteScreen, TakeAction
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.threads.actions import ActionResult, ActionThreads
from iotop_ai.tui.threads.doctor import ProblemsFound
from iotop_ai.tui.view_changes import TO_THE_END, view_after_move
from iotop_ai.tui.widgets.lines import PlaceClicked, RowClicked, Wheeled

if TYPE_CHECKING:
    from iotop_ai.playback.session_recording import SessionRecorder
    from iotop_ai.tui.threads.playback import PlaybackThread

MESSAGE_S = 4.0
"""The seconds for which a message is shown."""
GPU_PREFIX = "gpu:"


class MainScreen(RootScreen):
    """Draws its state, and hands the keys to the controllers that change the state.

    look_back: makes a PlaybackThread over the last hour, or returns None while too little of it is kept. next_theme:
    switches the app to the next theme and returns its name.
    """

    BINDINGS = MAIN_KEYS
    ACTIONS = SCREENS["main"]
    AUTO_FOCUS = "#banner"
    DEFAULT_CSS = "MainScreen { overflow: hidden; }"

    def __init__(
        self,
        frame: Frame,
        view: View,
        source: Source,
        theme_styles: ThemeStyles,
        session_recorder: SessionRecorder | None,
        look_back: Callable[[], PlaybackThread | None],
        next_theme: Callable[[], str],
    ) -> None:
        super().__init__()
        self.theme_styles = theme_styles
        self.panels = make_panels(theme_styles)
        self._source = source
        self._next_theme = next_theme
        self._slots: tuple[Slot, ...] = ()
        self._titles_before: frozenset[str] | None = None
        """The panels with only a title at the time when ``can_focus`` of the panels was last set."""
        self._message_timer: Timer | None = None
        self._dialog: DialogScreen | None = None
        self.state = state = MainState(frame, view, self)
        self.action_threads = threads = ActionThreads(source, self.post_message)
        self.recording = RecordingActions(state, source, session_recorder, self.post_message)
        self.time = TimeActions(state, source, self.recording, look_back)
        self.lists = ListActions(state, self._open_list)
        self.machine = MachineActions(
            state, source, threads, self._backdrop, self._open_dialog, post_message=self.post_message
        )
        self.verdict = VerdictActions(state, threads, self.machine.why_not, self._osc52)
        self.tags = TagActions(state, threads, self.action_cursor, lambda name: self.panels[name].lines, self._osc52)
        self.live = LiveUpdates(state, source, self.recording, self.verdict)
        self._connect_actions()

    def _connect_actions(self) -> None:
        """Give each action of BINDINGS its method, which Textual finds by the name ``action_*``."""
        time, lists, tags, verdict, machine = self.time, self.lists, self.tags, self.verdict, self.machine
        self.action_step, self.action_leap, self.action_pause = time.step, time.leap, time.pause
        self.action_interval, self.action_verdict = time.change_interval, time.go_to_verdict_change
        self.action_mark, self.action_ask_time = time.ask_mark, time.ask_time
        self.action_accumulate, self.action_record = time.accumulate, self.recording.record
        self.action_devices, self.action_device = lists.open_device_list, lists.step_device
        self.action_panel, self.action_find = lists.toggle_panel, lists.find
        self.action_sort_list, self.action_sort, self.action_reverse = lists.open_sort_list, lists.sort, lists.reverse
        self.action_columns, self.action_tree = lists.open_column_list, lists.toggle_tree
        self.action_only_active, self.action_units = lists.toggle_only_active, lists.switch_units
        self.action_tag, self.action_untag, self.action_copy_row = tags.tag, tags.untag, tags.copy_row
        self.action_job, self.action_copy = verdict.step_job, verdict.copy
        self.action_acknowledge, self.action_dismiss_problems = verdict.acknowledge, machine.dismiss
        self.action_drop_caches, self.action_process = machine.open_drop_dialog, machine.open_process_dialog
        self.action_delay_accounting, self.action_check = machine.open_delay_dialog, machine.open_check_dialog

    @property
    def view(self) -> View:
        """The user's choices of what is shown and how."""
        return self.state.view

    @property
    def frame(self) -> Frame:
        """The Frame on the screen."""
        return self.state.frame

    @property
    def newest(self) -> Frame:
        """The Frame that was received last."""
        return self.state.newest

    @property
    def captures_keys(self) -> bool:
        """Whether the user is typing a filter, a time or a mark."""
        return self.view.typing or self.view.time_input is not None or self.view.mark_input is not None

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        return self.app.size.width

    @property
    def _in_front(self) -> bool:
        # Screen.is_current is also true for the screen directly below the one in front.
        return not self.is_attached or self.app.screen is self

    def use_theme(self, theme_styles: ThemeStyles) -> None:
        """Paint all panels in another theme."""
        self.theme_styles = theme_styles
        for panel in self.panels.values():
            panel.use_theme(theme_styles)

    def show_answer(self, text: str) -> None:
        """Show the answer to a key on the screen in front."""
        self.state.change(text)
        self.update_front()

    def compose(self) -> ComposeResult:
        """Compose all panels. They are filled before they are mounted, so that the first paint is complete."""
        self.redraw()
        yield from self.panels.values()

    def check_staleness(self) -> None:
        """Show since when no new readings arrive, if they are late. A timer calls this method."""
        if self.live.check_staleness():
            self.redraw_if_in_front()
            self.update_front()

    def redraw_if_in_front(self) -> None:
        """Draw the Frame again, unless another screen covers this one."""
        if self._in_front:
            self.redraw()

    def redraw(self) -> None:
        """Draw the Frame again. Panels move only when the layout changes, and only the rows that changed are
        painted.
        """
        self.tags.forget_ended()
        self.lists.follow_job_device()
        width, height = self.app.size
        if tall_enough(height) and (listed := listed_rows(self.frame, self.view)) != self.view.listed:
            self.state.update(listed=listed)
        slots = plan(width, height, self.frame, self.view)
        self._update_can_focus()
        if slots != self._slots:
            with self.app.batch_update():
                self._place(slots, height)
                self._draw(width)
        else:
            self._draw(width)

    def _draw(self, width: int) -> None:
        for slot in self._slots:
            self.panels[slot.panel].draw(self.frame, self.view, width, slot.height)

    def _update_can_focus(self) -> None:
        """Keep the focus away from panels that show only their title."""
        titles = self.view.hidden if gpus(self.frame, self.view) else self.view.hidden | {"gpu"}
        if titles == self._titles_before:
            return
        self._titles_before = titles
        for name, panel in self.panels.items():
            panel.can_focus = name not in UNFOCUSABLE and name not in titles
            if panel.has_focus and not panel.can_focus:
                self.focus_next()

    def _place(self, slots: tuple[Slot, ...], height: int) -> None:
        """Give each panel its height, which includes the blank rows before the next panel."""
        ends = [slot.y for slot in slots[1:]] + [height]
        heights = {slot.panel: end - slot.y for slot, end in zip(slots, ends, strict=True)}
        for name, panel in self.panels.items():
            panel.display = name in heights
            if name in heights:
                panel.styles.height = panel.height_on_screen = heights[name]
        self._slots = slots

    def show_change(self, message: str) -> None:
        """Draw the state after a key. ``message`` is removed after a few seconds."""
        if self._message_timer is not None:
            self._message_timer.stop()
            self._message_timer = None
        if message:
            self._message_timer = self.set_timer(MESSAGE_S, self._forget_message)
        self.redraw()
        # A screen over this one shows the message too, and the next Frame may come late.
        if not self._in_front:
            self.update_front()

    def _forget_message(self) -> None:
        self._message_timer = None
        self.state.change()

    def on_resize(self) -> None:
        """Compute the layout for the new size."""
        self.redraw()

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Draw the current Frame after another screen was in front."""
        self.redraw()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Show the focus in the panel's title row."""
        self._follow_focus()

    def _follow_focus(self) -> None:
        """Store in the View which panel has the focus, and clear the cursor. Also called before a key acts, because
        Textual's message about the focus may come after the key.
        """
        panel = self.focused
        if isinstance(panel, FramePanel) and panel.panel_name != self.view.focus:
            self.state.change(self.view.message, focus=panel.panel_name, cursor="", scroll=0)

    def on_row_clicked(self, event: RowClicked) -> None:
        """Put the cursor on the row that was clicked. A device is also selected."""
        event.stop()
        if event.key.startswith(DISK_PREFIX):
            self.lists.choose_device(event.key.removeprefix(DISK_PREFIX), cursor=event.key)
        else:
            self.state.change(cursor=event.key)

    def on_place_clicked(self, event: PlaceClicked) -> None:
        """Open the screen of the banner, of the job's time or of the path; or sort the processes by the title
        clicked.
        """
        if event.panel.id in ("banner", "time", "path"):
            event.stop()
            self._open(event.panel.id)
        elif event.panel is self.panels["process"] and event.y == 0 and (key := sort_at(event.line, event.x)):
            event.stop()
            self.lists.sort_by_title(key)

    def on_wheeled(self, event: Wheeled) -> None:
        """Move the cursor of the panel under the mouse."""
        event.stop()
        if not event.panel.can_focus:
            return
        if not event.panel.has_focus:
            event.panel.focus()
            self.state.change(self.view.message, focus=event.panel.id, cursor="", scroll=0)
        self._move_cursor(event.step)

    async def on_key(self, event: Key) -> None:
        """Handle a key within this call, because a later key could overtake it in Textual's queue.

        While the user types a filter, a time or a mark, all keys belong to that text, including the next keys of the
        same burst.
        """
        if self.view.time_input is not None:
            self.time.type_time(event.key, event.character)
        elif self.view.mark_input is not None:
            self.time.type_mark(event.key, event.character)
        elif self.view.typing:
            self.lists.type_filter(event.key, event.character)
            if event.key == "enter" and self.view.pattern:
                self._to_first_process()
        elif not await self._run_action(event):
            return
        event.stop()
        event.prevent_default()

    async def _run_action(self, event: Key) -> bool:
        """Run the key's action, or pass the key to the open dialog; returns False if the app should handle the key."""
        if self._dialog is not None and self._dialog in self.app.screen_stack:
            self._dialog.press(event)
            return True
        active = self.active_bindings.get(event.key)
        if active is None or active.node is self.app:
            return False
        self._follow_focus()
        await self.app.run_action(active.binding.action, active.node)
        return True

    def on_paste(self, event: Paste) -> None:
        """Insert the first line of a pasted text into the filter being typed. Otherwise, pasted text is ignored."""
        if self.view.typing:
            event.stop()
            self.lists.paste_filter(event.text)

    def on_action_result(self, message: ActionResult) -> None:
        """Show the result of an action."""
        self.state.change(message.answer)

    def on_problems_found(self, message: ProblemsFound) -> None:
        """Show the problems that doctor would find."""
        self.machine.show_problems(message.problems)

    def on_recording_result(self, message: RecordingResult) -> None:
        """Show whether the recording was started or stopped."""
        self.recording.show_result(message)

    def _osc52(self, text: str) -> None:
        """Copy to the terminal's clipboard; may be called from any thread."""
        self.app.call_from_thread(self.app.copy_to_clipboard, text)

    def _backdrop(self) -> Backdrop:
        return Backdrop(self.state, self._current_rows, self.theme_styles)

    def _current_rows(self) -> list[Line]:
        """Draw this screen, and return its rows."""
        width = self.app.size.width
        self._draw(width)
        out: list[Line] = []
        for slot in self._slots:
            panel = self.panels[slot.panel]
            out += fill_rows(panel.lines, width, panel.height_on_screen)
        return out

    def _open_dialog(self, dialog: DialogScreen) -> None:
        self._dialog = dialog
        self.app.push_screen(dialog)

    def _open_list(self, entries: tuple[Entry, ...], take: TakeAction, wording: Wording) -> None:
        ascii_only = self.view.ascii_only
        self.app.push_screen(PaletteScreen(entries, self.theme_styles, take, wording, ascii_only=ascii_only))

    def action_help(self) -> None:
        """Open the help page."""
        from iotop_ai.tui.screens.help import HelpScreen  # a screen is imported when it is first opened

        self.app.push_screen(HelpScreen(self.view, self.theme_styles))

    def action_theme(self) -> None:
        """Switch to the next theme."""
        self.state.change(f"done: theme {self._next_theme()}")

    def action_why(self) -> None:
        """Open the page of reasons for the verdict."""
        from iotop_ai.tui.screens.reasoning import ReasoningScreen

        self.app.push_screen(ReasoningScreen(self.state, self.time, self.verdict, self.theme_styles))

    def action_jobs(self) -> None:
        """Open the list of jobs."""
        from iotop_ai.tui.screens.jobs import JobsScreen

        pid = self.frame.verdict.job_pid or 0
        self.app.push_screen(JobsScreen(self.state, self.time, self.verdict, self.theme_styles, pid))

    def action_gpu(self) -> None:
        """Open the GPU under the cursor, or else the one that the verdict names, or else the first."""
        cursor = self.view.cursor
        marked = cursor.removeprefix(GPU_PREFIX) if cursor.startswith(GPU_PREFIX) else ""
        gpu = selected_gpu(self.frame, self.view, marked)
        if gpu is None:
            missing = (
                "no GPU is read yet" if self.frame.snapshot.gpu.status is Status.PENDING else "no GPU here to show"
            )
            self.state.change(f"{marked} is no longer present" if marked else missing)
        else:
            from iotop_ai.tui.screens.gpu import GpuScreen

            self.app.push_screen(GpuScreen(self.state, self.time, self.theme_styles, gpu.uuid))

    def _open_disk(self) -> None:
        from iotop_ai.tui.screens.device import DeviceScreen

        name = self.view.cursor.removeprefix(DISK_PREFIX) or selected_device_name(self.frame, self.view)
        self.app.push_screen(DeviceScreen(self.state, self.time, self._source, self.machine, self.theme_styles, name))

    def _open_process(self) -> None:
        from iotop_ai.tui.screens.process import ProcessDetailScreen

        group = selected_group(self.frame, self.view)
        if group is not None:
            key = group.keys[0]
            self.app.push_screen(ProcessDetailScreen(self.state, self.time, self.machine, self.theme_styles, key))
        elif self.view.cursor:
            self.state.change(choose_first_text(self.view))

    def action_health(self) -> None:
        """Open the health of all disks."""
        from iotop_ai.tui.screens.health import HealthScreen

        self.app.push_screen(HealthScreen(self.state, self.time, self._source, self.action_threads, self.theme_styles))

    def action_open(self) -> None:
        """Open the screen of the focused panel; a panel without one fills the window."""
        self._open(self.view.focus)

    def _open(self, panel: str) -> None:
        openers = {"banner": self.action_why, "gpu": self.action_gpu, "disk": self._open_disk}
        openers |= {"process": self._open_process, **dict.fromkeys(("time", "path"), self.action_jobs)}
        openers |= dict.fromkeys(("graphs", "system"), self.action_zoom)
        if panel in openers:
            openers[panel]()

    def action_clear(self) -> None:
        """Return to now, or show all panels, or clear the filter: the first of these that applies."""
        if self.time.go_to_now():
            return
        if self.view.zoom:
            self.action_zoom()
        else:
            self.lists.clear_filter()

    def action_zoom(self) -> None:
        """Let a panel fill the window: the focused one if it can show more, else the process panel or another one. If
        a panel fills the window already, show all panels again.
        """
        shown = [name for name in (self.view.focus, "process", *ZOOMABLE) if name not in self.view.hidden]
        panel = next((name for name in shown if name in ZOOMABLE), "")
        if not panel:
            self.state.change("no panel to zoom: all are hidden")
            return
        if not self.view.zoom and panel != self.view.focus:
            self._focus(panel)
        self.lists.toggle_zoom(panel)

    def action_sideways(self, step: int) -> None:
        """If there is a timeline, move by 10 s; otherwise select the previous or next device."""
        if not self.time.skip(step):
            self.lists.step_device(step)

    def action_cursor(self, step: int) -> None:
        """Move the cursor of the focused panel; if the panel has no rows, move the cursor of the process panel.

        End returns from the past to now. If the panel has no rows and there is a timeline, Home and End go to its ends.
        """
        if step == TO_THE_END and self.time.go_to_now():
            return
        if not self._row_keys():
            if abs(step) == TO_THE_END and self.time.seek_end(step):
                return
            self._focus("process")
            step = max(step, 1)
        self._move_cursor(step)

    def action_page(self, pages: int) -> None:
        """Move the cursor by as many rows as the focused panel shows. If the panel has no rows, move by a minute on the
        timeline.
        """
        if self._row_keys() or not self.time.skip(pages, PAGE_S):
            self.action_cursor(pages * max(1, self._visible_row_count()))

    def _row_keys(self) -> tuple[str, ...]:
        """The keys of the focused panel's rows, from top to bottom."""
        height = next((slot.height for slot in self._slots if slot.panel == self.view.focus), 0)
        return selectable(self.frame, self.view, self.view.focus, height)

    def _focus(self, name: str) -> None:
        """Focus this panel, unless it is hidden or does not fit."""
        if name not in self.view.hidden and any(slot.panel == name for slot in self._slots):
            self.panels[name].focus()
            self.state.change(self.view.message, focus=name, cursor="", scroll=0)

    def _to_first_process(self) -> None:
        """Put the cursor on the first process that matches the filter, so that the next Enter opens it."""
        self._focus("process")
        if self.view.focus == "process" and self._row_keys():
            self._move_cursor(1)

    def _move_cursor(self, step: int) -> None:
        enter = DISK_PREFIX + selected_device_name(self.frame, self.view) if self.view.focus == "disk" else ""
        view = view_after_move(self.view, self._row_keys(), step, self._visible_row_count(), enter)
        if view != self.view:
            self.state.change(view.message, cursor=view.cursor, scroll=view.scroll)

    def _visible_row_count(self) -> int:
        """The number of rows of the focused panel that are on the screen and that the cursor can select."""
        panel = self.panels.get(self.view.focus)
        return sum(1 for line in panel.lines if line.key) if panel else 0
