"""What the health screen shows: its own state, the disks in it, and what may be done to them."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.model.frame import Frame
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.record import NamedTuple
from iotop_ai.model.smart import SmartState
from iotop_ai.present import devices
from iotop_ai.present.health import Health, of_reading

TESTS = ("short", "long")


class Dialogue(NamedTuple):
    """The question before a self-test. typed: the word so far; said: why the last word was not taken."""

    disk: str
    typed: str = ""
    said: str = ""


class HealthView(NamedTuple):
    """The screen's state. disk: shown alone, "" for the list. cursor: the list's row. scroll: first body row shown.

    may_test: whether self-tests can be begun from here at all (a live, own machine, not read-only). may_ask: whether
    disks can be asked on demand.
    """

    disk: str = ""
    cursor: str = ""
    scroll: int = 0
    dialogue: Dialogue | None = None
    may_test: bool = False
    may_ask: bool = False


class DiskRow(NamedTuple):
    """One disk: its name, its Reading (None: not asked), its health in a word."""

    name: str
    reading: Reading[SmartState] | None
    health: Health

    @property
    def state(self) -> SmartState | None:
        """What it told, also a last word before it slept; None when nothing is known."""
        return None if self.reading is None else self.reading.value


def disk_rows(frame: Frame) -> list[DiskRow]:
    """Every disk that could have a health of its own, by name; disks behind a controller after their volume."""
    smart = frame.snapshot.smart
    known = smart.value or {}
    infos = devices.infos(frame)
    names = [name for name, info in infos.items() if info.kind == "disk" and not info.slaves]
    names = sorted({*names, *known}, key=devices.natural)
    return [DiskRow(name, known.get(name), of_reading(known.get(name), smart)) for name in names]


def disk_row(frame: Frame, name: str) -> DiskRow | None:
    """One of them."""
    return next((one for one in disk_rows(frame) if one.name == name), None)


def first_shown(rows: Sequence[DiskRow]) -> str:
    """The disk under the cursor at first: the worst; "" without any."""
    order = {"bad": 0, "warn": 1}
    worst = min(rows, key=lambda one: order.get(one.health.token, 2), default=None)
    return "" if worst is None else worst.name


def next_disk(rows: Sequence[DiskRow], current: str, step: int, *, around: bool) -> str:
    """The disk ``step`` rows on; around: from the last to the first. "" without any."""
    names = [one.name for one in rows]
    if not names:
        return ""
    if current not in names:
        return names[0]
    at = names.index(current) + step
    return names[at % len(names)] if around else names[max(0, min(len(names) - 1, at))]


def why_no_test(row: DiskRow | None, view: HealthView) -> str:
    """Why no self-test can be begun on this disk from here; "" when one can."""
    if not view.may_test:
        return "self-tests are begun on the live screen of the machine itself, without --readonly"
    if row is None or row.reading is None or row.state is None or row.reading.status is not Status.OK:
        return f"{row.name if row else 'the disk'} does not answer" + (f": {row.health.reason}" if row else "")
    if row.state.self_tests is False and row.state.self_test_left_percent is None:
        old = row.state.protocol == "nvme"
        return f"{row.name} runs no self-test" + (" with this smartctl: 7.4 begins an NVMe's" if old else "")
    return ""


def words_of(row: DiskRow) -> tuple[str, ...]:
    """The words that its dialogue takes: abort while a self-test runs, else which one to begin."""
    running = row.state is not None and row.state.self_test_left_percent is not None
    return ("abort",) if running else TESTS


def health_of(frame: Frame, name: str) -> str:
    """The disk whose health a device has: itself, else the first that it lies on; "" for none."""
    known = {one.name for one in disk_rows(frame)}
    below = [name, *(devices.leaves(name, frame) if name in devices.infos(frame) else [])]
    return next((one for one in below if one in known), "")
