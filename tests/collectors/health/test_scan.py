"""The scan that finds the disks behind RAID controllers, by a smartctl that the test writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotop_ai.collectors.health.collector import SmartCollector
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.settings import Settings
from tests.rigs.smart import Smartctl, why_no_smartctl
from tests.waiting import until

DATA = Path(__file__).parents[2] / "data/smart"
NO_SMARTCTL = why_no_smartctl()
BEHIND = "bus/0/sat+megaraid,3"


@pytest.mark.skipif(bool(NO_SMARTCTL), reason=NO_SMARTCTL or "there")
def test_the_disks_behind_a_controller_stay_when_a_scan_fails(tmp_path: Path) -> None:
    smartctl = Smartctl(tmp_path)
    smartctl.block("sdw")
    folder = smartctl.folder
    (folder / "scan.json").write_text(json.dumps({"devices": [{"name": "/dev/bus/0", "type": "sat+megaraid,3"}]}))
    (folder / "disk.json").write_text((DATA / "sata_failing_attr5.json").read_text())
    smartctl.write_script(
        f'case "$*" in *scan*) if [ -e {folder}/hang ]; then sleep 600; fi; cat {folder}/scan.json; exit 0;;',
        f"*json*megaraid*) cat {folder}/disk.json; exit 0;; esac",
        "exit 2",
    )
    settings = Settings(smartctl=str(smartctl.path), smart_interval_s=300.0)
    collector = SmartCollector(Root(str(tmp_path / "root")), Clock(), settings, timeout_s=1.5)
    try:
        assert collector.wait(20)
        first = collector.read()[BEHIND]
        assert first.value is not None
        assert first.value.severity == "critical"
        (folder / "hang").touch()
        collector.refresh()
        until(lambda: collector.read().get(BEHIND) is not first, "the end of the second round", 20)
        assert collector.read()[BEHIND].value is not None
    finally:
        collector.close()


@pytest.mark.skipif(bool(NO_SMARTCTL), reason=NO_SMARTCTL or "there")
def test_disks_keep_their_order_after_a_scan(tmp_path: Path) -> None:
    smartctl = Smartctl(tmp_path)
    names = [f"sd{letter}" for letter in "abcdefgh"]
    for name in names:
        smartctl.block(name)
    folder = smartctl.folder
    (folder / "scan.json").write_text(json.dumps({"devices": [{"name": "/dev/bus/0", "type": "sat+megaraid,3"}]}))
    (folder / "disk.json").write_text((DATA / "sata_failing_attr5.json").read_text())
    smartctl.write_script(
        f'case "$*" in *scan*) cat {folder}/scan.json; exit 0;; *json*) cat {folder}/disk.json; exit 0;; esac', "exit 2"
    )
    settings = Settings(smartctl=str(smartctl.path), smart_interval_s=300.0)
    collector = SmartCollector(Root(str(tmp_path / "root")), Clock(), settings)
    try:
        assert collector.wait(20)
        assert list(collector.read()) == [*names, BEHIND]
    finally:
        collector.close()
