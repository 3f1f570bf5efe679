"""The keys that choose what is shown, and in which order: rows, columns, panels, device, units, filter, sort order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from iotop_ai.model.settings import SORT_KEYS, UNITS
from iotop_ai.present.block.devices import BlockDevice, all_devices, chosen_name, mounts
from iotop_ai.present.job.screen import JobRow, job_rows
from iotop_ai.present.process.filter import parse_filter
from iotop_ai.present.process.sort_value import order_words
from iotop_ai.present.process.table import COLUMNS, SHOWN, column_state, optional_columns
from iotop_ai.present.screen.actions import Action
from iotop_ai.present.screen.keymap import first_key
from iotop_ai.present.screen.palette import Entry, Wording
from iotop_ai.present.screen.selection import device_order, selected_device_name
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.present.text.units import UNIT_WORDS, capacity, use_units
from iotop_ai.tui.screens.main.state import MainState
from iotop_ai.tui.view_changes import device_after, pasted_line, sort_after

LONGEST_PATTERN = 128
"""The largest number of characters of a filter."""
BUSIEST, OF_THE_JOB = "busiest", "of the job"
"""Two entries in the list of devices. They differ from the kernel names of devices, such as sda, nvme0n1 and dm-0."""
_SORT_TEXTS = {
    "io": "bytes read and written",
    "delay": "time blocked on disk (IO-wait%)",
    "cpu": "CPU time",
    "read": "bytes read",
    "write": "bytes written",
    "name": "name",
    "user": "user",
}
_CURRENT = "●"
_ERASE = ("backspace", "delete", "ctrl+u", "ctrl+w")

OpenList = Callable[[tuple[Entry, ...], Callable[[Action], Awaitable[None]], Wording], None]
"""Opens a list of entries, and calls the function with the Action of the entry that the user chooses."""


def _entry(name: str, text: str, current: bool) -> Entry:
    """The entry for a choice that is not a key's action. current: whether it is chosen now, and so has a mark."""
    return Entry(Action((), "", text, name), f"{_CURRENT if current else ' '} {name}")


class ListActions:
    """The controller of the keys that choose what is shown. It changes only the View and the unit system."""

    def __init__(self, state: MainState, open_list: OpenList) -> None:
        self._state = state
        self._open_list = open_list

    def _row_of_job(self) -> JobRow | None:
        """The row of the verdict's job; None without a job."""
        frame = self._state.frame
        return next((row for row in job_rows(frame, self._state.view) if row.pid == frame.verdict.job_pid), None)

    def device_of_job(self) -> str:
        """The kernel name of the disk that the verdict's job reads from; "" without a job or if unknown."""
        row = self._row_of_job()
        return "" if row is None else row.disk

    def _followed_device(self) -> str:
        """The device to select while the user follows the job: the job's disk; "" if the job reads from a mount without
        a disk; the present selection while the job's device is unknown.
        """
        row = self._row_of_job()
        return row.disk if row is not None and row.device else self._state.view.device

    def follow_job_device(self) -> None:
        """Select the job's disk, if the user chose to follow the job."""
        if self._state.view.follow_job:
            self._state.update(device=self._followed_device())

    def open_device_list(self) -> None:
        """Open the list of devices. With two further entries, the selection follows the busiest device or the job's."""
        view, frame = self._state.view, self._state.frame
        chosen = chosen_name(frame, view)
        busiest = not chosen and not view.follow_job
        current = "" if view.follow_job else chosen
        entries = [
            _entry(BUSIEST, "follow the device that the verdict names, else the busiest", busiest),
            _entry(OF_THE_JOB, "follow the job's device", view.follow_job),
            *(_entry(d.name, self._device_text(d), d.name == current) for d in all_devices(frame, view)),
        ]
        wording = Wording("devices", "choose it", "no device matches", False)
        self._open_list(tuple(entries), self._take_device, wording)

    def _device_text(self, device: BlockDevice) -> str:
        info = device.info
        if info is None:
            return device.name
        paths = " ".join(mount.path for mount in mounts(device.name, self._state.frame))
        nominal = capacity(info.size_bytes) if info.size_bytes else ""
        label = "" if info.label == device.name else info.label
        return "  ".join(part for part in (info.kind, label, paths, info.model, nominal) if part)

    async def _take_device(self, action: Action) -> None:
        name = action.name
        if name == BUSIEST:
            self._state.change("done: the verdict's device, or the busiest", device="", follow_job=False)
        elif name == OF_THE_JOB:
            row, device = self._row_of_job(), self.device_of_job()
            place = f"now {device}" if device else "" if row is None else row.device
            answer = f"done: follows the job, {place}" if place else "done: follows the job; no device is known yet"
            self._state.change(answer, device=self._followed_device(), follow_job=True)
        else:
            self.choose_device(name)

    def choose_device(self, name: str, **changes: object) -> None:
        """Select a device by its kernel name."""
        key = first_key("device.list", self._state.view.keymap)
        frees = f"; {key} frees it" if key else ""
        self._state.change(f"done: {name} pinned{frees}", device=name, follow_job=False, **changes)

    def step_device(self, step: int) -> None:
        """Select the next or previous device."""
        frame, view = self._state.frame, self._state.view
        name = device_after(device_order(frame, view), selected_device_name(frame, view), step)
        if name:
            self.choose_device(name)

    def open_sort_list(self) -> None:
        """Open the list of columns to sort by."""
        entries = tuple(_entry(key, _SORT_TEXTS[key], key == self._state.view.sort) for key in SORT_KEYS)
        wording = Wording("sort processes by", "sort", "no column matches", False)
        self._open_list(entries, self._take_sort, wording)

    async def _take_sort(self, action: Action) -> None:
        self._sort_by(action.name)

    def _sort_by(self, key: str) -> None:
        self._state.change(f"done: sorted by {key}", sort=key, scroll=0)

    def sort(self, step: int) -> None:
        """Sort the processes by the next or previous column."""
        self._sort_by(sort_after(self._state.view.sort, step))

    def sort_by_title(self, key: str) -> None:
        """Sort the processes by this column; reverse the order if they are sorted by it already."""
        if key == self._state.view.sort:
            self.reverse()
        else:
            self._sort_by(key)

    def switch_units(self) -> None:
        """Switch the unit of rates between MB of 1,048,576 and of 1,000,000 bytes."""
        units = UNITS[(UNITS.index(self._state.view.units) + 1) % len(UNITS)]
        use_units(units)
        self._state.change(f"done: {UNIT_WORDS[units]}", units=units)

    def reverse(self) -> None:
        """Reverse the order."""
        view = self._state.view
        reverse = not view.reverse
        self._state.change(f"done: {order_words(view.sort, reverse)}", reverse=reverse, scroll=0)

    def open_column_list(self) -> None:
        """Open the list of the process columns that can be left out."""
        state = self._state
        entries = []
        for column in optional_columns():
            column_status = column_state(column.id, state.frame, state.view, state.canvas.columns)
            entries.append(_entry(column.id, f"{column.title}: {column_status}", column_status == SHOWN))
        wording = Wording("columns of processes", "show or hide", "no column matches", False)
        self._open_list(tuple(entries), self._take_column, wording)

    async def _take_column(self, action: Action) -> None:
        left_out = self._state.view.no_columns ^ {action.name}
        title = next(column.title for column in COLUMNS if column.id == action.name)
        self._state.change(f"done: {title} {'left out' if action.name in left_out else 'shown'}", no_columns=left_out)

    def toggle_tree(self) -> None:
        """Show each process under its parent, or again one row for the processes of one name, user and job."""
        tree = not self._state.view.tree
        self._state.change("done: a tree" if tree else "done: grouped", tree=tree, cursor="", scroll=0)

    def toggle_only_active(self) -> None:
        """Show only active rows, or all rows."""
        only = not self._state.view.only_active
        self._state.change("done: only active rows" if only else "done: all rows", only_active=only, scroll=0)

    def toggle_panel(self, name: str) -> None:
        """Hide a panel, or show it again."""
        hidden = self._state.view.hidden ^ {name}
        self._state.change(f"done: {name} {'hidden' if name in hidden else 'shown'}", hidden=hidden, zoom="")

    def toggle_zoom(self, panel: str) -> None:
        """Let a panel fill the whole window, or show all panels again."""
        panel = "" if self._state.view.zoom else panel
        key = first_key("panels.zoom", self._state.view.keymap)
        alone = f"done: {panel} alone" + (f"; {key} shows all" if key else "")
        self._state.change(alone if panel else "done: all panels", zoom=panel, scroll=0)

    def find(self) -> None:
        """Begin to type a filter. The previous filter is selected, so that typing replaces it."""
        view = self._state.view
        self._state.change(typing=True, pattern_selected=bool(view.pattern), text_right=0)

    def type_filter(self, key: str, character: str | None) -> None:
        """Handle a key that is pressed while the filter is typed."""
        selected = self._state.view.pattern_selected
        self._state.update(pattern_selected=False)
        if key == "enter":
            invalid = parse_filter(self._state.view.pattern).trouble
            self._state.change(typing=bool(invalid))  # an invalid filter stays open, so that the next keys mend it
        elif key == "escape":
            self._state.change(typing=False, pattern="")
        else:
            # A key that neither types nor erases, such as Left, shows that the previous filter is to be edited.
            replaced = selected and (key in _ERASE or bool(character and character.isprintable()))
            typed = TypedText() if replaced else TypedText(self._state.view.pattern, self._state.view.text_right)
            self._filter(typed.after(key, character, LONGEST_PATTERN))

    def paste_filter(self, text: str) -> None:
        """Insert the first line of a pasted text into the filter, or replace a selected filter with it."""
        view = self._state.view
        typed = TypedText() if view.pattern_selected else TypedText(view.pattern, view.text_right)
        self._state.update(pattern_selected=False)
        self._filter(typed.with_inserted(pasted_line(text), LONGEST_PATTERN))

    def _filter(self, typed: TypedText) -> None:
        if typed.text != self._state.view.pattern:
            self._state.change(pattern=typed.text, text_right=typed.right, cursor="", scroll=0)
        else:
            self._state.change(text_right=typed.right)

    def clear_filter(self) -> None:
        """Show all processes again."""
        if self._state.view.pattern:
            self._state.change("done: filter cleared", pattern="", cursor="", scroll=0)
