"""The thread that decodes a recording: it plays, steps and seeks, so that the screen does not wait for the decoding."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from textual.message import Message

from iotop_ai.collectors.io.clock import Clock
from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Rated
from iotop_ai.model.sample import GAP_FACTOR, Sample
from iotop_ai.playback.player import Cancelled, FrameCursor
from iotop_ai.playback.timeline_reader import TimelineReader
from iotop_ai.present.screen.view import Timeline
from iotop_ai.tui.threads.source import MessageReceiver

log = logging.getLogger(__name__)

SLOWEST, FASTEST = 0.25, 64.0
"""The lowest and the highest speed of playing; 1 is the speed at which the recording was made."""
LEAST_WAIT_S = 0.1
"""The shortest time in seconds between two painted Frames. At a high speed, the Frames in between are left out."""
LONGEST_WAIT_S = 2.0
"""A longer wait in seconds for the next Frame is skipped, unless the recorded interval is that long."""
CHECK_S = 0.5
"""How often, in seconds, a recording that may grow is checked for more Frames."""
_MISSING_ALLOWED = 120
"""The number of Samples that a graph may lack before they are read again."""
TIMELINE_S = 0.25
"""The shortest time in seconds between two messages about the timeline, except for the last."""
_SECOND = 1_000_000_000


class PlaybackState(NamedTuple):
    """The state of a playback.

    playing: whether it plays, or waits at the end for more Frames. speed: a factor of 0.25 to 64. ended: whether it is
    at the last Frame. follows: whether the recording may still grow. note: a message for the screen ("failed: ..."); ""
    for none. judged_anew: whether the recording was made with other rules, so that the verdicts are computed again;
    the computation begins some minutes before the Frame that is shown.
    """

    playing: bool = False
    speed: float = 1.0
    ended: bool = False
    follows: bool = False
    note: str = ""
    judged_anew: bool = False


class PlaybackMessage(Message):
    """A message of a playback. It may arrive after that playback was closed, or after another one has begun."""

    def __init__(self, playback: PlaybackThread) -> None:
        self.playback = playback
        super().__init__()


class PlaybackFrame(PlaybackMessage):
    """The current Frame. early: whether it is the Frame of a keyframe, shown while the Frames up to the target are
    decoded.
    """

    def __init__(self, playback: PlaybackThread, frame: Frame, state: PlaybackState, *, early: bool = False) -> None:
        self.frame = frame
        self.state = state
        self.early = early
        super().__init__(playback)

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, which was queued later, makes this message obsolete."""
        return isinstance(message, PlaybackFrame) and message.playback is self.playback


class PastSamples(PlaybackMessage):
    """The Samples older than the history of the Frame at ``at_ns``."""

    def __init__(self, playback: PlaybackThread, at_ns: int, past: tuple[Sample, ...]) -> None:
        self.at_ns = at_ns
        self.past = past
        super().__init__(playback)


class TimelineUpdate(PlaybackMessage):
    """The part of the timeline that has been read so far."""

    def __init__(self, playback: PlaybackThread, timeline: Timeline) -> None:
        self.timeline = timeline
        super().__init__(playback)

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, which was queued later, makes this message obsolete."""
        return isinstance(message, TimelineUpdate) and message.playback is self.playback


class PlaybackFailed(PlaybackMessage):
    """The playback has ended with this error."""

    def __init__(self, playback: PlaybackThread, error: Exception) -> None:
        self.error = error
        super().__init__(playback)


class _SeekRequest(NamedTuple):
    """A request to go to a wall-clock time, then forward or back by a number of Frames.

    from_search: whether a search for a mark or a change gave the time. before_ns: a monotonic time of the newest
    session, if the request is to go to the last Frame before it; otherwise None. With ``before_ns``, ``wall_ns`` is
    about the time of that Frame. forward_from_ns: for a skip forward, the wall time from which it counts. The
    request then goes to a later Frame, even if the skip ends in a gap.
    """

    wall_ns: int | None = None
    steps: int = 0
    from_search: bool = False
    before_ns: int | None = None
    forward_from_ns: int | None = None


class PlaybackThread:
    """Plays a recording on a daemon thread. Its methods may be called from any thread; a newer request replaces an
    older one.

    cursor: the position in the recording. slots: returns the number of intervals in the graphs. follows: whether to
    wait at the end for Frames that are appended. The app receives the Frames as PlaybackFrame.
    """

    def __init__(
        self,
        cursor: FrameCursor,
        app: MessageReceiver,
        clock: Clock,
        *,
        playing: bool = False,
        speed: float = 1.0,
        follows: bool = False,
        slots: Callable[[], int] = lambda: 320,
    ) -> None:
        self._cursor = cursor
        self._app = app
        self._clock = clock
        self._slots = slots
        self._ready = threading.Condition()
        self._request: _SeekRequest | None = None
        self._closing = False
        self._state = PlaybackState(playing, min(FASTEST, max(SLOWEST, speed)), follows=follows)
        self._timeline_reader = TimelineReader(cursor.parts, cursor.begin_wall_ns)
        self._timeline_complete = False
        self._timeline_sent_ns = 0
        self._end_ns = cursor.begin_wall_ns
        self._current_ns = cursor.begin_wall_ns if cursor.frame is None else cursor.frame.snapshot.wall_ns
        self._search_result: tuple[Frame | None, int] | None = None
        """The Frame shown for the last mark or change that was found, and the time of that mark or change."""
        self._past_for: Frame | None = None
        """The Frame for which the older Samples were read last."""
        self._samples: tuple[str, list[Sample]] = ("", [])
        """The boot id, and the Samples of that boot without a gap up to the newest Frame, for graphs."""
        self._past_complete = False
        """Whether the Samples reach back to the start of the session."""
        self._jumped = False
        """Whether older Samples must be sent again, because the app drops them at each seek and step back."""
        self._target_ns: int | None = None
        """The wall-clock time of the seek that is not done yet; None without one."""
        self._play_start_ns = (0, 0)
        """The monotonic time at which playing began, and the wall-clock time in the recording at that moment."""
        self._set_back_at: Frame | None = None
        """The Frame at which the recorded clock was set back, once ``_follow_clock`` has handled it."""
        self._waiting = False
        """Whether the playback has reached the end and waits for more Frames."""
        self._checked_ns = 0
        self._thread = threading.Thread(target=self._run, name="playback", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, seconds: float = 1.0) -> bool:
        """Stop the thread, and wait at most ``seconds`` for it; returns whether it has ended."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def span(self) -> tuple[int, int]:
        """The wall-clock times of the first and the newest Snapshot; both are the first until the newest is known."""
        return self._cursor.begin_wall_ns, self._end_ns

    def seek(self, wall_ns: int) -> None:
        """Go to the last Frame at or before this time."""
        self._put(_SeekRequest(wall_ns))

    def seek_before(self, frame: Frame, seconds: float = 0.0) -> None:
        """Go to the last Frame before this one that is at least so many seconds older, even if the clock was set back.

        frame: a Frame of the newest session
        """
        snapshot, older_ns = frame.snapshot, max(1, int(seconds * _SECOND))
        self._put(_SeekRequest(snapshot.wall_ns - older_ns, before_ns=snapshot.at_ns - older_ns + 1))

    def skip(self, seconds: float) -> int:
        """Go forward or back by this many seconds, from the target of a pending seek, or else from the current time; if
        the next Frame is further ahead, go forward to that Frame. Returns the time that many seconds away, which may
        be outside the recording.
        """
        with self._ready:
            at = self._current_ns if self._target_ns is None else self._target_ns
            wanted_ns = at + int(seconds * _SECOND)
            wall_ns = max(self._cursor.begin_wall_ns, wanted_ns)
            if self._end_ns > self._cursor.begin_wall_ns:  # otherwise the end is not known yet
                wall_ns = min(self._end_ns, wall_ns)
        self._put(_SeekRequest(wall_ns, forward_from_ns=at if seconds > 0 else None))
        return wanted_ns

    def step(self, count: int) -> None:
        """Go forward or back by this many Frames, and stop playing."""
        with self._ready:
            self._state = self._state._replace(playing=False)
        self._put(_SeekRequest(steps=count))

    def to_verdict_change(self, step: int) -> None:
        """Go to the next or previous change of the verdict."""

        def find(at: int) -> tuple[int, str] | None:
            change_ns = self._timeline_reader.next_change(at, step)
            return None if change_ns is None else (change_ns, "")

        self._seek_by_search(find, step, "change of the verdict")

    def to_next_mark(self) -> None:
        """Go to the next mark, alert, fault or end of a job's process, and show what it is."""
        self._seek_by_search(lambda at: self._timeline_reader.next_mark(at, 1), 1, "mark")

    def _seek_by_search(self, find: Callable[[int], tuple[int, str] | None], step: int, target_name: str) -> None:
        """Go to the time that ``find`` returns, and show its text. target_name: a mark or a change, in words."""
        missing = f"no {'further' if step > 0 else 'earlier'} {target_name}"
        with self._ready:
            at = self._current_ns if self._target_ns is None else self._target_ns
            result = find(at)
            more = "" if self._timeline_complete else " in the part read so far"
            self._state = self._state._replace(note=f"{missing}{more}" if result is None else result[1])
        self._put(_SeekRequest(result[0], from_search=True) if result is not None else _SeekRequest())

    def toggle(self) -> None:
        """Play, or pause."""
        with self._ready:
            self._state = self._state._replace(playing=not self._state.playing)
        self._put(_SeekRequest())

    def change_speed(self, step: int) -> None:
        """Double (step +1) or halve (step -1) the speed."""
        with self._ready:
            speed = min(FASTEST, max(SLOWEST, self._state.speed * 2.0**step))
            self._state = self._state._replace(speed=speed)
        self._put(_SeekRequest())

    def _put(self, request: _SeekRequest) -> None:
        with self._ready:
            if request.wall_ns is not None:
                self._request = request
                self._target_ns = request.wall_ns
            else:  # steps are added up, and come after a seek that is not done yet
                pending = self._request or _SeekRequest()
                self._request = pending._replace(steps=pending.steps + request.steps)
            self._ready.notify()

    def _interrupted(self) -> bool:
        """Whether a request waits, or the thread is to end."""
        return self._closing or self._request is not None

    def _superseded(self) -> bool:
        """Whether a newer seek has replaced the one that is being served."""
        request = self._request
        return self._closing or (request is not None and request.wall_ns is not None)

    def _run(self) -> None:
        try:
            self._end_ns = self._cursor.end_wall_ns()
            self._restart_clock()
            while not self._closing:
                with self._ready:
                    request, self._request = self._request, None
                try:
                    if request is not None:
                        self._serve(request)
                    elif (wait_s := self._work()) != 0.0:
                        with self._ready:
                            if not self._interrupted():
                                self._ready.wait(wait_s)
                except Cancelled:
                    continue
        except Exception as error:  # the app shows or prints it as one line
            log.exception("the recording failed")
            self._app.post_message(PlaybackFailed(self, error))

    def _serve(self, request: _SeekRequest) -> None:
        self._jumped = self._jumped or request.wall_ns is not None or request.steps < 0
        if request.wall_ns is not None:
            if request.before_ns is None:
                self._cursor.seek(request.wall_ns, self._post_early, self._superseded)
            else:
                self._cursor.seek_before(request.before_ns, self._post_early, self._superseded)
            frame, from_ns = self._cursor.frame, request.forward_from_ns
            if from_ns is not None and frame is not None and frame.snapshot.wall_ns <= from_ns:
                self._cursor.forward()
            with self._ready:
                if not self._superseded():
                    self._target_ns = None
            self._search_result = (self._cursor.frame, request.wall_ns) if request.from_search else None
        for _ in range(abs(request.steps)):
            if (self._cursor.forward() if request.steps > 0 else self._cursor.back(self._superseded)) is None:
                break
        self._restart_clock()
        self._post()

    def _post_early(self, frame: Frame) -> None:
        self._app.post_message(PlaybackFrame(self, frame, self._state, early=True))

    def _post(self) -> None:
        frame = self._cursor.frame
        if frame is None:
            return
        # A mark between two Frames is shown with the earlier Frame. The next search begins at the mark itself, because
        # a search from the Frame's time would find the same mark again.
        result = self._search_result
        self._current_ns = result[1] if result is not None and result[0] is frame else frame.snapshot.wall_ns
        ended = self._cursor.peek() is None
        with self._ready:
            state, self._state = self._state, self._state._replace(note="")
        state = state._replace(ended=ended, judged_anew=self._cursor.judged_anew)
        self._app.post_message(PlaybackFrame(self, frame, state))

    def _restart_clock(self) -> None:
        """Let the current Frame be the one that is due now."""
        frame = self._cursor.frame
        self._waiting, self._set_back_at = False, None
        wall_ns = frame.snapshot.wall_ns if frame else self._cursor.begin_wall_ns
        self._play_start_ns = (self._clock.monotonic_ns(), wall_ns)

    def _work(self) -> float | None:
        """Do one piece of work while no request waits. Returns the seconds until the next piece; None to wait for a
        request.
        """
        wait_s = self._play() if self._state.playing else None
        if self._read_past() or self._read_timeline():
            return 0.0
        if self._state.follows:
            now = self._clock.monotonic_ns()
            if now - self._checked_ns > CHECK_S * _SECOND:
                self._checked_ns = now
                self._cursor.refresh()
            if self._cursor.grown:
                self._cursor.grown = False
                self._end_ns = self._cursor.end_wall_ns()
                self._timeline_complete = False
                return 0.0
            wait_s = CHECK_S if wait_s is None else min(wait_s, CHECK_S)
        return wait_s

    def _play(self) -> float | None:
        """Show the Frames that are due, or as many of them as can be decoded within LEAST_WAIT_S. Returns the seconds
        until the next one is due; None if there is none.
        """
        now = self._clock.monotonic_ns()
        due_ns = self._due_ns(now)
        moved = False
        while (after := self._cursor.peek()) is not None and not self._interrupted():
            if self._follow_clock(after):
                due_ns = self._due_ns(now)
            if after.snapshot.wall_ns > due_ns and not self._waiting:
                break
            self._cursor.forward()
            moved = True
            if self._clock.monotonic_ns() - now > LEAST_WAIT_S * _SECOND:
                # This speed is too high for the machine. Without a new start, each round would have more Frames due.
                self._play_start_ns = (now, after.snapshot.wall_ns)
                self._post()
                return 0.0
        if moved:
            self._post()
        if after is None:
            self._restart_clock()
            self._waiting = self._state.follows
            if not self._state.follows:
                with self._ready:
                    self._state = self._state._replace(playing=False)
                self._post()
            return CHECK_S if self._state.follows else None
        wait_s = (after.snapshot.wall_ns - due_ns) / _SECOND / self._state.speed
        if wait_s > max(LONGEST_WAIT_S, GAP_FACTOR * after.snapshot.interval_s / self._state.speed):
            self._play_start_ns = (now, after.snapshot.wall_ns)
            return LEAST_WAIT_S
        return max(LEAST_WAIT_S, wait_s)

    def _due_ns(self, now: int) -> int:
        """The wall-clock time up to which Frames are due."""
        began, wall = self._play_start_ns
        return wall + int((now - began) * self._state.speed)

    def _follow_clock(self, after: Frame) -> bool:
        """If the recorded clock was set back before the next Frame, make that Frame due one interval after the current
        one; returns whether the clock was set back.

        Otherwise, all Frames up to the old time of the clock would be due at once.
        """
        frame = self._cursor.frame
        if frame is None or after.snapshot.wall_ns >= frame.snapshot.wall_ns or after is self._set_back_at:
            return False
        self._set_back_at = after
        began, wall = self._play_start_ns
        shown_ns = began + int((frame.snapshot.wall_ns - wall) / self._state.speed)
        step_ns = int(after.snapshot.interval_s * _SECOND)
        self._play_start_ns = (shown_ns, after.snapshot.wall_ns - step_ns)
        return True

    def _read_past(self) -> bool:
        """Read the Samples older than the Frame's history, for the graphs, unless they are known; returns whether they
        had to be read.
        """
        frame = self._cursor.frame
        if frame is None or (self._past_for is frame and not self._jumped):
            return False
        boot, slots = frame.snapshot.host.boot_id, self._slots()
        known_boot, known = self._samples
        first_ns = frame.history[0].at_ns
        if known and known_boot == boot and known[0].at_ns <= first_ns <= known[-1].at_ns:
            newest = known[-1].at_ns
            known += [s._replace(processes=Rated()) for s in frame.history if s.at_ns > newest]
            before = tuple(s for s in known if s.at_ns < first_ns)
            if self._past_complete or len(before) + len(frame.history) >= slots - _MISSING_ALLOWED:
                if self._jumped:
                    self._send_past(frame, before[-slots:])
                if len(known) > 2 * slots:
                    del known[:slots]
                    self._past_complete = False
                self._past_for = frame
                return False
        past = self._cursor.past(frame, slots, self._interrupted)
        self._past_for = frame
        self._samples = (boot, [*past, *(s._replace(processes=Rated()) for s in frame.history)])
        self._past_complete = len(past) < slots - _MISSING_ALLOWED
        self._send_past(frame, past)
        return True

    def _send_past(self, frame: Frame, past: tuple[Sample, ...]) -> None:
        self._jumped = False
        self._app.post_message(PastSamples(self, frame.snapshot.at_ns, past))

    def _read_timeline(self) -> bool:
        """Read the next piece of the timeline; returns whether there was one."""
        if self._timeline_complete:
            return False
        more = self._timeline_reader.step()
        self._timeline_complete = not more
        now = self._clock.monotonic_ns()
        if not more or now - self._timeline_sent_ns > TIMELINE_S * _SECOND:
            self._timeline_sent_ns = now
            self._app.post_message(TimelineUpdate(self, self._timeline_reader.timeline(self._end_ns)))
        return more
