"""Shows each new Frame on the main screen or, if none arrives, how long ago the last one came."""

from __future__ import annotations

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.store.source import Source
from iotop_ai.tui.screens.main.recording_actions import RecordingActions
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.screens.main.verdict_actions import VerdictActions
from iotop_ai.tui.threads.staleness import StalenessWatch
from iotop_ai.tui.view_changes import older_samples


class LiveUpdates:
    """Receives the Frames. The screen keeps its Frame while it is paused or shows the past."""

    def __init__(self, state: MainState, source: Source, recording: RecordingActions, verdict: VerdictActions) -> None:
        self._state = state
        self._source = source
        self._recording = recording
        self._verdict = verdict
        self._staleness = StalenessWatch(Clock())

    def receive(self, frame: Frame) -> None:
        """Take the newest Frame, and show it unless the screen is paused or shows the past. Draw unless the screen is
        paused or covered by another screen.
        """
        state = self._state
        state.past = older_samples(state.past, state.newest, frame, keep=2 * state.canvas.columns)
        state.newest = frame
        self._staleness.note_reading()
        if state.view.silent_s is not None:
            state.update(silent_s=None, silent_in="")
        self._recording.watch_recording()
        self._recording.watch_marks()
        if state.view.mode == "paused":
            return
        if state.view.mode == "back":
            state.update(back_s=state.back_s)
        else:
            state.frame = frame
            state.update(past=state.past)
            self._verdict.watch_job()
        state.canvas.redraw_if_in_front()

    def check_staleness(self) -> bool:
        """Store the age of the last reading in the View if it is too old, else None; returns whether it changed."""
        state = self._state
        longest_s = max(state.view.interval_s, state.newest.snapshot.interval_s)
        silent_s = self._staleness.check(longest_s) if state.view.mode in ("live", "paused", "back") else None
        if silent_s == state.view.silent_s:
            return False
        # Only the live source knows which collector has not returned yet.
        in_flight = getattr(self._source, "in_flight", None)
        running = in_flight() if in_flight is not None and silent_s is not None else None
        state.update(silent_s=silent_s, silent_in="" if running is None else running[0])
        return True
