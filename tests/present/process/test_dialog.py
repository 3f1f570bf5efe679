"""The processes to which a command from a row is applied."""

from __future__ import annotations

from iotop_ai.model.process.records import ProcessInfo, ProcessKey
from iotop_ai.model.snapshot import Snapshot
from iotop_ai.present.process.dialog import process_body, process_target
from iotop_ai.present.text.line import spans_cells
from iotop_ai.present.text.typed_text import TypedText
from tests.present.make import Machine, Proc, snapshots

WORKERS = tuple(Proc(pid, "worker") for pid in (100, 200, 300))


def row_and_newer_snapshot(
    ended_pid: int, successor: ProcessInfo | None = None
) -> tuple[tuple[ProcessKey, ...], Snapshot]:
    """The processes of a row, and a newer Snapshot in which one has ended and another process may have its pid."""
    shot = snapshots(lambda i: Machine(procs=WORKERS), 4)[-1]
    table = shot.processes.value
    assert table is not None
    info = {key: one for key, one in table.info.items() if key.pid != ended_pid}
    if successor is not None:
        info[ProcessKey(ended_pid, 999_999)] = successor
    changed = shot.processes._replace(value=table._replace(info=info))
    return tuple(sorted(table.info)), shot._replace(processes=changed)


def test_a_process_whose_pid_was_reused_is_not_a_target() -> None:
    keys, newest = row_and_newer_snapshot(100, ProcessInfo("sshd", ("/usr/sbin/sshd",), "root", 0))
    target = process_target(newest, keys)
    assert target is not None
    assert target.label == "worker x2"
    assert [key.pid for key in target.keys] == [200, 300]
    assert process_target(newest, keys[:1]) is None


def test_the_wide_command_line_of_a_process_is_shown_in_the_dialog() -> None:
    folder = "".join(chr(0x4E00 + i) for i in range(30))
    command = ("python3", "train.py", "--data", f"/mnt/{folder}/END")
    shot = snapshots(lambda i: Machine(procs=(Proc(100, "python3", cmdline=command),)), 2)[-1]
    assert shot.processes.value is not None
    target = process_target(shot, tuple(shot.processes.value.info))
    assert target is not None
    head, _ = process_body(shot, target, TypedText(), "", 64)
    assert all(spans_cells(spans) <= 64 for spans in head)
    shown = "".join(span.text for spans in head for span in spans)
    assert "".join(command) in "".join(shown.split())


def test_the_other_processes_of_a_row_remain_when_its_first_one_ends() -> None:
    keys, newest = row_and_newer_snapshot(100)
    target = process_target(newest, keys)
    assert target is not None
    assert [key.pid for key in target.keys] == [200, 300]
