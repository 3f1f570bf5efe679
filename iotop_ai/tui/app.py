"""The monitor as a Textual app: a main screen that follows a source of Frames, and the screens over it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from textual.driver import Driver

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.errors import InputError
from iotop_ai.model.frame import HISTORY_S, Frame
from iotop_ai.present.screen.view import View
from iotop_ai.store.source import Source
from iotop_ai.tui.messages import FrameReady, SourceEnded
from iotop_ai.tui.screens.main.screen import MainScreen
from iotop_ai.tui.styles import ThemeStyles
from iotop_ai.tui.terminal_app import TerminalApp
from iotop_ai.tui.threads.source import MessageReceiver, SourceThread
from iotop_ai.tui.threads.staleness import CHECK_S, LEAST_SILENCE_S

if TYPE_CHECKING:
    from iotop_ai.playback.session_recording import SessionRecorder
    from iotop_ai.tui.threads.alerts import AlertsChanged, LiveAlerts
    from iotop_ai.tui.threads.playback import PastSamples, PlaybackFailed, PlaybackFrame, PlaybackThread, TimelineUpdate

STOP_WAIT_S = 0.4
"""When the app ends: the longest wait in seconds for the playback, running actions and readings together."""
LEAVE_S = 0.8
"""When the app ends: the time in seconds for everything together. Ending a recording may take what remains of it. The
minimum times below can make the end a little longer.
"""
RECORDING_END_S = 0.3
"""When the app ends: the minimum time in seconds for the end of a recording."""
ALERTS_END_S = 0.2
"""When the app ends: the minimum time in seconds for the deliveries of alerts."""
DOCTOR_AFTER_S = 2.0
"""The seconds from the start of the app to doctor's checks, which would otherwise delay the first paint."""


class MonitorApp(TerminalApp):
    """The monitor on the terminal.

    first_frame: the Frame that is shown at once. frames: the Frames after it. session_recorder: receives all Frames,
    including the first one, and records them. make_playback: makes the thread that plays a recording; ``frames`` is
    then empty. save: writes a screenshot and returns its path. make_alerts: makes the alerts of a live session.
    """

    def __init__(
        self,
        first_frame: Frame,
        frames: Iterable[Frame],
        source: Source,
        view: View,
        theme: str,
        driver_class: type[Driver] | None = None,
        session_recorder: SessionRecorder | None = None,
        make_playback: Callable[[MessageReceiver], PlaybackThread] | None = None,
        save: Callable[[str], str] | None = None,
        make_alerts: Callable[[MessageReceiver], LiveAlerts] | None = None,
    ) -> None:
        super().__init__(view, theme, driver_class, save)
        self.session_recorder = session_recorder
        self.main = MainScreen(
            first_frame, view, source, ThemeStyles(theme), session_recorder, self._look_back, self.next_theme
        )
        self.root = self.main
        if make_playback is not None:
            self.main.time.playback = make_playback(self)
        if session_recorder is not None:
            session_recorder.put(first_frame)
        self.alerts = make_alerts(self) if make_alerts is not None else None
        receivers = (session_recorder, self.alerts)
        self.source_thread = SourceThread(
            frames, source, self, [receiver.put for receiver in receivers if receiver is not None]
        )
        self.took_s = 0.0
        """The seconds that ``on_unmount`` took."""
        self._next_check: asyncio.TimerHandle | None = None
        """The next check for missing readings; None if the source has ended, and in a replay."""

    def on_mount(self) -> None:
        """Start the thread of the playback. Without a playback, start the threads of the source and of the alerts, the
        checks for missing readings, and later doctor's checks.
        """
        self.paint_background()
        if self.main.time.playback is not None:
            self.main.time.playback.start()
        else:
            self.source_thread.start()
            if self.alerts is not None:
                self.alerts.start()
            self._check_staleness_in(LEAST_SILENCE_S)
            self.set_timer(DOCTOR_AFTER_S, self.main.machine.look_for_problems)
        if self.main.view.message:  # starts the timer that removes the message
            self.main.state.change(self.main.view.message)
        # Garbage collections then skip the objects that start-up has made.
        self.call_after_refresh(gc.freeze)

    def on_unmount(self) -> None:
        """Close the source and end the recording, in about LEAVE_S."""
        self._stop_checks()
        clock = Clock()
        start_ns = clock.monotonic_ns()

        def remaining(seconds: float) -> float:
            return max(0.0, seconds - (clock.monotonic_ns() - start_ns) / 1e9)

        if self.main.time.playback is not None:
            self.main.time.playback.close(remaining(STOP_WAIT_S))
        self.main.action_threads.wait(remaining(STOP_WAIT_S))
        self.source_thread.stop(remaining(STOP_WAIT_S))
        if self.alerts is not None:
            self.alerts.close(max(ALERTS_END_S, remaining(STOP_WAIT_S)))
        if self.session_recorder is not None:
            self.session_recorder.close(max(RECORDING_END_S, remaining(LEAVE_S)))
        self.took_s = (clock.monotonic_ns() - start_ns) / 1e9

    def on_frame_ready(self, message: FrameReady) -> None:
        """Show a new Frame."""
        self.main.live.receive(message.take())
        self.main.update_front()
        if self._next_check is not None:
            self._check_staleness_in(LEAST_SILENCE_S)

    def _check_staleness_in(self, seconds: float) -> None:
        """Check for missing readings in this many seconds, and then every CHECK_S, until the next reading.

        Each reading postpones the check, because a timer beside the readings would wake the program twice as often.
        """
        self._stop_checks()
        self._next_check = asyncio.get_running_loop().call_later(seconds, self.call_later, self._check_staleness)

    def _check_staleness(self) -> None:
        if self._next_check is not None:
            self._check_staleness_in(CHECK_S)
            self.main.check_staleness()

    def _stop_checks(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None

    def on_playback_frame(self, message: PlaybackFrame) -> None:
        """Show the playback's current Frame and state."""
        self.main.time.show_playback(message)
        self.main.update_front()

    def on_past_samples(self, message: PastSamples) -> None:
        """Show older Samples in the graphs."""
        self.main.time.show_past(message)
        self.main.update_front()

    def on_timeline_update(self, message: TimelineUpdate) -> None:
        """Show the part of the timeline that has been read so far."""
        self.main.time.show_timeline(message)

    def on_alerts_changed(self, message: AlertsChanged) -> None:
        """Show the rules that fire and the message's text, and ring the bell if the message asks for it."""
        self.main.state.update(firing=message.firing)
        if message.bell:
            self.bell()
        self.main.show_answer(message.answer)

    def action_time(self, name: str, *arguments: int) -> None:
        """Run the main screen's action for a key that moves time or writes a recording, pressed on a screen over it."""
        time = self.main.time
        actions: dict[str, Callable[..., object]] = {
            "step": time.step, "leap": time.leap, "verdict": time.go_to_verdict_change, "mark": time.mark,
            "now": lambda: time.go_to_now() or time.seek_end(1), "record": self.main.recording.record,
        }  # fmt: skip
        actions[name](*arguments)
        self.main.update_front()

    async def action_last(self) -> None:
        """Return from the past to now; while the screen shows now, go to the end of the list or page in front."""
        if self.main.time.go_to_now():
            self.main.update_front()
        else:
            await self.run_action("screen.move(1000000)")

    def on_source_ended(self, message: SourceEnded) -> None:
        """End the app if the source failed; otherwise leave the last Frame on the screen."""
        self._stop_checks()
        if message.error is not None:
            self.failure = self.failure or message.error
            self.exit(return_code=2)
        elif self.main.view.remote:
            self.main.time.source_ended()

    def on_playback_failed(self, message: PlaybackFailed) -> None:
        """End the app if the replayed recording cannot be read. If a look-back failed, return to the live screen."""
        if self.main.time.playback_failed(message):
            self.main.update_front()
        else:
            self.failure = self.failure or message.error
            self.exit(return_code=2)

    def picture(self) -> str:
        """The SVG of the screen in front, without secrets."""
        from iotop_ai.tui.screenshot import screenshot

        return screenshot(self.main)  # the main screen holds the Frame that the screen in front shows

    def _look_back(self) -> PlaybackThread | None:
        """A playback of the last hour of this session; None while too little of it is kept."""
        from iotop_ai.playback.player import FrameCursor
        from iotop_ai.tui.threads.playback import PlaybackThread

        ring = self.session_recorder.ring if self.session_recorder is not None else None
        recording = ring.recording() if ring is not None else None
        if recording is None:
            return None
        # A block's offset is its number. If block 1 has been dropped, the oldest block has no history.
        full_history_ns = recording.blocks[0].at_ns + int(HISTORY_S * 1e9) if recording.blocks[0].offset > 1 else 0
        try:
            cursor = FrameCursor([recording], shown_from_ns=full_history_ns)
        except InputError:
            return None
        return PlaybackThread(cursor, self, Clock(), follows=True, slots=lambda: 2 * self.size.width)

    def save_before_forced_end(self) -> None:
        """Close the recording before the process is ended by force."""
        if self.session_recorder is not None:
            self.session_recorder.close()
