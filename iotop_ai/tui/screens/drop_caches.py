"""The question before the host's caches are dropped, or one dataset is evicted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from textual.message import Message

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.drop_caches import Dropped, drop_caches, wait_s
from iotop_ai.actions.evict import evict
from iotop_ai.actions.kernel import DROP_CACHES
from iotop_ai.actions.outcome import Outcome
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.pagecache import PageCache
from iotop_ai.model.pagecache import Evicted
from iotop_ai.present import caches
from iotop_ai.present.dialogue import Row
from iotop_ai.present.drop_caches import EVICT, TITLE, DropView, drop_body, may
from iotop_ai.present.line import plain
from iotop_ai.present.units import amount
from iotop_ai.tui.screens.of_host import HostScreen, RightSaid
from iotop_ai.tui.widgets.styles import Styles

if TYPE_CHECKING:
    from iotop_ai.tui.screens.acting import Acting


class StepSaid(Message):
    """How far it is."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class Done(Message):
    """What was dropped or evicted; neither where it was refused."""

    def __init__(self, outcome: Outcome, dropped: Dropped | None = None, evicted: Evicted | None = None) -> None:
        self.outcome = outcome
        self.dropped = dropped
        self.evicted = evicted
        super().__init__()


class DropCachesScreen(HostScreen):
    """Asks for the typed word; shows how far it is, then the effect. Leaving it ends nothing that has begun."""

    switch = DROP_CACHES
    title_of = TITLE

    def __init__(self, below: Acting, book: Styles) -> None:
        super().__init__(below, book)
        self._clock = Clock()
        self._began_ns = self._asked_ns = 0
        self.drop = DropView()

    def wait_s(self) -> float:
        """Seconds until this user may drop again."""
        return wait_s(self._root, self._clock)

    def on_right_said(self, message: RightSaid) -> None:
        """Show it; who may not drop is offered what needs no root."""
        right = message.right
        self._asked_ns = self._clock.monotonic_ns()
        self.drop = self.drop._replace(how=right.how, reason=right.reason, remedy=right.remedy, wait_s=message.wait_s)
        if not self.drop.may_drop and not self.text:
            self._choose(EVICT)
        self.follow()

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The dialogue in its state."""
        self._wait_less()
        seconds = (self._clock.monotonic_ns() - self._began_ns) / 1e9 if self.drop.doing else 0.0
        view = self.drop._replace(typed=plain(self.text), seconds=seconds)
        return drop_body(self.below.newest.snapshot, view, width)

    def _wait_less(self) -> None:
        """The minute between two drops goes by."""
        if self.drop.wait_s > 0:
            now = self._clock.monotonic_ns()
            gone_s, self._asked_ns = (now - self._asked_ns) / 1e9, now
            self.drop = self.drop._replace(wait_s=max(0.0, self.drop.wait_s - gone_s))

    @property
    def over(self) -> bool:
        """Whether the effect is shown."""
        return self.drop.effect is not None or self.drop.evicted is not None

    def special(self, key: str) -> bool:
        """Up, Down and, while no path is typed, the digits choose."""
        if self.drop.doing or self.over:
            return True
        if key in ("up", "down"):
            self._choose((self.drop.choice - 1 + (1 if key == "down" else -1)) % EVICT + 1)
            return True
        if key in ("1", "2", "3", "4") and not (self.drop.choice == EVICT and self.text):
            self._choose(int(key))
            return True
        return False

    def _choose(self, choice: int) -> None:
        self.text = ""
        self.takes_paste = choice == EVICT
        self.drop = self.drop._replace(choice=choice, said="")

    def changed(self) -> None:
        """A complaint about the word before is over."""
        self.drop = self.drop._replace(said="")

    def enter(self) -> None:
        """Drop or evict, if that was confirmed."""
        drop = self.drop
        if self.over:
            self.leave()
        elif drop.doing:
            return
        elif drop.choice == EVICT:
            path = os.path.expanduser(self.text.strip())
            if not os.path.isabs(path) or not os.path.exists(path):
                self.drop = drop._replace(said="type the whole path of a folder or a file that is there: /data/set")
                return
            self._begin("evicting ...")
            self._main.work("evict", lambda: self._evict(path))
        elif drop.how is None:
            self.drop = drop._replace(said="what is permitted is still being asked")
        elif not may(drop, drop.choice):
            self.drop = drop._replace(said="that is not permitted; 4 takes one dataset out of memory")
            self.text = ""
        elif self.text.strip() != caches.WORD:
            self.drop = drop._replace(said=f"the word is {caches.WORD}; Esc leaves it")
            self.text = ""
        else:
            self._begin(caches.STEPS["sync"])
            self._main.work("drop-caches", lambda: self._drop(drop.choice))

    def _begin(self, text: str) -> None:
        self._began_ns = self._clock.monotonic_ns()
        self.text = ""
        self.drop = self.drop._replace(doing=text, said="")

    def _drop(self, level: int) -> Message:
        audit = Audit(self._clock)
        made = drop_caches(level, self._root, self._clock, audit, lambda step: self._tell(caches.STEPS[step]))
        self.post_message(Done(made.outcome, dropped=made))
        effect = made.effect
        text = caches.effect_text(effect) if effect is not None else made.outcome.told
        return self._main.said(made.outcome.done, text)

    def _evict(self, path: str) -> Message:
        outcome, done = evict(
            path,
            Audit(self._clock),
            PageCache(),
            lambda now: self._tell(f"evicting ... {now.files} files, {amount(now.size_bytes)},"),
        )
        self.post_message(Done(outcome, evicted=done))
        text = outcome.told if done is None else caches.evicted_text(done)
        return self._main.said(outcome.done, text)

    def _tell(self, text: str) -> None:
        self.post_message(StepSaid(text))

    def on_step_said(self, message: StepSaid) -> None:
        """Show how far it is."""
        if self.drop.doing:
            self.drop = self.drop._replace(doing=message.text)
            self.follow()

    def on_done(self, message: Done) -> None:
        """Show the effect, or why there is none."""
        effect = message.dropped.effect if message.dropped is not None else None
        self.drop = self.drop._replace(doing="", effect=effect, evicted=message.evicted)
        if effect is None and message.evicted is None:
            self.drop = self.drop._replace(said=message.outcome.told)
        self.follow()
