"""The state of the health screen, the disks in it, and the self-tests that can be started on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotop_ai.lazy.namedtuple import NamedTuple
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.frame import Frame
from iotop_ai.model.health.identity import DiskIdentity, answered_identity, replaced_disk_text
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.present.block import devices
from iotop_ai.present.health.summary import Health, reading_health
from iotop_ai.present.text.typed_text import TypedText
from iotop_ai.present.verdict.cures import advice_text

TESTS = ("short", "long")


class Dialog(NamedTuple):
    """The state of the dialog that asks before a self-test."""

    disk: str
    typed: TypedText = TypedText()
    """The text typed so far."""
    error: str = ""
    """Why the last input was refused; "" if it was not."""
    identity: DiskIdentity = DiskIdentity()
    """The identity that the disk had when the dialog opened."""


class HealthView(NamedTuple):
    """The state of the health screen."""

    disk: str = ""
    """The disk whose page is open; "" for the list."""
    cursor: str = ""
    """The disk whose row is selected in the list; "" for the first."""
    scroll: int = 0
    """The index of the first row shown in a page's body, or in the list."""
    dialog: Dialog | None = None
    may_test: bool = False
    """Whether self-tests can be started: only on the live screen of this machine, and without --readonly."""
    may_ask: bool = False
    """Whether the user can request an immediate query of the disks."""


class DiskRow(NamedTuple):
    """One disk of the list."""

    name: str
    reading: Reading[SmartState] | None
    """The disk's SMART Reading; None if there is none."""
    health: Health
    advice: str = ""
    """The verdict's advice if the verdict names the disk as failing; otherwise ""."""
    identity: DiskIdentity = DiskIdentity()
    """The disk's identity, which distinguishes it from a later disk with the same name."""

    @property
    def state(self) -> SmartState | None:
        """The disk's last answer, which may be from before it went to sleep; without permission to query the disk, the
        facts from sysfs. None if there is neither.
        """
        return None if self.reading is None else self.reading.value


def disk_rows(frame: Frame) -> list[DiskRow]:
    """All physical disks, sorted by name. Disks of a RAID controller follow their volume."""
    smart = frame.snapshot.smart
    readings = smart.value or {}
    infos = devices.infos(frame)
    names = [name for name, info in infos.items() if info.kind == "disk" and not info.slaves]
    names = sorted({*names, *readings}, key=devices.natural_key)
    diskseqs = {key.name: key.diskseq for key in frame.snapshot.block.value or ()}
    return [
        DiskRow(
            name,
            readings.get(name),
            reading_health(readings.get(name), smart),
            _advice(frame, name),
            _identity(name, readings.get(name), diskseqs, infos),
        )
        for name in names
    ]


def _identity(
    name: str,
    reading: Reading[SmartState] | None,
    diskseqs: Mapping[str, int],
    infos: Mapping[str, BlockInfo],
) -> DiskIdentity:
    """A disk's identity. For a disk behind a RAID controller, the kernel knows only the identity of its volume."""
    kernel_name = name.partition("/")[0]
    info, state = infos.get(kernel_name), None if reading is None else reading.value
    identity = DiskIdentity(diskseqs.get(kernel_name, 0), "" if info is None else info.serial)
    return identity if state is None else identity.completed(answered_identity(state))


def _advice(frame: Frame, name: str) -> str:
    findings = [
        finding for finding in frame.verdict.findings if finding.class_id == "failing_disk" and finding.subject == name
    ]
    return next((advice_text(finding.advice[0]) for finding in findings if finding.advice), "")


def disk_row(frame: Frame, name: str) -> DiskRow | None:
    """The row of this disk; None if the disk does not exist."""
    return next((row for row in disk_rows(frame) if row.name == name), None)


def worst_disk(rows: Sequence[DiskRow]) -> str:
    """The disk on which the cursor starts, the worst one; "" without disks."""
    order = {"bad": 0, "warn": 1}
    worst = min(rows, key=lambda row: order.get(row.health.token, 2), default=None)
    return "" if worst is None else worst.name


def next_disk(rows: Sequence[DiskRow], current: str, step: int, *, around: bool) -> str:
    """The disk ``step`` rows below ``current``, or above it if negative; the first disk if ``current`` is gone, ""
    without disks.

    around: whether to wrap around at the ends.
    """
    names = [row.name for row in rows]
    if not names:
        return ""
    if current not in names:
        return names[0]
    index = names.index(current) + step
    return names[index % len(names)] if around else names[max(0, min(len(names) - 1, index))]


def why_no_test(row: DiskRow | None, view: HealthView) -> str:
    """Why no self-test can be started or ended on this disk; "" if one can."""
    if not view.may_test:
        return "self-tests start only on the live screen of the machine itself, without --readonly"
    if row is None:
        name = view.disk or view.cursor
        return f"{name} is gone" if name else "this machine has no disk"
    if row.reading is None or row.state is None or row.reading.status is not Status.OK:
        status = None if row.reading is None else row.reading.status
        if status is Status.ASLEEP:
            return f"{row.name} sleeps: {row.health.reason}"
        if status is Status.FAILED:
            return f"{row.name} does not answer: {row.health.reason}"
        return f"no SMART data of {row.name}: {row.health.reason}"
    if row.state.self_tests is False and not row.state.self_test_runs:
        nvme = row.state.protocol == "nvme"
        return f"{row.name} has no self-test" + (" with this smartctl: an NVMe disk needs version 7.4" if nvme else "")
    return ""


def why_test_refused(row: DiskRow | None, dialog: Dialog, view: HealthView) -> str:
    """Why the open dialog cannot act on its disk; "" if it can. row: the disk that now has the name ``dialog.disk``."""
    if row is not None and dialog.identity.is_other(row.identity):
        return replaced_disk_text(row.name)
    return why_no_test(row, view._replace(disk=dialog.disk))


def accepted_words(row: DiskRow) -> tuple[str, ...]:
    """The words that the dialog accepts: "abort" while a self-test runs, otherwise the kinds of tests."""
    running = row.state is not None and row.state.self_test_runs
    return ("abort",) if running else TESTS


def health_disk(frame: Frame, name: str) -> str:
    """The disk whose page shows the health of a device: the device itself, otherwise the first disk below it; "" if
    there is none.
    """
    disks = {one.name for one in disk_rows(frame)}
    below = [name, *(devices.leaves(name, frame) if name in devices.infos(frame) else [])]
    return next((one for one in below if one in disks), "")
