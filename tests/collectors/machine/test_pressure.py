"""The pressure of the system and of our own cgroup."""

from __future__ import annotations

from pathlib import Path

from iotop_ai.collectors.base import take_reading
from iotop_ai.collectors.io.clock import Clock
from iotop_ai.collectors.io.root import Root
from iotop_ai.collectors.machine.pressure import PressureCollector, own_cgroup, parse_pressure
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.reading import Status
from tests.machines import Entries, build
from tests.rigs.descriptors import too_many_open_files

IO = b"some avg10=0.32 avg60=0.90 avg300=0.36 total=5914261\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4000\n"
CPU_OLD = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
MOUNTS = (
    b"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw\n"
    b"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
)
SYSTEM: Entries = {"proc/pressure/cpu": CPU_OLD, "proc/pressure/io": IO, "proc/pressure/memory": IO}


def test_totals_are_parsed() -> None:
    assert parse_pressure(IO) == PressureTotals(5914261, 4000)
    assert parse_pressure(CPU_OLD) == PressureTotals(7, None)
    assert parse_pressure(b"") is None


def test_our_own_cgroup_is_found() -> None:
    lines = b"9:name=systemd:/x\n0::/user.slice/job.scope\n"
    assert own_cgroup(lines, MOUNTS) == ("/user.slice/job.scope", "sys/fs/cgroup/unified/user.slice/job.scope")
    assert own_cgroup(b"0::/\n", MOUNTS) == ("/", "sys/fs/cgroup/unified")
    assert own_cgroup(b"9:name=systemd:/x\n", MOUNTS) is None
    assert own_cgroup(lines, b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n") is None


def test_a_container_finds_the_cgroups_that_it_mounts() -> None:
    part = b"41 31 0:38 /docker/abc /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw\n"
    assert own_cgroup(b"0::/docker/abc/job\n", part) == ("/docker/abc/job", "sys/fs/cgroup/job")
    assert own_cgroup(b"0::/docker/abcd\n", part) is None


def test_the_system_and_our_own_cgroup_are_read(tmp_path: Path) -> None:
    tree = SYSTEM | {
        "proc/self/cgroup": b"0::/job\n",
        "proc/self/mountinfo": MOUNTS,
        "sys/fs/cgroup/unified/job/cgroup.events": b"populated 1\n",
        "sys/fs/cgroup/unified/job/io.pressure": IO,
    }
    collector = PressureCollector(build(tree, tmp_path))
    got = collector.read()
    assert got == {
        "cpu": PressureTotals(7, None),
        "io": PressureTotals(5914261, 4000),
        "memory": PressureTotals(5914261, 4000),
        "cgroup:/job:io": PressureTotals(5914261, 4000),
    }
    (tmp_path / "proc/pressure/io").write_bytes(IO.replace(b"5914261", b"5914299"))
    assert collector.read()["io"].some_us == 5914299
    collector.close()


def test_the_root_cgroup_is_left_out(tmp_path: Path) -> None:
    tree = SYSTEM | {
        "proc/self/cgroup": b"0::/\n",
        "proc/self/mountinfo": MOUNTS,
        "sys/fs/cgroup/unified/io.pressure": IO,
    }
    collector = PressureCollector(build(tree, tmp_path))
    assert set(collector.read()) == {"cpu", "io", "memory"}
    collector.close()


def test_pressure_that_is_switched_off_has_a_remedy(tmp_path: Path) -> None:
    collector = PressureCollector(Root(str(tmp_path)))
    reading = take_reading(collector, Clock())
    assert (reading.status, reading.reason, reading.remedy) == (Status.OFF, "PSI is off", "boot with psi=1")
    build(SYSTEM, tmp_path)
    assert take_reading(collector, Clock()).status is Status.OK
    collector.close()


def test_too_many_open_files_do_not_switch_pressure_off(tmp_path: Path) -> None:
    tree = SYSTEM | {"proc/self/cgroup": b"0::/job\n", "proc/self/mountinfo": MOUNTS}
    collector = PressureCollector(build(tree, tmp_path))
    with too_many_open_files():
        failed = take_reading(collector, Clock())
    assert (failed.status, failed.reason.rpartition(": ")[2]) == (Status.FAILED, "Too many open files")
    assert set(collector.read()) == {"cpu", "io", "memory"}
    collector.close()
