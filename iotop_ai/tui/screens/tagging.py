"""The keys that tag rows of processes, and the one that copies a row or all that is tagged.

A part of the main screen of its own file. Tagging changes nothing on the machine, so that it works everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iotop_ai.model.process import ProcessKey
from iotop_ai.present.groups import Group, groups
from iotop_ai.present.process import process_text
from iotop_ai.present.tags import still_there, toggled
from iotop_ai.tui.clipboard import copied
from iotop_ai.tui.screens.acting import CHOOSE_PROCESS, PROCESS_PREFIX
from iotop_ai.tui.screens.answers import Answered, Answers

CHOOSE_ROW = "failed: choose a row first: Tab to a panel, then Down"


class Tagging(Answers):
    """What the main screen needs to tag processes."""

    if TYPE_CHECKING:  # what the screen itself gives

        def action_cursor(self, step: int) -> None:
            """Move the cursor."""

    def forget_ended(self) -> None:
        """A tag goes with its process."""
        tagged = still_there(self.view.tagged, self.frame.snapshot, self.newest.snapshot)
        if tagged is not self.view.tagged:
            self.view = self.view._replace(tagged=tagged)

    def _under_cursor(self) -> Group | None:
        """The row of processes under the cursor."""
        view = self.view
        if view.focus != "process" or not view.cursor.startswith(PROCESS_PREFIX):
            return None
        return next((group for group in groups(self.frame, view) if group.row_key == view.cursor), None)

    def action_tag(self) -> None:
        """Tag the processes of the row under the cursor, or untag them when all are tagged; go on to the next row."""
        group = self._under_cursor()
        if group is None:
            self.change(CHOOSE_PROCESS)
            return
        tagged = toggled(self.view.tagged, group.keys)
        verb = "tagged" if len(tagged) > len(self.view.tagged) else "untagged"
        self.change(f"done: {group.label} {verb}, {len(tagged)} in all", tagged=tagged)
        self.action_cursor(1)

    def action_untag(self) -> None:
        """Tag nothing any more."""
        many = len(self.view.tagged)
        self.change(f"done: {many} untagged" if many else "failed: nothing is tagged", tagged=frozenset())

    def action_copy_row(self) -> None:
        """Copy the row under the cursor with its titles; of processes every tagged one, when there is one."""
        group, view = self._under_cursor(), self.view
        keys: frozenset[ProcessKey] = view.tagged or frozenset(() if group is None else group.keys)
        lines: list[str] = []
        if view.focus in ("disk", "gpu") and view.cursor:
            shown = self.panels[view.focus].lines
            lines = [line.text.replace("─", " ").replace("━", " ") for line in shown[:1]]
            lines += [line.text for line in shown if line.key == view.cursor]
        elif keys:
            lines = process_text(self.frame, view, keys)
        if len(lines) < 2:
            self.change(CHOOSE_ROW)
            return
        text = "".join(f"{line.rstrip()}\n" for line in lines)
        app = self.app

        def send(text: str) -> None:
            app.call_from_thread(app.copy_to_clipboard, text)

        self.work("copy", lambda: Answered(copied(text, send)))
