"""The main screen: panels one below the other as the layout plans them, and what each key changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.events import DescendantFocus, Key, Paste, ScreenResume
from textual.timer import Timer

from iotop_ai.model.clean import clean
from iotop_ai.model.frame import Frame
from iotop_ai.model.sample import Sample
from iotop_ai.present.gpu_groups import chosen_gpu
from iotop_ai.present.keymap import SCREENS
from iotop_ai.present.keys import toast
from iotop_ai.present.layout import Slot, plan
from iotop_ai.present.line import DISK_PREFIX
from iotop_ai.present.mouse import sort_at
from iotop_ai.present.select import chosen_device, device_order, selectable
from iotop_ai.present.view import View
from iotop_ai.store.recording import Source
from iotop_ai.tui.bindings import MAIN_KEYS
from iotop_ai.tui.choose import device_after, interval_after, moved, older, sort_after, typed
from iotop_ai.tui.looks import theme_after, use_theme
from iotop_ai.tui.panels import PANELS
from iotop_ai.tui.panels.base import FramePanel
from iotop_ai.tui.screens.lists import Lists
from iotop_ai.tui.widgets.lines import PlaceClicked, RowClicked, Wheeled
from iotop_ai.tui.widgets.styles import Styles

if TYPE_CHECKING:
    from iotop_ai.tui.deck import Deck
    from iotop_ai.tui.keeper import Keeper

MESSAGE_S = 4.0
GPU_PREFIX = "gpu:"
LONGEST_PATTERN = 128
TO_THE_END = 1_000_000
"""The step of the keys Home and End."""


class MainScreen(Lists):
    """Draws the newest Frame as the View says. While paused, and while it looks back, it goes on receiving."""

    BINDINGS = MAIN_KEYS
    ACTS = SCREENS["main"]
    AUTO_FOCUS = "#banner"
    DEFAULT_CSS = "MainScreen { overflow: hidden; }"

    def __init__(
        self,
        frame: Frame,
        view: View,
        source: Source,
        book: Styles,
        keeper: Keeper | None = None,
        look_back: Callable[[], Deck | None] = lambda: None,
    ) -> None:
        super().__init__()
        self.view = view
        self.deck = None
        self.keeper = keeper
        self.look_back = look_back
        self._past: tuple[Sample, ...] = view.past
        self.frame = frame
        """The Frame on the screen."""
        self.newest = frame
        """The Frame received last; differs from ``frame`` while paused."""
        self.panels: dict[str, FramePanel] = {panel.name_of_panel: panel(book) for panel in PANELS}
        self._book = book
        self._source = source
        self._slots: tuple[Slot, ...] = ()
        self._message_timer: Timer | None = None

    @property
    def book(self) -> Styles:
        """The styles of the theme that is shown."""
        return self._book

    @property
    def types(self) -> bool:
        """Whether keys belong to something that is being typed."""
        return self.view.typing or self.view.asking is not None

    def use(self, book: Styles) -> None:
        """Paint everything in another theme."""
        self._book = book
        for shown in self.panels.values():
            shown.use(book)

    def compose(self) -> ComposeResult:
        """All panels, filled before they are mounted, so that the first paint is already the frame."""
        self.redraw()
        yield from self.panels.values()

    def receive(self, frame: Frame) -> None:
        """A newer Frame: drawn at once unless paused, looking back, or hidden behind another screen."""
        self._past = older(self._past, self.newest, frame, keep=2 * self.app.size.width)
        self.newest = frame
        self.watch_recording()
        if self.view.mode == "back":
            self.view = self.view._replace(back_s=self._back_s(self.frame))
        elif self.view.mode == "paused":
            return
        else:
            self.frame = frame
            self.view = self.view._replace(past=self._past)
            self.watch_job()
        # Screen.is_current is also true of the screen below the one in front.
        if not self.is_attached or self.app.screen is self:
            self.redraw()

    def _past_now(self) -> tuple[Sample, ...]:
        return self._past

    def redraw(self) -> None:
        """Draw the Frame again: panels move only when the plan changes, and only changed rows are painted."""
        self.forget_ended()
        if self.view.follow_job:
            self.view = self.view._replace(device=self.device_of_job() or self.view.device)
        width, height = self.app.size
        slots = plan(width, height, self.frame, self.view)
        if slots != self._slots:
            with self.app.batch_update():
                self._place(slots, height)
                self._draw(width)
        else:
            self._draw(width)

    def _draw(self, width: int) -> None:
        answer = toast(self.view, width)
        above_keys = max((slot.y, slot.panel) for slot in self._slots if slot.panel != "keys")[1]
        for slot in self._slots:
            cover = answer if slot.panel == above_keys else None
            self.panels[slot.panel].draw(self.frame, self.view, width, slot.height, cover)

    def _place(self, slots: tuple[Slot, ...], height: int) -> None:
        """Give each panel its height; the blank rows before the next one belong to the panel above them."""
        ends = [slot.y for slot in slots[1:]] + [height]
        heights = {slot.panel: end - slot.y for slot, end in zip(slots, ends, strict=True)}
        for name, panel in self.panels.items():
            panel.display = name in heights
            if name in heights:
                panel.styles.height = panel.height_on_screen = heights[name]
        self._slots = slots

    def change(self, message: str = "", **changes: object) -> None:
        """Change the View and draw it; ``message`` answers the key for a few seconds."""
        self.view = self.view._replace(**{"message": message, **changes})  # type: ignore[arg-type]
        if self._message_timer is not None:
            self._message_timer.stop()
            self._message_timer = None
        if message:
            self._message_timer = self.set_timer(MESSAGE_S, self._forget_message)
        self.redraw()
        # A screen above this one shows the message too, and no frame may come that would make it look.
        front = self.app.screen if self.is_attached else self
        if front is not self and (follow := getattr(front, "follow", None)) is not None:
            follow()

    def _forget_message(self) -> None:
        self._message_timer = None
        self.change()

    def on_resize(self) -> None:
        """Plan anew."""
        self.redraw()

    def on_screen_resume(self, event: ScreenResume) -> None:
        """Catch up with what came while another screen was in front."""
        self.redraw()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """The focused panel's rule and title say so; a new panel starts without a cursor."""
        if isinstance(event.widget, FramePanel) and event.widget.name_of_panel != self.view.focus:
            self.change(self.view.message, focus=event.widget.name_of_panel, cursor="", scroll=0)

    def on_row_clicked(self, event: RowClicked) -> None:
        """A click puts the cursor on the row; on a device it also chooses it."""
        event.stop()
        if event.key.startswith(DISK_PREFIX):
            self._choose(event.key.removeprefix(DISK_PREFIX), cursor=event.key)
        else:
            self.change(cursor=event.key)

    def on_place_clicked(self, event: PlaceClicked) -> None:
        """A click opens the banner or the path; on a title of the processes it sorts, a second one turns the order."""
        if self.clicked(event.panel.id or ""):
            event.stop()
            return
        sort = sort_at(event.line, event.x) if event.panel is self.panels["process"] and event.y == 0 else ""
        if not sort:
            return
        event.stop()
        if sort == self.view.sort:
            self.action_reverse()
        else:
            self.change(f"done: sorted by {sort}", sort=sort, scroll=0)

    def on_wheeled(self, event: Wheeled) -> None:
        """The wheel moves the cursor of the panel under the mouse."""
        event.stop()
        if not event.panel.can_focus:
            return
        if not event.panel.has_focus:
            event.panel.focus()
            self.change(self.view.message, focus=event.panel.id, cursor="", scroll=0)
        self.action_cursor(event.step)

    def on_key(self, event: Key) -> None:
        """While a filter or a time is typed, every key belongs to it, also those of one burst with its first."""
        if self.view.asking is not None:
            event.stop()
            event.prevent_default()
            self.type_time(event.key, event.character)
            return
        if not self.view.typing:
            if self.takes_key(event):
                event.stop()
                event.prevent_default()
                return
            active = self.active_bindings.get(event.key)
            if active is not None and active.binding.action in ("find", "ask_time"):
                event.stop()
                event.prevent_default()
                self.action_find() if active.binding.action == "find" else self.action_ask_time()
            return
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            self.change(typing=False)
        elif event.key == "escape":
            self.change(typing=False, pattern="")
        else:
            self._find(typed(self.view.pattern, event.key, event.character))

    def on_paste(self, event: Paste) -> None:
        """Pasted text goes into the filter, and nowhere else."""
        if self.view.typing:
            event.stop()
            self._find(self.view.pattern + clean(event.text.partition("\n")[0]))

    def _find(self, pattern: str) -> None:
        pattern = pattern[:LONGEST_PATTERN]
        if pattern != self.view.pattern:
            self.change(pattern=pattern, cursor="", scroll=0)

    def action_help(self) -> None:
        """Open the help page."""
        from iotop_ai.tui.screens.help import HelpScreen  # as every screen, when it is first opened

        self.app.push_screen(HelpScreen(self.frame, self.view, self._book))

    def action_theme(self) -> None:
        """Show everything in the next theme."""
        app = self.app
        app.look = theme_after(app.look)  # type: ignore[attr-defined]
        use_theme(app, app.look)  # type: ignore[arg-type, attr-defined]
        self.change(f"done: theme {app.look}")  # type: ignore[attr-defined]

    def action_gpu(self) -> None:
        """Open the GPU under the cursor, else the first."""
        found = chosen_gpu(self.frame, self.view, self.view.cursor.removeprefix(GPU_PREFIX))
        if found is None:
            self.change("failed: no GPU here to show")
        else:
            from iotop_ai.tui.screens.gpu import GpuScreen

            self.app.push_screen(GpuScreen(self, found.uuid, self._book))

    def action_open(self) -> None:
        """Open what has the focus: the verdict's reasoning, the jobs, a GPU's or a disk's screen."""
        if self.view.focus == "banner":
            self.action_why()
        elif self.view.focus == "path":
            self.action_jobs()
        elif self.view.focus == "gpu":
            self.action_gpu()
        elif self.view.focus == "disk":
            from iotop_ai.tui.screens.device import DeviceScreen

            name = self.view.cursor.removeprefix(DISK_PREFIX) or chosen_device(self.frame, self.view)
            self.app.push_screen(DeviceScreen(self, self._source, name, self._book))

    def action_health(self) -> None:
        """Open the health of every disk."""
        from iotop_ai.tui.screens.health import HealthScreen

        self.app.push_screen(HealthScreen(self, self._source, self._book))

    def action_panel(self, panel: str) -> None:
        """Hide or show a panel."""
        hidden = self.view.hidden ^ {panel}
        self.change(f"done: {panel} {'hidden' if panel in hidden else 'shown'}", hidden=hidden)

    def action_device(self, step: int) -> None:
        """Choose the next or previous device."""
        order = device_order(self.frame, self.view)
        name = device_after(order, chosen_device(self.frame, self.view), step)
        if name:
            self._choose(name)

    def _choose(self, name: str, **changes: object) -> None:
        self.change(f"done: {name} chosen", device=name, follow_job=False, **changes)

    def action_find(self) -> None:
        """Begin to type a filter."""
        self.change(typing=True)

    def action_clear(self) -> None:
        """Return to now, or clear the filter."""
        if self.view.mode == "back":
            self.action_now()
        elif self.view.pattern:
            self.change("done: filter cleared", pattern="", cursor="", scroll=0)

    def action_sort(self, step: int) -> None:
        """Sort processes by the next or previous column."""
        sort = sort_after(self.view.sort, step)
        self.change(f"done: sorted by {sort}", sort=sort, scroll=0)

    def action_reverse(self) -> None:
        """Turn the order round."""
        reverse = not self.view.reverse
        self.change(f"done: {'smallest' if reverse else 'largest'} first", reverse=reverse, scroll=0)

    def action_only_active(self) -> None:
        """Show only rows that do something, or all."""
        only = not self.view.only_active
        self.change("done: only active rows" if only else "done: all rows", only_active=only, scroll=0)

    def action_accumulate(self) -> None:
        """Show sums since what is shown, or rates again."""
        if self.view.base is None:
            base = self.frame if self.elsewhere else self.newest
            self.change("done: summed since now", base=base.snapshot)
        else:
            self.change("done: rates per second", base=None)

    def action_pause(self) -> None:
        """Play or stop what is looked at; now: stop drawing, or draw what is newest."""
        if self.deck is not None and self.elsewhere:
            self.deck.toggle()
        elif self.view.mode == "paused":
            self.frame = self.newest
            self.change("done: live", mode="live", past=self._past)
        elif self.view.mode == "live":
            self.change("done: paused, Space goes on", mode="paused")

    def action_interval(self, step: int) -> None:
        """A longer or shorter interval; of what is looked at, a higher or lower speed."""
        if self.deck is not None and self.elsewhere:
            self.deck.faster(step)
            return
        if self.view.remote:
            self.change("failed: the interval is set where the machine is watched")
            return
        seconds = interval_after(self.view.interval_s, step)
        if seconds == self.view.interval_s:
            return
        self._source.set_interval(seconds)
        self.change(f"done: every {seconds:g} s", interval_s=seconds)

    def action_cursor(self, step: int) -> None:
        """Move the cursor of the focused panel; End returns to now, on the time line Home and End go to its ends."""
        if self.view.mode == "back" and step == TO_THE_END:
            self.action_now()
            return
        if self.on_timeline and self.deck is not None and abs(step) == TO_THE_END:
            self.deck.seek(self.deck.span()[step > 0])
            return
        height = next((slot.height for slot in self._slots if slot.panel == self.view.focus), 0)
        keys = selectable(self.frame, self.view, self.view.focus, height)
        enter = DISK_PREFIX + chosen_device(self.frame, self.view) if self.view.focus == "disk" else ""
        view = moved(self.view, keys, step, self._rows_shown(), enter)
        if view != self.view:
            self.change(view.message, cursor=view.cursor, scroll=view.scroll)

    def action_page(self, pages: int) -> None:
        """Move the cursor by what the focused panel shows."""
        self.action_cursor(pages * max(1, self._rows_shown()))

    def _rows_shown(self) -> int:
        panel = self.panels.get(self.view.focus)
        return sum(1 for line in panel.lines if line.key) if panel else 0
