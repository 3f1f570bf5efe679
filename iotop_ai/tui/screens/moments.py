"""The keys of time: step, play, go to a moment, look back and return to now, mark, record.

A part of the main screen of its own file: what moves the screen through time, not what it shows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta, timezone
from typing import TYPE_CHECKING

from textual.message import Message
from textual.screen import Screen

from iotop_ai.model.errors import IotopError, UsageError
from iotop_ai.model.frame import Frame
from iotop_ai.model.parse import parse_time_ns
from iotop_ai.present.recorded import recorded_text
from iotop_ai.present.units import clock, duration, size
from iotop_ai.present.view import Timeline, View
from iotop_ai.store.recording import Source
from iotop_ai.tui.choose import past_after, typed

if TYPE_CHECKING:
    from iotop_ai.tui.deck import Deck, Played
    from iotop_ai.tui.keeper import Keeper

SKIP_S = 10.0
LONGEST_TIME = 40
ELSEWHERE = ("replay", "back")
"""Modes in which a deck decides what is shown."""
JUDGED_ANEW = "recorded under other rules: verdicts are judged anew, from 5 min before"
NOTHING_YET = "failed: there is nothing to look back at yet"


class RecordSaid(Message):
    """A recording was started or stopped, or could not be."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class Moments(Screen[None]):
    """deck: plays what is looked at, None while that is now. keeper: what is kept of a live session, None in a replay.

    look_back: makes a deck over what is kept; None when nothing is kept yet. through: nothing more will come.
    """

    through = False
    _told_anew = False

    view: View
    frame: Frame
    newest: Frame
    deck: Deck | None
    keeper: Keeper | None
    look_back: Callable[[], Deck | None]
    _source: Source

    if TYPE_CHECKING:  # what the screen itself gives

        def change(self, message: str = "", **changes: object) -> None:
            """Change the View and draw it."""

        def redraw(self) -> None:
            """Draw the Frame again."""

        def action_device(self, step: int) -> None:
            """Choose the next or previous device."""

        def _past_now(self) -> tuple[object, ...]:
            """What the graphs show beyond the Frame's history, at now."""

    @property
    def elsewhere(self) -> bool:
        """Whether the screen shows another time than now."""
        return self.view.mode in ELSEWHERE

    @property
    def on_timeline(self) -> bool:
        """Whether the time line has the focus; asked of the screen itself, as keys may come faster than its events."""
        return self.focused is not None and self.focused.id == "timeline"

    def played(self, message: Played) -> None:
        """Show where the deck stands. One that was sent before the return to now comes too late."""
        if self.deck is None or not self.elsewhere:
            return
        frame, state = message.frame, message.state
        if self.view.mode == "back":
            if state.ended and not message.early:
                self.to_now("done: now")
                return
        else:
            self.newest = frame
        view = self.view._replace(
            past=past_after(self.view.past, self.frame, frame, keep=2 * self.app.size.width),
            playing=state.playing,
            speed=state.speed,
            back_s=self._back_s(frame),
        )
        base = view.base
        if base is not None and (base.host.boot_id, True) != (
            frame.snapshot.host.boot_id,
            base.at_ns < frame.snapshot.at_ns,
        ):
            view = view._replace(base=None)
        self.view, self.frame = view, frame
        if state.note:
            self.change(state.note)
        elif state.judged_anew and not self._told_anew:
            self._told_anew = True
            self.change(JUDGED_ANEW)
        elif not self.is_attached or self.app.screen is self:
            self.redraw()

    def _back_s(self, frame: Frame) -> float:
        return max(0.0, (self.newest.snapshot.wall_ns - frame.snapshot.wall_ns) / 1e9)

    def show_past(self, at_ns: int, past: tuple[object, ...]) -> None:
        """What the graphs show beyond the Frame's history, if that Frame is still shown."""
        if self.elsewhere and self.frame.snapshot.at_ns == at_ns:
            self.view = self.view._replace(past=past)  # type: ignore[arg-type]
            self.redraw()

    def show_timeline(self, timeline: Timeline) -> None:
        """The time line of what is looked at, as far as it has been read."""
        if self.elsewhere and self.deck is not None:
            self.view = self.view._replace(timeline=timeline)
            self.redraw()

    def to_now(self, message: str = "") -> None:
        """Leave the deck and show what is newest."""
        if self.deck is not None:
            self.deck.close(0)
            self.deck = None
        self.frame = self.newest
        self.change(
            message,
            mode="ended" if self.through else "live",
            past=self._past_now(),
            playing=False,
            speed=1.0,
            back_s=0.0,
            cursor="",
            timeline=None,
        )

    def ended(self) -> None:
        """The remote source is through: its last Frame stays, and what is kept can be looked at."""
        self.through = True
        if self.view.mode != "back":
            self.frame = self.newest
            self.change("the other end has closed the connection", mode="ended")

    def action_step(self, step: int) -> None:
        """A Frame back or on; from now a step back begins to look back."""
        if self.deck is not None and self.elsewhere:
            self.deck.step(step)
        elif step < 0 and self.view.mode in ("live", "paused", "ended"):
            self.deck = self.look_back()
            if self.deck is None:
                self.change(NOTHING_YET)
                return
            begin = self.deck.span()[0]
            line = Timeline(begin, max(begin + 1, self.newest.snapshot.wall_ns), begin)
            self.change(self._kept(), mode="back", playing=False, speed=1.0, back_s=0.0, timeline=line)
            self.deck.start()
            self.deck.seek(self.frame.snapshot.wall_ns - 1)

    def _kept(self) -> str:
        """How far back one can look, and what that takes."""
        if self.keeper is None or self.keeper.ring is None:
            return ""
        kept = self.keeper.ring.state()
        # The minute that is being packed has no size yet.
        room = f" in {size(kept.size_bytes)}B" if kept.size_bytes >= 10_240 else ""
        return f"the last {duration(kept.span_s)} are kept{room}; End goes back to now"

    def action_now(self) -> None:
        """Back to now."""
        if self.view.mode == "back":
            self.to_now("done: now")

    def action_sideways(self, step: int) -> None:
        """On the time line 10 s back or on, else the previous or next device."""
        if self.on_timeline and self.deck is not None:
            self.deck.skip(step * SKIP_S)
        else:
            self.action_device(step)

    def action_verdict(self, step: int) -> None:
        """The next or previous change of the verdict."""
        if self.deck is not None:
            self.deck.change(step)

    def action_mark(self) -> None:
        """Mark now; elsewhere go to the next mark."""
        if self.deck is not None:
            self.deck.mark(1)
        elif self.view.remote:
            self.change("failed: marks are set on the machine that is watched")
        else:
            self._source.add_event("mark", "by key")
            at = clock(self.newest.snapshot.wall_ns, self.view.utc_offset_s)
            self.change(f"done: mark set at {at}")

    def action_record(self) -> None:
        """Start a recording, or stop it."""
        keeper = self.keeper
        if keeper is None or not keeper.may_record:
            self.change("failed: this screen is read-only")
            return
        # A disk may take its time to open a file or to write out the last lines.
        threading.Thread(target=self._switch, args=(keeper,), name="record", daemon=True).start()

    def _switch(self, keeper: Keeper) -> None:
        try:
            done = keeper.switch()
        except IotopError as error:
            text = f"failed: {error}"
        except OSError as error:
            text = f"failed: {error.strerror}"
        else:
            if done is None:
                return
            if isinstance(done, str):
                text = f"done: recording to {done}"
            else:
                text = f"{'failed' if done.trouble else 'done'}: {recorded_text(done)}"
        self.app.post_message(RecordSaid(text))

    def watch_recording(self) -> None:
        """Put the recording's state into the View; a trouble that is new is said once."""
        now = self.keeper.recorded() if self.keeper is not None else None
        before, self.view = self.view.recorded, self.view._replace(recorded=now)
        if now is not None and now.trouble and (before is None or before.trouble != now.trouble):
            self.change(f"failed: {now.trouble}")

    def action_ask_time(self) -> None:
        """Begin to type a time."""
        if self.elsewhere:
            self.change(asking="")

    def type_time(self, key: str, character: str | None) -> None:
        """One more key of the time that is typed."""
        text = self.view.asking or ""
        if key == "enter":
            self._go_to(text)
        elif key == "escape":
            self.change(asking=None)
        else:
            self.change(asking=typed(text, key, character)[:LONGEST_TIME])

    def _go_to(self, text: str) -> None:
        if self.deck is None or not text.strip():
            self.change(asking=None)
            return
        zone = None if self.view.utc_offset_s is None else timezone(timedelta(seconds=self.view.utc_offset_s))
        begin, end = self.deck.span()
        try:
            wall_ns = parse_time_ns(text, begin, end, zone)
        except UsageError as error:
            self.change(f"failed: {error}", asking=None)
            return
        self.deck.seek(wall_ns)
        self.change(asking=None)
