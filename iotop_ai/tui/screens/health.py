"""The screen with the health of all disks: a list, the page of one disk, and the disks' self-tests."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from textual.events import Key, Paste

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.selftest import Target, self_test
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.present.health.detail import most_scroll
from iotop_ai.present.health.screen import health_screen_rows, target_disk
from iotop_ai.present.health.view import (
    Dialog,
    HealthView,
    accepted_words,
    disk_row,
    disk_rows,
    next_disk,
    why_no_test,
    why_test_refused,
    worst_disk,
)
from iotop_ai.present.screen.actions import SCREENS
from iotop_ai.present.text.line import DISK_PREFIX, Line
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.store.source import Source
from iotop_ai.tui.bindings import HEALTH_KEYS
from iotop_ai.tui.dialogs.base import Backdrop
from iotop_ai.tui.dialogs.notice import NoticeScreen
from iotop_ai.tui.screens.detail import PAGE_OVERLAP, TimedScreen
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.time_actions import TimeActions
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.threads.actions import ActionResult, ActionThreads
from iotop_ai.tui.widgets.lines import RowClicked, Wheeled

LONGEST_WORD = 8
"""The largest number of characters that the user can type in the dialog."""
NOW_MODES = ("live", "paused")
"""The modes in which an action is about the machine as it is now."""
SELF_TEST = "self-test"


@runtime_checkable
class SmartRefresher(Protocol):
    """A source that can query SMART on demand, as the live source of this machine can."""

    smartctl: str

    def refresh_smart(self) -> None:
        """Query all disks now, except sleeping ones."""
        ...


class HealthScreen(TimedScreen):
    """The health screen. While the dialog before a self-test is open, the dialog takes all keys.

    state, time: the main screen's state, and its controller of the keys that move through time. threads: the
    threads that run the command of a self-test, even after the user has left the screen. disk: the disk whose page
    opens first; "" for the list.
    """

    BINDINGS = HEALTH_KEYS
    ACTIONS = SCREENS["health"]

    def __init__(
        self,
        state: MainState,
        time: TimeActions,
        source: Source,
        threads: ActionThreads,
        theme_styles: ThemeStyles,
        disk: str = "",
    ) -> None:
        super().__init__(state, time, theme_styles, "health")
        self._source = source
        self._threads = threads
        self._without_list = bool(disk)
        """Whether the screen opened with the page of a disk, so that Esc does not lead to the list."""
        self.health = HealthView(disk=disk, cursor=disk or state.view.device)

    @property
    def captures_keys(self) -> bool:
        """Whether the dialog is open, or the user is typing a time."""
        return self.health.dialog is not None or super().captures_keys

    @property
    def may_act(self) -> bool:
        """Whether self-tests may be started: only live or paused, on this machine, and not read-only."""
        view = self.state.view
        now = view.mode in NOW_MODES and not view.remote and not view.readonly
        return now and self._source.live and isinstance(self._source, SmartRefresher)

    def rows(self, width: int, height: int) -> list[Line]:
        """The rows of the list, or of one disk."""
        may_ask = isinstance(self._source, SmartRefresher) and self.state.view.mode in NOW_MODES
        self.health = self.health._replace(may_test=self.may_act, may_ask=may_ask)
        rows = disk_rows(self.state.frame)
        if rows and not any(row.name == self.health.cursor for row in rows):
            self.health = self.health._replace(cursor=worst_disk(rows))
        return health_screen_rows(self.state.frame, self.state.view, self.health, width, height)

    def show(self, **changes: object) -> None:
        """Change the state of the screen, and draw it."""
        self.health = self.health._replace(**changes)  # type: ignore[arg-type]
        self.draw()

    def show_answer(self, text: str) -> None:
        """Show a short answer to a key."""
        self.state.change(text)
        self.draw()

    def on_row_clicked(self, event: RowClicked) -> None:
        """Open the disk whose row was clicked."""
        event.stop()
        if self.health.dialog is None and event.key.startswith(DISK_PREFIX):
            name = event.key.removeprefix(DISK_PREFIX)
            self.show(disk=name, cursor=name, scroll=0)

    def on_key(self, event: Key) -> None:
        """Pass all keys to the dialog while it is open."""
        dialog = self.health.dialog
        if dialog is None:
            if self.captures_keys:
                return
            active = self.active_bindings.get(event.key)
            if active is not None and active.binding.action == "test":
                # The key is handled here, so that the next keys of the same burst already go to the dialog.
                event.stop()
                event.prevent_default()
                self.action_test()
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.show(dialog=None)
        elif event.key == "enter":
            self._decide(dialog)
        else:
            typed = dialog.typed.after(event.key, event.character, LONGEST_WORD)
            self.show(dialog=dialog._replace(typed=typed, error=""))

    def on_paste(self, event: Paste) -> None:
        """Ignore pasted text, because a confirmation must be typed."""
        event.stop()

    def action_back(self) -> None:
        """Return from a disk to the list if the disk was opened from the list; otherwise to the screen below."""
        if self.health.disk and not self._without_list:
            self.show(disk="", cursor=self.health.disk, scroll=0)
        else:
            self.action_main()

    def action_main(self) -> None:
        """Return to the screen below."""
        self.leave()

    def action_open(self) -> None:
        """Open the page of the disk under the cursor."""
        if not self.health.disk and disk_row(self.state.frame, self.health.cursor) is not None:
            self.show(disk=self.health.cursor, scroll=0)

    def on_wheeled(self, event: Wheeled) -> None:
        """Move as the arrow keys do."""
        event.stop()
        self.action_move(event.step)

    def action_move(self, step: int) -> None:
        """Move the cursor of the list, or scroll the page of a disk."""
        if not self.health.disk:
            rows = disk_rows(self.state.frame)
            self.show(cursor=next_disk(rows, self.health.cursor, step, around=False))
            return
        width, height = self.app.size
        most = most_scroll(self.state.frame, self.state.view, self.health, width, height - 2)
        self.show(scroll=max(0, min(most, self.health.scroll + step)))

    def action_page(self, pages: int) -> None:
        """Move by a page."""
        self.action_move(pages * max(1, self.app.size.height - 5 - PAGE_OVERLAP))

    def action_disk(self, step: int) -> None:
        """Go to the next or previous disk: open its page, or mark it in the list."""
        name = next_disk(disk_rows(self.state.frame), self.health.disk or self.health.cursor, step, around=True)
        self.show(disk=name if self.health.disk else "", cursor=name, scroll=0)

    def action_ask(self) -> None:
        """Query all disks now, except sleeping ones; or say why that is not possible here."""
        if isinstance(self._source, SmartRefresher) and self.health.may_ask:
            self._source.refresh_smart()
            self.show_answer("done: the disks are being queried")
        else:
            self.show_answer(self.state.view.why_not_live or "only on the live screen of the machine itself")

    def action_test(self) -> None:
        """Open the dialog, or a notice that says why a self-test cannot be started."""
        disk = target_disk(self.state.frame, self.health)
        busy = self._threads.running(SELF_TEST)
        why = "an earlier self-test command is still running" if busy else why_no_test(disk, self.health)
        if why or disk is None:  # without a target disk, there is always a reason
            backdrop = Backdrop(self.state, lambda: self.rows(*self.app.size), self._theme_styles)
            self.app.push_screen(NoticeScreen(backdrop, "SELF-TEST", why))
        else:
            self.show(dialog=Dialog(disk.name, identity=disk.identity))

    def _decide(self, dialog: Dialog) -> None:
        """Run the typed command if the dialog offered it."""
        disk = disk_row(self.state.newest, dialog.disk)
        why = why_test_refused(disk, dialog, self.health)
        if why or disk is None or disk.state is None:
            self.show(dialog=None)
            self.show_answer(f"failed: {why}")
            return
        word, words = dialog.typed.text.strip(), accepted_words(disk)
        if word not in words:
            self.show(
                dialog=dialog._replace(typed=TypedText(), error=f"Type {' or '.join(words)}; press Esc to close.")
            )
            return
        self.show(dialog=None)
        identity = disk.identity.completed(dialog.identity)
        self._act(word, Target(disk.name, disk.state.device, disk.state.device_type, identity))

    def _act(self, word: str, target: Target) -> None:
        """Start or abort a self-test on a thread, then query the disks. The screen shows the answer, and the
        recording gets an event.
        """
        source = self._source
        root: Root | None = getattr(source, "root", None)

        def work() -> ActionResult:
            clock = Clock()
            smartctl = source.smartctl if isinstance(source, SmartRefresher) else ""
            outcome = self_test(word, target, smartctl, clock, Audit(clock), root=root)
            if outcome.done and isinstance(source, SmartRefresher):
                source.refresh_smart()
            answer = f"{'done' if outcome.done else 'failed'}: {target.name}: {outcome.full_text}"
            return ActionResult(answer, (f"{target.name}: {outcome.text}",))

        self._threads.run(SELF_TEST, work)

    def action_help(self) -> None:
        """Open the help page."""
        self.app.push_screen(HelpScreen(self.state.view, self._theme_styles, "health"))
