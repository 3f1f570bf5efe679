"""Every disk's health over the whole screen, live: a list, one disk in full, and its self-tests."""

from __future__ import annotations

import threading
from typing import Protocol, runtime_checkable

from textual.app import ComposeResult
from textual.events import Key, Paste
from textual.message import Message
from textual.screen import Screen

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.outcome import Outcome
from iotop_ai.actions.selftest import Target, self_test
from iotop_ai.collectors.clock import Clock
from iotop_ai.model.frame import Frame
from iotop_ai.present.health_detail import most_scroll
from iotop_ai.present.health_screen import health_screen_rows, subject
from iotop_ai.present.health_view import (
    Dialogue,
    HealthView,
    disk_row,
    disk_rows,
    first_shown,
    next_disk,
    why_no_test,
    words_of,
)
from iotop_ai.present.keymap import SCREENS
from iotop_ai.present.line import DISK_PREFIX
from iotop_ai.present.view import View
from iotop_ai.store.recording import Source
from iotop_ai.tui.bindings import HEALTH_KEYS
from iotop_ai.tui.choose import typed
from iotop_ai.tui.screens.help import HelpScreen
from iotop_ai.tui.widgets.lines import LinePanel, RowClicked, Wheeled
from iotop_ai.tui.widgets.styles import Styles

LONGEST_WORD = 8
PAGE_OVERLAP = 2
AT_NOW = ("live", "paused")


@runtime_checkable
class AsksDisks(Protocol):
    """A source whose disks can be asked on demand: the running machine."""

    smartctl: str

    def refresh_smart(self) -> None:
        """Ask every disk now."""
        ...


class Below(Protocol):
    """The main screen, whose Frame and View this one shows."""

    frame: Frame
    view: View

    def change(self, message: str = "", **changes: object) -> None:
        """Change the View; ``message`` answers the key for a few seconds."""
        ...


class TestSaid(Message):
    """What came of a self-test command."""

    def __init__(self, disk: str, outcome: Outcome) -> None:
        self.disk = disk
        self.outcome = outcome
        super().__init__()


class HealthScreen(Screen[None]):
    """Follows the main screen's Frame; keeps which disk is shown, and the question before a self-test.

    disk: shown at once, "" for the list. While the question stands every key belongs to it.
    """

    BINDINGS = HEALTH_KEYS
    ACTS = SCREENS["health"]
    DEFAULT_CSS = "HealthScreen { overflow: hidden; } HealthScreen LinePanel { height: 1fr; }"

    def __init__(self, below: Below, source: Source, book: Styles, disk: str = "") -> None:
        super().__init__()
        self.below = below
        self._source = source
        self._book = book
        self._alone = bool(disk)
        self._busy = ""
        self.health = HealthView(disk=disk, cursor=disk or below.view.device)
        self.panel = LinePanel(book, id="health")

    def compose(self) -> ComposeResult:
        """One panel."""
        self.follow()
        yield self.panel

    @property
    def types(self) -> bool:
        """Whether keys belong to something that is being typed."""
        return self.health.dialogue is not None

    @property
    def may_act(self) -> bool:
        """Whether something may be done to the disks from here: at now, on the machine itself, not read-only."""
        view = self.below.view
        now = view.mode in AT_NOW and not view.remote and not view.readonly
        return now and self._source.live and isinstance(self._source, AsksDisks)

    def follow(self) -> None:
        """Draw what the main screen has now; only changed rows are painted."""
        width, height = self.app.size
        asks = isinstance(self._source, AsksDisks) and self.below.view.mode in AT_NOW
        self.health = self.health._replace(may_test=self.may_act, may_ask=asks)
        rows = disk_rows(self.below.frame)
        if rows and not any(one.name == self.health.cursor for one in rows):
            self.health = self.health._replace(cursor=first_shown(rows))
        self.panel.show(health_screen_rows(self.below.frame, self.below.view, self.health, width, height))

    def show(self, **changes: object) -> None:
        """Change what is shown and draw it."""
        self.health = self.health._replace(**changes)  # type: ignore[arg-type]
        self.follow()

    def say(self, text: str) -> None:
        """Answer a key."""
        self.below.change(text)
        self.follow()

    def on_resize(self) -> None:
        """Fit it to the new size."""
        self.follow()

    def on_screen_resume(self) -> None:
        """Catch up with what came while the help was in front."""
        self.follow()

    def on_row_clicked(self, event: RowClicked) -> None:
        """A click opens a disk."""
        event.stop()
        if self.health.dialogue is None and event.key.startswith(DISK_PREFIX):
            name = event.key.removeprefix(DISK_PREFIX)
            self.show(disk=name, cursor=name, scroll=0)

    def on_key(self, event: Key) -> None:
        """While the question stands every key belongs to it."""
        dialogue = self.health.dialogue
        if dialogue is None:
            active = self.active_bindings.get(event.key)
            if active is not None and active.binding.action == "test":
                # Taken here, so that what follows in one burst is already typed into the question.
                event.stop()
                event.prevent_default()
                self.action_test()
            return
        if event.key == "ctrl+c":
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.show(dialogue=None)
        elif event.key == "enter":
            self._decide(dialogue)
        else:
            word = typed(dialogue.typed, event.key, event.character)[:LONGEST_WORD]
            self.show(dialogue=dialogue._replace(typed=word, said=""))

    def on_paste(self, event: Paste) -> None:
        """A pasted word is no typed one."""
        event.stop()

    def action_back(self) -> None:
        """From a disk to the list, unless it was opened alone; from there to the main screen."""
        if self.health.disk and not self._alone:
            self.show(disk="", cursor=self.health.disk, scroll=0)
        else:
            self.action_main()

    def action_main(self) -> None:
        """To the main screen."""
        if self.is_current:  # two keys in one read are two events
            self.app.pop_screen()

    def action_open(self) -> None:
        """The disk under the cursor in full."""
        if not self.health.disk and disk_row(self.below.frame, self.health.cursor) is not None:
            self.show(disk=self.health.cursor, scroll=0)

    def on_wheeled(self, event: Wheeled) -> None:
        """The wheel moves as the arrows do."""
        event.stop()
        self.action_move(event.step)

    def action_move(self, step: int) -> None:
        """Another disk of the list, or another row of the one that is shown."""
        if not self.health.disk:
            rows = disk_rows(self.below.frame)
            self.show(cursor=next_disk(rows, self.health.cursor, step, around=False))
            return
        width, height = self.app.size
        most = most_scroll(self.below.frame, self.health, width, height - 1)
        self.show(scroll=max(0, min(most, self.health.scroll + step)))

    def action_page(self, pages: int) -> None:
        """A screenful."""
        self.action_move(pages * max(1, self.app.size.height - 5 - PAGE_OVERLAP))

    def action_disk(self, step: int) -> None:
        """The next or previous disk."""
        name = next_disk(disk_rows(self.below.frame), self.health.disk or self.health.cursor, step, around=True)
        self.show(disk=name if self.health.disk else "", cursor=name, scroll=0)

    def action_ask(self) -> None:
        """Ask every disk now; a sleeping one is left asleep."""
        if isinstance(self._source, AsksDisks) and self.health.may_ask:
            self._source.refresh_smart()
            self.say("done: the disks are asked")

    def action_test(self) -> None:
        """Open the question, or say why there is none."""
        one = subject(self.below.frame, self.health)
        why = f"{self._busy} is being asked" if self._busy else why_no_test(one, self.health)
        if why or one is None:
            self.say(f"failed: {why}" if why else "failed: there is no disk")
        else:
            self.show(dialogue=Dialogue(one.name))

    def _decide(self, dialogue: Dialogue) -> None:
        """Act on the typed word, if it is one of those that are asked for."""
        one = disk_row(self.below.frame, dialogue.disk)
        why = why_no_test(one, self.health)
        if why or one is None or one.state is None:
            self.show(dialogue=None)
            self.say(f"failed: {why or 'the disk is gone'}")
            return
        word, words = dialogue.typed.strip(), words_of(one)
        if word not in words:
            self.show(dialogue=dialogue._replace(typed="", said=f"Type {' or '.join(words)}; Esc leaves it."))
            return
        self.show(dialogue=None)
        self._busy = one.name
        self._act(word, Target(one.name, one.state.device, one.state.device_type))

    def _act(self, word: str, target: Target) -> None:
        """On a thread of its own: smartctl may take long, and a hung one must not keep the program from ending."""
        smartctl = self._source.smartctl if isinstance(self._source, AsksDisks) else ""

        def work() -> None:
            clock = Clock()
            self.post_message(TestSaid(target.name, self_test(word, target, smartctl, clock, Audit(clock))))

        threading.Thread(target=work, name="self-test", daemon=True).start()

    def on_test_said(self, message: TestSaid) -> None:
        """Say what came of it, note it in the recording, and ask the disk how it goes."""
        self._busy = ""
        outcome = message.outcome
        self._source.add_event("action", f"{message.disk}: {outcome.text}")
        if outcome.done and isinstance(self._source, AsksDisks):
            self._source.refresh_smart()
        self.say(f"{'done' if outcome.done else 'failed'}: {message.disk}: {outcome.told}")

    def action_help(self) -> None:
        """The help page."""
        self.app.push_screen(HelpScreen(self.below.frame, self.below.view, self._book, "health"))
