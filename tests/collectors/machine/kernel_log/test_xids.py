"""Several Xids in the kernel's log at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.machine.kernel_log.parse import parse_line
from tests.collectors.machine.kernel_log.test_collector import Log

FAULT = "NVRM: Xid (PCI:0000:97:00): 31, pid=1, name=python, MMU Fault"
LOST = "NVRM: Xid (PCI:0000:97:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
REBOOT = "NVRM: Xid (PCI:0000:97:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
OVER = "NVRM: Xid (PCI:0000:97:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path)
    yield made
    made.close()


def test_different_xids_of_one_gpu_in_one_tick_are_all_reported(log: Log) -> None:
    log.collector.read()
    for line in (FAULT, FAULT, LOST, REBOOT, OVER):
        log.write(line)
    log.collector.read()
    events = log.collector.events()
    assert [(one.number, one.recovery) for one in events] == [(31, None), (79, None), (154, 2), (154, 0)]
    assert events[0].text.endswith("MMU Fault (and 1 more)")


def test_the_xids_of_all_gpus_are_reported_when_all_fail_at_once(log: Log) -> None:
    log.collector.read()
    for slot in range(16):
        log.write(LOST.replace("0000:97:00", f"0000:{slot:02x}:00"))
    log.collector.read()
    assert [one.subject for one in log.collector.events()] == [f"0000:{slot:02x}:00" for slot in range(16)]


@pytest.mark.parametrize(
    ("place", "rest"),
    [
        ("PCI:0000:01:00 GPU-I:05", "94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No"),
        ("PCI:0000:01:00 GPU-I:05 GPU-CI:00", "13, pid=7194, name=python, Graphics Exception"),
    ],
)
def test_an_xid_of_a_mig_instance_belongs_to_its_gpu(place: str, rest: str) -> None:
    found = parse_line(f"NVRM: Xid ({place}): {rest}")
    assert found is not None
    assert (found.subject, found.number) == ("0000:01:00", int(rest.partition(",")[0]))
    assert found.text == f"0000:01:00: Xid {rest}"
