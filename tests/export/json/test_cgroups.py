"""The cgroup of a job in the JSON, in the tables, and on the job's screen."""

from __future__ import annotations

from iotop_ai.export.json.machine import system_object
from iotop_ai.export.tables.frames import tables
from iotop_ai.model.block.counters import BlockInfo
from iotop_ai.model.frame import Frame
from iotop_ai.model.job.cgroup import Cgroup, CgroupCpu, CgroupIo, CgroupMemory, CgroupTable
from iotop_ai.model.machine.pressure import PressureTotals
from iotop_ai.model.process.records import ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.pipeline import frames
from iotop_ai.present.job.cgroup import cgroup_text
from tests.export.make import WALL_NS, S, ok, snapshot

KEY = ProcessKey(10, 1)


def taken(seq: int, at_ns: int, grown: int) -> Snapshot:
    group = Cgroup(
        {"254:0": CgroupIo(grown << 20, 0, grown, 0)},
        CgroupMemory(1 << 30, 2 << 30, 3 << 30, 1 << 28, 1 << 29, grown, grown * 4, 0, grown // 2),
        CgroupCpu(grown * 1_000_000, 150_000, 100_000, grown * 10, grown * 5, grown * 125_000),
        {"io": PressureTotals(grown * 500_000, grown * 100_000)},
    )
    table = CgroupTable({"/train.slice": group}, {KEY: "/train.slice"})
    disk = {"vda": BlockInfo("vda", 254, 0, "disk", "vda")}
    return snapshot(seq, at_ns, cgroups=ok(table, at_ns), disks=ok(disk, at_ns))


def shown() -> Frame:
    *_, last = frames((taken(0, 2 * S, 0), taken(1, 4 * S, 2)))
    return last


def test_the_json_has_levels_and_rates() -> None:
    (group,) = system_object(shown())["cgroups"]
    assert (group["path"], group["jobs"], group["current_bytes"], group["oom_kills"]) == (
        "/train.slice",
        [10],
        1 << 30,
        1,
    )
    assert (group["read_bytes_per_s"], group["throttled_ratio"], group["memory_ratio"]) == (1_048_580.0, 0.5, 0.5)
    assert (group["cpu_cores"], group["high_per_s"], group["io_some_ratio"]) == (1.0, 4.0, 0.5)
    assert group["devices"]["254:0"]["reads_per_s"] == 1.0
    assert group["memory_some_ratio"] is None
    assert system_object(next(iter(frames((snapshot(0, 2 * S),)))))["cgroups"] is None


def test_the_table_has_a_row_for_each_reading() -> None:
    (table,) = (one for one in tables() if one.name == "cgroups")
    (row,) = table.rows(shown())
    cells = dict(zip((column.name for column in table.columns), row, strict=True))
    assert (cells["time"], cells["interval_s"], cells["cgroup"], cells["jobs"]) == (
        WALL_NS + 4 * S,
        2.0,
        "/train.slice",
        "10",
    )
    assert (cells["high_bytes"], cells["throttled_s_per_s"]) == (2 << 30, 0.125)
    assert not [*table.rows(next(iter(frames((taken(0, 2 * S, 0),)))))]


def test_the_screen_of_a_job_shows_the_limits() -> None:
    assert cgroup_text(shown(), KEY) == (
        "/train.slice, memory 1GB of 2GB (high), 512MB of it page cache, 1 OOM kill, "
        "4.0 times/s over memory.high, CPU quota used up in 50% of its periods, reads 1.0 writes 0 MB/s, "
        "waits for I/O 50%"
    )
    assert cgroup_text(shown(), ProcessKey(11, 1)) == ""
    # A damaged recording may name a cgroup that it does not contain.
    torn = snapshot(0, 2 * S, cgroups=ok(CgroupTable({}, {KEY: "/gone"}), 2 * S))
    assert cgroup_text(next(iter(frames((torn,)))), KEY) == ""
