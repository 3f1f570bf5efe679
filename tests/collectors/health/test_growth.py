"""The SMART collector with a history: growth, self-tests and disks behind controllers, by the real smartctl."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotop_ai.collectors.health.collector import SmartCollector
from iotop_ai.collectors.health.commands import TEST_COMMANDS, argv, sudoers_line
from iotop_ai.collectors.health.history import HealthHistory
from iotop_ai.collectors.health.targets import Disk, disks_named, with_given_types, without_smart
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.settings import Settings
from tests.rigs.smart import Smartctl, why_no_smartctl
from tests.rigs.smart.disks import HEALTHY

WHY = why_no_smartctl()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY or "there")


class Shifted(Clock):
    """The real clock, but its wall time is some seconds later."""

    ahead_s = 0

    def wall_ns(self) -> int:
        return super().wall_ns() + self.ahead_s * 1_000_000_000


class Watched:
    """A collector over made-up disks, with a history."""

    def __init__(self, smartctl: Smartctl, types: tuple[tuple[str, str], ...] = ()) -> None:
        self.clock = Shifted()
        settings = Settings(smartctl=str(smartctl.path), smart_interval_s=300.0, smart_types=types)
        history = HealthHistory(smartctl.folder / "state", self.clock)
        self.collector = SmartCollector(Root(str(smartctl.tree)), self.clock, settings, 10.0, history)

    def first(self, name: str) -> Reading[SmartState]:
        assert self.collector.wait(20)
        return self.collector.read()[name]

    def after(self, seconds: int, name: str) -> SmartState:
        """The answer of a disk that is queried this many seconds later."""
        self.clock.ahead_s += seconds
        old = self.collector.read()[name].at_ns
        self.collector.refresh()
        state = self.until(name, lambda one: one.at_ns != old).value
        assert state is not None
        return state

    def until(self, name: str, wanted: Callable[[Reading[SmartState]], bool]) -> Reading[SmartState]:
        end = time.monotonic() + 30
        while not wanted(self.collector.read()[name]):
            assert time.monotonic() < end, self.collector.read()[name]
            time.sleep(0.02)
        return self.collector.read()[name]


@pytest.fixture
def smartctl(tmp_path: Path) -> Smartctl:
    return Smartctl(tmp_path)


@pytest.fixture
def watch(smartctl: Smartctl) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def build(**more: tuple[tuple[str, str], ...]) -> Watched:
        made.append(Watched(smartctl, **more))
        return made[-1]

    yield build
    for one in made:
        one.collector.close()


def test_growth_of_media_errors_and_of_minutes_too_hot_is_judged(
    smartctl: Smartctl, watch: Callable[..., Watched]
) -> None:
    smartctl.disk("nvme8", HEALTHY)
    watched = watch()
    assert watched.first("nvme8n1").value is not None
    worse = {"media_errors": 3, "warn_time": 7, "temp_k": 357, "warn_k": 343, "used": 102, "spare": 4}
    smartctl.disk("nvme8", {**HEALTHY, **worse})
    state = watched.after(3600, "nvme8n1")
    assert state.severity == "critical"
    assert state.reasons == (
        "3 media errors, +3 in 60 min",
        "102 % of its rated life used",
        "too hot for 7 minutes, +7 in 60 min: it slows itself down",
        "4 % spare blocks left, limit 10 %",
        "84 °C, too warm at 70 °C or above",
    )
    assert [point.used_percent for point in state.past] == [3, 102]
    # Two days later the count has not grown further, and the level stays.
    state = watched.after(2 * 86_400, "nvme8n1")
    assert {one.rule for one in state.judgements} == {"worn-out", "media", "spare-low", "warm"}


def test_growth_of_attributes_5_197_and_199_is_judged(smartctl: Smartctl, watch: Callable[..., Watched]) -> None:
    smartctl.sata("sda", {5: (100, 10), 197: (100, 0), 199: (200, 40)})
    watched = watch()
    first = watched.first("sda").value
    assert first is not None
    assert (first.severity, first.judgements[0].rule) == ("warning", "reallocated")
    smartctl.sata("sda", {5: (98, 19), 197: (100, 0), 199: (200, 40)})
    state = watched.after(86_400, "sda")
    assert (state.severity, state.reasons[0]) == ("warning", "19 reallocated sectors, +9 in 24 h")
    smartctl.sata("sda", {5: (98, 20), 197: (100, 2), 199: (200, 640)})
    state = watched.after(300, "sda")
    assert state.severity == "critical"
    assert state.reasons == (
        "2 pending sectors, +2 in 24 h",
        "20 reallocated sectors, +10 in 24 h",
        "640 CRC errors, +600 in 24 h: cable or backplane, not the disk",
    )
    smartctl.sata("sda", {5: (10, 400), 197: (100, 2)}, failing=True)
    state = watched.after(300, "sda")
    assert (state.assessment, state.reasons[0]) == ("FAIL", "the disk itself says that it is failing")
    assert any(row.threshold is None for row in state.attributes)


def test_a_self_test_is_followed_to_its_result(smartctl: Smartctl, watch: Callable[..., Watched]) -> None:
    smartctl.sata("sda", seconds=1000.0)
    watched = watch()
    state = watched.first("sda").value
    assert state is not None
    assert (state.self_tests, state.test_short_minutes, state.test_long_minutes) == (True, 2, 54)
    from tests.rigs.smart import sata

    folder = smartctl.folder / "sda"
    assert sata.main(folder, ["-t", "short"]) == 0
    state = watched.after(1, "sda")
    assert state.self_test_left_percent == 90
    assert watched.collector._tests_due  # the collector repeats the query without a request
    assert sata.main(folder, ["-X"]) == 0
    state = watched.after(1, "sda")
    assert state.self_test_left_percent is None
    assert [(test.kind, test.passed, test.hours) for test in state.self_test_log] == [("Short offline", None, 1)]
    smartctl.sata("sda", seconds=0.01, fails=True)
    assert sata.main(folder, ["-t", "long"]) == 0
    time.sleep(0.02)
    state = watched.after(1, "sda")
    assert state.self_test_log[0].passed is False
    assert state.judgements[0].rule == "self-test-failed"
    assert "read failure" in state.reasons[0]


def test_disks_behind_a_controller_are_queried_by_their_types(
    smartctl: Smartctl, watch: Callable[..., Watched]
) -> None:
    smartctl.sata("sda")
    # One made-up disk answers for both: only the arguments of smartctl matter here.
    watched = watch(types=(("sda", "sat+megaraid,0"), ("sda", "sat+megaraid,1")))
    assert watched.first("sda").status is Status.UNSUPPORTED
    table = watched.collector.read()
    assert set(table) == {"sda", "sda/sat+megaraid,0", "sda/sat+megaraid,1"}
    state = table["sda/sat+megaraid,1"].value
    assert state is not None
    assert state.device_type == "sat+megaraid,1"
    assert sum("-d sat+megaraid,1 /dev/sda" in call for call in smartctl.asked()) == 1


def test_types_from_the_user_replace_the_detected_types() -> None:
    disks = (Disk("sda", "/dev/sda", "scsi"), Disk("sdb", "", "", "no medium in the drive"))
    given = with_given_types(disks, (("/dev/sda", "sntjmicron"), ("bus/0", "megaraid,4"), ("sdz", "sat")))
    assert [(disk.name, disk.device, disk.kind, disk.fixed) for disk in given] == [
        ("sda", "/dev/sda", "sntjmicron", True),
        ("sdb", "", "", False),
        ("bus/0/megaraid,4", "/dev/bus/0", "megaraid,4", True),
    ]


def test_a_disk_behind_a_controller_does_not_get_facts_of_its_volume(tmp_path: Path) -> None:
    device = tmp_path / "sys/block/sda/device"
    device.mkdir(parents=True)
    (device / "model").write_text("PERC H740P\n")
    (device / "ioerr_cnt").write_text("0x5\n")
    root = Root(str(tmp_path))
    behind, volume = Disk("sda/megaraid,3", "/dev/sda", "megaraid,3"), Disk("sda", "/dev/sda", "scsi")
    assert [(s.model, s.io_errors) for s in (without_smart(root, behind), without_smart(root, volume))] == [
        ("", None),
        ("PERC H740P", 5),
    ]


def test_a_name_path_partition_or_array_selects_its_disks(tmp_path: Path) -> None:
    block = tmp_path / "sys/block"
    for folder in ("sda/sda1", "nvme0n1", "md0/slaves", "dm-0/slaves"):
        (block / folder).mkdir(parents=True)
    (block / "sda/sda1/partition").write_text("1\n")
    (tmp_path / "sys/class/block").mkdir(parents=True)
    (tmp_path / "sys/class/block/sda1").symlink_to(block / "sda/sda1")
    (block / "md0/slaves/sda1").symlink_to(block / "sda/sda1")
    (block / "dm-0/slaves/md0").symlink_to(block / "md0")
    root = Root(str(tmp_path))
    disks = (
        Disk("sda", "/dev/sda", "sat"),
        Disk("nvme0n1", "/dev/nvme0", "nvme"),
        Disk("sda/megaraid,1", "/dev/sda", "m"),
    )
    on_sda = [disks[0], disks[2]]
    for name in ("sda", "/dev/sda", "sda1", "md0", "dm-0"):
        assert list(disks_named(root, name, disks)) == on_sda, name
    assert disks_named(root, "/dev/nvme0", disks) == disks_named(root, "nvme0n1", disks) == (disks[1],)
    for name in ("sdz", "../sda", "", "/dev/../etc", "sd a"):
        assert disks_named(root, name, disks) == ()


def test_a_self_test_is_never_started_in_captive_mode() -> None:
    for command in TEST_COMMANDS:
        assert "-C" not in argv(command, "/usr/sbin/smartctl", "sat", "/dev/sda")
    assert sudoers_line("ann", 1000, "/usr/sbin/smartctl", [("sat", "/dev/sda")], TEST_COMMANDS) == (
        r"ann ALL=(root) NOPASSWD: /usr/sbin/smartctl --json\=c -t short -d sat /dev/sda, "
        r"/usr/sbin/smartctl --json\=c -t long -d sat /dev/sda, /usr/sbin/smartctl --json\=c -X -d sat /dev/sda"
    )
