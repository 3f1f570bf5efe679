"""The base class of the apps on a terminal: size limits, the order of keys, the palette, suspension, and signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from _thread import start_new_thread
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import ClassVar

from textual.driver import Driver
from textual.events import Event, Key, Resize
from textual.geometry import Size

from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, blocked_threads, call_with_timeout
from iotop_ai.model.errors import IotopError
from iotop_ai.present.screen.actions import APP_ACTIONS, Action
from iotop_ai.present.screen.bounds import clamp_size
from iotop_ai.present.screen.mouse import key_at
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.theme import text_styles
from iotop_ai.tui.bindings import APP_KEYS, textual_keymap
from iotop_ai.tui.job_control import is_orphaned
from iotop_ai.tui.screens.base import MonitorScreen, RootScreen
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.textual_internals.app_ends import ExceptionKeepingApp, restore_terminal
from iotop_ai.tui.textual_internals.key_order import KeyOrder
from iotop_ai.tui.textual_internals.suspension import suspend_group
from iotop_ai.tui.textual_internals.theme_switch import ANSI_THEMES, switch_textual_theme
from iotop_ai.tui.view_changes import theme_after
from iotop_ai.tui.widgets.lines import PlaceClicked

BLOCKED_CHECK_S = 0.05
"""The pause in seconds between two checks of whether a thread is still blocked."""
END_WAIT_S = 10.0
"""The seconds that an app may take to end after a signal, before it is ended by force."""
SAVE_WAIT_S = 5.0
"""The seconds that closing the recording may take at a forced end; more than SessionRecorder.close may take."""
TITLE = "iotop-ai"
"""The title of a screenshot."""
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class TerminalApp(ExceptionKeepingApp, inherit_bindings=False):
    """The base of an app. A subclass sets ``root``, the screen at the bottom, in its __init__.

    save: writes a screenshot and returns its path; None if files may not be written. After the terminal is restored,
    cli reads ``ended_by`` (the signal that ended the app), ``failure`` (the exception that ended it) and
    ``theme_name``.
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = APP_KEYS
    PICTURE_TITLE: ClassVar[str] = TITLE
    root: RootScreen

    def __init__(
        self,
        view: View,
        theme: str,
        driver_class: type[Driver] | None = None,
        save: Callable[[str], str] | None = None,
    ) -> None:
        ansi = ANSI_THEMES.get(theme)
        super().__init__(driver_class=driver_class, ansi_color=True if ansi else None)
        self._save = save
        self._keys = KeyOrder(self, super().on_event)
        if ansi:
            self.theme = ansi
        if view.keymap:
            self.set_keymap(textual_keymap(view.keymap))
        self.theme_name = theme
        self._theme_background = text_styles(theme)["bg"].bg
        self.signal_before_start: Callable[[], int | None] = lambda: None
        """Returns the ending signal that arrived before the app handled signals; None without one. cli sets this
        function.
        """
        self.shell_commands: tuple[tuple[str, str], ...] = ()
        """The (name, help) of each command of the shell, which the palette also finds. cli sets it."""
        self.ended_by: signal.Signals | None = None
        self._resized = False
        """Whether the initial resize event has been handled."""

    def save_before_forced_end(self) -> None:
        """Save what would be lost when the process is ended by force."""

    def get_default_screen(self) -> RootScreen:
        """The screen at the bottom."""
        return self.root

    def paint_background(self) -> None:
        """Give the app and its root screen the theme's background. Also paint everything again whenever the app
        resumes after Ctrl-Z.
        """
        if self._theme_background:
            self.styles.background = self._theme_background
            self.root.styles.background = self._theme_background
        self.app_resume_signal.subscribe(self, self._repaint)

    @property
    def uses_alt(self) -> bool:
        """Whether the user has bound a key with Alt."""
        return any("alt" in key.split("+")[:-1] for _, keys in self.root.view.keymap for key in keys)

    def on_load(self) -> None:
        """Let signals end the app. Textual calls this before the app takes the terminal."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in ENDING_SIGNALS:
                signal.signal(number, partial(self._handle_ending_signal, loop))
            if (before := self.signal_before_start()) is not None:
                self._end(signal.Signals(before))

    @property
    def size(self) -> Size:
        """The part of the terminal that is painted."""
        return Size(*clamp_size(*super().size))

    async def on_event(self, event: Event) -> None:
        """Limit each new size, which may come from the kernel, a browser or an input sequence; and keep the keys in
        order.
        """
        if isinstance(event, Resize):
            size = Size(*clamp_size(*event.size))
            event.size = event.virtual_size = event.container_size = size
        if isinstance(event, Key) and not event.is_forwarded:
            await self._keys.take(event)
        else:
            await super().on_event(event)

    def on_resize(self) -> None:
        """Paint everything again. A terminal that was smaller for a moment has lost part of its content, even if it is
        back to its old size.
        """
        if self._resized and self.screen_stack:
            self.screen.refresh()
        self._resized = True

    @property
    def _front(self) -> MonitorScreen:
        screen = self.screen_stack[-1] if self.screen_stack else self.root
        return screen if isinstance(screen, MonitorScreen) else self.root

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Do not open the palette on a screen without ACTIONS, or while its key is text that the user types."""
        return action != "palette" or bool(self._front.ACTIONS and not self._front.captures_keys)

    async def action_palette(self) -> None:
        """Open the list of all actions of the screen in front."""
        from iotop_ai.present.screen.palette import entries
        from iotop_ai.tui.screens.palette import PaletteScreen

        front = self._front

        async def run(action: Action) -> None:
            await self.run_action(action.command, self if action in APP_ACTIONS else front)

        view = self.root.view
        actions = entries(front.ACTIONS, view.keymap)
        styles, commands = self.root.theme_styles, self.shell_commands
        await self.push_screen(PaletteScreen(actions, styles, run, ascii_only=view.ascii_only, commands=commands))

    async def action_suspend_process(self) -> None:  # type: ignore[override]  # Textual awaits what is awaitable
        """Give the terminal to the shell. Refused without a shell, and while a thread of this process is blocked.

        The kernel reports a process as stopped only when all its threads are. A thread that waits for a dead server
        cannot be stopped, so the shell would wait forever.
        """
        if is_orphaned():
            self.root.show_answer("failed: cannot suspend: no shell waits for this program; q quits")
            return
        for _ in range(round(HOME_TIMEOUT_S / BLOCKED_CHECK_S)):
            if not blocked_threads():
                suspend_group(self)
                return
            await asyncio.sleep(BLOCKED_CHECK_S)
        self.root.show_answer("failed: cannot suspend: a thread waits for a filesystem that does not answer; q quits")

    def picture(self) -> str:
        """The SVG of the screen in front."""
        return self.export_screenshot(title=self.PICTURE_TITLE)

    def action_picture(self) -> None:
        """Save a screenshot, and show its path."""
        if self._save is None:
            self.root.show_answer("not available: this screen cannot write files")
            return
        try:
            svg, save = self.picture(), self._save
            self.root.show_answer(f"done: picture in {call_with_timeout(HOME_TIMEOUT_S, 'picture', lambda: save(svg))}")
        except IotopError as error:
            self.root.show_answer(f"failed: {error}")
        except OSError as error:
            self.root.show_answer(f"failed: {error.filename or 'picture'}: {error.strerror}")

    def on_place_clicked(self, event: PlaceClicked) -> None:
        """Press the key that was clicked in the last row."""
        if event.line is event.panel.lines[-1] and (key := key_at(event.line, event.x)):
            self.simulate_key(key)

    def _repaint(self, _app: object) -> None:
        """Paint all rows, because the terminal is empty when the app resumes after Ctrl-Z."""
        self.screen.refresh()

    def _handle_ending_signal(self, loop: asyncio.AbstractEventLoop, number: int, _frame: FrameType | None) -> None:
        """Exit because of this signal.

        Python runs this handler even while the main thread waits for a terminal that takes no output. The event loop
        does not run then.
        """
        if loop.is_closed():  # the app has ended
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        for stop in (signal.SIGTTIN, signal.SIGTTOU):  # after kill %1 the shell has the terminal, and we stay stopped
            signal.signal(stop, signal.SIG_IGN)
        self._limit_end(loop, signal.Signals(number))
        loop.call_soon_threadsafe(self._end, signal.Signals(number))

    def _limit_end(self, loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
        """Note the signal; if the app has not ended after END_WAIT_S, end it by force.

        A thread does this, because a message handler that never returns blocks all later messages, and a terminal that
        takes no output blocks the event loop. ``threading`` would need a lock that the interrupted code may hold.
        """
        first, self.ended_by = self.ended_by is None, number
        if first:
            try:
                start_new_thread(self._end_by_force, (loop, END_WAIT_S))
            except RuntimeError:  # this user has too many threads
                loop.call_soon_threadsafe(lambda: loop.call_later(END_WAIT_S, self._end_by_force, loop))

    def _end(self, number: signal.Signals) -> None:
        """Exit because of this signal."""
        self._limit_end(asyncio.get_running_loop(), number)
        self.exit(return_code=128 + number)

    def _end_by_force(self, loop: asyncio.AbstractEventLoop, wait_s: float = 0.0) -> None:
        """After ``wait_s``, restore the terminal, close the recording, and end the process, unless the app has
        ended.
        """
        time.sleep(wait_s)
        if loop.is_closed():
            return
        assert self.ended_by is not None
        try:
            restore_terminal(self)
            with contextlib.suppress(OSError):
                call_with_timeout(SAVE_WAIT_S, "recording", self.save_before_forced_end)
        finally:
            os._exit(128 + self.ended_by)

    def handle_hangup(self) -> None:
        """End the app, because the terminal was closed. A process in another session gets no SIGHUP from it."""
        if self.ended_by is None:
            self._end(signal.SIGHUP)

    def next_theme(self) -> str:
        """Paint everything in the next theme; returns the theme's name."""
        self.theme_name = theme_after(self.theme_name)
        with self.batch_update():
            switch_textual_theme(self, self.theme_name)
            self.styles.background = self.root.styles.background = text_styles(self.theme_name)["bg"].bg or None
            self.root.use_theme(ThemeStyles(self.theme_name))
        return self.theme_name
