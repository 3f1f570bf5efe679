"""The questions before a process is signalled, reniced or ioniced, and before delay accounting is switched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from iotop_ai.actions.audit import Audit
from iotop_ai.actions.delayacct import set_delayacct
from iotop_ai.actions.kernel import TASK_DELAYACCT, Right
from iotop_ai.actions.process import act_on, act_on_each, parse_command, why_protected
from iotop_ai.collectors.clock import Clock
from iotop_ai.collectors.root import Root
from iotop_ai.present.dialogue import Row
from iotop_ai.present.line import plain
from iotop_ai.present.process_act import DELAY_TITLE, TITLE, DelayView, Whom, delay_body, process_body
from iotop_ai.tui.screens.dialogue import DialogueScreen
from iotop_ai.tui.screens.of_host import HostScreen, RightSaid
from iotop_ai.tui.widgets.styles import Styles

if TYPE_CHECKING:
    from iotop_ai.tui.screens.acting import Acting


class ProcessScreen(DialogueScreen):
    """Asks what is to be done to one process, to all that share a row, or to all that is tagged.

    The typed command confirms it.
    """

    def __init__(self, below: Acting, book: Styles, whom: Whom, begun: str = "") -> None:
        super().__init__(below, book)
        self._main = below
        self._whom = whom
        self._said = ""
        self.text = begun

    def heading(self) -> tuple[str, str]:
        """Who it is."""
        return TITLE, self._whom.label

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """Who it is, what hangs on it, the commands."""
        return process_body(self.below.newest.snapshot, self._whom, plain(self.text), self._said, width)

    def changed(self) -> None:
        """A complaint about the command before is over."""
        self._said = ""

    def enter(self) -> None:
        """Act on a command that is one."""
        command = parse_command(self.text)
        if command is None:
            self._said = "that is none of them: term, kill, nice 10, io idle ..."
            return
        root = Root("/")
        why = why_protected(self._whom.keys[0], root) if len(self._whom.keys) == 1 else ""
        if why:
            self._said = f"not done: {why}"
            self.text = ""
            return
        whom, main = self._whom, self._main

        def act() -> Message:
            if whom.names:
                each = act_on_each(command, tuple(zip(whom.keys, whom.names, strict=True)), root, Audit(Clock()))
                outcome, events = each.whole, each.done
            else:
                outcome, events = act_on(command, whom.keys, whom.name, root, Audit(Clock())), ()
            return main.said(outcome.done, outcome.told, events)

        main.work("process-act", act)
        self.leave()


class DelayScreen(HostScreen):
    """Asks before kernel.task_delayacct is switched, as Ctrl-T does in iotop."""

    switch = TASK_DELAYACCT
    title_of = DELAY_TITLE

    def __init__(self, below: Acting, book: Styles) -> None:
        super().__init__(below, book)
        self._right: Right | None = None
        self._said = ""
        self._doing = False

    def on_right_said(self, message: RightSaid) -> None:
        """Show it."""
        self._right = message.right
        self.follow()

    @property
    def view(self) -> DelayView:
        """The dialogue's state."""
        table = self.below.newest.snapshot.processes.value
        how, reason, remedy = (None, "", "") if self._right is None else self._right
        on = None if table is None else table.delayacct
        return DelayView(on, how, reason, remedy, plain(self.text), self._said, self._doing)

    def body(self, width: int) -> tuple[list[Row], list[Row]]:
        """The dialogue."""
        return delay_body(self.view, width)

    def changed(self) -> None:
        """A complaint about the word before is over."""
        self._said = ""

    def enter(self) -> None:
        """Switch it, if the word was typed."""
        view = self.view
        if self._doing:
            return
        if not view.how:
            self._said = "what is permitted is still being asked" if view.how is None else "that is not permitted"
            return
        if self.text.strip() != view.word:
            self._said, self.text = f"the word is {view.word}; Esc leaves it", ""
            return
        self._doing, main = True, self._main

        def act() -> Message:
            outcome = set_delayacct(view.word == "on", Root("/"), Audit(Clock()))
            return main.said(outcome.done, outcome.told)

        main.work("delayacct", act)
        self.leave()
