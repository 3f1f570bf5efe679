"""The thread that decodes a recording: plays, steps and seeks, so that the screen never waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from textual.message import Message

from iotop_ai.collectors.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Rated
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.sample import GAP_FACTOR, Sample
from iotop_ai.present.view import Timeline
from iotop_ai.tui.follow import Takes
from iotop_ai.tui.messages import SourceEnded
from iotop_ai.tui.outline import Outline
from iotop_ai.tui.tape import Cancelled, Tape

log = logging.getLogger(__name__)

SLOWEST, FASTEST = 0.25, 64.0
LEAST_WAIT_S = 0.1
"""At high speed Frames are left out rather than painted more often than this."""
LONGEST_WAIT_S = 2.0
"""A pause in the recording that takes longer than this is skipped."""
LOOK_S = 0.5
_SLACK = 120
"""Samples that a graph may lack before they are read again."""
TELL_S = 0.25
_SECOND = 1_000_000_000


class DeckState(NamedTuple):
    """playing: whether it runs, or waits for more at the end. speed: 0.25 to 64. ended: it stands at the last Frame.

    follows: more may be appended. note: an answer for the screen ("failed: ..."), "" none. judged_anew: the verdict
    is folded from minutes before because other rules recorded it.
    """

    playing: bool = False
    speed: float = 1.0
    ended: bool = False
    follows: bool = False
    note: str = ""
    judged_anew: bool = False


class Played(Message):
    """The Frame the recording stands at. early: its keyframe's, shown while the rest is decoded."""

    def __init__(self, frame: Frame, state: DeckState, *, early: bool = False) -> None:
        self.frame = frame
        self.state = state
        self.early = early
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, queued after this one, makes this one stale."""
        return isinstance(message, Played)


class PastRead(Message):
    """Samples older than the history of the Frame at ``at_ns``."""

    def __init__(self, at_ns: int, past: tuple[Sample, ...]) -> None:
        self.at_ns = at_ns
        self.past = past
        super().__init__()


class TimelineRead(Message):
    """The time line as far as it has been read."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, queued after this one, makes this one stale."""
        return isinstance(message, TimelineRead)


class _Wish(NamedTuple):
    """What is wanted next: a wall time, then a number of Frames on or back from there."""

    wall_ns: int | None = None
    steps: int = 0


class Deck:
    """Plays a Tape on a daemon thread. Every method may be called from any thread; the newest wish wins.

    slots: how many intervals the graphs show. follows: at the end wait for what is appended. Frames reach ``app`` as
    Played.
    """

    def __init__(
        self,
        tape: Tape,
        app: Takes,
        clock: Clock,
        *,
        playing: bool = False,
        speed: float = 1.0,
        follows: bool = False,
        slots: Callable[[], int] = lambda: 320,
    ) -> None:
        self._tape = tape
        self._app = app
        self._clock = clock
        self._slots = slots
        self._ready = threading.Condition()
        self._wish: _Wish | None = None
        self._closing = False
        self._state = DeckState(playing, min(FASTEST, max(SLOWEST, speed)), follows=follows)
        self._outline = Outline(tape.reels, tape.begin_wall_ns)
        self._outlined = False
        self._told_ns = 0
        self._end_ns = tape.begin_wall_ns
        self._shown_ns = tape.begin_wall_ns
        self._past_for: Frame | None = None
        self._samples: tuple[str, list[Sample]] = ("", [])
        """The boot, and Samples without a hole up to the newest Frame's, for graphs."""
        self._whole = False
        """Whether these reach back to the start of the session."""
        self._aim_ns: int | None = None
        self._from_ns = (0, 0)
        """(monotonic, wall): where playing began; the wall time that is due follows from it."""
        self._waiting = False
        """Played to the end and waiting for more, which is then shown as it comes."""
        self._looked_ns = 0
        self._thread = threading.Thread(target=self._run, name="deck", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, seconds: float = 1.0) -> bool:
        """End, at most ``seconds`` from now; whether the thread has ended."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def span(self) -> tuple[int, int]:
        """Wall times of the first and the newest Snapshot known."""
        return self._tape.begin_wall_ns, self._end_ns

    def seek(self, wall_ns: int) -> None:
        """Go to the last Frame at or before a time."""
        self._want(_Wish(wall_ns))

    def skip(self, seconds: float) -> None:
        """Go on or back by a span; pressed again before it was reached it adds up."""
        with self._ready:
            at = self._shown_ns if self._aim_ns is None else self._aim_ns
            wall_ns = max(self._tape.begin_wall_ns, at + int(seconds * _SECOND))
            if self._end_ns > self._tape.begin_wall_ns:  # else not read yet
                wall_ns = min(self._end_ns, wall_ns)
        self._want(_Wish(wall_ns))

    def step(self, count: int) -> None:
        """Go on or back by Frames, and stop playing."""
        with self._ready:
            self._state = self._state._replace(playing=False)
        self._want(_Wish(steps=count))

    def change(self, step: int) -> None:
        """Go to the next or previous change of the verdict."""

        def find(at: int) -> tuple[int, str] | None:
            found = self._outline.next_change(at, step)
            return None if found is None else (found, "")

        self._hop(find, "change of the verdict")

    def mark(self, step: int) -> None:
        """Go to the next or previous mark, or end of a job's process, and say what it is."""
        self._hop(lambda at: self._outline.next_mark(at, step), "mark")

    def _hop(self, find: Callable[[int], tuple[int, str] | None], what: str) -> None:
        with self._ready:
            at = self._shown_ns if self._aim_ns is None else self._aim_ns
            found = find(at)
            more = "" if self._outlined else " as far as it has been read"
            self._state = self._state._replace(note=f"no further {what}{more}" if found is None else found[1])
        self._want(_Wish(found[0]) if found is not None else _Wish())

    def toggle(self) -> None:
        """Play, or pause."""
        with self._ready:
            self._state = self._state._replace(playing=not self._state.playing)
        self._want(_Wish())

    def faster(self, step: int) -> None:
        """Twice (+1) or half (-1) the speed."""
        with self._ready:
            speed = min(FASTEST, max(SLOWEST, self._state.speed * 2.0**step))
            self._state = self._state._replace(speed=speed)
        self._want(_Wish())

    def _want(self, wish: _Wish) -> None:
        with self._ready:
            if wish.wall_ns is not None:
                self._wish = wish
                self._aim_ns = wish.wall_ns
            else:  # steps add up, also behind a seek that is still wanted
                held = self._wish or _Wish()
                self._wish = held._replace(steps=held.steps + wish.steps)
            self._ready.notify()

    def _wanted(self) -> bool:
        return self._closing or self._wish is not None

    def _elsewhere(self) -> bool:
        """Whether the work for a wish is void: somewhere else is wanted now."""
        wish = self._wish
        return self._closing or (wish is not None and wish.wall_ns is not None)

    def _run(self) -> None:
        try:
            self._end_ns = self._tape.end_wall_ns()
            self._rebase()
            while not self._closing:
                with self._ready:
                    wish, self._wish = self._wish, None
                try:
                    if wish is not None:
                        self._serve(wish)
                    elif (wait_s := self._work()) != 0.0:
                        with self._ready:
                            if not self._wanted():
                                self._ready.wait(wait_s)
                except Cancelled:
                    continue
        except Exception as error:  # shown as one line by the front; the thread has nobody above it
            log.exception("the recording broke")
            self._app.post_message(SourceEnded(error))

    def _serve(self, wish: _Wish) -> None:
        if wish.wall_ns is not None:
            self._tape.go(wish.wall_ns, self._early, self._elsewhere)
            with self._ready:
                if not self._elsewhere():
                    self._aim_ns = None
        for _ in range(abs(wish.steps)):
            if (self._tape.forward() if wish.steps > 0 else self._tape.back(self._elsewhere)) is None:
                break
        self._rebase()
        self._post()

    def _early(self, frame: Frame) -> None:
        self._app.post_message(Played(frame, self._state, early=True))

    def _post(self) -> None:
        frame = self._tape.frame
        if frame is None:
            return
        self._shown_ns = frame.snapshot.wall_ns
        ended = self._tape.peek() is None
        with self._ready:
            state, self._state = self._state, self._state._replace(note="")
        self._app.post_message(Played(frame, state._replace(ended=ended, judged_anew=self._tape.judged_anew)))

    def _rebase(self) -> None:
        frame = self._tape.frame
        self._waiting = False
        self._from_ns = (self._clock.monotonic_ns(), frame.snapshot.wall_ns if frame else self._tape.begin_wall_ns)

    def _work(self) -> float | None:
        """One piece of what is to do without a wish; seconds until the next, None until one comes."""
        wait_s = self._play() if self._state.playing else None
        if self._read_past() or self._read_outline():
            return 0.0
        if self._state.follows:
            now = self._clock.monotonic_ns()
            if now - self._looked_ns > LOOK_S * _SECOND:
                self._looked_ns = now
                self._tape.refresh()
            if self._tape.grown:
                self._tape.grown = False
                self._end_ns = self._tape.end_wall_ns()
                self._outlined = False
                return 0.0
            wait_s = LOOK_S if wait_s is None else min(wait_s, LOOK_S)
        return wait_s

    def _play(self) -> float | None:
        """Show what is due; seconds until the next is, None when there is none."""
        now = self._clock.monotonic_ns()
        began, wall = self._from_ns
        due_ns = wall + int((now - began) * self._state.speed)
        moved = False
        while (after := self._tape.peek()) is not None and not self._wanted():
            if after.snapshot.wall_ns > due_ns and not self._waiting:
                break
            self._tape.forward()
            moved = True
        if moved:
            self._post()
        if after is None:
            self._rebase()
            self._waiting = self._state.follows
            if not self._state.follows:
                self._state = self._state._replace(playing=False)
                self._post()
            return LOOK_S if self._state.follows else None
        wait_s = (after.snapshot.wall_ns - due_ns) / _SECOND / self._state.speed
        if wait_s > max(LONGEST_WAIT_S, GAP_FACTOR * after.snapshot.interval_s / self._state.speed):
            self._from_ns = (now, after.snapshot.wall_ns)
        return max(LEAST_WAIT_S, wait_s)

    def _read_past(self) -> bool:
        """Read what the graphs show beyond a Frame's history; whether there was anything to read."""
        frame = self._tape.frame
        if frame is None or self._past_for is frame:
            return False
        boot, slots = frame.snapshot.host.boot_id, self._slots()
        known_boot, known = self._samples
        first_ns = frame.history[0].at_ns
        if known and known_boot == boot and known[0].at_ns <= first_ns <= known[-1].at_ns:
            newest = known[-1].at_ns
            known += [s._replace(processes=Rated()) for s in frame.history if s.at_ns > newest]
            before = sum(s.at_ns < first_ns for s in known)
            if self._whole or before + len(frame.history) >= slots - _SLACK:
                if len(known) > 2 * slots:
                    del known[:slots]
                    self._whole = False
                self._past_for = frame
                return False
        past = self._tape.past(frame, slots, self._wanted)
        self._past_for = frame
        self._samples = (boot, [*past, *(s._replace(processes=Rated()) for s in frame.history)])
        self._whole = len(past) < slots - _SLACK
        self._app.post_message(PastRead(frame.snapshot.at_ns, past))
        return True

    def _read_outline(self) -> bool:
        """Read on for the time line; whether there was anything to read."""
        if self._outlined:
            return False
        more = self._outline.step()
        self._outlined = not more
        now = self._clock.monotonic_ns()
        if not more or now - self._told_ns > TELL_S * _SECOND:
            self._told_ns = now
            self._app.post_message(TimelineRead(self._outline.timeline(self._end_ns)))
        return more
