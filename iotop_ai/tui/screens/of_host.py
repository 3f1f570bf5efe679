"""The base of the questions about the whole host: what this user may do is asked when they open."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ClassVar

from textual.message import Message

from iotop_ai.actions.kernel import Right, Switch, right_to
from iotop_ai.collectors.root import Root
from iotop_ai.present.line import plain
from iotop_ai.tui.screens.dialogue import DialogueScreen
from iotop_ai.tui.widgets.styles import Styles

if TYPE_CHECKING:
    from iotop_ai.tui.screens.acting import Acting


class RightSaid(Message):
    """How this user may set the switch. wait_s: seconds until it may be set again."""

    def __init__(self, right: Right, wait_s: float) -> None:
        self.right = right
        self.wait_s = wait_s
        super().__init__()


class HostScreen(DialogueScreen):
    """About a switch of the kernel; a subclass takes what it may do with it in ``on_right_said``."""

    switch: ClassVar[Switch]
    title_of: ClassVar[str]

    def __init__(self, below: Acting, book: Styles) -> None:
        super().__init__(below, book)
        self._main = below
        self._root = Root("/")

    def on_mount(self) -> None:
        """Ask what is permitted, on a thread: sudo may take its time."""
        threading.Thread(target=self._ask_right, name="right", daemon=True).start()

    def _ask_right(self) -> None:
        right = right_to(self.switch, self._root)
        self.post_message(RightSaid(right, self.wait_s()))

    def wait_s(self) -> float:
        """Seconds until it may be set again."""
        return 0.0

    def heading(self) -> tuple[str, str]:
        """What it is about."""
        return self.title_of, f"of the whole host {plain(self.below.newest.snapshot.host.name)}"
