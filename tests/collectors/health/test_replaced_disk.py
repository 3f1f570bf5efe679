"""A disk that takes the name of another disk while the thread that queries the disks is busy."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotop_ai.collectors.health.collector import SmartCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.reading import Status
from iotop_ai.model.settings import Settings
from tests.rigs.descriptors import too_many_open_files
from tests.rigs.smart import Smartctl, why_no_smartctl
from tests.rigs.smart.disks import HEALTHY
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
