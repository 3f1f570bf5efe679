"""The state of the health screen, its disks, and the self-tests allowed on them."""

from __future__ import annotations

from collections.abc import Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.block import devices
from iotop_ai.present.health.summary import Health, reading_health
from iotop_ai.present.verdict.cures import advice_text

TESTS = ("short", "long")


class Dialog(NamedTuple):
    """The question before a self-test."""

    disk: str
    typed: str = ""
    """The input so far."""
    error: str = ""
    """Why the last input was refused."""


class HealthView(NamedTuple):
    """The screen's state."""

    disk: str = ""
    """The disk on its own page; "" for the list."""
    cursor: str = ""
    """The disk of the list's selected row."""
    scroll: int = 0
    """First body row in view."""
    dialog: Dialog | None = None
    may_test: bool = False
    """Whether self-tests can be started: only live, on this machine, and without --readonly."""
    may_ask: bool = False
    """Whether disks can be queried on demand."""


class DiskRow(NamedTuple):
    """One disk of the list."""

    name: str
    reading: Reading[SmartState] | None
    """None when it is not queried."""
    health: Health
    cure: str = ""
    """What to do, where the verdict names the disk as failing."""

    @property
    def state(self) -> SmartState | None:
        """The disk's last answer, also from before it went to sleep; None without any."""
        return None if self.reading is None else self.reading.value


def disk_rows(frame: Frame) -> list[DiskRow]:
    """Every physical disk by name; disks behind a RAID controller follow their volume."""
    smart = frame.snapshot.smart
    readings = smart.value or {}
    infos = devices.infos(frame)
    names = [name for name, info in infos.items() if info.kind == "disk" and not info.slaves]
    names = sorted({*names, *readings}, key=devices.natural)
    return [
        DiskRow(name, readings.get(name), reading_health(readings.get(name), smart), _cure(frame, name))
        for name in names
    ]


def _cure(frame: Frame, name: str) -> str:
    found = [one for one in frame.verdict.findings if one.class_id == "failing_disk" and one.subject == name]
    return next((advice_text(one.advice[0]) for one in found if one.advice), "")


def disk_row(frame: Frame, name: str) -> DiskRow | None:
    """The row of that disk; None when it does not exist."""
    return next((one for one in disk_rows(frame) if one.name == name), None)


def worst_disk(rows: Sequence[DiskRow]) -> str:
    """The disk that the cursor starts on; "" without any."""
    order = {"bad": 0, "warn": 1}
    worst = min(rows, key=lambda one: order.get(one.health.token, 2), default=None)
    return "" if worst is None else worst.name


def next_disk(rows: Sequence[DiskRow], current: str, step: int, *, around: bool) -> str:
    """The disk ``step`` rows on; "" without any. around: wrap from the last to the first."""
    names = [one.name for one in rows]
    if not names:
        return ""
    if current not in names:
        return names[0]
    at = names.index(current) + step
    return names[at % len(names)] if around else names[max(0, min(len(names) - 1, at))]


def why_no_test(row: DiskRow | None, view: HealthView) -> str:
    """Why no self-test can be started on this disk; "" when one can."""
    if not view.may_test:
        return "self-tests start only on the live screen of the machine itself, without --readonly"
    if row is None:
        name = view.disk or view.cursor
        return f"{name} is gone" if name else "this machine has no disk"
    if row.reading is None or row.state is None or row.reading.status is not Status.OK:
        asleep = row.reading is not None and row.reading.status is Status.ASLEEP
        return f"{row.name} {'sleeps' if asleep else 'does not answer'}: {row.health.reason}"
    if row.state.self_tests is False and not row.state.self_test_runs:
        nvme = row.state.protocol == "nvme"
        return f"{row.name} has no self-test" + (" with this smartctl: 7.4 starts an NVMe's" if nvme else "")
    return ""


def accepted_words(row: DiskRow) -> tuple[str, ...]:
    """The words that its dialog accepts: abort while a self-test runs, else the kinds of test."""
    running = row.state is not None and row.state.self_test_runs
    return ("abort",) if running else TESTS


def health_disk(frame: Frame, name: str) -> str:
    """The disk whose page shows the health of a device: itself, else the first leaf below it; "" without any."""
    disks = {one.name for one in disk_rows(frame)}
    below = [name, *(devices.leaves(name, frame) if name in devices.infos(frame) else [])]
    return next((one for one in below if one in disks), "")
