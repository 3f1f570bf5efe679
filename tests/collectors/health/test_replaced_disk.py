"""A disk that takes the name of another disk while the thread that queries the disks is busy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.health.collector import SmartCollector, SmartTable
from iotop_ai.collectors.health.targets import Disk
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import Settings
from tests.rigs.descriptors import too_many_open_files
from tests.rigs.smart import Smartctl, why_no_smartctl
from tests.rigs.smart.disks import HEALTHY
from tests.rigs.unreadable import unreadable
from tests.waiting import until

NO_SMARTCTL = why_no_smartctl()


@pytest.mark.skipif(bool(NO_SMARTCTL), reason=NO_SMARTCTL or "there")
def test_the_state_of_a_replaced_disk_is_not_shown_for_the_new_one(tmp_path: Path) -> None:
    smartctl = Smartctl(tmp_path)
    smartctl.disk("nvme8", HEALTHY)
    number = smartctl.tree / "sys/block/nvme8n1/diskseq"
    number.write_text("5\n")
    settings = Settings(smartctl=str(smartctl.path), smart_interval_s=300.0)
    root = Root(str(tmp_path / "root"))
    collector = SmartCollector(root, Clock(), settings, generation=lambda: int(number.read_text()))
    try:
        assert collector.wait(20)
        assert collector.read()["nvme8n1"].value is not None
        before_ns = collector.at_ns()
        smartctl.write_script("sleep 600", "exit 0")  # the new disk does not answer
        number.write_text("9\n")
        shown = collector.read().get("nvme8n1")
        assert shown is None or shown.value is None
        assert collector.at_ns() != before_ns
        # The thread is woken, and does not wait for its next listing of the disks.
        until(lambda: "nvme8n1" in collector.read(), "the new disk", 5)
        assert collector.read()["nvme8n1"].status is Status.PENDING
    finally:
        collector.close()


class _Machine(Root):
    """A machine with the disk nvme8n1. on_number: called once, when the number of the disk is read next."""

    def __init__(self, path: Path) -> None:
        (path / "sys/block/nvme8n1").mkdir(parents=True)
        super().__init__(str(path))
        self.number = 5
        self.on_number: Callable[[], object] | None = None

    def number_or_none(self, relative: str) -> int | None:
        on_number, self.on_number = self.on_number, None
        if on_number is not None:
            on_number()
        return self.number

    def generation(self) -> int:
        """The generation changes with the disk; the thread may list the disks while the generation is read."""
        self.number_or_none("")
        return self.number


@pytest.mark.parametrize("reads_during_listing", [False, True])
def test_no_reading_has_the_old_state_while_the_thread_lists_the_new_disk(
    tmp_path: Path, reads_during_listing: bool
) -> None:
    root, disks = _Machine(tmp_path), (Disk("nvme8n1", "/dev/nvme8", ""),)
    collector = SmartCollector(root, Clock(), generation=root.generation)
    collector._start = lambda: None  # type: ignore[method-assign]  # the test acts as the thread
    collector._replaced(disks)
    state = SmartState("/dev/nvme8", "nvme", "MODEL", "OLD", "F", "PASS", "ok", ())
    collector._publish({"nvme8n1": Reading(state, Status.OK)})
    assert collector.read()["nvme8n1"].value is state
    root.number = 9
    tables: list[SmartTable] = []
    if reads_during_listing:
        tables.append(collector.read())
        root.on_number = lambda: tables.append(collector.read())
        collector._replaced(disks)
    else:
        root.on_number = lambda: collector._replaced(disks)
    tables.append(collector.read())
    assert [table for table in tables if "nvme8n1" in table] == []


def test_a_disk_that_was_removed_during_its_self_test_is_forgotten(tmp_path: Path) -> None:
    """Otherwise its query would stay due, and each poll would publish the table again."""
    (tmp_path / "sys/block").mkdir(parents=True)
    collector = SmartCollector(Root(str(tmp_path)), Clock())
    collector._due_ns = 1 << 62
    collector._tests_due = {"sda": 1}
    known = collector._poll(frozenset({"sda"}))
    changed_ns = collector._changed_at_ns
    assert (collector._poll(known), collector._tests_due) == (frozenset(), {})
    assert collector._changed_at_ns == changed_ns


def test_known_disks_stay_while_too_many_open_files_prevent_a_listing(tmp_path: Path) -> None:
    (tmp_path / "sys/block/vda").mkdir(parents=True)
    collector = SmartCollector(Root(str(tmp_path)), Clock())
    known = collector._poll(frozenset())
    with too_many_open_files(), pytest.raises(OSError, match="Too many open files"):
        collector._poll(known)
    assert list(collector._table or ()) == ["vda"]


def test_disks_that_may_not_be_listed_are_denied_and_not_absent(tmp_path: Path) -> None:
    (tmp_path / "sys/block/vda").mkdir(parents=True)
    collector = SmartCollector(Root(str(tmp_path)), Clock())
    try:
        with unreadable(tmp_path / "sys/block"):
            assert collector.wait(20)
            reading = take_reading(collector, Clock())
        assert (reading.status, reading.reason) == (Status.DENIED, f"{tmp_path}/sys/block: Permission denied")
    finally:
        collector.close()
