"""The Textual app: one main screen that follows a source."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.driver import Driver
from textual.events import Event, Key, Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.with_timeout import HOME_TIMEOUT_S, blocked_threads, call_with_timeout
from iotop_ai.model.errors import InputError, IotopError
from iotop_ai.model.frame import HISTORY_S, Frame
from iotop_ai.present.screen.actions import APP_ACTIONS, Action
from iotop_ai.present.screen.bounds import bounded
from iotop_ai.present.screen.mouse import key_at
from iotop_ai.present.screen.view import View
from iotop_ai.present.text.theme import looks
from iotop_ai.store.source import Source
from iotop_ai.tui.bindings import APP_KEYS, textual_keymap
from iotop_ai.tui.messages import FrameReady, SourceEnded
from iotop_ai.tui.screens.base import MonitorScreen
from iotop_ai.tui.screens.main.screen import MainScreen
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.textual_internals.app_ends import ExceptionKeepingApp, restore_terminal
from iotop_ai.tui.textual_internals.key_order import KeyOrder
from iotop_ai.tui.textual_internals.theme_switch import ANSI_THEMES, switch_textual_theme
from iotop_ai.tui.threads.source import MessageReceiver, SourceThread
from iotop_ai.tui.threads.staleness import CHECK_S
from iotop_ai.tui.view_changes import theme_after
from iotop_ai.tui.widgets.lines import PlaceClicked

if TYPE_CHECKING:
    from iotop_ai.playback.session_recording import SessionRecorder
    from iotop_ai.tui.threads.alerts import AlertsChanged, LiveAlerts
    from iotop_ai.tui.threads.playback import PastSamples, PlaybackFrame, PlaybackThread, TimelineUpdate

STOP_WAIT_S = 0.4
"""Longest wait for actions and readings, together, when the app ends."""
LEAVE_S = 0.8
"""Longest wait when the app ends, with the end of a recording, which gets the rest and at least RECORDING_END_S."""
RECORDING_END_S = 0.3
ALERTS_END_S = 0.2
"""The least wait for deliveries of alerts when the app ends."""
BLOCKED_LOOK_S = 0.05
"""Pause between two looks at whether a thread is still blocked."""
END_WAIT_S = 10.0
"""How long an app may take to end after a signal before it is ended by force."""
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class MonitorApp(ExceptionKeepingApp, inherit_bindings=False):
    """The monitor on the terminal.

    frames: continue after ``first``, which is shown at once. keeper: gets each of them, also the first. make_playback:
    makes the thread that plays a recording instead; ``frames`` is then empty. save: writes a screenshot and returns its
    path; None where nothing may be written. make_alerts: makes a live session's alerts. cli reads ``ended_by`` (the
    signal that ended the app), ``failure`` (the exception that did) and ``look`` (the theme) after the terminal is
    restored.
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = APP_KEYS

    def __init__(
        self,
        first: Frame,
        frames: Iterable[Frame],
        source: Source,
        view: View,
        theme: str,
        driver_class: type[Driver] | None = None,
        keeper: SessionRecorder | None = None,
        make_playback: Callable[[MessageReceiver], PlaybackThread] | None = None,
        save: Callable[[str], str] | None = None,
        make_alerts: Callable[[MessageReceiver], LiveAlerts] | None = None,
    ) -> None:
        ansi = ANSI_THEMES.get(theme)
        super().__init__(driver_class=driver_class, ansi_color=True if ansi else None)
        self._keys = KeyOrder(self, super().on_event)
        if ansi:
            self.theme = ansi
        if view.keymap:
            self.set_keymap(textual_keymap(view.keymap))
        self.look = theme
        self._save = save
        self._ground = looks(theme)["bg"].bg
        self.keeper = keeper
        self.main = MainScreen(first, view, source, ThemeStyles(theme), keeper, self._look_back, self._next_theme)
        if make_playback is not None:
            self.main.time.playback = make_playback(self)
        if keeper is not None:
            keeper.put(first)
        self._alerts = make_alerts(self) if make_alerts is not None else None
        takers = (keeper, self._alerts)
        self.follower = SourceThread(frames, source, self, [one.put for one in takers if one is not None])
        self.signal_before_start: Callable[[], int | None] = lambda: None
        """The ending signal that came before the app handled signals itself. cli sets it."""
        self.ended_by: signal.Signals | None = None
        self.took_s = 0.0
        """How long closing the source and ending the recording took."""
        self._staleness: Timer | None = None
        self._resized = False
        """Whether the initial resize event has been seen."""

    @property
    def uses_alt(self) -> bool:
        """Whether the user has bound a key with Alt."""
        return any("alt" in key.split("+")[:-1] for _, keys in self.main.view.keymap for key in keys)

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return self.main

    def on_load(self) -> None:
        """Let signals end the app, before it takes the terminal."""
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in ENDING_SIGNALS:
                loop.add_signal_handler(number, partial(self._end, number))
            if (before := self.signal_before_start()) is not None:
                self._end(signal.Signals(before))

    def on_mount(self) -> None:
        """Start the thread of the source, or of the recording."""
        if self._ground:
            self.styles.background = self._ground
            self.main.styles.background = self._ground
        self.app_resume_signal.subscribe(self, self._repaint)
        if self.main.time.playback is not None:
            self.main.time.playback.start()
        else:
            self.follower.start()
            if self._alerts is not None:
                self._alerts.start()
            self._staleness = self.set_interval(CHECK_S, self.main.check_staleness)
        if self.main.view.message:  # starts the timer of the message
            self.main.state.change(self.main.view.message)
        self.call_after_refresh(gc.freeze)

    @property
    def size(self) -> Size:
        """The part of the terminal that is painted."""
        return Size(*bounded(*super().size))

    async def on_event(self, event: Event) -> None:
        """Limit every size, which comes from the kernel, a browser, or an input sequence; keep the keys in order."""
        if isinstance(event, Resize):
            size = Size(*bounded(*event.size))
            event.size = event.virtual_size = event.container_size = size
        if isinstance(event, Key) and not event.is_forwarded:
            await self._keys.take(event)
        else:
            await super().on_event(event)

    def on_resize(self) -> None:
        """Paint everything: a terminal that was smaller for a moment has lost its content, even at the same size."""
        if self._resized and self.screen_stack:
            self.screen.refresh()
        self._resized = True

    def on_unmount(self) -> None:
        """Close the source and end the recording, within LEAVE_S."""
        clock = Clock()
        start_ns = clock.monotonic_ns()

        def rest_of(seconds: float) -> float:
            return max(0.0, seconds - (clock.monotonic_ns() - start_ns) / 1e9)

        if self.main.time.playback is not None:
            self.main.time.playback.close(rest_of(STOP_WAIT_S))
        self.main.action_threads.wait(rest_of(STOP_WAIT_S))
        self.follower.stop(rest_of(STOP_WAIT_S))
        if self._alerts is not None:
            self._alerts.close(max(ALERTS_END_S, rest_of(STOP_WAIT_S)))
        if self.keeper is not None:
            self.keeper.close(max(RECORDING_END_S, rest_of(LEAVE_S)))
        self.took_s = (clock.monotonic_ns() - start_ns) / 1e9

    def on_frame_ready(self, message: FrameReady) -> None:
        """Show a new Frame."""
        self.main.live.receive(message.take())
        self.main.update_front()

    def on_playback_frame(self, message: PlaybackFrame) -> None:
        """Show where the playback stands."""
        self.main.time.show_playback(message)
        self.main.update_front()

    def on_past_samples(self, message: PastSamples) -> None:
        """Show older Samples in the graphs."""
        self.main.time.show_past(message.at_ns, message.past)

    def on_timeline_update(self, message: TimelineUpdate) -> None:
        """Show the time line as far as it has been read."""
        self.main.time.show_timeline(message.timeline)

    def on_alerts_changed(self, message: AlertsChanged) -> None:
        """Show the rules that fire, and ring the bell once for each message about new ones."""
        self.main.state.update(firing=message.firing)
        if message.bell:
            self.bell()
        self._answer(message.answer)

    def action_time(self, name: str, *arguments: int) -> None:
        """Run a key of time on a screen above the main one."""
        time = self.main.time
        actions: dict[str, Callable[..., object]] = {
            "step": time.step, "verdict": time.verdict, "mark": time.mark, "now": time.now,
            "record": self.main.recording.record,
        }  # fmt: skip
        actions[name](*arguments)
        self.main.update_front()

    def on_source_ended(self, message: SourceEnded) -> None:
        """End the app if the source failed; else keep the last Frame on the screen."""
        if self._staleness is not None:
            self._staleness.stop()
        if message.error is not None:
            self.failure = message.error
            self.exit(return_code=2)
        elif self.main.view.remote:
            self.main.time.source_ended()

    @property
    def _front(self) -> MonitorScreen:
        screen = self.screen_stack[-1] if self.screen_stack else self.main
        return screen if isinstance(screen, MonitorScreen) else self.main

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keep the palette closed where its key is typed text."""
        return action != "palette" or bool(self._front.ACTIONS and not self._front.captures_keys)

    async def action_palette(self) -> None:
        """List every action of the screen in front."""
        from iotop_ai.present.screen.palette import entries
        from iotop_ai.tui.screens.palette import PaletteScreen

        front = self._front

        async def run(action: Action) -> None:
            await self.run_action(action.command, self if action in APP_ACTIONS else front)

        view = self.main.view
        actions = entries(front.ACTIONS, view.keymap)
        await self.push_screen(PaletteScreen(actions, self.main.theme_styles, run, ascii_only=view.ascii_only))

    async def action_suspend_process(self) -> None:  # type: ignore[override]  # Textual awaits what is awaitable
        """Give the terminal to the shell, unless a thread of ours is blocked.

        The kernel reports a process as stopped when all its threads are, and a thread that waits for a dead server
        cannot be stopped: the shell would wait for ever.
        """
        for _ in range(round(HOME_TIMEOUT_S / BLOCKED_LOOK_S)):
            if not blocked_threads():
                super().action_suspend_process()
                return
            await asyncio.sleep(BLOCKED_LOOK_S)
        self._answer("failed: cannot suspend: a thread waits for a filesystem that does not answer; q quits")

    def action_picture(self) -> None:
        """Save a screenshot, and show its path."""
        if self._save is None:
            self._answer("not available: this screen may not write files")
            return
        from iotop_ai.tui.screenshot import screenshot

        try:
            svg, save = screenshot(self.main), self._save
            self._answer(f"done: picture in {call_with_timeout(HOME_TIMEOUT_S, 'picture', lambda: save(svg))}")
        except IotopError as error:
            self._answer(f"failed: {error}")
        except OSError as error:
            self._answer(f"failed: {error.filename or 'picture'}: {error.strerror}")

    def _answer(self, text: str) -> None:
        self.main.state.change(text)
        self.main.update_front()

    def on_place_clicked(self, event: PlaceClicked) -> None:
        """Press the key that was clicked in the last row."""
        if event.line is event.panel.lines[-1] and (key := key_at(event.line, event.x)):
            self.simulate_key(key)

    def _look_back(self) -> PlaybackThread | None:
        """A playback of the last hour; None while too little of it is kept."""
        from iotop_ai.playback.player import FrameCursor
        from iotop_ai.tui.threads.playback import PlaybackThread

        ring = self.keeper.ring if self.keeper is not None else None
        held = ring.recording() if ring is not None else None
        if held is None:
            return None
        # The ring has dropped the Samples for the history of its first minute.
        whole_ns = held.blocks[0].at_ns + int(HISTORY_S * 1e9) if held.blocks[0].offset > 1 else 0
        try:
            cursor = FrameCursor([held], shown_from_ns=whole_ns)
        except InputError:
            return None
        return PlaybackThread(cursor, self, Clock(), follows=True, slots=lambda: 2 * self.size.width)

    def _repaint(self, _app: object) -> None:
        """Paint every row: after Ctrl-Z and fg the terminal is empty."""
        self.screen.refresh()

    def _end(self, number: signal.Signals) -> None:
        if self.ended_by is None:
            # A handler that never returns blocks every message, also the one that ends the app.
            asyncio.get_running_loop().call_later(END_WAIT_S, self._end_by_force)
        self.ended_by = number
        self.exit(return_code=128 + number)

    def _end_by_force(self) -> None:
        """Give the terminal back, close the recording, and end the process."""
        assert self.ended_by is not None
        restore_terminal(self)
        if self.keeper is not None:
            self.keeper.close()
        os._exit(128 + self.ended_by)

    def hung_up(self) -> None:
        """End the app: the terminal is closed. A process of another session gets no SIGHUP for that."""
        if self.ended_by is None:
            self._end(signal.SIGHUP)

    def _next_theme(self) -> str:
        self.look = theme_after(self.look)
        with self.batch_update():
            switch_textual_theme(self, self.look)
            self.styles.background = self.main.styles.background = looks(self.look)["bg"].bg or None
            self.main.use_theme(ThemeStyles(self.look))
        return self.look
