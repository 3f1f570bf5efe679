"""The keys that move the main screen through time: pause, step, play, seek, look back, return to now."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta, timezone
from typing import TYPE_CHECKING

from iotop_ai.model.clean import clean
from iotop_ai.model.errors import IotopError, UsageError
from iotop_ai.model.parse import parse_time_ns
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.screen.view import Timeline
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.present.text.units import clock
from iotop_ai.store.source import Source
from iotop_ai.tui.screens.main.recording_actions import LONGEST_MARK, RecordingActions
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.view_changes import interval_after, past_after

if TYPE_CHECKING:
    from iotop_ai.tui.threads.playback import (
        PastSamples,
        PlaybackFailed,
        PlaybackFrame,
        PlaybackMessage,
        PlaybackThread,
        TimelineUpdate,
    )

SKIP_S, PAGE_S, LEAP_S = 10.0, 60.0, 600.0
"""The seconds by which the arrow keys, the page keys and the curly brackets move."""
LONGEST_TIME = 40
"""The largest number of characters of a typed time."""
_SECOND_NS, _DAY_NS = 1_000_000_000, 86_400_000_000_000
JUDGED_ANEW = "recorded with other rules: verdicts are recomputed"
NOTHING_YET = "nothing to look back at yet"


class TimeActions:
    """The controller of the keys that move through time.

    playback: plays a recording or the last hour; None while the screen shows now. look_back: makes a PlaybackThread
    over the last hour, or returns None while too little of it is kept.
    """

    def __init__(
        self,
        state: MainState,
        source: Source,
        recording: RecordingActions,
        look_back: Callable[[], PlaybackThread | None],
    ) -> None:
        self.playback: PlaybackThread | None = None
        self._state = state
        self._source = source
        self._recording = recording
        self._look_back = look_back
        self._source_ended = False
        self._judged_anew_shown = False
        self._answer: str | None = None
        """The answer to the last key that moves time, shown with the Frame that the playback sends for that key; "" if
        the key has no answer, None after that Frame.
        """
        self._message_before = ""
        """The message on the screen when that key was pressed. It answers an earlier key, so it is removed when the
        Frame for that key is shown.
        """
        self._base_now: Snapshot | None = None
        """The base of the sums that are shown after the return to now. While the user looks back to a Frame before it,
        the View has no base.
        """

    @property
    def _active_playback(self) -> PlaybackThread | None:
        """The thread that decides which Frame is shown; None while the screen shows now."""
        return self.playback if self._state.in_past else None

    def _is_from_closed(self, message: PlaybackMessage) -> bool:
        """Whether the message comes from a playback that was closed in the meantime."""
        return self._active_playback is None or message.playback is not self._active_playback

    def show_playback(self, message: PlaybackFrame) -> None:
        """Show the Frame of the playback, unless the playback was closed in the meantime."""
        state = self._state
        if self._is_from_closed(message):
            return
        frame, playback = message.frame, message.state
        if state.view.mode == "back":
            if playback.ended and not message.early:
                self._return_to_now("done: now")
                return
        else:
            state.newest = frame
        past = past_after(state.view.past, state.frame, frame, keep=2 * state.canvas.columns)
        state.frame = frame
        state.update(past=past, playing=playback.playing, speed=playback.speed, back_s=state.back_s)
        base, snapshot = state.view.base, frame.snapshot
        if base is not None and (base.host.boot_id != snapshot.host.boot_id or base.at_ns >= snapshot.at_ns):
            state.update(base=None)
        answer = None
        if not message.early:
            answer, self._answer = self._answer, None
        if playback.note:
            state.change(playback.note)
        elif answer:
            state.change(answer)
        elif playback.judged_anew and not self._judged_anew_shown and (answer == "" or not state.view.message):
            self._judged_anew_shown = True
            state.change(JUDGED_ANEW)
        elif answer == "" and state.view.message == self._message_before != "":
            state.change(answer)
        else:
            state.canvas.redraw_if_in_front()

    def show_past(self, message: PastSamples) -> None:
        """Show the Samples older than the history of a Frame, if that Frame is still on the screen."""
        if not self._is_from_closed(message) and self._state.frame.snapshot.at_ns == message.at_ns:
            self._state.update(past=message.past)
            self._state.canvas.redraw()

    def show_timeline(self, message: TimelineUpdate) -> None:
        """Show the part of the timeline that has been read so far."""
        if not self._is_from_closed(message):
            self._state.update(timeline=message.timeline)
            self._state.canvas.redraw()

    def playback_failed(self, message: PlaybackFailed) -> bool:
        """Return to now with the error if a look-back failed; returns False if the replayed recording failed."""
        if self._state.view.mode == "replay":
            return False
        if not self._is_from_closed(message):
            error = message.error
            text = str(error) if isinstance(error, IotopError) else f"{type(error).__name__}: {error}"
            self._return_to_now(f"failed: looking back: {clean(text)}")
        return True

    def source_ended(self) -> None:
        """Keep the last Frame of a remote source that has ended. The user can still look back at the last hour."""
        self._source_ended = True
        if self._state.view.mode != "back":
            self._state.show_newest()
            self._state.change("the other end has closed the connection", mode="ended", past=self._state.past)

    def _answer_with_frame(self, answer: str = "") -> None:
        """Show the answer to a key with the playback's next Frame, which also removes the answer to an earlier key."""
        self._answer, self._message_before = answer, self._state.view.message

    def step(self, step: int) -> None:
        """Move by one Frame. If the screen shows now, a step back begins to look back."""
        if (playback := self._active_playback) is not None:
            self._answer_with_frame()
            playback.step(step)
        elif step < 0 and self._state.view.mode in ("live", "paused", "ended"):
            frame = self._state.received
            self._begin_to_look_back(lambda playback: playback.seek_before(frame))

    def _begin_to_look_back(self, go: Callable[[PlaybackThread], None]) -> None:
        """Begin to look back. go: moves the playback to the Frame that is shown first."""
        playback = self._look_back()
        if playback is None:
            self._state.change(NOTHING_YET)
        else:
            self._look_back_with(playback, go)

    def _look_back_with(self, playback: PlaybackThread, go: Callable[[PlaybackThread], None], stop: str = "") -> None:
        state, begin = self._state, playback.span()[0]
        try:
            playback.start()
        except RuntimeError as error:  # this user has too many threads
            state.change(f"failed: {error}")
            return
        self.playback, self._answer = playback, None
        self._base_now = state.view.base
        line = Timeline(begin, max(begin + 1, state.newest.snapshot.wall_ns), begin)
        text = self._recording.look_back_text(stop)
        state.change(text, mode="back", playing=False, speed=1.0, back_s=0.0, timeline=line)
        go(playback)

    def go_to_now(self) -> bool:
        """Return to now if the screen shows the past of a live session; returns whether it did."""
        back = self._state.view.mode == "back"
        if back:
            self._return_to_now("done: now")
        return back

    def _return_to_now(self, message: str) -> None:
        if self.playback is not None:
            self.playback.close(0)
            self.playback = None
        self._state.show_newest()
        self._state.change(
            message,
            mode="ended" if self._source_ended else "live",
            past=self._state.past,
            base=self._base_now,
            playing=False,
            speed=1.0,
            back_s=0.0,
            cursor="",
            scroll=0,
            timeline=None,
        )

    def pause(self) -> None:
        """Play or pause the playback. If the screen shows now, stop drawing, or draw the newest Frame."""
        state = self._state
        if (playback := self._active_playback) is not None:
            self._answer_with_frame()
            playback.toggle()
        elif state.view.mode == "paused":
            state.show_newest()
            state.change("done: live", mode="live", past=state.past)
        elif state.view.mode == "live":
            state.change("paused; the same key resumes", mode="paused")

    def change_interval(self, step: int) -> None:
        """Set a longer or shorter interval. For a playback, set a higher or lower speed."""
        state = self._state
        if (playback := self._active_playback) is not None:
            self._answer_with_frame()
            playback.change_speed(step)
            return
        if state.view.remote:
            state.change("not available from another machine: set the interval there")
            return
        seconds = interval_after(state.view.interval_s, step)
        if seconds != state.view.interval_s:
            self._source.set_interval(seconds)
            state.change(f"done: every {seconds:g} s", interval_s=seconds)

    def accumulate(self) -> None:
        """Show sums since the Frame on the screen, or rates again."""
        state = self._state
        if state.view.base is None:
            self._base_now = state.frame.snapshot
            state.change("done: summed since now", base=self._base_now)
        else:
            self._base_now = None
            state.change("done: rates per second", base=None)

    def skip(self, step: int, seconds: float = SKIP_S) -> bool:
        """Move by ``step`` times ``seconds`` if there is a timeline; returns whether there is one."""
        if self.playback is None:
            return False
        self._answer_with_frame(self._stop_text(self.playback, self.playback.skip(step * seconds)))
        return True

    def _stop_text(self, playback: PlaybackThread, wall_ns: int) -> str:
        """Where a jump to this time stops, in words; "" if the time is within the recording, less than a second
        outside it, or after the last Frame of a look-back, which then returns to now.
        """
        (begin_ns, end_ns), view = playback.span(), self._state.view

        def text(stop_ns: int) -> str:
            return clock(stop_ns, view.utc_offset_s, "%H:%M:%S" if end_ns - begin_ns < _DAY_NS else "%F %T")

        if begin_ns - wall_ns >= _SECOND_NS:
            what = "the recording begins at" if view.mode == "replay" else "nothing is kept before"
            return f"{what} {text(begin_ns)}"
        if view.mode != "replay" or end_ns <= begin_ns or wall_ns - end_ns < _SECOND_NS:  # the end may not be known yet
            return ""
        return f"the recording ends at {text(end_ns)}"

    def leap(self, step: int) -> None:
        """Move by ten minutes. If the screen shows now, a leap back begins to look back at that time."""
        if self.skip(step, LEAP_S) or step > 0 or self._state.view.mode not in ("live", "paused", "ended"):
            return
        frame = self._state.received
        self._begin_to_look_back(lambda playback: playback.seek_before(frame, LEAP_S))

    def seek_end(self, step: int) -> bool:
        """Go to the beginning (step < 0) or the end (step > 0) of a timeline; returns whether there is one."""
        if self.playback is None:
            return False
        self._answer_with_frame()
        self.playback.seek(self.playback.span()[step > 0])
        return True

    def go_to_verdict_change(self, step: int) -> None:
        """Go to the next or previous change of the verdict."""
        if self.playback is not None:
            self._answer_with_frame()
            self.playback.to_verdict_change(step)

    def mark(self) -> None:
        """Set a mark at this moment; in the past, go to the next mark."""
        if self.playback is not None:
            self._answer_with_frame()
            self.playback.to_next_mark()
        else:
            self._recording.add_mark()

    def ask_mark(self) -> None:
        """Begin to type the text of a mark; in the past, go to the next mark; refuse for a remote machine."""
        if self.playback is not None or self._state.view.remote:
            self.mark()
        else:
            self._state.change(mark_input="", text_right=0)

    def type_mark(self, key: str, character: str | None) -> None:
        """Handle a key that is pressed while the text of a mark is typed."""
        text = self._state.view.mark_input or ""
        if key in ("enter", "escape"):
            self._state.change(mark_input=None, text_right=0)
            if key == "enter":
                self._recording.add_mark(text)
        else:
            typed = TypedText(text, self._state.view.text_right).after(key, character, LONGEST_MARK)
            self._state.change(mark_input=typed.text, text_right=typed.right)

    def ask_time(self) -> None:
        """Begin to type a time."""
        self._state.change(time_input="", text_right=0)

    def type_time(self, key: str, character: str | None) -> None:
        """Handle a key that is pressed while a time is typed."""
        text = self._state.view.time_input or ""
        if key == "enter":
            self._seek_typed(text)
        elif key == "escape":
            self._state.change(time_input=None, text_right=0)
        else:
            typed = TypedText(text, self._state.view.text_right).after(key, character, LONGEST_TIME)
            self._state.change(time_input=typed.text, text_right=typed.right)

    def _seek_typed(self, text: str) -> None:
        """Go to the typed time. If the screen shows now, begin to look back at that time."""
        state, view = self._state, self._state.view
        state.update(time_input=None, text_right=0)
        if not text.strip():
            state.change()
            return
        playback = self.playback or self._look_back()
        if playback is None:
            state.change(NOTHING_YET)
            return
        zone = None if view.utc_offset_s is None else timezone(timedelta(seconds=view.utc_offset_s))
        begin, end = playback.span()
        try:
            wall_ns = parse_time_ns(text, begin, end if self.playback else state.newest.snapshot.wall_ns, zone)
        except UsageError as error:
            state.change(f"failed: {error}")
            return
        stop = self._stop_text(playback, wall_ns)
        if self.playback is None:
            self._look_back_with(playback, lambda playback: playback.seek(wall_ns), stop)
        else:
            state.change()
            self._answer_with_frame(stop)
            playback.seek(wall_ns)
