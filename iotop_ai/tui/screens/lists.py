"""The keys that open a list: of devices, of columns to sort by, of columns to show; and the tree of processes.

A part of the main screen of its own file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from iotop_ai.model.settings import SORT_KEYS
from iotop_ai.present.devices import Device, everything, infos, mounts
from iotop_ai.present.jobs_screen import job_rows
from iotop_ai.present.keymap import Act
from iotop_ai.present.palette import Entry, Wording
from iotop_ai.present.process import COLUMNS, has_room, optional_columns
from iotop_ai.present.select import chosen_device
from iotop_ai.present.units import size
from iotop_ai.tui.screens.palette import PaletteScreen
from iotop_ai.tui.screens.tagging import Tagging

BUSIEST, OF_THE_JOB = "busiest", "of the job"
"""Names that no device has: they hold a blank or are no path of /sys/block."""
_SORT_TEXTS = {
    "io": "bytes read and written",
    "delay": "time blocked on disk (IO-wait%)",
    "cpu": "CPU time",
    "read": "bytes read",
    "write": "bytes written",
    "name": "name",
    "user": "user",
}
_NOW = "●"


def _entry(name: str, text: str, now: bool) -> Entry:
    return Entry(Act((), "", text, name), f"{_NOW if now else ' '} {name}")


class Lists(Tagging):
    """What the main screen needs to choose from a list."""

    def device_of_job(self) -> str:
        """The kernel name of the device behind the job that the verdict is about; "" when none is seen."""
        rows = job_rows(self.frame, self.view)
        pid = self.frame.verdict.job_pid
        return next((row.device for row in rows if row.pid == pid and row.device in infos(self.frame)), "")

    def action_devices(self) -> None:
        """Every device, to choose one, or what is to be followed."""
        view, frame = self.view, self.frame
        here = chosen_device(frame, view) if view.device and not view.follow_job else ""
        listed = [
            _entry(BUSIEST, "follow the one that the verdict names, else the busiest", not view.device),
            _entry(OF_THE_JOB, "follow the job's", view.follow_job),
            *(_entry(one.name, self._device_text(one), one.name == here) for one in everything(frame, view)),
        ]
        self._list(
            tuple(listed), self._take_device, Wording("devices", "choose it", "no device has these words", False)
        )

    def _device_text(self, device: Device) -> str:
        info = device.info
        if info is None:
            return device.name
        where = " ".join(mount.path for mount in mounts(device.name, self.frame))
        room = size(info.size_bytes) + "B" if info.size_bytes else ""
        label = "" if info.label == device.name else info.label
        return "  ".join(part for part in (info.kind, label, where, info.model, room) if part)

    async def _take_device(self, act: Act) -> None:
        name = act.name
        if name == BUSIEST:
            self.change("done: the verdict's device, or the busiest", device="", follow_job=False)
        elif name == OF_THE_JOB:
            found = self.device_of_job()
            says = f"done: follows the job, now {found}" if found else "done: follows the job; no device is seen yet"
            self.change(says, device=found or self.view.device, follow_job=True)
        else:
            self.change(f"done: {name} chosen", device=name, follow_job=False)

    def action_sort_list(self) -> None:
        """Every column to sort by."""
        listed = tuple(_entry(key, _SORT_TEXTS[key], key == self.view.sort) for key in SORT_KEYS)
        self._list(listed, self._take_sort, Wording("sort processes by", "sort", "no column has these words", False))

    async def _take_sort(self, act: Act) -> None:
        self.change(f"done: sorted by {act.name}", sort=act.name, scroll=0)

    def action_columns(self) -> None:
        """Every column of the processes that may be left out."""
        without, width = self.view.no_columns, self.app.size.width
        listed = []
        for column in optional_columns():
            shown = has_room(column.id, width, without)
            state = "shown" if shown else "left out" if column.id in without else "shown on a wider screen"
            listed.append(_entry(column.id, f"{column.title}: {state}", shown))
        self._list(
            tuple(listed),
            self._take_column,
            Wording("columns of processes", "show or hide", "no column has these words", False),
        )

    async def _take_column(self, act: Act) -> None:
        without = self.view.no_columns ^ {act.name}
        title = next(column.title for column in COLUMNS if column.id == act.name)
        self.change(f"done: {title} {'left out' if act.name in without else 'shown'}", no_columns=without)

    def _list(self, listed: tuple[Entry, ...], take: Callable[[Act], Awaitable[None]], wording: Wording) -> None:
        ascii_only = self.view.ascii_only
        self.app.push_screen(PaletteScreen(listed, self._book, take, wording, ascii_only=ascii_only))

    def action_tree(self) -> None:
        """Each process under its parent, or equal ones folded."""
        tree = not self.view.tree
        self.change("done: a tree" if tree else "done: equal ones folded", tree=tree, cursor="", scroll=0)
