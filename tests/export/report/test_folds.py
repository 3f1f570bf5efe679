"""The totals of a run are the growth of its counters, however often they are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iotop_ai.export.compare.comparison import Window, points_of
from iotop_ai.export.report.builder import StoryBuilder
from iotop_ai.export.report.folds import ProcessFold
from iotop_ai.export.report.json import report_object
from iotop_ai.export.report.story import DeviceStory, ProcessStory, Story
from iotop_ai.export.report.tables import (
    MOST_DEVICES,
    device_table,
    gpu_table,
    health_table,
    key_device,
    machine_table,
)
from iotop_ai.export.report.tables import process_table as programs_table
from iotop_ai.export.tables.frames import tables
from iotop_ai.export.text.run_summary import RunSummary
from iotop_ai.model.block.counters import BlockCounters, BlockInfo, BlockKey
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.machine.network import LinkCounters
from iotop_ai.model.process.records import ProcessIo, ProcessTable
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Event, Snapshot
from iotop_ai.pipeline import closing_frame, frames, samples
from iotop_ai.playback.run_reader import RatedSnapshot
from iotop_ai.present.text.units import clock
from tests.export.make import IDLE, PYTHON, SDA, WALL_NS, S, io, ok, process_table, snapshot
from tests.export.report.stories import slow_story


def processes(at_s: int, moved: ProcessIo, **stat: int) -> ProcessTable:
    """A table of one process with these counters."""
    table = process_table(at_s * S, [(100, PYTHON, moved, "S")])
    return table._replace(delayacct=True, stat={key: one._replace(**stat) for key, one in table.stat.items()})


def program(tables: list[ProcessTable]) -> ProcessStory:
    """The story of the program whose tables are read once a second."""
    fold = ProcessFold()
    snapshots = [snapshot(i, i * S, processes=ok(table, i * S)) for i, table in enumerate(tables, 1)]
    for one, sample in samples(snapshots):
        fold.add(one, sample)
    (found,) = fold.stories()
    return found


@pytest.mark.parametrize("period", [1, 4, 5, 7])
def test_cpu_time_that_is_read_every_fifth_second_is_counted_once(period: int) -> None:
    """Every ``period`` seconds: 0.8 s of CPU and 0.5 s of delay. The stat is read every 5 s, the io every second."""
    tables, bursts = [], 0
    for at_s in range(1, 102):
        bursts += at_s % period == 0
        read_s = at_s - (at_s - 1) % 5
        done = sum(second % period == 0 for second in range(1, read_s + 1))
        now = processes(at_s, io(4096 * bursts), utime_ticks=80 * done, blkio_ticks=50 * done)
        tables.append(now._replace(stat_at_ns=read_s * S, stat_at=(read_s * S,)))
    counted = sum(second % period == 0 for second in range(2, 102))
    found = program(tables)
    assert found.cpu_s == pytest.approx(0.8 * counted)
    assert found.blocked_s == pytest.approx(0.5 * counted)
    assert found.read_bytes == pytest.approx(4096 * counted)


def test_rows_of_a_process_add_up_to_its_counters() -> None:
    """80 ticks of CPU per second. The stat is read every 5 s, and the rows in between repeat the last figure."""
    snapshots, (table,) = [], [one for one in tables() if one.name == "processes"]
    for at_s in range(1, 32):
        read_s = at_s - (at_s - 1) % 5
        now = processes(at_s, io(4096 * at_s), utime_ticks=80 * read_s)
        now = now._replace(stat_at_ns=read_s * S, stat_at=(read_s * S,))
        snapshots.append(snapshot(at_s, at_s * S, processes=ok(now, at_s * S)))
    names = [column.name for column in table.columns]
    found = [dict(zip(names, row, strict=True)) for one in frames(snapshots) for row in table.rows(one)]

    def total(figure: str, seconds: str) -> float:
        return sum(float(row[figure]) * float(row[seconds]) for row in found if row[figure] is not None)

    assert total("cpu_ratio", "stat_s") == pytest.approx(0.8 * 30)
    assert total("read_bytes_per_s", "io_s") == pytest.approx(4096 * 30)


def test_bytes_of_a_program_in_json_are_exact() -> None:
    story = slow_story()
    one = ProcessStory("dd", "root", 1, 123_456_789_012.0, None, 12.3456, None)
    (listed,) = report_object(story._replace(processes=(one,)))["processes"]
    assert (listed["read_bytes"], listed["written_bytes"]) == (123_456_789_012, None)
    assert (listed["cpu_s"], listed["blocked_s"]) == (12.346, None)


@pytest.mark.parametrize(("count", "number", "more", "shown"), [
    (10_001, 10_000, True, "10,000+"), (10_000, 10_000, False, "10000"),
])  # fmt: skip
def test_a_truncated_count_of_processes_is_shown_with_a_plus(count: int, number: int, more: bool, shown: str) -> None:
    pids = range(100, 100 + count)
    found = program([process_table(at * S, [(pid, PYTHON, io(4096 * at), "S") for pid in pids]) for at in (1, 2, 3)])
    assert (found.number, found.more) == (number, more)
    story = slow_story()._replace(processes=(found,))
    (listed,) = report_object(story)["processes"]
    assert (listed["number"], listed["more"]) == (number, more)
    assert programs_table(story).rows[0][2] == shown


def test_io_of_a_process_that_was_not_read_for_20_s_is_counted_in_full() -> None:
    """An adaptive sweep reads an idle process in its cohort's turn, and an active process every second."""
    tables = []
    for at_s in range(1, 31):
        read_s = 1 if at_s < 21 else at_s
        now = processes(at_s, io(0, 0 if at_s < 21 else 4 << 20))
        tables.append(now._replace(adaptive=True, io_at=(read_s * S,)))
    assert program(tables).written_bytes == pytest.approx(4 << 20)


def test_a_figure_that_was_never_known_is_not_0() -> None:
    """The program's io cannot be read, the disk's accounting is off, and the GPU has no utilisation."""
    info = BlockInfo("sda", 8, 0, "disk", "sda", stats_off=True)
    gpu = GpuState("GPU-1", 0, "Card")
    builder = StoryBuilder(None, None)
    for frame in frames(
        snapshot(
            i,
            i * S,
            block=ok({BlockKey("sda", 1): IDLE}, i * S),
            disks=ok({"sda": info}, i * S),
            gpu=ok({"GPU-1": ok(gpu, i * S)}, i * S),
            processes=ok(process_table(i * S, [(100, PYTHON, None, "D")]), i * S),
        )
        for i in range(1, 4)
    ):
        builder.add(frame)
    story = builder.story("x", {})
    (program_,), (disk,), (card,) = story.processes, story.devices, story.gpus
    assert (program_.read_bytes, program_.written_bytes) == (None, None)
    assert (disk.read_bytes, disk.written_bytes, disk.full_s) == (None, None, None)
    assert (card.idle_s, card.energy_j) == (None, None)
    listed = report_object(story)
    assert [listed["processes"][0]["read_bytes"], listed["devices"][0]["read_bytes"], listed["gpus"][0]["idle_s"]] == [
        None
    ] * 3
    assert device_table(story).rows[0][2:4] == ("?", "?")
    assert gpu_table(story).rows[0][4] == "?"


def test_a_gpu_that_is_not_read_again_counts_once_and_shows_why() -> None:
    card = GpuState("GPU-1", 0, "Card", 5)
    hung = Reading(None, Status.FAILED, "the driver does not answer", at_ns=5 * S)
    builder = StoryBuilder(None, None)
    # The card is read at seconds 1 and 3; seconds 2 and 4 repeat the reading.
    reads = [ok({"GPU-1": ok(card, at * S)}, at * S) for at in (1, 1, 3, 3)]
    for frame in frames(snapshot(i, i * S, gpu=one) for i, one in enumerate((*reads, hung, hung), 1)):
        builder.add(frame)
    (found,) = builder.story("x", {}).gpus
    assert (found.idle_s, found.status) == (2.0, "the driver does not answer")
    assert sum(dict(found.curves)["busy_ratio"].weights) == pytest.approx(2.0)  # its curve has both seconds


def test_the_clock_of_the_gpus_is_that_of_busy_ones() -> None:
    """Of two GPUs one computes, slowed by heat for half of the time, and the other is idle at its lowest clock."""
    builder = StoryBuilder(None, None)
    for frame in frames(
        snapshot(i, i * S, gpu=ok({gpu.uuid: ok(gpu, i * S) for gpu in (_hot(i), _cool(i))}, i * S))
        for i in range(1, 5)
    ):
        builder.add(frame)
    curves = builder.story("x", {}).totals
    means = {name: points_of(curves[name], Window(0, 1 << 62)).mean for name in curves if name.startswith("gpu_")}
    assert means == pytest.approx(
        {
            "gpu_busy_ratio": 0.5,
            "gpu_sm_mhz": 1400.0,
            "gpu_power_watts": 250.0,
            "gpu_temperature_celsius": 85.0,
            "gpu_throttled_ratio": 0.5,
        }
    )


def _hot(at_s: int) -> GpuState:
    """A GPU that computes; heat slows it for half of each second."""
    return GpuState(
        "GPU-1", 0, "Card", 100, temperature_celsius=85, power_mw=400_000, sm_mhz=1400,
        sw_thermal_ns=at_s * S // 2, hw_thermal_ns=0, power_brake_ns=0, fields_at_ns=at_s * S,
    )  # fmt: skip


def _cool(at_s: int) -> GpuState:
    """An idle GPU."""
    return GpuState(
        "GPU-2", 1, "Card", 0, temperature_celsius=40, power_mw=100_000, sm_mhz=345,
        sw_thermal_ns=0, hw_thermal_ns=0, power_brake_ns=0, fields_at_ns=at_s * S,
    )  # fmt: skip


def test_the_cpu_time_of_a_program_that_was_never_known_is_not_0() -> None:
    fold = ProcessFold()
    for one, sample in samples([snapshot(i, i * S, processes=ok(processes(i, io(4096 * i)), i * S)) for i in (1, 2)]):
        table = sample.processes.value
        if table is not None:
            blank = {key: rates._replace(cpu_ratio=None) for key, rates in table.rates.items()}
            sample = sample._replace(processes=sample.processes._replace(value=table._replace(rates=blank)))
        fold.add(one, sample)
    (found,) = fold.stories()
    assert found.cpu_s is None


def test_a_disk_with_unknown_bytes_does_not_count_as_moving_less() -> None:
    story = network(lambda at_s: ok({}, at_s * S))
    disks = tuple(device(f"sd{i}", 100 * MIB - i) for i in range(MOST_DEVICES + 2))
    assert device_table(story._replace(devices=disks)).note.endswith(" 2 more disks moved less.")
    blind = device("sdx", 0.0)._replace(read_bytes=None, written_bytes=None)
    note = device_table(story._replace(devices=(*disks, blind))).note
    assert note.endswith(" 2 more disks moved less. How much 1 more disk moved is unknown.")
    assert device_table(story._replace(devices=(*disks[:2], blind))).note.endswith(
        " How much 1 more disk moved is unknown."
    )


MIB = 1 << 20


def device(name: str, read_bytes: float) -> DeviceStory:
    """A disk that read this many bytes."""
    return DeviceStory(
        name=name,
        info=None,
        read_bytes=read_bytes,
        written_bytes=0.0,
        read=None,
        write=None,
        reads=None,
        writes=None,
        read_await_ms=None,
        write_await_ms=None,
        busy=None,
        queue=None,
        full_s=0.0,
        curves={},
    )


def network(reading_of: Callable[[int], Reading[object]]) -> Story:
    """The Story of 6 Snapshots, one per second, with these Readings of the network links."""
    builder = StoryBuilder(None, None)
    for frame in frames(snapshot(i, i * S, network=reading_of(i)) for i in range(6)):
        builder.add(frame)
    return builder.story("x", {})


def test_a_bond_and_its_interfaces_count_once() -> None:
    """100 MiB/s come in over each of two ports, and 1 MiB/s go out. The bond and its VLAN count the same bytes."""

    def link(seconds: int, ports: int, place: str) -> LinkCounters:
        moved = ports * seconds * MIB
        return LinkCounters(100 * moved, moved, 0, 0, 0, 0, 10**10, "up", "nic", place)

    def reading_of(second: int) -> Reading[object]:
        ports = {name: link(second, 1, name) for name in ("eth0", "eth1")}
        return ok(ports | {name: link(second, 2, "") for name in ("bond0", "bond0.7")}, second * S)

    story = network(reading_of)
    assert set(story.totals["rx_bytes_per_s"].values) == {200.0 * MIB}
    assert set(story.totals["tx_bytes_per_s"].values) == {2.0 * MIB}
    assert {one.name: one.received and one.received.mean for one in story.links} == {
        "bond0": 200 * MIB, "bond0.7": 200 * MIB, "eth0": 100 * MIB, "eth1": 100 * MIB,
    }  # fmt: skip


def test_a_failed_reading_of_the_links_is_unknown() -> None:
    def reading_of(second: int) -> Reading[object]:
        if second == 3:
            return Reading(None, Status.FAILED, "i/o error", "", second * S)
        return ok({"eth0": LinkCounters(second * MIB, 0, 0, 0, 0, 0, 10**10, "up", "nic", "eth0")}, second * S)

    received = network(reading_of).totals["rx_bytes_per_s"]
    assert points_of(received, Window(0, 2 * WALL_NS)).mean == MIB
    assert sum(received.weights) == 3


def test_a_link_has_its_newest_known_speed() -> None:
    """The speed is unknown while the link is negotiated, and again once the link is down."""
    speeds = (None, None, 10**10, 10**9, 10**9, None)

    def reading_of(second: int) -> Reading[object]:
        return ok({"eth0": LinkCounters(second * MIB, 0, 0, 0, 0, 0, speeds[second], "up")}, second * S)

    (link,) = network(reading_of).links
    assert link.bits_per_s == 10**9


def smart(**readings: Reading[SmartState]) -> Reading[object]:
    return ok(readings, S)


FAILING = SmartState("/dev/sda", "ata", "Spinner", "", "", "FAIL", "critical", ("312 reallocated sectors",))
SOUND = FAILING._replace(device="/dev/sdb", assessment="PASS", severity="ok", reasons=())
NO_ANSWER: Reading[SmartState] = Reading(None, Status.FAILED, "smartctl did not answer")


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (smart(sdb=Reading(SOUND, Status.OK)), ("FAILING", "gone at the end of the run; 312 reallocated sectors")),
        (smart(sda=NO_ANSWER, sdb=Reading(SOUND, Status.OK)), ("? hung", "smartctl did not answer")),
        (Reading(None, Status.OFF), ("FAILING", "312 reallocated sectors")),
    ],
)
def test_a_disk_that_left_the_bus_keeps_its_last_answer(last: Reading[object], found: tuple[str, str]) -> None:
    """Disk sda fails, no longer answers, and leaves; the third reading differs."""
    sound, failing = Reading(SOUND, Status.OK), Reading(FAILING, Status.OK)
    readings = [smart(sda=failing, sdb=sound), smart(sda=NO_ANSWER, sdb=sound), last]
    builder = StoryBuilder(None, None)
    for frame in frames(snapshot(i, i * S, smart=reading) for i, reading in enumerate(readings, 1)):
        builder.add(frame)
    story = builder.story("x", {})
    table = health_table(story)
    assert [row[:4] for row in table.rows] == [
        ("sda", "" if "hung" in found[0] else "Spinner", *found),
        ("sdb", "Spinner", "ok", ""),
    ]
    assert [one["removed"] for one in report_object(story)["smart"]] == ["gone" in found[1], False]


def test_the_last_frame_of_a_recording_adds_no_bytes() -> None:
    """That Frame has the events that came after the last reading, and repeats the reading itself."""
    recorded = [*frames(moving(3))]
    end = closing_frame(recorded[-1], (Event(42 * S, 0, "mark", "end"),), 7 * S, WALL_NS + 7 * S)
    stories = []
    for played in (recorded, [*recorded, end]):
        builder, summary = StoryBuilder(None, None), RunSummary()
        for frame in played:
            builder.add(frame)
            summary.add(frame)
        stories.append(builder.story("x", {}))
        assert "read 150M" in summary.lines()[3]
    one, other = stories
    assert one.devices[0].read_bytes == 2 * 75 * MIB
    assert (one.devices, one.links, one.processes) == (other.devices, other.links, other.processes)
    assert {name: sum(curve.weights) for name, curve in other.totals.items()} == {
        "read_bytes_per_s": 4.0, "write_bytes_per_s": 4.0, "rx_bytes_per_s": 4.0, "tx_bytes_per_s": 4.0,
    }  # fmt: skip
    assert [table.name for table in tables() if list(table.rows(end))] == ["findings", "events"]


def moving(count: int) -> list[Snapshot]:
    """Snapshots 2 s apart. In each interval, 75 MiB are read, as many are received, and a program works."""
    disk, info = BlockKey("sda", 1), {"sda": BlockInfo("sda", 8, 0, "disk", "sda")}
    out = []
    for i in range(1, count + 1):
        at_ns, done = 2 * i * S, 75 * i
        counters = BlockCounters(done, 0, done * 2048, done, 0, 0, 0, 0, 0, done, done, 0, 0, 0, 0, 0, 0)
        link = LinkCounters(done * MIB, 0, 0, 0, 0, 0, 10**10, "up", "nic", "eth0")
        readings = {
            "block": ok({disk: counters}, at_ns),
            "disks": ok(info, at_ns),
            "network": ok({"eth0": link}, at_ns),
            "processes": ok(processes(2 * i, io(done * MIB)), at_ns),
        }
        out.append(snapshot(i, at_ns, **readings))
    return out


def test_a_loop_device_that_is_used_late_has_its_mean_over_the_whole_run() -> None:
    """A disk and a loop device are idle for 9 s, then read 100 MiB in 1 s. Another loop device stays unused."""
    kinds = {"sda": "disk", "loop0": "loop", "loop1": "loop"}
    infos = {name: BlockInfo(name, 8, i, kind, name) for i, (name, kind) in enumerate(kinds.items())}

    def table(at_s: int) -> dict[BlockKey, BlockCounters]:
        done = 100 if at_s == 10 else 0
        used = BlockCounters(done, 0, done * 2048, done, 0, 0, 0, 0, 0, done, done, 0, 0, 0, 0, 0, 0)
        return {BlockKey(name, 1): IDLE if name == "loop1" else used for name in kinds}

    builder = StoryBuilder(None, None)
    for frame in frames(snapshot(i, i * S, block=ok(table(i), i * S), disks=ok(infos, i * S)) for i in range(11)):
        builder.add(frame)
    loop, disk = builder.story("x", {}).devices
    assert (loop.name, disk.name) == ("loop0", "sda")
    assert loop.read is not None
    assert loop.read.mean == pytest.approx(10 * MIB)
    assert (loop.read, loop.busy, loop.curves) == (disk.read, disk.busy, disk.curves)


@pytest.mark.parametrize(
    ("busy_s", "every_s", "minutely_s", "text"),
    [(30, 300.0, None, "?"), (60, 600.0, 600.0, "10 min"), (0, 0.0, 0.0, "0")],
)
def test_how_long_a_disk_was_full_is_unknown_if_the_means_do_not_show_it(
    busy_s: int, every_s: float, minutely_s: float | None, text: str
) -> None:
    """A disk is 100 % busy for ``busy_s`` of each minute. It is read every second, then once a minute."""

    def read(at_s: int) -> Snapshot:
        minutes, rest = divmod(at_s, 60)
        busy_ms = 1000 * (minutes * busy_s + min(rest, busy_s))
        counters = IDLE._replace(rd_ios=10 * at_s, rd_sectors=10 * 2048 * at_s, rd_ms=busy_ms, busy_ms=busy_ms)
        disks = {"sda": BlockInfo("sda", 8, 0, "disk", "sda")}
        return snapshot(at_s, at_s * S, block=ok({SDA: counters}, at_s * S), disks=ok(disks, at_s * S))

    every, minutely = StoryBuilder(None, None), StoryBuilder(None, None)
    for frame in frames(map(read, range(601))):
        every.add(frame)
    assert every.story("x", {}).devices[0].full_s == pytest.approx(every_s)
    for frame in frames([read(0)]):
        minutely.add(frame)
    for one, sample in samples(map(read, range(0, 601, 60)), spaced=True):
        minutely.add(RatedSnapshot(one, sample))
    story = minutely.story("x", {}, 60.0)
    assert story.devices[0].full_s == (minutely_s if minutely_s is None else pytest.approx(minutely_s))
    table = device_table(story)
    assert table.rows[0][-1] == text
    assert (' Full for "?": means over 60 s do not show it.' in table.note) is (text == "?")


SLOW = BlockInfo("sdb", 8, 16, "disk", "sdb", "SATA HDD", model="SLOW", serial="A", size_bytes=1 << 40)
FAST = BlockInfo("sdb", 8, 16, "disk", "sdb", "SATA SSD", model="FAST", serial="B", size_bytes=1 << 39)


@pytest.mark.parametrize(
    ("before", "after", "diskseq", "boot", "rows"),
    [
        (SLOW, FAST, 2, "boot-1", ["FAST", "SLOW"]),
        (SLOW, FAST, 0, "boot-1", ["FAST", "SLOW"]),
        (SLOW, SLOW, 2, "boot-1", ["SLOW"]),
        (SLOW._replace(serial=""), SLOW._replace(serial=""), 2, "boot-1", ["SLOW", "SLOW"]),
        (SLOW._replace(serial=""), SLOW._replace(serial=""), 1, "boot-1", ["SLOW"]),
        (SLOW._replace(serial=""), SLOW._replace(serial=""), 2, "boot-2", ["SLOW"]),
        (SLOW._replace(serial=""), FAST._replace(serial=""), 1, "boot-2", ["FAST", "SLOW"]),
    ],
)
def test_two_disks_that_had_one_name_have_a_row_each(
    before: BlockInfo, after: BlockInfo, diskseq: int, boot: str, rows: list[str]
) -> None:
    """Disk sdb reads 1 MiB/s for 10 s. Then the name belongs to another disk, which reads 20 MiB/s."""
    builder, items = StoryBuilder(None, None), []
    for i in range(22):
        is_first = i <= 10
        done = i if is_first else 20 * (i - 11)
        counters = BlockCounters(done, 0, done * 2048, done, 0, 0, 0, 0, 0, done, done, 0, 0, 0, 0, 0, 0)
        block = ok({BlockKey("sdb", 1 if is_first else diskseq): counters}, i * S)
        one = snapshot(i, i * S, block=block, disks=ok({"sdb": before if is_first else after}, i * S))
        items.append(one if is_first else one._replace(host=one.host._replace(boot_id=boot)))
    for frame in frames(items):
        builder.add(frame)
    story = builder.story("x", {})
    devices = story.devices
    assert device_table(story).rows[-1][1] == "SATA HDD SLOW"
    assert [device.info and device.info.model for device in devices] == rows
    assert devices[0].name == "sdb"
    if len(rows) == 2:
        assert devices[1].name == f"sdb (until {clock(WALL_NS + 10 * S)})"
        assert [device.read_bytes for device in devices] == [200 * MIB, 10 * MIB]


def test_the_number_of_disks_agrees_with_their_table() -> None:
    story = slow_story()
    assert [row[0] for row in device_table(story).rows] == ["vda", "loop0"]
    assert dict(machine_table(story).rows)["disks"] == "1; also loop0"
    disks = tuple(one for one in story.devices if one.name != "loop0")
    assert dict(machine_table(story._replace(devices=disks)).rows)["disks"] == "1"
    many = tuple(one._replace(name=f"loop{i}") for i in range(8) for one in story.devices if one.name == "loop0")
    text = dict(machine_table(story._replace(devices=many)).rows)["disks"]
    assert text == "1; also loop0, loop1, loop2, loop3, loop4, loop5 and 2 more"


def test_of_the_disks_that_had_the_name_of_the_jobs_disk_the_one_that_was_full_is_shown() -> None:
    story = slow_story()
    disk = key_device(story)
    assert disk is not None
    assert story.main_job is not None
    assert disk.name == story.main_job.disk
    earlier = disk._replace(name=f"{disk.name} (until 14:32:05)", full_s=(disk.full_s or 0.0) + 1)
    assert key_device(story._replace(devices=(disk, earlier))) == earlier
    assert key_device(story._replace(devices=(disk, earlier._replace(full_s=0.0)))) == disk
