"""The keys that change the machine: what they ask, that it is done on a thread of its own, and what came of it.

A part of the main screen of its own file. Nothing here acts anywhere but at now, on the machine itself, where its user
may confirm: not in a replay, not on a remote screen, not while looking back, not with --readonly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.events import Key
from textual.message import Message

from iotop_ai.collectors.clock import Clock
from iotop_ai.present.groups import groups
from iotop_ai.present.line import Line, filled
from iotop_ai.tui.screens.dialogue import DialogueScreen
from iotop_ai.tui.screens.moments import Moments
from iotop_ai.tui.widgets.styles import Styles

if TYPE_CHECKING:
    from iotop_ai.present.layout import Slot
    from iotop_ai.tui.panels.base import FramePanel

AT_NOW = ("live", "paused")
PROCESS_PREFIX = "process:"
CHOOSE_PROCESS = "failed: choose a process first: Tab there, then Down"
OPENERS = ("drop_caches", "delay_accounting", "process")
"""Actions that open a question: keys that follow in one burst are already typed into it."""


class ActionSaid(Message):
    """An action is over. events: for the recording, () when nothing was done; text: for the user."""

    def __init__(self, done: bool, text: str, events: tuple[str, ...] = ()) -> None:
        self.done = done
        self.text = text
        self.events = events
        super().__init__()


class Acting(Moments):
    """What the main screen needs to change the machine."""

    _book: Styles
    _slots: tuple[Slot, ...]
    panels: dict[str, FramePanel]
    _question: DialogueScreen | None = None
    _acts: Sequence[threading.Thread] = ()

    if TYPE_CHECKING:  # what the screen itself gives

        def _draw(self, width: int) -> None:
            """Lay the panels out and fill them with the Frame's rows."""

    def why_no_action(self) -> str:
        """Why nothing can be changed from here; "" when it can."""
        view = self.view
        if view.readonly:
            return "this screen is read-only"
        if view.mode == "back":
            return "this is the past: End goes back to now, where it can be done"
        if view.remote or view.mode not in AT_NOW or not self._source.live:
            return "it is done on the machine itself, on its live screen"
        return ""

    def behind(self) -> list[Line]:
        """The main screen's rows as they are now, for a question that stands over them."""
        width = self.app.size[0]
        self._draw(width)
        out: list[Line] = []
        for slot in self._slots:
            panel = self.panels[slot.panel]
            out += filled(panel.lines, width, panel.height_on_screen)
        return out

    def takes_key(self, event: Key) -> bool:
        """Whether a key opened a question or belongs to the one that stands."""
        if self._question is not None and self._question in self.app.screen_stack:
            self._question.press(event)
            return True
        active = self.active_bindings.get(event.key)
        if active is not None and active.binding.action.partition("(")[0] in OPENERS:
            self.call_action(active.binding.action)
            return True
        return False

    def call_action(self, action: str) -> None:
        """Run one of OPENERS at once."""
        name, _, argument = action.partition("(")
        method = getattr(self, f"action_{name}")
        method(argument.strip("')\"")) if argument else method()

    def ask(self, question: DialogueScreen) -> None:
        """Open a question, if anything may be done from here."""
        why = self.why_no_action()
        if why:
            self.change(f"failed: {why}")
            return
        self._question = question
        self.app.push_screen(question)

    def said(self, done: bool, text: str, events: tuple[str, ...] = ()) -> ActionSaid:
        """What an action's thread hands back; only what was done goes into the recording.

        events: what was done, where it is not one thing.
        """
        return ActionSaid(done, text, (events or (text,)) if done else ())

    def work(self, name: str, act: Callable[[], Message]) -> None:
        """Act on a thread of its own: a disk may take long, and a hung one must not keep the program from ending."""

        def run() -> None:
            message = act()
            if isinstance(message, ActionSaid):  # noted here: the app may be left before it sees the message
                for event in message.events:
                    self._source.add_event("action", event)
            self.post_message(message)

        self._acts = [*(one for one in self._acts if one.is_alive()), threading.Thread(None, run, name, daemon=True)]
        self._acts[-1].start()

    def wait_for_acts(self, seconds: float) -> None:
        """Let what was begun come to its end, at most so long, so that the recording knows of it."""
        clock = Clock()
        end_ns = clock.monotonic_ns() + int(seconds * 1e9)
        for act in self._acts:
            act.join(max(0.0, (end_ns - clock.monotonic_ns()) / 1e9))

    def on_action_said(self, message: ActionSaid) -> None:
        """Say it."""
        self.change(f"{'done' if message.done else 'failed'}: {message.text}")

    def action_drop_caches(self) -> None:
        """Ask before the host's caches are dropped."""
        from iotop_ai.tui.screens.drop_caches import DropCachesScreen  # what nobody asked for yet is not loaded

        self.ask(DropCachesScreen(self, self._book))

    def action_delay_accounting(self) -> None:
        """Ask before the kernel's delay accounting is switched."""
        from iotop_ai.tui.screens.process_act import DelayScreen

        self.ask(DelayScreen(self, self._book))

    def action_process(self, begun: str = "") -> None:
        """Ask what is to be done to what is tagged, else to what is under the cursor. begun: what is typed already."""
        from iotop_ai.present.process_act import whom_of, whom_tagged
        from iotop_ai.tui.screens.process_act import ProcessScreen

        cursor = self.view.cursor.removeprefix(PROCESS_PREFIX)
        if self.why_no_action():
            self.change(f"failed: {self.why_no_action()}")
        elif tagged := whom_tagged(self.newest.snapshot, self.view.tagged):
            self.ask(ProcessScreen(self, self._book, tagged, begun))
        elif not (self.view.focus == "process" and self.view.cursor.startswith(PROCESS_PREFIX) and cursor.isdigit()):
            self.change(CHOOSE_PROCESS)
        else:
            keys = next((g.keys for g in groups(self.frame, self.view) if g.row_key == self.view.cursor), ())
            whom = whom_of(self.newest.snapshot, int(cursor), keys)
            if whom is None:
                self.change("failed: it has ended")
            else:
                self.ask(ProcessScreen(self, self._book, whom, begun))
