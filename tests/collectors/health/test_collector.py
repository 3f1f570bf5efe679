"""The SMART collector with its real helper process and the real smartctl, for an NVMe that a text file describes."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen
from threading import Thread

import pytest

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.health import helper_client
from iotop_ai.collectors.health.collector import SmartCollector
from iotop_ai.collectors.health.parse import refusal
from iotop_ai.collectors.health.targets import Disk, smart_disks, with_scanned_types
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.io.spawn import start_own_child
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import Settings
from tests import waiting
from tests.rigs.smart import Smartctl, why_no_smartctl
from tests.rigs.smart.disks import FAILING, HEALTHY
from tests.rigs.threads import no_thread

DATA = Path(__file__).parents[2] / "data/smart"
NO_SMARTCTL = why_no_smartctl()
needs_smartctl = pytest.mark.skipif(bool(NO_SMARTCTL), reason=NO_SMARTCTL or "there")
STANDBY = '{"smartctl":{"exit_status":3,"messages":[{"string":"Device is in STANDBY mode, exit(3)"}]}}'

Start = Callable[..., SmartCollector]


@pytest.fixture
def smartctl(tmp_path: Path) -> Smartctl:
    return Smartctl(tmp_path)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[SmartCollector] = []

    def build(
        smartctl: str, timeout_s: float = 10.0, interval_s: float = 300.0, smart_types: tuple[tuple[str, str], ...] = ()
    ) -> SmartCollector:
        settings = Settings(smartctl=smartctl, smart_interval_s=interval_s, smart_types=smart_types)
        started.append(SmartCollector(Root(str(tmp_path / "root")), Clock(), settings, timeout_s))
        return started[-1]

    yield build
    for one in started:
        one.close()


def settled(collector: SmartCollector) -> dict[str, Reading[SmartState]]:
    assert collector.wait(20)
    return dict(collector.read())


def until(collector: SmartCollector, name: str, wanted: Callable[[Reading[SmartState]], bool]) -> Reading[SmartState]:
    end = time.monotonic() + 20
    collector.wait(10)
    while not (name in collector.read() and wanted(collector.read()[name])):
        assert time.monotonic() < end, collector.read()
        time.sleep(0.02)
    return collector.read()[name]


@needs_smartctl
def test_healthy_and_failing_disks_are_read_beside_a_virtio_disk(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    smartctl.disk("nvme9", {**FAILING, "warn_k": 343})
    smartctl.block("vda")
    smartctl.block("loop0")
    table = settled(start(str(smartctl.path)))
    assert set(table) == {"nvme8n1", "nvme9n1", "vda"}
    healthy = table["nvme8n1"].value
    assert healthy is not None
    assert (healthy.serial, healthy.severity, healthy.temperature_celsius) == ("S64GNE0T512345", "ok", 41)
    assert healthy.written_bytes == 98765432 * 512000
    assert (healthy.warning_celsius, healthy.critical_celsius) == (85, 85)
    failing = table["nvme9n1"].value
    assert failing is not None
    assert (failing.assessment, failing.severity, failing.exit_status) == ("FAIL", "critical", 8)
    assert failing.reasons == (
        "the disk itself says that it is failing",
        "spare blocks are below the threshold",
        "reliability is degraded",
        "102 % of its rated life used",
        "37 media errors",
        "4 % spare blocks left, limit 10 %",
        "84 °C, too warm at 70 °C or above",
    )
    assert table["vda"].status is Status.UNSUPPORTED
    assert "virtio" in table["vda"].reason
    queries = [call for call in smartctl.asked() if "/dev/" in call]
    assert len(queries) == 4
    assert all("-n standby,3" in call and "-d nvme" in call for call in queries)


@needs_smartctl
def test_media_errors_grow_between_two_readings(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    collector = start(str(smartctl.path))
    first = settled(collector)["nvme8n1"]
    smartctl.disk("nvme8", {**HEALTHY, "media_errors": 5})
    collector.refresh()
    second = until(collector, "nvme8n1", lambda one: one.at_ns != first.at_ns)
    assert first.value is not None
    assert second.value is not None
    assert (first.value.media_errors, second.value.media_errors) == (0, 5)
    assert second.value.severity == "warning"


REFUSALS: dict[str, tuple[dict[str, object], Status, str]] = {
    "nvme6": ({"open_errno": 13}, Status.DENIED, "reading SMART needs root"),
    "nvme7": ({"ioctl_errno": 13}, Status.DENIED, "reading SMART needs root"),
    "nvme8": ({"ioctl_errno": 5}, Status.FAILED, "Input/output error"),
    "nvme9": ({"open_errno": 19}, Status.ABSENT, "No such device"),
}


@needs_smartctl
def test_each_refusal_has_its_status(smartctl: Smartctl, start: Start) -> None:
    for name, (fault, *_) in REFUSALS.items():
        smartctl.disk(name, {**HEALTHY, **fault})
    table = settled(start(str(smartctl.path)))
    for name, (_, status, reason) in REFUSALS.items():
        one = table[f"{name}n1"]
        assert one.status is status, name
        assert reason in one.reason
        assert (one.value is None) == (status is not Status.DENIED)
        if one.value is not None:
            assert (one.value.severity, one.value.assessment) == ("unknown", None)
            assert one.remedy.startswith(f"no sudoers line for {smartctl.path}: ")  # a user can replace this program
        # A query that was refused in JSON is not repeated in the form that pySMART reads.
        assert sum(f"/dev/{name}" in call for call in smartctl.asked()) == 1


@needs_smartctl
def test_a_hanging_smartctl_is_killed_and_the_next_disk_still_answers(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    smartctl.disk("nvme9", HEALTHY)
    pid = smartctl.folder / "pid"
    hang = f'case "$*" in *nvme8*) echo $$ > {pid}; sleep 600;; esac'
    smartctl.write_script(hang, 'exec /usr/sbin/smartctl "$@"')
    collector = start(str(smartctl.path), timeout_s=1.5)
    longest = 0.0
    while not collector.wait(0.01):
        began = time.monotonic()
        take_reading(collector, Clock())
        longest = max(longest, time.monotonic() - began)
    assert longest < 1.0
    table = settled(collector)
    assert table["nvme8n1"].status is Status.FAILED
    assert table["nvme8n1"].reason == "smartctl did not answer within 1.5 s and was killed"
    assert table["nvme9n1"].status is Status.OK
    assert not Path("/proc", pid.read_text().strip()).exists()


@needs_smartctl
def test_a_killed_helper_is_started_again(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    smartctl.disk("nvme9", HEALTHY)
    # The first call about nvme8 kills the helper process that made this call.
    once = smartctl.folder / "once"
    kill = f'case "$*" in *nvme8*) if [ ! -e {once} ]; then touch {once}; kill -KILL $PPID; fi;; esac'
    smartctl.write_script(kill, 'exec /usr/sbin/smartctl "$@"')
    collector = start(str(smartctl.path))
    table = settled(collector)
    assert table["nvme8n1"].status is Status.FAILED
    assert "helper ended" in table["nvme8n1"].reason
    assert table["nvme9n1"].status is Status.OK
    collector.refresh()
    until(collector, "nvme8n1", lambda one: one.status is Status.OK)


def test_a_helper_that_could_not_start_is_started_again(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root/sys/block/sda/device").mkdir(parents=True)
    script = tmp_path / "asleep"
    script.write_text(f"#!/bin/sh\necho '{STANDBY}'\nexit 3\n")
    script.chmod(0o755)
    full = True

    def start_or_fail(module: str) -> Popen[bytes]:
        if full:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return start_own_child(module)

    monkeypatch.setattr(helper_client, "start_own_child", start_or_fail)
    collector = start(str(script))
    failed = settled(collector)["sda"]
    assert failed.status is Status.FAILED
    assert failed.reason == "the SMART helper cannot start: Resource temporarily unavailable"
    full = False
    collector.refresh()
    until(collector, "sda", lambda one: one.status is Status.ASLEEP)


def test_a_thread_that_could_not_start_is_started_by_the_next_reading(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root/sys/block/vda/device").mkdir(parents=True)
    collector = start("/nowhere/smartctl")
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", no_thread)
        assert not collector.wait(0)
        failed = take_reading(collector, Clock())
        assert (failed.status, failed.reason) == (Status.FAILED, "the disks are not queried: can't start new thread")
    assert settled(collector)["vda"].status is Status.UNSUPPORTED


def test_an_error_in_one_round_does_not_end_the_later_rounds(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root/sys/block/vda/device").mkdir(parents=True)
    collector = start("/nowhere/smartctl")
    disks, errors = collector._disks, [ValueError("odd")]

    def disks_or_error() -> tuple[Disk, ...]:
        if errors:
            raise errors.pop()
        return disks()

    monkeypatch.setattr(collector, "_disks", disks_or_error)
    assert collector.wait(5)
    assert take_reading(collector, Clock()).reason == "ValueError: odd"
    collector.refresh()
    waiting.until(lambda: take_reading(collector, Clock()).status is Status.OK)
    assert collector.read()["vda"].status is Status.UNSUPPORTED


def test_a_missing_smartctl_has_a_reason_and_a_remedy(tmp_path: Path, start: Start) -> None:
    (tmp_path / "root/sys/block/sda/device").mkdir(parents=True)
    collector = start("/nowhere/smartctl")
    assert collector.wait(5)
    reading = take_reading(collector, Clock())
    assert (reading.status, reading.reason) == (Status.ABSENT, "no smartctl at /nowhere/smartctl")
    assert reading.remedy == "give smartctl's absolute path"


def test_smartctl_may_be_installed_while_the_monitor_runs(tmp_path: Path, start: Start) -> None:
    (tmp_path / "root/sys/block/sda/device").mkdir(parents=True)
    script = tmp_path / "later"
    collector = start(str(script))
    assert collector.wait(5)
    assert take_reading(collector, Clock()).status is Status.ABSENT
    script.write_text(f"#!/bin/sh\necho '{STANDBY}'\nexit 3\n")
    script.chmod(0o755)
    collector.refresh()
    end = time.monotonic() + 30
    while take_reading(collector, Clock()).status is Status.ABSENT:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert until(collector, "sda", lambda one: one.status is Status.ASLEEP).value is None


def test_no_disk_of_a_captured_machine_is_queried(tmp_path: Path) -> None:
    (tmp_path / "root/sys/block/sda/device").mkdir(parents=True)
    collector = SmartCollector(Root(str(tmp_path / "root")), Clock(), Settings())
    assert collector.wait(5)
    assert take_reading(collector, Clock()).status is Status.ABSENT
    collector.close()


@needs_smartctl
def test_a_sleeping_disk_is_left_asleep_and_keeps_its_last_state(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    collector = start(str(smartctl.path))
    awake = settled(collector)["nvme8n1"]
    calls = len(smartctl.asked())
    smartctl.write_script(f"echo '{STANDBY}'", "exit 3")
    collector.refresh()
    asleep = until(collector, "nvme8n1", lambda one: one.status is Status.ASLEEP)
    assert asleep.value == awake.value
    assert asleep.at_ns == awake.at_ns
    assert asleep.reason == "the disk is asleep and was not woken"
    assert len(smartctl.asked()) == calls + 2  # the scan and one query, but not a second query that might wake the disk


@needs_smartctl
def test_stray_lines_and_unknown_types_in_the_scan_are_ignored(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    text = "# scan_smart_devices: glob(3) aborted\\n/dev/sda -d usbweird # x\\n"
    smartctl.write_script(f'case "$*" in *scan*) printf "{text}"; exit 0;; esac', 'exec /usr/sbin/smartctl "$@"')
    assert settled(start(str(smartctl.path)))["nvme8n1"].status is Status.OK


HINT = "DELL or MegaRaid controller, please try adding '-d megaraid,N'"
RAID_SCAN = {
    "devices": [
        {"name": "/dev/sdw", "type": "scsi", "protocol": "SCSI", "open_error": HINT},
        {"name": "/dev/bus/0", "info_name": "/dev/bus/0 [megaraid_disk_00]", "type": "megaraid,0", "protocol": "SCSI"},
        {"name": "/dev/bus/0", "info_name": "/dev/bus/0 [megaraid_disk_03]", "type": "sat+megaraid,3"},
        {"name": "/dev/bus/0; reboot", "type": "megaraid,4"},
        {"name": "/dev/bus/0", "type": "megaraid,5 -t long"},
    ]
}


@needs_smartctl
@pytest.mark.parametrize("smart_types", [(), (("sdw", "megaraid,3"),)])
def test_disks_behind_a_raid_controller_are_found_by_the_scan(
    smartctl: Smartctl, start: Start, smart_types: tuple[tuple[str, str], ...]
) -> None:
    smartctl.block("sdw")
    disk = {**json.loads((DATA / "sata_failing_attr5.json").read_text()), "serial_number": "BEHIND3"}
    volume = {"smartctl": {"exit_status": 4}, "smart_support": {"available": False}}
    for name, answer in (("scan", RAID_SCAN), ("disk", disk), ("volume", volume)):
        (smartctl.folder / f"{name}.json").write_text(json.dumps(answer))
    smartctl.write_script(
        f'case "$*" in *scan*) cat {smartctl.folder}/scan.json; exit 0;;',
        f"*json*megaraid*) cat {smartctl.folder}/disk.json; exit 0;;",
        f"*json*sdw*) cat {smartctl.folder}/volume.json; exit 4;; esac",
        "exit 2",
    )
    collector = start(str(smartctl.path), smart_types=smart_types)
    table = settled(collector)
    # A disk that the user named is listed only once.
    third = "sdw/megaraid,3" if smart_types else "bus/0/sat+megaraid,3"
    assert set(table) == {"sdw", "bus/0/megaraid,0", third}
    reason = f"a RAID volume: the disks behind it are queried{'' if smart_types else ' on bus/0'}"
    assert (table["sdw"].status, table["sdw"].reason) == (Status.UNSUPPORTED, reason)
    found = table[third]
    assert found.value is not None
    assert (found.status, found.value.serial, found.value.severity) == (Status.OK, "BEHIND3", "critical")
    assert found.value.device_type == third.rpartition("/")[2]
    assert len([call for call in smartctl.asked() if "scan" in call]) == 1
    assert len([call for call in smartctl.asked() if "megaraid,0" in call and "json" in call]) == 1
    fewer = {"devices": [one for one in RAID_SCAN["devices"] if one["type"] != "megaraid,0"]}
    (smartctl.folder / "scan.json").write_text(json.dumps(fewer))
    began = time.monotonic()
    collector.refresh()
    while set(collector.read()) != {"sdw", third}:
        assert time.monotonic() < began + 20, collector.read()
        time.sleep(0.05)


def test_a_volume_whose_disks_are_not_found_has_a_remedy() -> None:
    message = f"Smartctl open device: /dev/sdw failed: {HINT}"
    why = refusal({"smartctl": {"exit_status": 2, "messages": [{"string": message, "severity": "error"}]}})
    assert why is not None
    assert (why.status, why.reason) == (Status.UNSUPPORTED, "a RAID volume: it has no health of its own")
    assert why.remedy == "--smart-type sdw=megaraid,N for each disk behind it (see smartctl(8))"


@needs_smartctl
def test_a_smartctl_without_json_is_read_through_pysmart(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", FAILING)
    refuse = 'case "$*" in *json*) echo "=======> UNRECOGNIZED OPTION: json=c"; exit 1;; esac'
    smartctl.write_script(refuse, 'exec /usr/sbin/smartctl "$@"')
    state = settled(start(str(smartctl.path)))["nvme8n1"].value
    assert state is not None
    assert (state.model, state.serial) == ("SAMSUNG MZQL21T9HCJR-00A07", "S64GNE0T599999")
    assert (state.assessment, state.severity, state.temperature_celsius) == ("FAIL", "critical", 84)


@needs_smartctl
def test_nothing_is_queried_while_suspended_except_on_request(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    collector = start(str(smartctl.path))
    collector.suspend_queries(True)
    assert not collector.wait(0.4)
    assert collector.read()["nvme8n1"].status is Status.PENDING
    assert smartctl.asked() == []
    collector.refresh()
    assert settled(collector)["nvme8n1"].status is Status.OK
    collector.suspend_queries(False)


@needs_smartctl
def test_a_waiting_round_continues_when_the_queries_are_resumed(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    collector = start(str(smartctl.path))
    collector.suspend_queries(True)
    assert not collector.wait(0.1)
    collector.suspend_queries(False)
    assert settled(collector)["nvme8n1"].status is Status.OK


@needs_smartctl
def test_a_new_disk_is_queried_and_a_removed_disk_is_forgotten(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    collector = start(str(smartctl.path), interval_s=1.0)
    assert set(settled(collector)) == {"nvme8n1"}
    smartctl.disk("nvme9", HEALTHY)
    os.rename(smartctl.tree / "sys/block/nvme8n1", smartctl.folder / "gone")
    until(collector, "nvme9n1", lambda one: one.status is Status.OK)
    assert set(collector.read()) == {"nvme9n1"}


@needs_smartctl
def test_another_disk_under_the_same_name_does_not_get_the_state_of_the_earlier_one(
    smartctl: Smartctl, start: Start
) -> None:
    smartctl.disk("nvme8", HEALTHY)
    number = smartctl.tree / "sys/block/nvme8n1/diskseq"
    number.write_text("5\n")
    collector = start(str(smartctl.path))
    first = settled(collector)["nvme8n1"]
    assert first.value is not None
    smartctl.disk("nvme8", {**HEALTHY, "serial": "OTHER"})
    collector.suspend_queries(False)  # this wakes the collector, which does not query a known disk again
    number.unlink()  # the number cannot be read for a moment
    collector.suspend_queries(False)
    time.sleep(0.3)
    number.write_text("9\n")
    collector.suspend_queries(False)
    second = until(collector, "nvme8n1", lambda one: one.value is not None and one.value != first.value)
    assert second.value is not None
    assert second.value.serial == "OTHER"
    # A disk that is asleep when it is first seen has no last state.
    smartctl.write_script(f"echo '{STANDBY}'", "exit 3")
    number.write_text("12\n")
    collector.suspend_queries(False)
    asleep = until(collector, "nvme8n1", lambda one: one.status is Status.ASLEEP)
    assert asleep.value is None


@needs_smartctl
def test_close_ends_the_helper_and_smartctl(smartctl: Smartctl, start: Start) -> None:
    smartctl.disk("nvme8", HEALTHY)
    pid = smartctl.folder / "pid"
    smartctl.write_script(f'case "$*" in *nvme8*) echo $$ $PPID > {pid}; sleep 600;; esac', "exit 0")
    collector = start(str(smartctl.path), timeout_s=60.0)
    collector.wait(0)
    end = time.monotonic() + 30
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < end
        time.sleep(0.02)
    began = time.monotonic()
    collector.close()
    assert time.monotonic() - began < 10
    smart, helper = pid.read_text().split()
    waiting.until(lambda: not any(os.path.exists(f"/proc/{one}") for one in (smart, helper)), "the end of both", 10)


def test_the_reading_has_the_time_of_its_newest_answer(tmp_path: Path, start: Start) -> None:
    (tmp_path / "root/sys/block/vda").mkdir(parents=True)
    collector = start("")
    settled(collector)
    first, second = take_reading(collector, Clock()), take_reading(collector, Clock())
    assert first.status is Status.OK
    assert first.at_ns == second.at_ns == collector.at_ns()


def test_a_collector_that_is_switched_off_has_the_status_off(tmp_path: Path) -> None:
    collector = SmartCollector(Root(str(tmp_path)), Clock(), Settings(smart=False))
    assert take_reading(collector, Clock()).status is Status.OFF


def test_disks_are_listed_from_sysfs(tmp_path: Path) -> None:
    for folder in (
        "block/sda/device", "block/sdb/device", "block/sdc/device", "block/vda", "block/mmcblk0", "block/mmcblk0boot0",
        "block/nvme0n1", "block/nvme1n2", "block/nvme0c1n1", "block/dm-0", "block/md0", "block/loop0", "block/sr0",
        "class/nvme/nvme3/nvme1c3n2", "class/nvme/nvme4/nvme1c4n2",
    ):  # fmt: skip
        (tmp_path / "sys" / folder).mkdir(parents=True)
    (tmp_path / "sys/block/sda/device/vendor").write_text("ATA     \n")
    (tmp_path / "sys/block/sdb/device/vendor").write_text("SEAGATE \n")
    (tmp_path / "sys/block/sdc/size").write_text("0\n")
    disks = smart_disks(Root(str(tmp_path)))
    assert {disk.name: (disk.device, disk.kind) for disk in disks} == {
        "mmcblk0": ("", ""),
        "nvme0n1": ("", ""),
        "nvme1n2": ("/dev/nvme3", "nvme"),
        "sda": ("/dev/sda", "sat"),
        "sdb": ("/dev/sdb", "scsi"),
        "sdc": ("", ""),
        "vda": ("", ""),
    }
    scanned = (("/dev/sda", "scsi"), ("/dev/sdb", "usbjmicron"), ("/dev/sdz", "sat"))
    assert [disk.kind for disk in with_scanned_types(disks, scanned) if disk.name.startswith("sd")] == [
        "sat",
        "usbjmicron",
        "",
    ]
    assert Disk("sdc", "", "", "no medium in the drive") in disks
