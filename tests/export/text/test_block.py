from __future__ import annotations

import re

from iotop_ai.export.text.block import Block, render_block
from iotop_ai.export.text.machine import smart_lines
from iotop_ai.model.health.smart import SmartState
from iotop_ai.model.process.records import ProcessInfo
from iotop_ai.model.reading import Reading, Status
from iotop_ai.pipeline import frames
from tests.export.make import IDLE, LOOP0, SDA, SDA1, S, first_frame, frame, io, ok, pair, process_table


def rows(text: str, first: str) -> list[list[str]]:
    """The fields of the table whose title line begins with ``first``, up to the next empty line."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(first))
    end = lines.index("", start)
    return [line.split() for line in lines[start:end]]


def test_devices_have_the_titles_of_iostat() -> None:
    titles, sda = rows(render_block(frame(), Block()), "Device")
    figures = dict(zip(titles, sda, strict=True))
    assert figures["Device"] == "sda"
    assert {name: figures[name] for name in ("r/s", "rkB/s", "%rrqm", "r_await", "rareq-sz", "aqu-sz", "%util")} == {
        "r/s": "200.00",
        "rkB/s": "12800.00",
        "%rrqm": "20.00",
        "r_await": "80.00",
        "rareq-sz": "64.00",
        "aqu-sz": "16.00",
        "%util": "75.00",
    }


def test_an_undefined_value_is_a_dash_and_an_unknown_value_is_a_question_mark() -> None:
    titles, sda = rows(render_block(frame(), Block()), "Device")
    assert dict(zip(titles, sda, strict=True))["w_await"] == "-"
    titles, sda = rows(render_block(first_frame(), Block()), "Device")
    figures = dict(zip(titles, sda, strict=True))
    assert (figures["r/s"], figures["w_await"], figures["%util"]) == ("?", "?", "?")


def test_a_mount_with_a_space_stays_one_field() -> None:
    (_, sda1) = rows(render_block(frame(), Block(devices=("sda1",))), "Device")
    assert sda1[-1] == "/my\\040data"


def test_on_request_only_active_rows_are_printed() -> None:
    text = render_block(frame(), Block(devices=("sda", "loop0"), only_active=True))
    assert [row[0] for row in rows(text, "Device")] == ["Device", "sda"]
    assert [row[0] for row in rows(text, "PID")] == ["PID", "100"]


def test_accumulated_figures_are_sums_since_the_base() -> None:
    titles, sda = rows(render_block(frame(), Block(base=pair()[0])), "Device")
    figures = dict(zip(titles, sda, strict=True))
    assert (figures["r"], figures["rkB"], figures["rrqm"], figures["r_await"]) == (
        "400.00",
        "25600.00",
        "100.00",
        "80.00",
    )
    titles, reader = rows(render_block(frame(), Block(base=pair()[0])), "PID")
    assert dict(zip(titles, reader, strict=False))["kB_rd"] == "25600.00"


def test_accumulated_bytes_count_up_to_the_last_reading_of_a_process() -> None:
    """In the base the process was read at 2 s. The adaptive sweep read it at 3 s, although sweeps are 2 s apart."""
    before, after = pair()
    table = after.processes.value
    assert table is not None
    late = after._replace(processes=ok(table._replace(adaptive=True, io_at=(3 * S,)), after.at_ns))
    block = Block(base=before)
    titles, reader = rows(render_block(list(frames([before, late]))[-1], block), "PID")
    assert dict(zip(titles, reader, strict=False))["kB_rd"] == "25600.00"


def test_each_line_begins_with_its_timestamp() -> None:
    lines = render_block(frame(), Block(timestamps=True)).splitlines()
    stamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d ")
    assert all(stamp.match(line) for line in lines if line)
    assert any(line for line in lines)


def test_processes_are_listed_without_their_arguments() -> None:
    text = render_block(frame(), Block())
    assert "python3 train.py" in text
    assert "s3cret" not in text
    assert "1 of 2 processes not permitted (sudo shows them)" in text


def test_long_lists_of_processes_are_cut_and_say_how_many_more_there_are() -> None:
    before, after = pair()
    busy = [(100 + i, ProcessInfo(f"w{i}", (), "alice", 1000), io(i << 20), "S") for i in range(30)]
    idle = [(pid, info, io(0), state) for pid, info, _, state in busy]
    snapshots = [
        snapshot._replace(processes=ok(process_table(snapshot.at_ns, entries), snapshot.at_ns))
        for snapshot, entries in ((before, idle), (after, busy))
    ]
    text = render_block(list(frames(snapshots))[-1], Block(rows=20))
    assert [row[0] for row in rows(text, "PID")][1:4] == ["129", "128", "127"]
    assert re.search(r"^\d+ more$", text, re.MULTILINE)


def test_the_first_line_is_the_verdict() -> None:
    assert render_block(frame(), Block()).startswith("verdict UNSURE")


def test_a_loop_device_is_listed_only_if_it_was_used() -> None:
    assert [row[0] for row in rows(render_block(frame(), Block()), "Device")] == ["Device", "sda"]
    before, after = pair()
    used = IDLE._replace(rd_ios=1)
    table = {SDA: after.block.value[SDA], SDA1: IDLE, LOOP0: used}  # type: ignore[index]
    shown = list(frames((before, after._replace(block=ok(table, after.at_ns)))))[-1]
    assert [row[0] for row in rows(render_block(shown, Block()), "Device")] == ["Device", "sda", "loop0"]


def test_a_disk_without_a_model_has_only_its_reasons() -> None:
    before, after = pair()
    found = []
    reasons: tuple[str, ...]
    for reasons in ((), ("312 reallocated sectors",)):
        state = SmartState("sda", "ata", "", "S1", "F1", "PASS", "ok", reasons, 41)
        snapshots = (before, after._replace(smart=ok({"sda": ok(state, after.at_ns)}, after.at_ns)))
        found.append(smart_lines(list(frames(snapshots))[-1])[1].split(maxsplit=6)[6:])
    assert found == [["-"], ["312 reallocated sectors"]]


def test_a_failing_disk_is_still_failing_while_it_sleeps() -> None:
    before, after = pair()
    state = SmartState("sda", "ata", "X1", "S1", "F1", "FAILED", "critical", ("312 reallocated sectors",), 41)
    asleep = Reading(state, Status.ASLEEP, "the disk sleeps", at_ns=after.at_ns)
    snapshots = (before, after._replace(smart=ok({"sda": asleep}, after.at_ns)))
    row = smart_lines(list(frames(snapshots))[-1])[1].split(maxsplit=6)
    assert (row[1], row[2], row[6]) == ("critical", "41", "asleep; X1; 312 reallocated sectors")
