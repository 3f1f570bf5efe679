"""The keys that tag processes, and the key that copies a row or all tagged processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iotop_ai.model.process.records import ProcessKey
from iotop_ai.present.process.groups import groups, selected_group
from iotop_ai.present.process.table import process_text
from iotop_ai.present.process.tags import existing_tags, toggle_tags
from iotop_ai.present.screen.keymap import first_key
from iotop_ai.present.text.line import Line
from iotop_ai.tui.clipboard import copy_text
from iotop_ai.tui.screens.main.machine_actions import choose_first_text
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.threads.actions import ActionResult, ActionThreads


class TagActions:
    """The controller of the keys that tag and copy. They do not change the machine, so they work in every mode.

    move_cursor: moves the cursor by rows. lines: returns the lines of a panel by its name. osc52: copies to the
    terminal's clipboard.
    """

    def __init__(
        self,
        state: MainState,
        threads: ActionThreads,
        move_cursor: Callable[[int], None],
        lines: Callable[[str], Sequence[Line]],
        osc52: Callable[[str], None],
    ) -> None:
        self._state = state
        self._threads = threads
        self._move_cursor = move_cursor
        self._lines = lines
        self._osc52 = osc52

    def forget_ended(self) -> None:
        """Remove the tags of processes that have ended."""
        state = self._state
        tagged = existing_tags(state.view.tagged, state.frame.snapshot, state.newest.snapshot)
        if tagged is not state.view.tagged:
            state.update(tagged=tagged)

    def tag(self) -> None:
        """Tag the processes in the selected row, or untag them if all are tagged; then move to the next row.

        With a filter for tagged processes, the row may leave the list. If it was the last one, move to the row before.
        """
        view = self._state.view
        group = selected_group(self._state.frame, view)
        if group is None:
            self._state.change(choose_first_text(view))
            return
        before, rows = view.tagged, self._row_keys()
        tagged = toggle_tags(before, group.keys)
        verb = "tagged" if len(tagged) > len(before) else "untagged"
        self._state.change(
            f"done: {group.label} {verb}, {len(tagged)} in total", tagged=tagged, cursor=view.cursor or group.row_key
        )
        remaining = self._row_keys()
        if group.row_key in remaining:
            self._move_cursor(1)
        else:
            at = rows.index(group.row_key)
            nearest = (key for key in (*rows[at:], *reversed(rows[:at])) if key in remaining)
            self._state.change(self._state.view.message, cursor=next(nearest, ""))

    def _row_keys(self) -> list[str]:
        """The keys of the rows of the process list, from top to bottom."""
        return [group.row_key for group in groups(self._state.frame, self._state.view)]

    def untag(self) -> None:
        """Remove all tags."""
        count = len(self._state.view.tagged)
        self._state.change(f"done: {count} untagged" if count else "nothing is tagged", tagged=frozenset())

    def copy_row(self) -> None:
        """Copy the row under the cursor with the titles. Outside the lists of disks and GPUs, copy all tagged processes
        instead, if there are any.
        """
        lines = self._table_row() or self._process_rows()
        if len(lines) < 2:
            key = first_key("cursor.down", self._state.view.keymap)
            self._state.change("choose a row first" + (f": Tab to a panel, then {key}" if key else ""))
            return
        text = "".join(f"{line.rstrip()}\n" for line in lines)
        self._threads.run("copy", lambda: ActionResult(copy_text(text, self._osc52)))

    def _table_row(self) -> list[str]:
        """The titles and the row of the disk or GPU under the cursor; [] in other panels."""
        view = self._state.view
        if view.focus not in ("disk", "gpu") or not view.cursor:
            return []
        lines = self._lines(view.focus)
        titles = [_without_dashes(line) for line in lines[:1]]
        return titles + [line.text for line in lines if line.key == view.cursor]

    def _process_rows(self) -> list[str]:
        frame, view = self._state.frame, self._state.view
        group = selected_group(frame, view)
        keys: frozenset[ProcessKey] = view.tagged or frozenset(() if group is None else group.keys)
        return process_text(frame, view, keys) if keys else []


def _without_dashes(line: Line) -> str:
    """The text of a panel's title row, with blanks instead of the dashes of its rule."""
    return "".join(" " * len(text) if token.startswith("rule") else text for text, token in line.spans)
