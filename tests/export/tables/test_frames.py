"""The tidy tables of a Frame that is written by hand: names, units, unknown values, a row per interval and object."""

from __future__ import annotations

import pytest

from iotop_ai.export.tables.columns import Table
from iotop_ai.export.tables.frames import NAMES, tables
from iotop_ai.model.frame import Frame
from iotop_ai.model.gpu.state import GpuState
from iotop_ai.model.reading import Reading, Status
from iotop_ai.model.snapshot import Event
from iotop_ai.pipeline import frames
from tests import export_doc
from tests.export.make import WALL_NS, S, first_frame, frame, ok, pair, snapshot
from tests.store.scenario import session


def table(name: str, cmdline: str = "names") -> Table:
    return next(t for t in tables(cmdline) if t.name == name)


def rows(name: str, shown: Frame, cmdline: str = "names") -> list[dict[str, object]]:
    found = table(name, cmdline)
    return [dict(zip((c.name for c in found.columns), row, strict=True)) for row in found.rows(shown)]


def test_names_are_unique_and_every_row_has_every_column() -> None:
    known = tables()
    assert tuple(t.name for t in known) == NAMES
    for one in known:
        names = [c.name for c in one.columns]
        assert len(set(names)) == len(names)
        assert names[0] == "time"
        assert {c.kind for c in one.columns} <= {"time", "text", "real", "int", "bool"}
    count = dict.fromkeys(NAMES, 0)
    kinds = {"time": int, "text": str, "real": (int, float), "int": int, "bool": bool}
    for shown in frames(session(2, 60)):
        for one in known:
            for row in one.rows(shown):
                count[one.name] += 1
                for cell, column in zip(row, one.columns, strict=True):
                    assert cell is None or isinstance(cell, kinds[column.kind]), (one.name, column.name, cell)
    assert all(
        count[name]
        for name in NAMES
        if name not in (*("filesystems", "network", "rdma", "pools", "cgroups"), "jobs", "steps", "events")
    ), count
    assert count["smart"] == 1, "a repeated reading gave a second row"
    assert count["system"] == 59


def test_devices_have_the_names_and_units_of_iostat() -> None:
    (sda,) = rows("devices", frame())
    assert sda["time"] == WALL_NS + 4 * S
    assert (sda["device"], sda["kind"], sda["model"], sda["mounted"]) == ("sda", "disk", "Spinner 2000", None)
    assert (sda["r/s"], sda["rkB/s"], sda["rareq-sz"]) == (200.0, 12_800.0, 64.0)
    assert (sda["r_await"], sda["%rrqm"], sda["%util"], sda["f_await"]) == (80.0, 20.0, 75.0, 4.0)
    assert sda["w_await"] is None, "a latency was given without a write"
    assert (sda["w/s"], sda["in_flight"], sda["interval_s"]) == (0.0, 3, 2.0)
    units = {c.name: c.unit for c in table("devices").columns}
    assert (units["rkB/s"], units["%util"], units["r_await"], units["rareq-sz"]) == ("KiB/s", "%", "ms", "KiB")
    keys = {c.json_key for c in table("devices").columns}
    assert {"util", "rrqm", "r_await"} <= keys


def test_the_first_snapshot_gives_no_row() -> None:
    for name in ("devices", "processes", "system", "network"):
        assert rows(name, first_frame()) == []


def test_idle_processes_are_left_out() -> None:
    (reader,) = rows("processes", frame())
    assert (reader["pid"], reader["name"], reader["user"], reader["state"]) == (100, "python3", "alice", "D")
    assert reader["read_bytes_per_s"] == 12_800 * 1024
    assert reader["io_delay_ratio"] is None
    assert reader["rss_bytes"] == 100 * 4096


def test_command_lines_follow_their_level() -> None:
    assert rows("processes", frame())[0]["command"] == "python3 train.py"
    assert rows("processes", frame(), "redacted")[0]["command"] == "/usr/bin/python3 /home/alice/train.py --token ***"
    assert "s3cret" in str(rows("processes", frame(), "full")[0]["command"])


def test_gpus_have_an_age_and_a_lost_gpu_has_a_reason() -> None:
    state = GpuState("GPU-1", 0, "H100", utilization_percent=87, power_mw=300_000)
    known = {
        "GPU-1": Reading(state, Status.OK, at_ns=3 * S),
        "GPU-2": Reading(None, Status.FAILED, "GPU is lost", "reset it", 4 * S),
    }
    shown = list(frames(one._replace(gpu=ok(known, one.at_ns)) for one in pair()))[-1]
    first, second = rows("gpus", shown)
    assert (first["gpu"], first["busy_ratio"], first["power_watts"], first["age_s"]) == (0, 0.87, 300.0, 1.0)
    assert first["temperature_celsius"] is None
    assert (second["uuid"], second["status"], second["reason"], second["busy_ratio"]) == (
        *("GPU-2", "failed", "GPU is lost"),
        None,
    )


def test_the_system_row_has_the_verdict() -> None:
    (row,) = rows("system", frame())
    assert (row["host"], row["origin"], row["interval_s"], row["gap"]) == ("node7", None, 2.0, False)
    assert row["total_read_bytes_per_s"] == 12_800 * 1024
    assert row["cpu_busy_ratio"] is None
    first, *_ = rows("findings", frame())
    assert (first["rank"], first["state"], first["class"]) == (0, row["state"], row["class"])


def test_events_have_the_time_at_which_they_happened() -> None:
    one = snapshot(1, 2 * S)._replace(events=(Event(S, WALL_NS + S, "mark", "epoch 3"),))
    assert rows("events", next(frames([one]))) == [{"time": WALL_NS + S, "kind": "mark", "text": "epoch 3"}]


@pytest.mark.parametrize(
    ("level", "text"), [("names", "sh"), ("redacted", "sh --token ***"), ("full", "sh --token s3cret")]
)
def test_the_text_of_an_event_follows_the_level_of_command_lines(level: str, text: str) -> None:
    one = snapshot(1, 2 * S)._replace(events=(Event(S, WALL_NS + S, "command_start", "sh --token s3cret"),))
    assert [row["text"] for row in rows("events", next(frames([one])), level)] == [text]


def test_the_page_is_up_to_date() -> None:
    assert export_doc.PAGE.read_text() == export_doc.page(), "run python -m tests.export_doc"
